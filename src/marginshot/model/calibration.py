"""From margins to probabilities: Platt scaling as in the paper (section 3.3), a softmax, or jointly with a mixture.

Platt scaling fits each class by itself on the support, and five support points make a poor calibrator. The others fit
nothing: their constants were chosen on validation features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, softmax

from marginshot.model.mixture import Mixture
from marginshot.model.neighbours import shots_a_class

Array = NDArray[np.float64]

MAX_ITER = 50
TOL = 1e-9
MAX_HALVINGS = 20  # of a step after which the deviance went up

_PLATT_WEIGHT = 2.0  # of Platt's log-odds beside the logits of the mixture


@dataclass(frozen=True)
class Calibration:
    """Scores A f + B + τ g + κ h of fitted margins f, a mixture's logits g and a graph's h, and their probabilities.

    Attributes
    ----------
    kind : {"platt", "softmax", "mixture", "graph"}
        Platt: A and B of each class are fitted on the support, a score is a log-odds and the σ of the scores are
        normalised over classes; τ = κ = 0. Softmax: A = log2(N), B = τ = κ = 0, the scores are logits in the order of
        the margins. Mixture: the scores are logits τ (g + 2 · Platt's log-odds), the posterior of the mixture
        times the square of Platt's odds, tempered by `temper_of`; κ = 1, and h = 0. Graph: the same with the logits h
        of `marginshot.model.graph`, all tempered by κ (`temper_beside_graph`).
    slope, intercept : ndarray of shape (..., n_classes)
        A and B.
    temper, of_graph : ndarray of shape (...)
        τ and κ.
    """

    kind: str
    slope: Array
    intercept: Array
    temper: Array
    of_graph: Array

    @classmethod
    def fit(
        cls, kind: str, margins: Array, labels: NDArray[np.int64], mixture: Mixture | None, graph_weight: float = 0.0
    ) -> Calibration:
        """Fit on the support's ``margins`` (..., n_support, n_classes) and ``labels`` (..., n_support)."""
        if kind == "softmax":
            shape = (*margins.shape[:-2], margins.shape[-1])
            nothing = np.zeros(shape[:-1])
            return cls(kind, np.full(shape, np.log2(shape[-1])), np.zeros(shape), nothing, nothing)
        within = None if mixture is None else mixture.within
        return cls.from_platt(kind, *fit_platt(margins, labels), labels.shape[-1], within, graph_weight)

    @classmethod
    def from_platt(
        cls,
        kind: str,
        slope: Array,
        intercept: Array,
        n_support: int,
        within: Array | None,
        graph_weight: Array | float = 0.0,
    ) -> Calibration:
        """Of all kinds but "softmax", from Platt's A and B, each (..., n_classes).

        ``within`` (...) as in `Mixture`, ``graph_weight`` (...) as in `marginshot.model.graph`.
        """
        nothing = np.zeros(slope.shape[:-1])
        if kind == "platt" or within is None:
            return cls(kind, slope, intercept, nothing, nothing)
        of_graph = temper_beside_graph(n_support, slope.shape[-1], graph_weight + nothing)
        temper = of_graph * temper_of(n_support, slope.shape[-1], within)
        weight = _PLATT_WEIGHT * temper[..., None]
        return cls(kind, weight * slope, weight * intercept, temper, of_graph)

    def scores(self, margins: Array, logits: Array | float = 0.0, graph_logits: Array | float = 0.0) -> Array:
        """Scores (..., n_rows, n_classes) of ``margins``, and of the logits of mixture and graph, of the same shape."""
        of_margins = self.slope[..., None, :] * margins + self.intercept[..., None, :]
        return of_margins + self.temper[..., None, None] * logits + self.of_graph[..., None, None] * graph_logits

    def planes(self, coef: Array, intercept: Array, mixture: Mixture | None) -> tuple[Array, Array]:
        """The same for the planes of f, (P, n_classes) and (n_classes,): the scores but for the graph are planes."""
        score_coef, score_intercept = self.slope * coef, self.slope * intercept + self.intercept
        if mixture is None:
            return score_coef, score_intercept
        return score_coef + self.temper * mixture.coef, score_intercept + self.temper * mixture.intercept


def temper_of(n_support: int, n_classes: int, within: Array) -> Array:
    """τ (...) = 0.2 shots^0.15 / N^0.2 / sqrt(within), at most 1; ``within`` (...) as in `Mixture`.

    Rows of a class are not independent draws from a ball, so both parts are surer than they should be; the less so the
    more examples there are and the farther apart the clusters lie.

    Examples
    --------
    >>> temper_of(5, 5, np.array(0.5)).round(2), temper_of(50, 5, np.array(0.5)).round(2)
    (np.float64(0.2), np.float64(0.29))
    """
    shots = shots_a_class(n_support, n_classes)
    return np.asarray(np.minimum(0.2 * shots**0.15 / n_classes**0.2 / np.sqrt(within), 1.0))


def temper_beside_graph(n_support: int, n_classes: int, graph_weight: Array) -> Array:
    """κ (...) = 1 / (1 + 2 ω² / shots^⅓), with the graph's weight ω (...): what several parts say alike is said once.

    Examples
    --------
    >>> temper_beside_graph(5, 5, np.array([0.0, 0.5, 1.0])).round(2)
    array([1.  , 0.67, 0.33])
    """
    shots = shots_a_class(n_support, n_classes)
    return np.asarray(1.0 / (1.0 + 2.0 * graph_weight**2 / shots ** (1 / 3)))


def probabilities_of(kind: str, scores: Array) -> Array:
    """Probabilities (..., n_classes) of scores made by a calibration of this kind."""
    probabilities: Array = platt_probabilities(scores) if kind == "platt" else softmax(scores, axis=-1)
    return probabilities


def fit_platt(margins: Array, labels: NDArray[np.int64]) -> tuple[Array, Array]:
    """Slope A and intercept B, each (..., n_classes), of p_c = σ(A_c f_c + B_c), fitted on the support.

    Platt's smoothed targets, (n₊+1)/(n₊+2) and 1/(n₋+2), keep a separable one-shot support finite.

    Parameters
    ----------
    margins : ndarray of shape (..., n_support, n_classes)
        Scores of the support in each class's problem.
    labels : ndarray of int of shape (..., n_support)
        Classes of the support, 0 … n_classes − 1.
    """
    member = labels[..., None] == np.arange(margins.shape[-1])
    n_positive = member.sum(axis=-2, keepdims=True)
    n_negative = member.shape[-2] - n_positive
    targets = np.where(member, (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0))
    # Centred margins uncouple slope and intercept, which keeps Newton's steps sane.
    centre = margins.mean(axis=-2, keepdims=True)
    slope, intercept = _newton(margins - centre, targets)
    return slope, intercept - slope * centre[..., 0, :]


def _newton(x: Array, targets: Array) -> tuple[Array, Array]:
    """Damped Newton for logistic regression in one variable, every (…, class) problem by itself."""
    mean = targets.mean(axis=-2)
    slope, intercept = np.zeros_like(mean), np.log(mean / (1.0 - mean))
    value = _deviance(x, targets, slope, intercept)
    for _ in range(MAX_ITER):
        p = expit(slope[..., None, :] * x + intercept[..., None, :])
        residual, spread = p - targets, p * (1.0 - p)
        g_slope, g_intercept = (residual * x).sum(axis=-2), residual.sum(axis=-2)
        moving = np.maximum(np.abs(g_slope), np.abs(g_intercept)) > TOL
        if not moving.any():
            break
        h_ss, h_si, h_ii = (spread * x * x).sum(axis=-2) + 1e-12, (spread * x).sum(axis=-2), spread.sum(axis=-2)
        determinant = h_ss * h_ii - h_si * h_si
        d_slope = np.where(moving, (h_si * g_intercept - h_ii * g_slope) / determinant, 0.0)
        d_intercept = np.where(moving, (h_si * g_slope - h_ss * g_intercept) / determinant, 0.0)
        step = np.ones_like(slope)
        for _ in range(MAX_HALVINGS):
            trial = _deviance(x, targets, slope + step * d_slope, intercept + step * d_intercept)
            worse = trial > value + 1e-12
            if not worse.any():
                break
            step = np.where(worse, 0.5 * step, step)
        slope, intercept, value = slope + step * d_slope, intercept + step * d_intercept, trial
    return slope, intercept


def _deviance(x: Array, targets: Array, slope: Array, intercept: Array) -> Array:
    z = slope[..., None, :] * x + intercept[..., None, :]
    return (np.logaddexp(0.0, z) - targets * z).sum(axis=-2)


def platt_probabilities(log_odds: Array) -> Array:
    """Class probabilities (..., n_classes) from Platt's log-odds A f + B: σ of each, normalised over the classes.

    Computed from logarithms, so that they are finite and sum to 1 however small every σ is.

    Examples
    --------
    >>> platt_probabilities(np.array([-1000.0, -1000.0]))
    array([0.5, 0.5])
    """
    probabilities: Array = softmax(log_expit(log_odds), axis=-1)
    return probabilities
