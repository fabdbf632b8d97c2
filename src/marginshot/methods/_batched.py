"""The small functions every method uses, in NumPy, on batches of tasks.

A product of batches is one BLAS call per task, and no sum crosses tasks. A task gives the same bits alone or in a
batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Labels = NDArray[np.int64]


def softmax(logits: Array) -> Array:
    """Softmax over the last axis, safe for large logits."""
    shifted: Array = logits - logits.max(axis=-1, keepdims=True)
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=-1, keepdims=True)
    return shifted


def log_softmax(logits: Array) -> Array:
    """Logarithm of the softmax over the last axis, safe for large logits."""
    shifted: Array = logits - logits.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted


def one_hot(labels: Labels, n_way: int, dtype: Any) -> Array:
    """(T, n) labels in 0..n_way-1 -> (T, n, n_way) of zeros and ones."""
    members: Array = (labels[:, :, None] == np.arange(n_way)).astype(dtype)
    return members


def class_means(support: Array, labels: Labels, n_way: int) -> Array:
    """Mean of each class's support, the prototypes: (T, n, D), (T, n) -> (T, n_way, D)."""
    members = one_hot(labels, n_way, support.dtype)
    members /= members.sum(axis=1, keepdims=True)
    means: Array = np.matmul(members.swapaxes(1, 2), support)
    return means


def squared_norms(rows: Array) -> Array:
    """(T, n, D) -> (T, n)."""
    norms: Array = np.einsum("tnd,tnd->tn", rows, rows)
    return norms


def inner_products(left: Array, right: Array) -> Array:
    """(T, n, D), (T, m, D) -> (T, n, m)."""
    products: Array = np.matmul(left, right.swapaxes(1, 2))
    return products


def squared_distances(left: Array, right: Array) -> Array:
    """(T, n, D), (T, m, D) -> (T, n, m), never negative.

    Both are centred on the mean of ``right`` first: rows far from the origin would lose digits to cancellation.
    """
    middle = right.mean(axis=1, keepdims=True)
    left, right = left - middle, right - middle
    distances = inner_products(left, right)
    distances *= -2.0
    distances += squared_norms(left)[:, :, None]
    distances += squared_norms(right)[:, None, :]
    return np.maximum(distances, 0.0, out=distances)


def largest_in_row(weights: Array, n: int) -> NDArray[np.bool_]:
    """Which of the edge weights (T, M, M) are among the ``n`` largest of their row."""
    n_rows = weights.shape[2]
    if n >= n_rows:
        return np.ones(weights.shape, dtype=bool)
    cut = np.partition(weights, n_rows - n, axis=2)[:, :, n_rows - n, None]
    kept: NDArray[np.bool_] = weights >= cut
    return kept


def divide_by_degrees(weights: Array) -> None:
    """Divide symmetric edge weights (T, M, M) by the roots of both rows' degrees, in place.

    A row without neighbours keeps its own label, or none.
    """
    degrees = weights.sum(axis=2)
    degrees[degrees == 0.0] = 1.0
    roots = np.sqrt(degrees)
    weights /= roots[:, :, None]
    weights /= roots[:, None, :]
