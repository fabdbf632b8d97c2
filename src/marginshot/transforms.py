"""Centring, scaling to unit length, power transform: arrays in, arrays out.

Every function takes a batch of tasks, ``(T, rows, D)``, and treats each task on its own. None changes its input.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Features = NDArray[Any]
#: Where the origin is put before rows are scaled to unit length: the mean of support and query together, the mean of
#: the support, nowhere ("none"), or a vector of shape (D,), usually the mean of the base classes.
Centre = Literal["task", "support", "none"] | NDArray[Any] | tuple[float, ...]

# Keeps the square root's slope finite at zero, as in the code published with the power transform's paper.
_POWER_OFFSET = 1e-6


def l2_normalize(features: Features) -> Features:
    """Scale each row of ``(T, rows, D)`` to unit length; a row of zeros stays zeros."""
    scaled: Features = features * _inverse_lengths(features)
    return scaled


def check_centre(centre: Centre) -> None:
    """Raise ValueError unless ``centre`` is one of the three words or a finite vector."""
    if isinstance(centre, str):
        if centre not in ("task", "support", "none"):
            raise ValueError(f"centre must be 'task', 'support', 'none' or a vector of shape (D,); got {centre!r}.")
        return
    vector = np.asarray(centre, dtype=np.float64)
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise ValueError(f"centre must be a finite vector of shape (D,); got an array of shape {vector.shape}.")


def task_centre(support: Features, query: Features, centre: Centre) -> Features | None:
    """The origin of each task, ``(T, 1, D)`` or ``(1, 1, D)``, or None where nothing is to be subtracted.

    Parameters
    ----------
    support : ndarray of shape (T, n_support, D)
    query : ndarray of shape (T, n_query, D)
    centre : {"task", "support", "none"} or array-like of shape (D,)
    """
    if isinstance(centre, str):
        if centre == "none":
            return None
        total: Features = support.sum(axis=1, keepdims=True)
        if centre == "support":
            total /= support.shape[1]
        else:
            total += query.sum(axis=1, keepdims=True)
            total /= support.shape[1] + query.shape[1]
        return total
    vector = np.asarray(centre, dtype=support.dtype)
    if vector.size != support.shape[2]:
        raise ValueError(f"centre needs one number per feature, {support.shape[2]}; got {vector.size}.")
    return vector.reshape(1, 1, -1)


def centre_and_normalize(support: Features, query: Features, centre: Centre) -> tuple[Features, Features]:
    """Subtract each task's centre, then scale the rows to unit length (CL2N, or L2N with ``centre="none"``).

    Parameters
    ----------
    support : ndarray of shape (T, n_support, D)
    query : ndarray of shape (T, n_query, D)
    centre : {"task", "support", "none"} or array-like of shape (D,)

    Returns
    -------
    support, query : ndarrays of the same shapes
    """
    origin = task_centre(support, query, centre)
    if origin is None:
        return l2_normalize(support), l2_normalize(query)
    support, query = support - origin, query - origin
    support *= _inverse_lengths(support)
    query *= _inverse_lengths(query)
    return support, query


def power_transform(features: Features, power: float) -> Features:
    """Negative features to zero, then each feature to ``power``: makes long-tailed activations less so."""
    transformed: Features = (np.maximum(features, 0.0) + features.dtype.type(_POWER_OFFSET)) ** power
    return transformed


def _inverse_lengths(features: Features) -> Features:
    """One over the length of each row, 1 for a row of zeros: (T, rows, D) -> (T, rows, 1)."""
    lengths = np.sqrt(np.einsum("trd,trd->tr", features, features))
    lengths[lengths == 0.0] = 1.0
    inverse: Features = 1.0 / lengths[:, :, None]
    return inverse
