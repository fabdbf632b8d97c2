"""Inner products of the tasks of a table, compiled: looked up, centred, scaled."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import entry_point, leaf

Grams = NDArray[np.float32]
Vector = NDArray[np.float32]

# A row shorter than this share of its task's longest has no direction that single precision could tell.
_LEAST_LENGTH = 1e-3


@entry_point
def look_up_grams(table_inner: NDArray[np.float32], rows: NDArray[np.int64], grams: Grams, lengths: Grams) -> None:
    """Write the inner products (T, M, M) of each task's ``rows`` (T, M), centred on their mean and of unit length.

    ``lengths`` (T, M) are written too: those of the centred rows.

    ``table_inner`` (n_rows, n_rows) holds the inner products of the table's rows about any one origin.
    """
    n_rows = rows.shape[1]
    shift = np.empty(n_rows, np.float32)
    for task in range(rows.shape[0]):
        gram, numbers = grams[task], rows[task]
        for i in range(n_rows):
            source = table_inner[numbers[i]]
            for j in range(i + 1):  # most are far apart in memory: fetch each once
                gram[i, j] = gram[j, i] = source[numbers[j]]
        _centre_and_scale(gram, shift, lengths[task])


@entry_point
def centre_grams(grams: Grams, lengths: Grams) -> None:
    """Centre each task's inner products (T, M, M), about any one origin, on its mean; scale its rows to unit length.

    ``lengths`` (T, M) are written too: those of the centred rows.
    """
    shift = np.empty(grams.shape[1], np.float32)
    for task in range(grams.shape[0]):
        _centre_and_scale(grams[task], shift, lengths[task])


@leaf
def _centre_and_scale(gram: NDArray[np.float32], shift: Vector, lengths: Vector) -> None:
    """In place, with z̄ the mean: <x − z̄, y − z̄> = <x, y> − (<x, z̄> − |z̄|²/2) − (<y, z̄> − |z̄|²/2).

    ``shift`` (M,), the brackets, is room to work in; ``lengths`` (M,) are written.
    """
    n_rows = gram.shape[0]
    total = 0.0
    for i in range(n_rows):
        row_total = np.float32(0.0)
        for j in range(n_rows):
            row_total += gram[i, j]
        shift[i] = row_total / n_rows
        total += shift[i] / n_rows
    longest, scale = 0.0, np.zeros(n_rows, np.float32)
    for i in range(n_rows):
        shift[i] -= 0.5 * total
        lengths[i] = math.sqrt(max(gram[i, i] - 2.0 * shift[i], 0.0))
        longest = max(longest, lengths[i])
    for i in range(n_rows):
        if lengths[i] > _LEAST_LENGTH * longest:
            scale[i] = np.float32(1.0) / lengths[i]
    for i in range(n_rows):
        for j in range(n_rows):
            gram[i, j] = (gram[i, j] - shift[i] - shift[j]) * (scale[i] * scale[j])
