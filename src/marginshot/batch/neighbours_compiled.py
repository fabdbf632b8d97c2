"""Neighbours inside the kernels of many small tasks, compiled. Their NumPy twin, `neighbours.py`, explains it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import entry_point, leaf
from marginshot.model.neighbours import LEAST_LENGTH

Gram = NDArray[np.float32]
Indices = NDArray[np.int64]


@entry_point
def find_neighbours(
    inner: NDArray[np.float32], nearest: NDArray[np.int64], products: NDArray[np.float32], counts: NDArray[np.int64]
) -> None:
    """Write `marginshot.model.neighbours.TaskNeighbours` of unit rows with inner products (T, M, M).

    Of more rows equally near than are asked for, the first are taken.
    """
    for task in range(inner.shape[0]):
        _find_nearest(inner[task], nearest[task], products[task], counts[task])


@entry_point
def smooth_grams(
    inner: NDArray[np.float32],
    nearest: NDArray[np.int64],
    counts: NDArray[np.int64],
    weight: float,
    smooth: NDArray[np.float32],
) -> None:
    """Write the inner products (T, M, M) of rows averaged with their neighbours, centred and of unit length.

    ``inner`` (T, M, M) are those of unit rows; ``nearest`` (T, M, k) and ``counts`` (T, M) their neighbours.
    """
    turned = np.empty(inner.shape[1:], np.float32)
    for task in range(inner.shape[0]):
        gram, out = inner[task], smooth[task]
        _average_both_ways(gram, nearest[task], counts[task], np.float32(weight), turned, out)
        _centre_and_scale(gram, out)


@entry_point
def average_grams(
    inner: NDArray[np.float32],
    lengths: NDArray[np.float32],
    nearest: NDArray[np.int64],
    counts: NDArray[np.int64],
    weight: float,
    averaged: NDArray[np.float32],
) -> None:
    """Write the inner products (T, M, M) of rows averaged with their neighbours, each of its own length (T, M)."""
    n_rows = inner.shape[1]
    scaled, turned = np.empty((n_rows, n_rows), np.float32), np.empty((n_rows, n_rows), np.float32)
    for task in range(inner.shape[0]):
        gram, length = inner[task], lengths[task]
        for i in range(n_rows):
            for j in range(n_rows):
                scaled[i, j] = gram[i, j] * (length[i] * length[j])
        _average_both_ways(scaled, nearest[task], counts[task], np.float32(weight), turned, averaged[task])


@leaf
def _find_nearest(inner: Gram, nearest: Indices, largest: NDArray[np.float32], counts: Indices) -> None:
    """Places and inner products (M, k) of each row's neighbours, nearest first, and how many there are (M,)."""
    n_rows, k = nearest.shape
    filled = np.empty(n_rows, np.bool_)
    for i in range(n_rows):
        filled[i] = inner[i, i] > 0.0
    for i in range(n_rows):
        count, least = 0, np.float32(-np.inf)
        for j in range(n_rows if filled[i] and k else 0):
            value = inner[i, j]
            if value <= least or j == i or not filled[j]:
                continue
            place = min(count, k - 1)
            count = min(count + 1, k)
            while place > 0 and largest[i, place - 1] < value:
                largest[i, place], nearest[i, place] = largest[i, place - 1], nearest[i, place - 1]
                place -= 1
            largest[i, place], nearest[i, place] = value, j
            if count == k:
                least = largest[i, k - 1]
        counts[i] = count


@leaf
def _average_both_ways(
    gram: Gram, nearest: Indices, counts: Indices, weight: np.float32, turned: Gram, out: Gram
) -> None:
    """P K Pᵀ, which is P (P K)ᵀ because K is symmetric: rows are added up, never columns. ``turned`` is room."""
    n_rows = gram.shape[0]
    _average(gram, nearest, counts, weight, out)
    for i in range(n_rows):
        for j in range(n_rows):
            turned[j, i] = out[i, j]
    _average(turned, nearest, counts, weight, out)


@leaf
def _average(rows: Gram, nearest: Indices, counts: Indices, weight: np.float32, out: Gram) -> None:
    """Each of the rows (M, M) averaged with its neighbours."""
    n_rows = rows.shape[0]
    for i in range(n_rows):
        own = np.float32(1.0) - weight if counts[i] else np.float32(1.0)
        for j in range(n_rows):
            out[i, j] = own * rows[i, j]
        for place in range(counts[i]):
            neighbour, share = nearest[i, place], weight / np.float32(counts[i])
            for j in range(n_rows):
                out[i, j] += share * rows[neighbour, j]


@leaf
def _centre_and_scale(inner: Gram, gram: Gram) -> None:
    """In place; rows that are zero in ``inner`` become zero."""
    n_rows = gram.shape[0]
    shift, scale, total = np.empty(n_rows, np.float32), np.zeros(n_rows, np.float32), 0.0
    for i in range(n_rows):
        mean = np.float64(gram[i].sum()) / n_rows
        shift[i] = mean
        total += mean / n_rows
    for i in range(n_rows):
        shift[i] -= 0.5 * total
    for i in range(n_rows):
        length = math.sqrt(max(np.float64(gram[i, i]) - 2.0 * np.float64(shift[i]), 0.0))
        if inner[i, i] > 0.0 and length > LEAST_LENGTH:
            scale[i] = 1.0 / length
    for i in range(n_rows):
        for j in range(n_rows):
            gram[i, j] = (gram[i, j] - shift[i] - shift[j]) * scale[i] * scale[j]
