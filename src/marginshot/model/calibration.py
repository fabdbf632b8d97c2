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


class Margins(Protocol):
    """The interface of a task with fitted planes that a calibration uses."""

    def fit_platt(self, regression: Regression) -> tuple[Array, Array]:
        """Slopes and intercepts, each (..., N), of a regression of each class on the margins of the support."""


@dataclass(frozen=True)
class Evidence:
    """Statistics of a task that need no labels of its queries.

    Attributes
    ----------
    n_support, n_classes : int
    within : ndarray of shape (...)
        Share of the variance within the classes of the mixture, 1 where there is none.
    """

    n_support: int
    n_classes: int
    within: Array


@dataclass(frozen=True)
class Combination:
    """Scores A f + B + τ g + κ h + ρ r of margins f, logits g of a mixture, h of a graph and r of the regression.

    All but the last are the transductive expert, the last is the inductive one.

    Attributes
    ----------
    slope, intercept : ndarray of shape (..., N)
        A and B.
    temper, of_graph, of_regression : ndarray of shape (...)
        τ, κ and ρ.
    """

    slope: Array
    intercept: Array
    temper: Array
    of_graph: Array
    of_regression: Array

    def transductive(self, margins: Array, logits: Array | float, graph_logits: Array | float) -> Array:
        """Scores (..., n_rows, N) of ``margins``, and of the logits of mixture and graph, of that shape."""
        of_margins = self.slope[..., None, :] * margins + self.intercept[..., None, :]
        return of_margins + self.temper[..., None, None] * logits + self.of_graph[..., None, None] * graph_logits

    def inductive(self, regression_logits: Array) -> Array:
        """Scores (..., n_rows, N) of the regression's logits, of that shape."""
        return self.of_regression[..., None, None] * regression_logits

    def weighted(self, weights: Array) -> Combination:
        """The experts' scores times ``weights`` (..., 2), the transductive one's first."""
        factor, of_regression = weights[..., 0], weights[..., 1]
        of_classes = factor[..., None]
        return Combination(
            of_classes * self.slope,
            of_classes * self.intercept,
            factor * self.temper,
            factor * self.of_graph,
            of_regression * self.of_regression,
        )

    def planes(
        self, coef: Array, offsets: Array, mixture: tuple[Array, Array] | None, regression: Array | float
    ) -> tuple[Array, Array]:
        """Planes (P, N) and constants (N,) of the scores without the graph, from margins, mixture and regression."""
        score_coef, score_intercept = self.slope * coef, self.slope * offsets + self.intercept
        if mixture is not None:
            score_coef, score_intercept = (
                score_coef + self.temper * mixture[0],
                score_intercept + self.temper * mixture[1],
            )
        return score_coef + self.of_regression * regression, score_intercept


class Calibration(ABC):
    """A rule that turns margins into scores, and scores into probabilities.

    Attributes
    ----------
    answers_jointly : bool
        Whether the scores hold the logits of a mixture.
    uses_graph : bool
        Whether the scores also hold the logits of the graph of neighbours.
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
        """Binary decision score (...) from the scores of two classes (..., 2): positive for the second class."""
        return np.asarray(scores[..., 1] - scores[..., 0])


class Platt(Calibration):
    """Scores are Platt's log-odds A f + B, whose σ are normalised over the classes."""

    name = "platt"
    regression: ClassVar[Regression] = PLATT

    def combine(self, task: Margins, evidence: Evidence) -> Combination:
        """Platt's slope A and intercept B of each class, fitted on the support."""
        slope, intercept = task.fit_platt(self.regression)
        nothing = np.zeros(slope.shape[:-1])
        return Combination(slope, intercept, nothing, nothing, nothing)

    def probabilities(self, scores: Array) -> Array:
        """σ of the scores, normalised."""
        return platt_probabilities(scores)

    def of_two(self, scores: Array) -> Array:
        """Binary decision score: half the difference, because Platt's log-odds of two classes mirror each other."""
        return 0.5 * super().of_two(scores)


class Logistic(Platt):
    """Scores are the log-odds of a logistic regression on targets 0 and 1, as the paper prints."""

    name = "logistic"
    regression = PLAIN


class Unscaled(Calibration):
    """Scores are the margins f themselves."""

    name = "none"

    def combine(self, task: Margins, evidence: Evidence) -> Combination:
        """The margins times one factor, the same for all classes."""
        n_classes, nothing = evidence.n_classes, np.zeros(evidence.within.shape)
        slope = np.full((*nothing.shape, n_classes), self.sharpness(n_classes))
        return Combination(slope, np.zeros_like(slope), nothing, nothing, nothing)

    def sharpness(self, n_classes: int) -> float:
        """Factor of the margins."""
        return 1.0


class Softmax(Unscaled):
    """Scores are the logits log2(N) · f, in the order of the margins."""

    name = "softmax"

    def sharpness(self, n_classes: int) -> float:
        """Factor log2(N) of the margins."""
        return float(np.log2(n_classes))


class MixtureCalibration(Calibration):
    """Two experts: logits g of the mixture plus twice Platt's log-odds, and logits r of the regression."""

    name = "mixture"
    answers_jointly = True

    def combine(self, task: Margins, evidence: Evidence) -> Combination:
        """Experts of weight 1; beside planes and mixture the graph has weight 1/τ, with τ of `temper_of`."""
        slope, intercept = task.fit_platt(PLATT)
        one = np.ones_like(evidence.within)
        of_graph = 1.0 / temper_of(evidence.n_support, evidence.n_classes, evidence.within)
        return Combination(PLATT_WEIGHT * slope, PLATT_WEIGHT * intercept, one, of_graph, one)


class GraphCalibration(MixtureCalibration):
    """The mixture's scores with the logits h of labels spread over the graph of neighbours."""

    name = "graph"
    uses_graph = True


CALIBRATIONS: dict[str, Calibration] = {
    kind.name: kind for kind in (Platt(), Logistic(), Unscaled(), Softmax(), MixtureCalibration(), GraphCalibration())
}


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
