"""Long rows on a few random directions: enough to tell what lies near what, at a fraction of the cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot.model.transforms import l2_normalize

N_DIRECTIONS = 128


def sketch(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    """Unit rows (n_rows, n_features) -> unit rows (n_rows, at most 128), with about the same cosines between them."""
    if rows.shape[1] <= N_DIRECTIONS:
        return rows
    directions = np.random.default_rng(0).standard_normal((rows.shape[1], N_DIRECTIONS), dtype=np.float32)
    return l2_normalize(rows @ directions.astype(rows.dtype))
