"""The method, step by step: the one module that decides what happens in which order.

    features → transform → neighbours → graph of neighbours → kernel → mixture and class shares → planes → combination
    → counts, as far as they are certain → sharpness

`solve` asks a task for each step. A small task (`small.py`), a large one (`large.py`) and a batch of small ones
(`marginshot.batch.solve`) do the same steps by other means. Arrays of a batch have a leading axis of tasks, written
(...) here; those of one task have none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from marginshot.classifier.settings import Settings
from marginshot.model.agreement import sharpening
from marginshot.model.calibration import Combination, Evidence
from marginshot.model.counts import Divide, meet_shares
from marginshot.model.mixture import FEW_CLASSES
from marginshot.model.neighbours import neighbour_weight, neighbours_in_task
from marginshot.model.platt import Regression
from marginshot.model.shares import EQUAL_ODDS, EQUAL_ODDS_OF_OFFSETS, is_estimated, offsets

Array = NDArray[np.float64]

NEIGHBOURS_OF_SHARES = 8  # that rows are averaged with for the estimate of shares, where planes average with none


class Space(Enum):
    """Among which rows a mixture is fitted."""

    KERNEL = auto()
    """Those of the planes."""
    SMOOTHED = auto()
    """Those of the planes, averaged with their neighbours: clusters show more clearly."""
    OWN_LENGTHS = auto()
    """Averaged rows of their own lengths.

    Of few classes one may hold nearly all rows. The task's mean then lies in its midst, and rows scaled to unit length
    from there point anywhere.
    """


class FittedMixture(Protocol):
    """What `solve` reads of a mixture: shares (..., N); the rest, as in `marginshot.model.mixture`, (...)."""

    @property
    def shares(self) -> Array: ...  # noqa: D102
    @property
    def within(self) -> Array | float: ...  # noqa: D102
    @property
    def trust(self) -> Array | float: ...  # noqa: D102
    @property
    def temperature(self) -> Array | float: ...  # noqa: D102
    @property
    def equality(self) -> Array | float: ...  # noqa: D102


class Task(Protocol):
    """A task, or a batch of tasks of one size, that does each step when asked."""

    n_support: int
    n_query: int
    n_classes: int

    @property
    def labels(self) -> NDArray[np.int64]:
        """Classes (..., n) of the support."""

    def transform(self) -> None:
        """Fit the feature transform and apply it."""

    def average_with_neighbours(self, n_neighbors: int, weight: float) -> None:
        """Find each row's neighbours and average it with them."""

    def spread_labels(self) -> Array | float:
        """Spread the labels over the graph of neighbours; returns the weight ω (...) of its logits."""

    def build_kernel(self) -> None:
        """Compare the rows by the kernel."""

    def fit_mixture(self, space: Space, shares: Array | None, equal_odds: float, heard: Array | float) -> FittedMixture:
        """Fit a mixture, with ``shares`` (..., N) or, for None, estimated ones.

        ``heard`` (...) is 0 where its logits are to be silent, else 1.
        """

    def follow_path(self, class_offsets: Array) -> None:
        """Fit the planes along the growing λ2, with these offsets (..., N) of f."""

    def fit_platt(self, regression: Regression) -> tuple[Array, Array]:
        """Slopes and intercepts, each (..., N), of a regression of each class on the margins of the support."""

    def query_margins(self) -> Array:
        """f (..., m, N) of the queries, or of some of them."""

    def divide(self, solution: Solution) -> Divide:
        """How the scores of a solution divide the queries among the classes, as a function of biases (..., N)."""

    def answered_rows(self, solution: Solution) -> AnsweredRows:
        """Rows that a mixture was fitted to, which may be all."""


class AnsweredRows(NamedTuple):
    """Rows of a task, support first, after the answers.

    Attributes
    ----------
    gram : ndarray of shape (..., M, M)
        Their inner products, before they were averaged with neighbours.
    labels : ndarray of int of shape (..., n)
        Classes of those with a label.
    scores : ndarray of shape (..., m, N)
        Of the others.
    """

    gram: NDArray[np.floating]
    labels: NDArray[np.int64]
    scores: Array


@dataclass(frozen=True)
class Solution:
    """What `solve` found, besides what the task itself holds.

    Attributes
    ----------
    shares, offsets : ndarray of shape (..., N)
        Of the classes among the queries, and the constant part of f they give.
    mixture : FittedMixture or None
        The one whose logits answer; None where none does.
    combination : Combination
    """

    shares: Array
    offsets: Array
    mixture: FittedMixture | None
    combination: Combination


def solve(task: Task, settings: Settings, shares: Array) -> Solution:
    """Go through all steps, with the class ``shares`` (..., N) to begin with."""
    n_support, n_classes = task.n_support, task.n_classes
    task.transform()
    n_neighbors = neighbours_in_task(settings.n_neighbors, n_support, n_support + task.n_query, n_classes)
    if n_neighbors:
        task.average_with_neighbours(n_neighbors, neighbour_weight(n_support, n_classes))
    nothing = np.zeros(shares.shape[:-1])
    omega = task.spread_labels() if n_neighbors and settings.answers.uses_graph else nothing
    task.build_kernel()
    mixture, certainty = _find_mixture(task, settings, shares) if settings.needs_mixture else (None, nothing)
    if mixture is not None:
        shares = mixture.shares
    class_offsets = offsets(settings.prior, shares)
    task.follow_path(class_offsets)
    answering = mixture if settings.answers.answers_jointly else None
    within, trust, temperature = nothing + 1.0, nothing, nothing + 1.0
    if answering is not None:
        within, trust, temperature = map(np.asarray, (answering.within, answering.trust, answering.temperature))
    evidence = Evidence(n_support, n_classes, within, trust, temperature, np.asarray(omega))
    combination = settings.answers.combine(task, evidence)
    solution = Solution(shares, class_offsets, answering, combination)
    if settings.meets_shares and task.n_query and np.any(certainty):
        biases = meet_shares(shares, certainty, task.divide(solution))
        combination = replace(combination, intercept=combination.intercept + biases)
        solution = replace(solution, combination=combination)
    if np.any(trust) and task.n_query:
        rows_a_class = (n_support + task.n_query) / n_classes
        factor = np.where(trust > 0.0, sharpening(*task.answered_rows(solution), rows_a_class), 1.0)
        solution = replace(solution, combination=combination.scaled(factor))
    return solution


def _find_mixture(task: Task, settings: Settings, shares: Array) -> tuple[FittedMixture, Array]:
    """The mixture that the settings ask for, by which shares are estimated and answers given.

    Also how certain its shares are, (...): given ones entirely, estimated ones where they are found to be equal.
    """
    if not is_estimated(settings.prior):
        return task.fit_mixture(Space.KERNEL, shares, 0.0, 1.0), np.ones(shares.shape[:-1])
    jointly = settings.answers.answers_jointly
    space = space_of_shares(settings, task.n_classes)
    mixture = task.fit_mixture(space, None, EQUAL_ODDS if jointly else EQUAL_ODDS_OF_OFFSETS, 1.0)
    equality = np.asarray(mixture.equality)
    if jointly and space is not Space.KERNEL:
        mixture = task.fit_mixture(Space.KERNEL, mixture.shares, 0.0, np.sign(np.asarray(mixture.trust)))
    return mixture, equality


def space_of_shares(settings: Settings, n_classes: int) -> Space:
    """Where shares are estimated."""
    if not settings.n_neighbors:
        return Space.SMOOTHED
    return Space.OWN_LENGTHS if n_classes <= FEW_CLASSES else Space.KERNEL
