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

from marginshot.model.platt import PLAIN, PLATT, Regression, platt_probabilities

Array = NDArray[np.float64]

PLATT_WEIGHT = 2.0  # of Platt's log-odds beside the logits of the mixture. Flat: 1.3 to 3 within 0.05 points
# Of the graph's logits beside them. Flat: 2.5 within 0.04 points; 1 costs 1 point on digits, and wins 0.6 on texts.
GRAPH_WEIGHT = 4.0


class Margins(Protocol):
    """The interface of a task with fitted planes that a calibration uses."""

    def fit_platt(self, regression: Regression) -> tuple[Array, Array]:
        """Slopes and intercepts, each (..., N), of a regression of each class on the margins of the support."""


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
    def combine(self, task: Margins, shape: tuple[int, ...]) -> Combination:
        """The combination for a task, or for a batch of tasks, of as many classes as ``shape``, (..., N), says."""

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

    def combine(self, task: Margins, shape: tuple[int, ...]) -> Combination:
        """Platt's slope A and intercept B of each class, fitted on the support."""
        slope, intercept = task.fit_platt(self.regression)
        nothing = np.zeros(shape[:-1])
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

    def combine(self, task: Margins, shape: tuple[int, ...]) -> Combination:
        """The margins times one factor, the same for all classes."""
        slope, nothing = np.full(shape, self.sharpness(shape[-1])), np.zeros(shape[:-1])
        return Combination(slope, np.zeros(shape), nothing, nothing, nothing)

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

    def combine(self, task: Margins, shape: tuple[int, ...]) -> Combination:
        """Experts of weight 1; the first adds its parts by `PLATT_WEIGHT` and `GRAPH_WEIGHT`."""
        slope, intercept = task.fit_platt(PLATT)
        one = np.ones(shape[:-1])
        return Combination(PLATT_WEIGHT * slope, PLATT_WEIGHT * intercept, one, GRAPH_WEIGHT * one, one)


class GraphCalibration(MixtureCalibration):
    """The mixture's scores with the logits h of labels spread over the graph of neighbours."""

    name = "graph"
    uses_graph = True


CALIBRATIONS: dict[str, Calibration] = {
    kind.name: kind for kind in (Platt(), Logistic(), Unscaled(), Softmax(), MixtureCalibration(), GraphCalibration())
}
