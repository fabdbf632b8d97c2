"""Feature preparation that several methods share, on batches of tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.model.transforms import centre_and_normalize, l2_normalize

Array = NDArray[Any]

# Keeps the square root's slope finite at zero, as in the code published with the power transform's paper.
_POWER_OFFSET = 1e-6


def signed_power(rows: Array, power: float) -> Array:
    """Each feature's size to ``power``, its sign kept: makes long-tailed activations less so; (..., D) -> (..., D)."""
    sizes: Array = (np.abs(rows) + rows.dtype.type(_POWER_OFFSET)) ** power
    return np.where(rows < 0.0, -sizes, sizes)


def power_centre_normalize(support: Array, query: Array, power: float) -> tuple[Array, Array]:
    """Signed power, unit length, the mean of support and queries subtracted, unit length again.

    Parameters
    ----------
    support : ndarray of shape (T, n_support, D)
    query : ndarray of shape (T, n_query, D)
    power : float

    Returns
    -------
    support, query : ndarrays of the same shapes
    """
    support, query = (l2_normalize(signed_power(rows, power)) for rows in (support, query))
    return centre_and_normalize(support, query, "task")


def centre_each_and_normalize(support: Array, query: Array) -> tuple[Array, Array]:
    """Subtract from support and queries their own means, in place, then scale every row to unit length.

    A single query is centred on the support's mean, because centring it on itself would give zero.
    """
    mean = support.mean(axis=1, keepdims=True)
    query -= mean if query.shape[1] == 1 else query.mean(axis=1, keepdims=True)
    support -= mean
    return l2_normalize(support), l2_normalize(query)
