"""A table of features that tasks are drawn from, with a name under which results on all its rows are kept."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class FeatureTable:
    """Rows that tasks are drawn from.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_features)
        Finite floats.
    token : str, optional
        A name that no other table has. Results computed from all rows are kept under it for later calls, so the rows
        must not change. Without a token nothing is kept.
    """

    rows: NDArray[np.floating] = field(repr=False)
    token: str | None = None
