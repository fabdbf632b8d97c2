"""Compiled leaf functions on one task: softmax, entropy, members of classes, nearest neighbours."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import leaf, loop

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Indices = NDArray[np.int64]


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
def set_support(members: Matrix, labels: Indices) -> None:
    """Write whose class each row is, (M, N): 1 for the support, the first rows, by its ``labels`` (n,); else 0."""
    members[:] = 0.0
    for i in range(labels.size):
        members[i, labels[i]] = 1.0


@leaf
def rows_to_sum_one(plan: Matrix, masses: Vector) -> None:
    """Scale rows (m, N) to sum 1; writes the sums (N,) of the columns then."""
    masses[:] = 0.0
    for i in range(plan.shape[0]):
        total = 0.0
        for c in range(plan.shape[1]):
            total += plan[i, c]
        for c in range(plan.shape[1]):
            plan[i, c] /= total
            masses[c] += plan[i, c]


@leaf
def nearest_neighbours(nearness: NDArray[np.floating], taken: NDArray[np.bool_], neighbours: Indices) -> None:
    """Write the places (m, k) of each row's nearest others, nearest first; a row is never its own neighbour.

    ``nearness`` (m, m), symmetric, is large for near rows; of equally near ones the first are taken. Rows that are not
    ``taken`` (m,) are never neighbours. Where a row has fewer than k, or is not taken, its own place fills the rest.
    """
    n_rows, k = neighbours.shape
    kept, places = np.full((k, n_rows), -np.inf, nearness.dtype), np.empty((k, n_rows), np.int32)
    value, place = np.empty(n_rows, nearness.dtype), np.empty(n_rows, np.int32)
    for i in range(n_rows):
        places[:, i] = i
    for j in range(n_rows):
        if taken[j]:
            value[:], place[:] = nearness[j], j
            value[j] = -np.inf
            for rank in range(k):
                _keep_nearer(value, place, kept[rank], places[rank])
    for i in range(n_rows):
        if not taken[i]:
            places[:, i] = i
        neighbours[i] = places[:, i]


@loop
def _keep_nearer(value: NDArray[np.floating], place: Indices, kept: NDArray[np.floating], places: Indices) -> None:
    """Exchange values (m,) and their places with those kept where they are larger, or come first.

    All rows at once and without branches, which no processor could foresee.
    """
    for i in range(value.shape[0]):
        nearer = (value[i] > kept[i]) | ((value[i] == kept[i]) & (place[i] < places[i]))
        a, b, c, d = value[i], kept[i], place[i], places[i]
        kept[i], value[i] = (a, b) if nearer else (b, a)
        places[i], place[i] = (c, d) if nearer else (d, c)
