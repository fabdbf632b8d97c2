"""Embeddings on a plane, for the eyes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from marginshot.model.transforms import CentreAndNormalise

#: t-SNE is drawn for this many rows; the others are placed beside their nearest neighbours among them.
LARGEST_MAP = 1_000

_LEAST_DISTINCT = 5  # rows that a map is made of; t-SNE cannot do with fewer
_N_COMPONENTS = 30
_N_NEIGHBORS = 3


def embedding_map(X: NDArray[np.floating]) -> NDArray[np.float64]:
    """Rows (n_rows, n_features) -> points (n_rows, 2) in 0..1; the same points for the same rows."""
    rows, _ = CentreAndNormalise().fit_unit_rows(X)
    drawn = np.sort(np.random.default_rng(0).permutation(len(rows))[:LARGEST_MAP])
    if rows.shape[1] < 2 or len(np.unique(rows[drawn], axis=0)) < _LEAST_DISTINCT:
        return _scaled(np.pad(rows, ((0, 0), (0, 2)))[:, :2].astype(np.float64))
    # One thread: at this size several spend their time waiting for each other, the more so on a busy machine.
    with threadpool_limits(1):
        axes = PCA(min(_N_COMPONENTS, len(drawn), rows.shape[1]), random_state=0).fit(rows[drawn])
        reduced = axes.transform(rows)
        placed = _tsne(reduced[drawn])
    points = np.empty((len(rows), 2))
    points[drawn] = placed
    others = np.setdiff1d(np.arange(len(rows)), drawn)
    if len(others):
        likeness = reduced[others] @ reduced[drawn].T
        nearest = np.argpartition(-likeness, _N_NEIGHBORS, axis=1)[:, :_N_NEIGHBORS]
        points[others] = placed[nearest].mean(axis=1)
    return _scaled(points)


def _tsne(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    # The angle: a third less time than with 0.5, the default, and as many neighbours stay neighbours.
    perplexity = min(30.0, (len(rows) - 1) / 3)
    placed = TSNE(2, perplexity=perplexity, init="pca", random_state=0, max_iter=500, angle=0.8).fit_transform(rows)
    return np.asarray(placed)


def _scaled(points: NDArray[np.float64]) -> NDArray[np.float64]:
    low, high = points.min(axis=0), points.max(axis=0)
    return (points - low) / np.where(high > low, high - low, 1.0)
