"""Platt scaling (paper, section 3.3): a logistic regression of class membership on one score, on the support alone.

Plain Python and NumPy on one task, which numba compiles too: `marginshot.batch.compiled` loops over tasks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, softmax

from marginshot.model.primitives import logistic_sums

Array = NDArray[np.float64]

MAX_ITER = 50
TOL = 1e-9
MAX_HALVINGS = 20  # of a step after which the deviance went up


class Regression(NamedTuple):
    """Regularisation that keeps the regression finite on a separable support, which is the usual case.

    Attributes
    ----------
    smoothed : bool
        Platt's targets (n₊+1)/(n₊+2) and 1/(n₋+2) instead of 1 and 0.
    ridge : float
        Weight of ½ A² beside the deviance.
    """

    smoothed: bool
    ridge: float


PLATT = Regression(smoothed=True, ridge=0.0)
#: Targets 0 and 1, as the paper prints, with the ridge that scikit-learn's `LogisticRegression` has by default (C = 1).
PLAIN = Regression(smoothed=False, ridge=1.0)


def fit_platt(
    margins: Array, labels: NDArray[np.int64], weights: Array, smoothed: bool, ridge: float
) -> tuple[Array, Array]:
    """Slope A and intercept B, each (N,), of p_c = σ(A_c f_c + B_c), fitted on the support.

    Parameters
    ----------
    margins : ndarray of shape (n, N)
        Scores of the support in each class's problem.
    labels : ndarray of int of shape (n,)
        Classes of the support, 0 … N − 1.
    weights : ndarray of shape (n,)
        Weight of each labelled row.
    smoothed, ridge
        Of `Regression`.
    """
    n, n_classes = margins.shape
    slope, intercept = np.empty(n_classes), np.empty(n_classes)
    x, targets = np.empty(n), np.empty(n)
    for c in range(n_classes):
        positive, centre = 0.0, 0.0
        for i in range(n):
            positive += weights[i] if labels[i] == c else 0.0
            centre += margins[i, c] / n
        negative = weights.sum() - positive
        high, low = 1.0, 0.0
        if smoothed:
            high, low = (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0)
        for i in range(n):
            # Centred margins uncouple slope and intercept, which keeps Newton's steps sane.
            x[i] = margins[i, c] - centre
            targets[i] = high if labels[i] == c else low
        slope[c], intercept[c] = fit_logistic(x, targets, weights, ridge)
        intercept[c] -= slope[c] * centre
    return slope, intercept


def fit_logistic(x: Array, targets: Array, weights: Array, ridge: float) -> tuple[float, float]:
    """Slope and intercept of a logistic regression of ``targets`` (n,) on ``x`` (n,), by damped Newton steps."""
    mean = np.dot(weights, targets) / weights.sum()
    slope, intercept = 0.0, np.log(mean / (1.0 - mean))
    sums = penalised_sums(x, targets, weights, slope, intercept, ridge)
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
            sums = penalised_sums(x, targets, weights, slope + step * d_slope, intercept + step * d_intercept, ridge)
            if sums[0] <= value + 1e-12:
                break
            step *= 0.5
        slope, intercept = slope + step * d_slope, intercept + step * d_intercept
    return slope, intercept


def penalised_sums(
    x: Array, targets: Array, weights: Array, slope: float, intercept: float, ridge: float
) -> tuple[float, float, float, float, float, float]:
    """`logistic_sums` with the penalty ½ ``ridge`` slope²."""
    value, g_slope, g_intercept, h_ss, h_si, h_ii = logistic_sums(x, targets, weights, slope, intercept)
    value += 0.5 * ridge * slope * slope
    return value, g_slope + ridge * slope, g_intercept, h_ss + ridge, h_si, h_ii


def platt_probabilities(log_odds: Array) -> Array:
    """Class probabilities (..., N) from Platt's log-odds A f + B: σ of each, normalised over the classes.

    Computed from logarithms, so that they are finite and sum to 1 however small every σ is.

    Examples
    --------
    >>> platt_probabilities(np.array([-1000.0, -1000.0]))
    array([0.5, 0.5])
    """
    probabilities: Array = softmax(log_expit(log_odds), axis=-1)
    return probabilities
