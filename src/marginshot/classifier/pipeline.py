"""The method, step by step: the one module that decides what happens in which order.

    features → transform → neighbours → graph of neighbours → kernel → beliefs, as far as labels confirm them → mixture
    and class shares → planes → regression → two experts, as sharp as agreement allows → weights of experts and beliefs
    by labels that are hidden in turn → counts, as far as they are certain

`solve` asks a task for each step. A small task (`small.py`), a large one (`large.py`) and a batch of small ones
(`marginshot.batch.solve`) do the same steps by other means. Arrays of a batch have a leading axis of tasks, written
(...) here; those of one task have none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from marginshot.classifier.settings import Settings
from marginshot.model.calibration import Combination
from marginshot.model.confidence import expected_accuracy, match_confidence
from marginshot.model.counts import Divide, meet_shares
from marginshot.model.mixture import FEW_CLASSES
from marginshot.model.neighbours import neighbour_weight, neighbours_in_task
from marginshot.model.platt import Regression
from marginshot.model.shares import EQUAL_ODDS, EQUAL_ODDS_OF_OFFSETS, LEAST_SHARE, is_estimated, offsets
from marginshot.model.stacking import stack

Array = NDArray[np.float64]

NEIGHBOURS_OF_SHARES = 8  # that rows are averaged with for the estimate of shares, where planes average with none
# Of the regression beside the transductive expert, both as sharp as the accuracy expected, before any label is hidden.
# Chosen on the worlds of benchmarks/folders.py and on validation tasks. A trade: 0.1 wins 0.1 points on such tasks and
# loses up to 8 in folders of two cameras; 0.3 the reverse.
WEIGHT_OF_REGRESSION = 0.2
N_WEIGHTS = 3  # the transductive expert's, the regression's, and that of the beliefs given
# Weights by which one expert speaks alone.
ALONE = tuple(np.eye(N_WEIGHTS)[:2])


class Space(Enum):
    """Among which rows a mixture is fitted."""

    KERNEL = auto()
    """Those of the planes."""
    SMOOTHED = auto()
    """Those of the planes, averaged with their neighbours: clusters show more clearly."""
    OWN_LENGTHS = auto()
    """Averaged rows of their own lengths.

    With few classes one class may hold nearly all rows. The task's mean then lies inside it, and directions from the
    mean carry no information.
    """


class FittedMixture(Protocol):
    """What `solve` reads of a mixture: shares (..., N); the rest, as in `marginshot.model.mixture`, (...)."""

    @property
    def shares(self) -> Array: ...  # noqa: D102
    @property
    def clustered(self) -> Array | float: ...  # noqa: D102
    @property
    def equality(self) -> Array | float: ...  # noqa: D102


class ExpertScores(NamedTuple):
    """What the two experts say of the queries, and rows that show how far apart the classes are.

    Attributes
    ----------
    gram : ndarray of shape (..., M, M)
        Inner products of rows before they were averaged with neighbours: labelled ones, but none that a person picked
        because they were wrong, and then the queries.
    labels : ndarray of int of shape (..., n)
        Classes of the labelled ones.
    transductive, inductive : ndarray of shape (..., m, N)
        Scores of the queries.
    beliefs : ndarray of shape (..., m, N) or None
        Those given about the queries, as logarithms; None where none are given.
    """

    gram: NDArray[np.floating]
    labels: NDArray[np.int64]
    transductive: Array
    inductive: Array
    beliefs: Array | None


class HiddenLabels(NamedTuple):
    """A task some of whose labels are hidden.

    Attributes
    ----------
    task : Task
        Hidden rows are queries of it.
    places : ndarray of int of shape (..., h)
        Hidden rows among the queries.
    labels : ndarray of int of shape (..., h)
    weights : ndarray of shape (..., h)
    positions : ndarray of int of shape (..., h)
        The hidden rows among the labelled rows of the whole task.
    """

    task: Task
    places: NDArray[np.int64]
    labels: NDArray[np.int64]
    weights: Array
    positions: NDArray[np.int64]


class HiddenAnswers(NamedTuple):
    """What labelled rows would be without their own labels, as far as these were hidden.

    Attributes
    ----------
    positions : ndarray of int of shape (..., h)
        Among the labelled rows.
    probabilities : ndarray of shape (..., h, N)
        Of the classes, by the other labels, without regard to the classes' shares.
    """

    positions: NDArray[np.int64]
    probabilities: Array


class Task(Protocol):
    """A task, or a batch of tasks of one size, that does each step when asked."""

    n_support: int
    n_picked: int
    """Labelled rows that are not hidden, because a person picked them."""
    n_query: int
    n_classes: int

    def transform(self) -> None:
        """Fit the feature transform and apply it."""

    def average_with_neighbours(self, n_neighbors: int, weight: float) -> None:
        """Find each row's neighbours and average it with them."""

    def spread_labels(self) -> None:
        """Spread the labels over the graph of neighbours."""

    def build_kernel(self) -> None:
        """Compare the rows by the kernel."""

    def hear_beliefs(self) -> None:
        """Scale what is believed of the rows as far as labels confirm it."""

    def fit_mixture(self, space: Space, shares: Array | None, equal_odds: float, heard: Array | float) -> FittedMixture:
        """Fit a mixture, with ``shares`` (..., N) or, for None, estimated ones.

        ``heard`` (...) is 0 where its logits are to be silent, else 1.
        """

    def follow_path(self, class_offsets: Array) -> None:
        """Fit the planes along the growing λ2, with these offsets (..., N) of f."""

    def fit_platt(self, regression: Regression) -> tuple[Array, Array]:
        """Slopes and intercepts, each (..., N), of a regression of each class on the margins of the support."""

    def fit_regression(self) -> None:
        """Fit the softmax regression to the support."""

    def divide(self, solution: Solution) -> Divide:
        """How the scores of a solution divide the queries among the classes, as a function of biases (..., N)."""

    def expert_scores(self, solution: Solution) -> ExpertScores:
        """Scores of the experts at the rows that a mixture was fitted to, which may be all."""

    def hide_labels(self) -> Iterable[HiddenLabels]:
        """Tasks with a part of the labels hidden in turn: of all rows, or of a sample of them."""


@dataclass(frozen=True)
class Solution:
    """What `solve` found, besides what the task itself holds.

    Attributes
    ----------
    shares, offsets : ndarray of shape (..., N)
        Of the classes among the queries, and the constant part of f they give.
    certainty : ndarray of shape (...)
        Of the shares, 0 to 1.
    mixture : FittedMixture or None
        The one whose logits answer; None where none does.
    combination : Combination
    sharpness : ndarray of shape (..., 2)
        Factors of the two experts' scores, by the accuracy to be expected.
    weights : ndarray of shape (..., 3)
        Factors of the two experts' scores and of the beliefs, by hidden labels.
    hidden : HiddenAnswers or None
        None where no label was hidden.
    """

    shares: Array
    offsets: Array
    certainty: Array
    mixture: FittedMixture | None
    combination: Combination
    sharpness: Array
    weights: Array
    hidden: HiddenAnswers | None = None

    def sharpened(self, factors: Array) -> Self:
        """The solution with its experts' scores times ``factors`` (..., 2)."""
        return replace(self, combination=self.combination.weighted(factors), sharpness=factors)

    def biased(self, biases: Array) -> Self:
        """The solution with ``biases`` (..., N) added to its scores."""
        return replace(self, combination=replace(self.combination, intercept=self.combination.intercept + biases))

    def believing(self, weights: Array) -> Self:
        """The solution with its experts' scores, and the beliefs, times ``weights`` (..., 3)."""
        return replace(self, combination=self.combination.weighted(weights), weights=weights)


def solve(task: Task, settings: Settings, shares: Array, weights: Array | None = None) -> Solution:
    """Go through all steps, with the class ``shares`` (..., N) to begin with.

    The ``weights`` (..., 3) of experts and beliefs are those of hidden labels, unless they are given.
    """
    solution = _fit_experts(task, settings, shares, is_estimated(settings.prior))
    if not settings.answers.answers_jointly:
        return solution
    solution = solution.sharpened(_sharpness(task, solution))
    if weights is None:
        weights, hidden = _weigh_experts(task, settings, solution)
        solution = replace(solution, hidden=hidden)
    solution = solution.believing(weights)
    if settings.meets_shares and task.n_query and np.any(solution.certainty):
        solution = solution.biased(meet_shares(solution.shares, solution.certainty, task.divide(solution)))
    return solution


def _weigh_experts(task: Task, settings: Settings, solution: Solution) -> tuple[Array, HiddenAnswers | None]:
    """Weights (..., 3) of experts and beliefs by labels hidden in turn, and what these rows would be without them.

    Shares and sharpness stay as they were found. Labels are no sample of the queries: the transductive expert answers
    hidden rows without the classes' shares.
    """
    log_shares = np.log(np.maximum(solution.shares, LEAST_SHARE))
    logits, labels, counted, positions = [], [], [], []
    for hidden in task.hide_labels():
        fitted = _fit_experts(hidden.task, settings, solution.shares, estimate=False).sharpened(solution.sharpness)
        scores = hidden.task.expert_scores(fitted)
        of_shares = (fitted.combination.temper[..., None] * log_shares)[..., None, :]
        heard = [scores.transductive - of_shares, scores.inductive]
        if scores.beliefs is not None:
            heard.append(scores.beliefs)
        logits.append(np.take_along_axis(np.stack(heard, axis=-3), hidden.places[..., None, :, None], axis=-2))
        labels.append(hidden.labels)
        counted.append(hidden.weights)
        positions.append(hidden.positions)
    as_they_are = np.ones((*solution.shares.shape[:-1], N_WEIGHTS))
    if not labels:
        return as_they_are, None
    of_all = np.concatenate(logits, axis=-2)
    weights = stack(of_all, np.concatenate(labels, axis=-1), np.concatenate(counted, axis=-1))
    probabilities = softmax((weights[..., None, None] * of_all).sum(axis=-3), axis=-1)
    as_they_are[..., : weights.shape[-1]] = weights
    return as_they_are, HiddenAnswers(np.concatenate(positions, axis=-1), probabilities)


def _fit_experts(task: Task, settings: Settings, shares: Array, estimate: bool) -> Solution:
    """The transductive expert, planes with mixture and graph, beside the regression."""
    n_support, n_classes = task.n_support, task.n_classes
    task.transform()
    n_neighbors = neighbours_in_task(settings.n_neighbors, n_support, n_support + task.n_query, n_classes)
    if n_neighbors:
        task.average_with_neighbours(n_neighbors, neighbour_weight(n_support, n_classes))
    if n_neighbors and settings.answers.uses_graph:
        task.spread_labels()
    task.build_kernel()
    task.hear_beliefs()
    nothing = np.zeros(shares.shape[:-1])
    mixture, certainty = None, nothing
    if settings.needs_mixture:
        mixture, certainty = _find_mixture(task, settings, shares, estimate)
        shares = mixture.shares
    class_offsets = offsets(settings.prior, shares)
    task.follow_path(class_offsets)
    answering = mixture if settings.answers.answers_jointly else None
    combination = settings.answers.combine(task, shares.shape)
    sharpness, weights = np.ones((*nothing.shape, 2)), np.ones((*nothing.shape, N_WEIGHTS))
    if answering is not None:
        task.fit_regression()
    return Solution(shares, class_offsets, certainty, answering, combination, sharpness, weights)


def _sharpness(task: Task, solution: Solution) -> Array:
    """Factors (..., 2) of the experts' scores, whose sum then has the accuracy to be expected for mean probability."""
    if not task.n_query:
        return solution.sharpness
    gram, labels, transductive, inductive, _ = task.expert_scores(solution)
    if not transductive.shape[-2]:
        return solution.sharpness  # each unlabelled row is of the group of a labelled one
    rows_a_class = (task.n_support + task.n_query) / task.n_classes
    picked_a_class = task.n_picked / task.n_classes
    answers = transductive.argmax(axis=-1)
    accuracy = expected_accuracy(gram, labels, answers, task.n_classes, rows_a_class, picked_a_class)
    factors = [match_confidence(transductive, accuracy), WEIGHT_OF_REGRESSION * match_confidence(inductive, accuracy)]
    both = factors[0][..., None, None] * transductive + factors[1][..., None, None] * inductive
    return np.asarray(match_confidence(both, accuracy)[..., None] * np.stack(factors, axis=-1))


def _find_mixture(task: Task, settings: Settings, shares: Array, estimate: bool) -> tuple[FittedMixture, Array]:
    """The mixture that the settings ask for, by which shares are estimated and answers given.

    Also how certain its shares are, (...): given ones entirely, estimated ones where they are found to be equal.
    """
    if not estimate:
        certainty = np.full(shares.shape[:-1], 0.0 if is_estimated(settings.prior) else 1.0)
        return task.fit_mixture(Space.KERNEL, shares, 0.0, 1.0), certainty
    jointly = settings.answers.answers_jointly
    space = space_of_shares(settings, task.n_classes)
    mixture = task.fit_mixture(space, None, EQUAL_ODDS if jointly else EQUAL_ODDS_OF_OFFSETS, 1.0)
    equality = np.asarray(mixture.equality)
    if jointly and space is not Space.KERNEL:
        mixture = task.fit_mixture(Space.KERNEL, mixture.shares, 0.0, np.asarray(mixture.clustered, dtype=np.float64))
    return mixture, equality


def space_of_shares(settings: Settings, n_classes: int) -> Space:
    """Where shares are estimated."""
    if not settings.n_neighbors:
        return Space.SMOOTHED
    return Space.OWN_LENGTHS if n_classes <= FEW_CLASSES else Space.KERNEL
