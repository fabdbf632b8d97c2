"""Forms of embeddings that are needed repeatedly while labels change; each is computed once, on first use."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from marginshot.model.neighbour_search import nearest_of_each
from marginshot.model.primitives import average
from marginshot.model.transforms import l2_normalize

N_DIRECTIONS = 128
N_NEIGHBORS = 10

Array = NDArray[np.float32]  # half the time of float64, and cosines need no more


class EmbeddingView:
    """Embeddings in the forms in which they are compared.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Labelled and unlabelled items.
    """

    def __init__(self, X: NDArray[np.floating]) -> None:
        self.X = X

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def mean(self) -> Array:
        """Mean of the rows, (n_features,)."""
        return self.X.mean(axis=0, dtype=np.float64).astype(np.float32)

    @cached_property
    def unit(self) -> Array:
        """Centred rows of unit length, (n_rows, n_features)."""
        return unit_rows(self.X, self.mean)

    @cached_property
    def sketch(self) -> Array:
        """Unit rows (n_rows, at most 128) with about the same cosines between them."""
        return np.asarray(sketch(self.unit))

    @cached_property
    def neighbours(self) -> NDArray[np.int64]:
        """Nearest rows of each, nearest first, (n_rows, at most 10)."""
        k = min(N_NEIGHBORS, len(self) - 1)
        return nearest_of_each(self.sketch, k) if k > 0 else np.empty((len(self), 0), dtype=np.int64)

    @cached_property
    def smooth(self) -> Array:
        """Unit rows half themselves, half the mean of eight neighbours, (n_rows, n_features), of unit length again."""
        nearest = self.neighbours[:, :8]
        return l2_normalize(average(self.unit, self.unit, nearest, 0.5)) if nearest.shape[1] else self.unit


def unit_rows(X: NDArray[np.floating], mean: Array) -> Array:
    """Rows (n_rows, n_features) from ``mean`` (n_features,), scaled to unit length."""
    return l2_normalize((X - mean).astype(np.float32, copy=False))


def sketch(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    """Unit rows (n_rows, n_features) on a few random directions: enough to find neighbours, at less cost."""
    if rows.shape[1] <= N_DIRECTIONS:
        return rows
    directions = np.random.default_rng(0).standard_normal((rows.shape[1], N_DIRECTIONS), dtype=np.float32)
    return l2_normalize(rows @ directions.astype(rows.dtype))
