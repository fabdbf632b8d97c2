"""Inner products of tasks looked up in those of their table, compiled."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._jit import entry_point

# A row shorter than this share of its task's longest is the task's mean, up to single precision, and has no direction.
_LEAST_LENGTH = 1e-3


@entry_point
def look_up_grams(table_inner: NDArray[np.float32], rows: NDArray[np.int64], grams: NDArray[np.float32]) -> None:
    """Write the inner products (T, M, M) of each task's ``rows`` (T, M), centred on their mean and of unit length.

    ``table_inner`` (n_rows, n_rows) holds the inner products of the table's rows about any one origin.
    """
    n_rows = rows.shape[1]
    mean, length = np.empty(n_rows), np.empty(n_rows)
    for task in range(rows.shape[0]):
        gram, numbers = grams[task], rows[task]
        total = 0.0
        for i in range(n_rows):
            source = table_inner[numbers[i]]
            mean[i] = 0.0
            for j in range(n_rows):
                gram[i, j] = source[numbers[j]]
                mean[i] += gram[i, j]
            mean[i] /= n_rows
            total += mean[i]
        total /= n_rows
        longest = 0.0
        for i in range(n_rows):
            length[i] = math.sqrt(max(gram[i, i] - 2.0 * mean[i] + total, 0.0))
            longest = max(longest, length[i])
        for i in range(n_rows):
            length[i] = 1.0 / length[i] if length[i] > _LEAST_LENGTH * longest else 0.0
        for i in range(n_rows):
            for j in range(n_rows):
                gram[i, j] = (gram[i, j] - mean[i] - mean[j] + total) * length[i] * length[j]
