"""From margins to probabilities: Platt scaling as in the paper (section 3.3), a softmax, or jointly with a mixture.

Platt scaling fits each class by itself on the support, and five support points make a poor calibrator. The others fit
nothing more: their constants were chosen on validation features. A new calibration is a class here and a line in
`CALIBRATIONS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from marginshot.model.neighbours import shots_a_class
from marginshot.model.platt import PLAIN, PLATT, Regression, platt_probabilities

Array = NDArray[np.float64]

PLATT_WEIGHT = 2.0  # of Platt's log-odds beside the logits of the mixture. Flat: 1.3 to 3 within 0.05 points
# Of scores beside `Evidence.temperature` and the variance within classes. Chosen with the constants of
# `marginshot.model.temperature`; not flat: 0.22 and 0.5 cost 1.0 and 0.4 points of expected calibration error.
SHARPNESS, OF_TEMPERATURE = 0.26, 0.6
# Standard deviation over the classes that Platt's log-odds of queries have where no mixture speaks. Flat: 1.5 to 2.
SPREAD_OF_LOG_ODDS, LEAST_SPREAD = 1.7, 0.1


class Margins(Protocol):
    """The interface of a task with fitted planes that a calibration uses."""

    def fit_platt(self, regression: Regression) -> tuple[Array, Array]:
        """Slopes and intercepts, each (..., N), of a regression of each class on the margins of the support."""

    def query_margins(self) -> Array:
        """f (..., m, N) of the queries, or of some of them."""


@dataclass(frozen=True)
class Evidence:
    """Statistics of a task that need no labels of its queries.

    Attributes
    ----------
    n_support, n_classes : int
    within, trust, temperature : ndarray of shape (...)
        Of the mixture: the share of variance within classes, 0 where it is silent, and how sharp it may be.
    omega : ndarray of shape (...)
        Weight of the graph.
    """

    n_support: int
    n_classes: int
    within: Array
    trust: Array
    temperature: Array
    omega: Array


@dataclass(frozen=True)
class Combination:
    """Scores A f + B + τ g + κ h of margins f, a mixture's logits g and a graph's h.

    Attributes
    ----------
    slope, intercept : ndarray of shape (..., N)
        A and B.
    temper, of_graph : ndarray of shape (...)
        τ and κ.
    """

    slope: Array
    intercept: Array
    temper: Array
    of_graph: Array

    def scores(self, margins: Array, logits: Array | float, graph_logits: Array | float) -> Array:
        """Scores (..., n_rows, N) of ``margins``, and of the logits of mixture and graph, of that shape."""
        of_margins = self.slope[..., None, :] * margins + self.intercept[..., None, :]
        return of_margins + self.temper[..., None, None] * logits + self.of_graph[..., None, None] * graph_logits

    def scaled(self, factor: Array) -> Combination:
        """Scores times ``factor`` (...): the answers stay, their probabilities do not."""
        of_classes = factor[..., None]
        return Combination(
            of_classes * self.slope, of_classes * self.intercept, factor * self.temper, factor * self.of_graph
        )

    def planes(self, coef: Array, offsets: Array, mixture: tuple[Array, Array] | None) -> tuple[Array, Array]:
        """Planes (P, N) and constants (N,) of the scores but for the graph, from those of f and of the mixture."""
        score_coef, score_intercept = self.slope * coef, self.slope * offsets + self.intercept
        if mixture is None:
            return score_coef, score_intercept
        return score_coef + self.temper * mixture[0], score_intercept + self.temper * mixture[1]


class Calibration(ABC):
    """How scores are made of margins, and probabilities of scores.

    Attributes
    ----------
    answers_jointly : bool
        The scores hold the logits of a mixture.
    uses_graph : bool
        They hold those of the graph of neighbours, too.
    """

    name: ClassVar[str]
    answers_jointly: ClassVar[bool] = False
    uses_graph: ClassVar[bool] = False

    @abstractmethod
    def combine(self, task: Margins, evidence: Evidence) -> Combination:
        """The combination for a task, or for a batch of tasks, that shows this evidence."""

    def probabilities(self, scores: Array) -> Array:
        """Probabilities (..., N) of scores (..., N)."""
        probabilities: Array = softmax(scores, axis=-1)
        return probabilities

    def of_two(self, scores: Array) -> Array:
        """One score (...) of two classes (..., 2): that of the second, above zero where it is the answer."""
        return np.asarray(scores[..., 1] - scores[..., 0])


class Platt(Calibration):
    """Scores are Platt's log-odds A f + B, whose σ are normalised over the classes."""

    name = "platt"
    regression: ClassVar[Regression] = PLATT

    def combine(self, task: Margins, evidence: Evidence) -> Combination:
        """A and B of each class, fitted on the support."""
        slope, intercept = task.fit_platt(self.regression)
        nothing = np.zeros(slope.shape[:-1])
        return Combination(slope, intercept, nothing, nothing)

    def probabilities(self, scores: Array) -> Array:
        """σ of the scores, normalised."""
        return platt_probabilities(scores)

    def of_two(self, scores: Array) -> Array:
        """Half the difference: Platt's log-odds of two classes mirror each other."""
        return 0.5 * super().of_two(scores)


class Logistic(Platt):
    """Scores are the log-odds of a logistic regression on targets 0 and 1, as the paper prints."""

    name = "logistic"
    regression = PLAIN


class Unscaled(Calibration):
    """Scores are the margins f themselves."""

    name = "none"

    def combine(self, task: Margins, evidence: Evidence) -> Combination:
        """One slope for all classes."""
        n_classes, nothing = evidence.n_classes, np.zeros(evidence.within.shape)
        slope = np.full((*nothing.shape, n_classes), self.sharpness(n_classes))
        return Combination(slope, np.zeros_like(slope), nothing, nothing)

    def sharpness(self, n_classes: int) -> float:
        """Factor of the margins."""
        return 1.0


class Softmax(Unscaled):
    """Scores are the logits log2(N) · f, in the order of the margins."""

    name = "softmax"

    def sharpness(self, n_classes: int) -> float:
        """log2(N)."""
        return float(np.log2(n_classes))


class MixtureCalibration(Calibration):
    """Scores are logits σ (g + 2 · Platt's log-odds): the mixture's posterior times the square of Platt's odds."""

    name = "mixture"
    answers_jointly = True

    def combine(self, task: Margins, evidence: Evidence) -> Combination:
        """Sharpened by `sharpness_of`; the graph counts for 1/τ of the rest, with τ of `temper_of`."""
        slope, intercept = task.fit_platt(PLATT)
        shape = evidence.n_support, evidence.n_classes
        sharpness = sharpness_of(evidence.temperature, evidence.within) * temper_beside_graph(*shape, evidence.omega)
        silent = evidence.trust == 0.0
        if np.any(silent):
            of_margins = Combination(slope, intercept, 0.0 * evidence.within, 0.0 * evidence.within)
            log_odds = of_margins.scores(task.query_margins(), 0.0, 0.0)
            sharpness = np.where(silent, sharpness_of_planes(log_odds) / PLATT_WEIGHT, sharpness)
        weight = PLATT_WEIGHT * sharpness[..., None]
        of_graph = sharpness / temper_of(*shape, evidence.within)
        return Combination(weight * slope, weight * intercept, sharpness, of_graph)


class GraphCalibration(MixtureCalibration):
    """The mixture's scores with the logits h of labels spread over the graph of neighbours."""

    name = "graph"
    uses_graph = True


CALIBRATIONS: dict[str, Calibration] = {
    kind.name: kind for kind in (Platt(), Logistic(), Unscaled(), Softmax(), MixtureCalibration(), GraphCalibration())
}


def sharpness_of(temperature: Array, within: Array) -> Array:
    """Sharpness σ (...) = 0.26 T^0.6 / sqrt(within) of the sum of planes and mixture.

    Both parts are overconfident, and repeat each other. T (...) says by how much, and clusters that are far apart
    (``within`` (...) is small) bear more.

    Examples
    --------
    >>> sharpness_of(np.array([1.0, 0.2]), np.array(0.5)).round(2)
    array([0.37, 0.14])
    """
    return np.asarray(SHARPNESS * temperature**OF_TEMPERATURE / np.sqrt(within))


def sharpness_of_planes(log_odds: Array) -> Array:
    """Sharpness (...) of Platt's ``log_odds`` (..., m, N) of queries where nothing else speaks.

    Planes pass their few labelled rows at a margin of one whatever lies between, so Platt's slope means little. The
    spread of the queries' log-odds tells what they are compared with; without queries nothing is changed.

    Examples
    --------
    >>> sharpness_of_planes(np.array([[0.4, -0.4], [-0.2, 0.2]])).round(2)
    np.float64(5.67)
    """
    if not log_odds.shape[-2]:
        return np.ones(log_odds.shape[:-2])
    spread = log_odds.std(axis=-1).mean(axis=-1)
    return np.asarray(SPREAD_OF_LOG_ODDS / np.maximum(spread, LEAST_SPREAD))


def temper_of(n_support: int, n_classes: int, within: Array) -> Array:
    """Weight τ (...) = 0.2 shots^0.15 / N^0.2 / sqrt(within), at most 1, of planes and mixture beside the graph.

    The constants hardly move accuracy.

    Examples
    --------
    >>> temper_of(5, 5, np.array(0.5)).round(2), temper_of(50, 5, np.array(0.5)).round(2)
    (np.float64(0.2), np.float64(0.29))
    """
    shots = shots_a_class(n_support, n_classes)
    return np.asarray(np.minimum(0.2 * shots**0.15 / n_classes**0.2 / np.sqrt(within), 1.0))


def temper_beside_graph(n_support: int, n_classes: int, omega: Array) -> Array:
    """κ (...) = 1 / (1 + 2 ω² / shots^⅓), with the graph's weight ω (...): graph and mixture repeat each other in part.

    Examples
    --------
    >>> temper_beside_graph(5, 5, np.array([0.0, 0.5, 1.0])).round(2)
    array([1.  , 0.67, 0.33])
    """
    shots = shots_a_class(n_support, n_classes)
    return np.asarray(1.0 / (1.0 + 2.0 * omega**2 / shots ** (1 / 3)))
