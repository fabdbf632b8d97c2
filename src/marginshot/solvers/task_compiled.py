"""Compiled leaf functions on one task: softmax, entropy, members of classes, nearest neighbours."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import leaf

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

    ``nearness`` (m, m) is large for near rows; of equally near ones the first are taken. Rows that are not ``taken``
    (m,) are never neighbours. Where a row has fewer than k, or is not taken, its own place fills the rest.
    """
    n_rows, k = neighbours.shape
    kept = np.empty(k, nearness.dtype)
    for i in range(n_rows):
        found = 0
        for j in range(n_rows if taken[i] and k else 0):
            value = nearness[i, j]
            if j == i or not taken[j] or (found == k and value <= kept[k - 1]):
                continue
            place = min(found, k - 1)
            found = min(found + 1, k)
            while place > 0 and kept[place - 1] < value:
                kept[place], neighbours[i, place] = kept[place - 1], neighbours[i, place - 1]
                place -= 1
            kept[place], neighbours[i, place] = value, j
        for place in range(found, k):
            neighbours[i, place] = i
