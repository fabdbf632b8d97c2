"""The geometry of one task, read off its kernel matrix.

Plain NumPy on one task that numba compiles too: `marginshot.batch.compiled` loops over tasks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginshot.model.primitives import gram_sums

Array = NDArray[np.floating]

LEAST_SPREAD = 1e-7  # least variance, as a share of squared lengths, of rows that are not all equal: less is rounding


class Geometry(NamedTuple):
    """Statistics of a task's rows that do not depend on the classes.

    Attributes
    ----------
    squares : ndarray of shape (M,)
        Squared lengths.
    to_mean : ndarray of shape (M,)
        Squared distances to the mean of the other rows.
    variance : float
        0 where all rows are equal.
    dimensions : float
        Effective dimension (tr K)² / tr K² of the centred matrix; 0 where all rows are equal.
    """

    squares: NDArray[np.float64]
    to_mean: NDArray[np.float64]
    variance: float
    dimensions: float


def measure(gram: Array) -> Geometry:
    """The geometry of rows with kernel matrix (M, M)."""
    n_rows = len(gram)
    squares, mean, square = gram_sums(gram)
    grand, total = mean.sum() / n_rows, squares.sum()
    to_mean = squares.copy()
    to_mean -= 2.0 * mean
    to_mean += grand
    to_mean *= (n_rows / (n_rows - 1.0)) ** 2
    trace = total - n_rows * grand
    square += (n_rows * grand) ** 2 - 2.0 * n_rows * np.dot(mean, mean)
    if trace > LEAST_SPREAD * total and square > (LEAST_SPREAD * total) ** 2:
        return Geometry(squares, to_mean, trace / n_rows, trace * trace / square)
    return Geometry(squares, to_mean, 0.0, 0.0)
