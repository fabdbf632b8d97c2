"""Platt scaling of many small tasks, compiled. Its NumPy twin, which says what is fitted, is `calibration.py`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import entry_point, leaf
from marginshot.model.calibration import MAX_HALVINGS, MAX_ITER, TOL
from marginshot.solvers.exponentials_compiled import decay, log1p

Vector = NDArray[np.float64]
Array = NDArray[np.float64]


@entry_point
def fit_platt_batch(margins: Array, labels: NDArray[np.int64], slope: Array, intercept: Array) -> None:
    """Write slope and intercept (T, N), fitted on ``margins`` (T, M, N), support first, with ``labels`` (T, n)."""
    n_support = labels.shape[1]
    x, targets, sums = np.empty(n_support), np.empty(n_support), np.empty(6)
    for task in range(margins.shape[0]):
        for c in range(margins.shape[2]):
            n_positive = 0
            for i in range(n_support):
                n_positive += labels[task, i] == c
            centre = 0.0
            for i in range(n_support):
                centre += margins[task, i, c] / n_support
            for i in range(n_support):
                x[i] = margins[task, i, c] - centre
                if labels[task, i] == c:
                    targets[i] = (n_positive + 1.0) / (n_positive + 2.0)
                else:
                    targets[i] = 1.0 / (n_support - n_positive + 2.0)
            slope[task, c], intercept[task, c] = _newton(x, targets, sums)
            intercept[task, c] -= slope[task, c] * centre


@leaf
def _newton(x: Vector, targets: Vector, sums: Vector) -> tuple[float, float]:
    """Damped Newton for logistic regression in one variable: slope and intercept."""
    mean = 0.0
    for i in range(x.shape[0]):
        mean += targets[i] / x.shape[0]
    slope, intercept = 0.0, math.log(mean / (1.0 - mean))
    _evaluate(x, targets, slope, intercept, sums)
    for _ in range(MAX_ITER):
        value, g_slope, g_intercept, h_ss, h_si, h_ii = sums
        if max(abs(g_slope), abs(g_intercept)) <= TOL:
            break
        h_ss += 1e-12
        determinant = h_ss * h_ii - h_si * h_si
        d_slope = (h_si * g_intercept - h_ii * g_slope) / determinant
        d_intercept = (h_si * g_slope - h_ss * g_intercept) / determinant
        step = 1.0
        for _ in range(MAX_HALVINGS):
            _evaluate(x, targets, slope + step * d_slope, intercept + step * d_intercept, sums)
            if sums[0] <= value + 1e-12:
                break
            step *= 0.5
        slope, intercept = slope + step * d_slope, intercept + step * d_intercept
    return slope, intercept


@leaf
def _evaluate(x: Vector, targets: Vector, slope: float, intercept: float, sums: Vector) -> None:
    """Write the deviance, its two first and its three second derivatives into ``sums`` (6,)."""
    value, g_slope, g_intercept, h_ss, h_si, h_ii = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(x.shape[0]):
        z = slope * x[i] + intercept
        small = decay(-abs(z), np.float64)
        p = (1.0 if z >= 0.0 else small) / (1.0 + small)
        residual, spread = p - targets[i], p * (1.0 - p)
        value += max(z, 0.0) + log1p(small, np.float64) - targets[i] * z
        g_slope += residual * x[i]
        g_intercept += residual
        h_ss += spread * x[i] * x[i]
        h_si += spread * x[i]
        h_ii += spread
    sums[0], sums[1], sums[2], sums[3], sums[4], sums[5] = value, g_slope, g_intercept, h_ss, h_si, h_ii
