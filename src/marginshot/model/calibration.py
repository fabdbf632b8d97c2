"""From margins to probabilities: Platt scaling as in the paper (section 3.3), a softmax, or jointly with a mixture.

Platt scaling fits each class by itself on the support, and five support points make a poor calibrator. The others fit
nothing more: their constants were chosen on validation features. A new calibration is a class here and a line in
`CALIBRATIONS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from marginshot.model.neighbours import shots_a_class
from marginshot.model.platt import PLAIN, PLATT, Regression, platt_probabilities

Array = NDArray[np.float64]
#: Fits slopes and intercepts, each (..., N), of the margins of the support.
FitPlatt = Callable[[Regression], tuple[Array, Array]]

PLATT_WEIGHT = 2.0  # of Platt's log-odds beside the logits of the mixture. Flat: 1.3 to 3 within 0.05 points


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
    def combine(self, fit_platt: FitPlatt, n_support: int, n_classes: int, within: Array, omega: Array) -> Combination:
        """The combination for tasks of these sizes.

        ``within`` (...) is the mixture's share of variance within classes, ``omega`` (...) the weight of the graph.
        """

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

    def combine(self, fit_platt: FitPlatt, n_support: int, n_classes: int, within: Array, omega: Array) -> Combination:
        """A and B of each class, fitted on the support."""
        slope, intercept = fit_platt(self.regression)
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

    def combine(self, fit_platt: FitPlatt, n_support: int, n_classes: int, within: Array, omega: Array) -> Combination:
        """One slope for all classes."""
        slope = np.full((*within.shape, n_classes), self.sharpness(n_classes))
        nothing = np.zeros(within.shape)
        return Combination(slope, np.zeros_like(slope), nothing, nothing)

    def sharpness(self, n_classes: int) -> float:
        """What margins are multiplied with."""
        return 1.0


class Softmax(Unscaled):
    """Scores are the logits log2(N) · f, in the order of the margins."""

    name = "softmax"

    def sharpness(self, n_classes: int) -> float:
        """log2(N)."""
        return float(np.log2(n_classes))


class MixtureCalibration(Calibration):
    """Scores are logits τ (g + 2 · Platt's log-odds): the mixture's posterior times the square of Platt's odds."""

    name = "mixture"
    answers_jointly = True

    def combine(self, fit_platt: FitPlatt, n_support: int, n_classes: int, within: Array, omega: Array) -> Combination:
        """Tempered by `temper_of`, and beside a graph by `temper_beside_graph`."""
        slope, intercept = fit_platt(PLATT)
        of_graph = temper_beside_graph(n_support, n_classes, omega)
        temper = of_graph * temper_of(n_support, n_classes, within)
        weight = PLATT_WEIGHT * temper[..., None]
        return Combination(weight * slope, weight * intercept, temper, of_graph)


class GraphCalibration(MixtureCalibration):
    """The mixture's scores with the logits h of labels spread over the graph of neighbours."""

    name = "graph"
    uses_graph = True


CALIBRATIONS: dict[str, Calibration] = {
    kind.name: kind for kind in (Platt(), Logistic(), Unscaled(), Softmax(), MixtureCalibration(), GraphCalibration())
}


def temper_of(n_support: int, n_classes: int, within: Array) -> Array:
    """τ (...) = 0.2 shots^0.15 / N^0.2 / sqrt(within), at most 1.

    Rows of a class are not independent draws from a ball, so both parts are overconfident. They are less so with more
    examples, and where clusters are far apart (``within`` (...) is small). The constants hardly move accuracy; they
    were chosen for calibration on validation features. 0.13 and 0.3 instead of 0.2 cost 3.0 and 1.7 points of it.

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
