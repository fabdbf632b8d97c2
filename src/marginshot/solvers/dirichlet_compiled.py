"""Parameters of Dirichlet distributions as EM-Dirichlet's authors estimate them, compiled, stopped task by task."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import entry_point, leaf

Batch = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Half the curvature's limit where a parameter tends to 0 is that of log-gamma at 1.
_LIMIT = math.pi**2 / 6.0
_LEAST_PARAMETER = 1e-11
# How often the change is looked at, and the squared relative change at which a task ends; as in the authors' code.
_CHECK_EVERY = 50
_TOL = 1e-11


@entry_point
def fit_dirichlets(mean_logs: Batch, start: Batch, max_iter: int) -> Batch:
    """Distributions whose mean logarithms come near the given ones, by steps that never lower the likelihood.

    The likelihood of rows that hardly differ has no maximum. The estimate then ends after ``max_iter`` steps, which
    the authors' method relies on.

    Parameters
    ----------
    mean_logs : ndarray of shape (T, N, D)
        Mean logarithm of each of D shares, over the rows of each of N distributions.
    start : ndarray of shape (T, N, D)
        Parameters to begin with, above 0.
    max_iter : int

    Returns
    -------
    parameters : ndarray of shape (T, N, D)
    """
    parameters = start.copy()
    for t in range(len(start)):
        for step in range(max_iter):
            change, size = _step(mean_logs[t], parameters[t])
            if step > 0 and step % _CHECK_EVERY == 0 and change < _TOL * size:
                break
    return parameters


@leaf
def _step(mean_logs: Matrix, parameters: Matrix) -> tuple[float, float]:
    """One step in place; the squared length of the change, and that of the parameters before it.

    Each log-gamma of a parameter is replaced by a quadratic above it, whose maximum has a closed form.
    """
    change, size = 0.0, 0.0
    for k in range(parameters.shape[0]):
        total = digamma(parameters[k].sum())
        for d in range(parameters.shape[1]):
            before = parameters[k, d]
            slope = digamma(before + 1.0)
            curvature = _LIMIT
            if before > _LEAST_PARAMETER:
                curvature = abs(2.0 * (slope * before - math.lgamma(before + 1.0))) / before**2
            b = slope - total - curvature * before - mean_logs[k, d]
            after = (math.sqrt(b * b + 4.0 * curvature) - b) / (2.0 * curvature)
            parameters[k, d] = after
            change += (after - before) ** 2
            size += before**2
    return change, size


@leaf
def digamma(x: float) -> float:
    """Derivative of log-gamma for x above 0, to fourteen digits: recurrence up to 10, then the asymptotic series."""
    shift = 0.0
    while x < 10.0:
        shift -= 1.0 / x
        x += 1.0
    inverse = 1.0 / (x * x)
    series = inverse * (1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse / 132))))
    return shift + math.log(x) - 0.5 / x - series
