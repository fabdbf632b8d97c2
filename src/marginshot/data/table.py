"""A table of features that many tasks are drawn from, known by name to whoever computes something from all its rows."""

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
        A name that no other table has. What is computed from all rows is kept under it for later calls, so rows with a
        token must not change any more. Nothing is kept of a table without one.
    """

    rows: NDArray[np.floating] = field(repr=False)
    token: str | None = None
