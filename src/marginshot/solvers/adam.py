"""Adam with a fixed number of steps, on many tasks at once.

Every operation is elementwise, so the tasks of a batch cannot influence each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

# Kingma and Ba's constants, which every reference implementation of the methods here uses.
_DECAY_MEAN, _DECAY_SQUARE, _EPSILON = 0.9, 0.999, 1e-8


def adam(gradient: Callable[[Array], Array], start: Array, *, learning_rate: float, n_steps: int) -> Array:
    """Take ``n_steps`` of Adam from ``start``.

    Parameters
    ----------
    gradient : callable
        From parameters to their gradient, same shape; the array it returns is overwritten.
    start : ndarray of shape (T, ...)
    learning_rate : float
    n_steps : int

    Returns
    -------
    parameters : ndarray of the shape and dtype of ``start``
    """
    parameters = start.copy()
    mean, square = np.zeros_like(start), np.zeros_like(start)
    work = np.empty_like(start)
    for step in range(1, n_steps + 1):
        slope = gradient(parameters)
        mean *= _DECAY_MEAN
        np.multiply(slope, 1.0 - _DECAY_MEAN, out=work)
        mean += work
        square *= _DECAY_SQUARE
        slope *= slope
        slope *= 1.0 - _DECAY_SQUARE
        square += slope
        np.multiply(square, 1.0 / (1.0 - _DECAY_SQUARE**step), out=work)
        np.sqrt(work, out=work)
        work += _EPSILON
        np.divide(mean, work, out=work)
        work *= learning_rate / (1.0 - _DECAY_MEAN**step)
        parameters -= work
    return parameters
