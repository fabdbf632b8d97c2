"""Compiled leaf functions on one task: softmax, entropy, nearest neighbours."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import leaf

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


@leaf
def softmax_in_place(row: Vector) -> float:
    """Turn logits (N,) into probabilities; returns the logarithm of the sum of their exponentials."""
    top = row[0]
    for c in range(1, row.size):
        top = max(top, row[c])
    total = 0.0
    for c in range(row.size):
        row[c] = math.exp(row[c] - top)
        total += row[c]
    for c in range(row.size):
        row[c] /= total
    return top + math.log(total)


@leaf
def negative_entropy(row: Vector) -> float:
    """Σ p log p of probabilities (N,), with 0 log 0 = 0."""
    total = 0.0
    for p in row:
        if p > 0.0:
            total += p * math.log(p)
    return total


@leaf
def nearest_neighbours(distances: Matrix, n_neighbors: int, neighbours: NDArray[np.int64]) -> None:
    """Write the indices of each row's nearest others, nearest first; a point is never its own neighbour.

    Parameters
    ----------
    distances : ndarray of shape (m, m)
    n_neighbors : int
        At most m - 1. Among equal distances the smaller index comes first.
    neighbours : ndarray of int64 of shape (m, n_neighbors)
        Written to.
    """
    kept = np.empty(n_neighbors)
    for i in range(distances.shape[0]):
        filled = 0
        for j in range(distances.shape[1]):
            d = distances[i, j]
            if j == i or (filled == n_neighbors and (filled == 0 or d >= kept[filled - 1])):
                continue
            slot = filled if filled < n_neighbors else n_neighbors - 1
            while slot > 0 and kept[slot - 1] > d:
                kept[slot] = kept[slot - 1]
                neighbours[i, slot] = neighbours[i, slot - 1]
                slot -= 1
            kept[slot] = d
            neighbours[i, slot] = j
            filled = min(filled + 1, n_neighbors)
