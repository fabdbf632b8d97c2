"""One task of any size: the steps of the pipeline that a small and a large task do alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from marginshot._lib.warn import warn_user
from marginshot.classifier.passes import DividePass, RowMap, column_sums
from marginshot.classifier.pipeline import ALONE, NEIGHBOURS_OF_SHARES, ExpertScores, HiddenLabels, Solution, Space
from marginshot.classifier.predictor import FittedScores, Predictor
from marginshot.classifier.progress import FitMonitor
from marginshot.classifier.settings import Settings
from marginshot.data.labels import Labelled
from marginshot.data.rows import ArrayRows, Rows, Table
from marginshot.model.beliefs import trust_of
from marginshot.model.counts import Divide
from marginshot.model.graph import LabelGraph, Spread
from marginshot.model.mixture import Mixture, believe, fit_mixture
from marginshot.model.named_transforms import name_of
from marginshot.model.neighbour_search import nearest_in_gram
from marginshot.model.neighbours import NeighbourSmoothing, neighbour_weight, neighbours_in_task, smooth_gram
from marginshot.model.platt import Regression, fit_platt
from marginshot.model.primitives import centre_and_scale
from marginshot.model.regression import fit_regression
from marginshot.model.stacking import N_FOLDS, fair_labels, folds_of
from marginshot.model.subsets import SAMPLED_QUERIES, evenly, sample_rows
from marginshot.model.transforms import CentreAndNormalise, differ_in_length, widened
from marginshot.solvers.continuation import Path

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_SAMPLED_ROWS = 2000  # that tell whether rows differ in length alone


@dataclass(frozen=True)
class Problem:
    """What a user asks of `fit`.

    Attributes
    ----------
    table : Table
        Rows as they came.
    known : Labelled
    weights : ndarray of shape (n,)
        What each labelled row counts for.
    groups : ndarray of int of shape (n_rows,) or None
        Rows of one group are one example; None where every row is its own.
    domains : ndarray of int of shape (n_rows,) or None
        Numbered from 0; None where they are to be found.
    picked : ndarray of bool of shape (n,)
        Labelled rows that say nothing of how often answers are right.
    transformer : transformer or None
        Not fitted yet.
    settings : Settings
    monitor : FitMonitor
    n_landmarks : int
        Of an approximated kernel.
    seed : int
        Of every sample of rows.
    beliefs : ndarray of shape (n_rows, N) or None
        What is believed of each row's class, as logarithms; see `marginshot.model.beliefs`.
    is_sample : bool, default=False
        The table is a sample already, of which all rows are used.
    """

    table: Table
    known: Labelled
    weights: Array
    groups: Indices | None
    domains: Indices | None
    picked: NDArray[np.bool_]
    transformer: Any
    settings: Settings
    monitor: FitMonitor
    n_landmarks: int
    seed: int
    beliefs: Array | None = None
    is_sample: bool = False


class OneTask(ABC):
    """A task as the pipeline asks it, its rows in a table."""

    path: Path

    def __init__(self, problem: Problem) -> None:
        self.problem, self.known, self.settings = problem, problem.known, problem.settings
        self.table, self.row_map = problem.table, RowMap()
        self.n_rows = problem.table.shape[0]
        self.n_support, self.n_classes = len(problem.known.index), len(problem.known.classes)
        self.n_query = self.n_rows - self.n_support
        self.n_picked = int(problem.picked.sum())
        self.domains: Indices | None = None
        self.smoothing: NeighbourSmoothing | None = None
        self.graph: LabelGraph | None = None
        self.graph_logits: Array | None = None
        self.trust = 1.0

    @property
    def labels(self) -> Indices:
        """Classes (n,) of the labelled rows."""
        return self.known.labels

    @property
    @abstractmethod
    def in_memory(self) -> bool:
        """Whether the transformed rows are kept as a table of their own."""

    def transform(self) -> None:
        """Fit the feature transform; keep its rows, or remember to apply it to each block."""
        transformer, source = self.problem.transformer, self.problem.table
        drops_lengths = isinstance(transformer, CentreAndNormalise) and transformer.power != 1.0
        if drops_lengths and differ_in_length(widened(source.take(evenly(self.n_rows, _SAMPLED_ROWS)))):
            warn_user(
                f"The {self.n_rows:,} rows differ more in their lengths than in their directions, and {transformer} "
                "drops the lengths; standardise the features first."
            )
        if not self.in_memory:
            fit_on_blocks(transformer, source)
            self.row_map = RowMap(transformer)
            return
        if not isinstance(source, ArrayRows):
            raise ValueError(
                f"feature_transform={name_of(transformer)} needs X in memory; got a {type(source).__name__}. "
                'Set "power" instead.'
            )
        source.accumulate(column_sums)  # raises where X is not finite
        X = widened(source.X)
        if transformer is None:
            rows = X
        elif isinstance(transformer, CentreAndNormalise):
            codes, problem = self.known.codes(self.n_rows), self.problem
            rows, self.lengths = transformer.fit_unit_rows(X, codes, problem.groups, problem.domains)
            self.domains = getattr(transformer, "domains_", None)
        else:
            # A user's transformer does not see the labels: it would take −1 for a class.
            rows = np.asarray(transformer.fit_transform(X))
        self.table = ArrayRows(rows)

    def average_with_neighbours(self, n_neighbors: int, weight: float) -> None:
        """Average each row with its neighbours, and keep both for rows that come later."""
        self.smoothing = NeighbourSmoothing(n_neighbors, weight)
        self.table = ArrayRows(self.smoothing.fit_transform(cast(ArrayRows, self.table).X))

    def spread_labels(self) -> None:
        """Spread the labels over the graph of neighbours."""
        smoothing = cast(NeighbourSmoothing, self.smoothing)
        self.spread = self.spread_over(smoothing)
        self.graph = self.spread.graph()
        self.graph_logits = self.graph.logits_of_fitted(smoothing.filled)

    def spread_over(self, smoothing: NeighbourSmoothing) -> Spread:
        """The labels spread over the rows and neighbours that ``smoothing`` found."""
        known = self.known
        return Spread.fit(smoothing, known.index, known.labels, self.problem.weights, self.n_classes)

    def hear_beliefs(self) -> None:
        """Trust what is believed of the rows as far as labels, but none of rows that were picked, confirm it."""
        problem, known = self.problem, self.known
        if problem.beliefs is not None:
            weights = problem.weights * ~problem.picked
            self.trust = float(trust_of(problem.beliefs[known.index], known.labels, weights))

    def beliefs_of(self, rows: slice | Indices) -> Array | None:
        """Logarithms (c, N) of what is believed of these ``rows`` (c,), times the trust in them."""
        return None if self.problem.beliefs is None else self.trust * self.problem.beliefs[rows]

    def fit_mixture(self, space: Space, shares: Array | None, equal_odds: float, heard: Array | float) -> Mixture:
        """Fit a mixture to a sample of the rows; its coefficients are over the sample, `chosen`."""
        positions, queries = self.sample
        self.chosen = np.concatenate((self.known.index[positions], queries))
        self.chosen_labels = labels = self.known.labels[positions]
        hints = np.zeros((self.n_classes, len(queries)))
        if self.graph_logits is not None:
            hints = np.ascontiguousarray(self.graph_logits[queries].T)
        if (beliefs := self.beliefs_of(queries)) is not None:
            hints += beliefs.T
        mixture = fit_mixture(
            self._gram_in(space, labels),
            labels,
            self.problem.weights[positions],
            hints,
            np.full(self.n_classes, 1.0 / self.n_classes) if shares is None else shares,
            shares is None,
            equal_odds,
            self.n_query,
        )
        return mixture if np.all(heard) else believe(mixture, 0.0, mixture.shares, 0.0)

    def fit_platt(self, regression: Regression) -> tuple[Array, Array]:
        """Slopes and intercepts (N,) of a regression of each class on the margins of the support."""
        return fit_platt(self.support_margins(), self.known.labels, self.problem.weights, *regression)

    def divide(self, solution: Solution) -> Divide:
        """Of the unlabelled rows, a pass over the blocks for each evaluation."""
        scores = self.fitted_scores(self.predictor(solution), solution)

        def divided(biases: Array) -> tuple[Array, Array]:
            counts, derivatives = self.table.accumulate(DividePass(scores, biases, self.known.index))
            return counts, derivatives

        return divided

    @cached_property
    def sample(self) -> tuple[Indices, Indices]:
        """Positions among the labelled rows, and row numbers of queries, that stand for all of them."""
        known, problem = self.known, self.problem
        if problem.is_sample:
            return np.arange(self.n_support), np.flatnonzero(known.codes(self.n_rows) < 0)
        order = np.arange(self.n_rows)
        if isinstance(problem.table, ArrayRows) and self.n_query > SAMPLED_QUERIES:
            order = np.argsort(row_sums(problem.table), kind="stable")
        return sample_rows(known.index, known.labels, self._groups_of(np.arange(self.n_rows)), order, problem.seed)

    def _groups_of(self, rows: Indices) -> Indices:
        """Group of each of these ``rows`` (c,)."""
        groups = self.problem.groups
        return rows if groups is None else groups[rows]

    def fit_regression(self) -> None:
        """Fit the softmax regression to the labelled rows, or to a sample of them."""
        positions, _ = self.sample
        self.regression_rows = self.known.index[positions]
        weights, labels = self.problem.weights[positions], self.known.labels[positions]
        self.regression_coef = fit_regression(self.gram_of(self.regression_rows), labels, weights, self.n_classes)

    def expert_scores(self, solution: Solution) -> ExpertScores:
        """Scores of the experts at the rows that the mixture was fitted to."""
        queries = self.chosen[len(self.chosen_labels) :]
        rows = widened(self.table.take(queries))
        transductive, inductive = (
            self.fitted_scores(self.predictor(one), one)(rows, queries)
            for one in (solution.believing(weights) for weights in ALONE)
        )
        fair = fair_labels(self.chosen_labels, self.problem.picked[self.sample[0]])
        measured = np.concatenate((self.chosen[: len(fair)][fair], queries))
        if self.smoothing is None:
            gram = self.gram_of(measured)
        else:
            stored = self.smoothing.stored(measured)
            gram = stored @ stored.T
        return ExpertScores(gram, self.chosen_labels[fair], transductive, inductive, self.beliefs_of(queries))

    @abstractmethod
    def small(self, problem: Problem) -> OneTask:
        """A small task of the same kind."""

    def hide_labels(self) -> Iterator[HiddenLabels]:
        """Small tasks of a sample of the rows, a third of whose labels is hidden in turn."""
        problem = self.problem
        positions, queries = self.sample
        support, labels, weights = self.known.index[positions], self.known.labels[positions], problem.weights[positions]
        chosen = np.union1d(support, queries)
        places = np.searchsorted(chosen, support)
        picked = problem.picked[positions]
        rows = problem.table.take(chosen)
        if not self.settings.kernel_function.takes_rows:
            rows = rows[:, chosen]
        folds = folds_of(labels, self._groups_of(support), rows[places].sum(axis=1, dtype=np.float64))
        for fold in range(N_FOLDS):
            hidden, kept = folds == fold, folds != fold
            # Rows picked because they were wrong are unlike their class: alone they show how well it is not known.
            counted = hidden & ~picked & np.isin(labels, labels[kept & ~picked])
            if not counted.any() or self.path.interrupted:
                continue
            task = self.small(
                replace(
                    problem,
                    table=ArrayRows(rows),
                    known=Labelled(self.known.classes, places[kept], labels[kept]),
                    weights=weights[kept],
                    picked=picked[kept],
                    groups=self._groups_of(chosen),
                    domains=None if self.domains is None else self.domains[chosen],
                    beliefs=None if problem.beliefs is None else problem.beliefs[chosen],
                    transformer=None if problem.transformer is None else clone(problem.transformer),
                    monitor=FitMonitor(0, None, self.settings.stages, self.n_classes),
                    is_sample=True,
                )
            )
            among_queries = np.searchsorted(task.sample[1], places[hidden])
            yield HiddenLabels(task, among_queries, labels[hidden], (weights * counted)[hidden], positions[hidden])
            if task.path.interrupted:
                self.path = replace(self.path, interrupted=True)

    def fitted_scores(self, predictor: Predictor, solution: Solution) -> FittedScores:
        """Scores of the rows of the task's table."""
        trust = self.trust_in_beliefs(solution)
        return FittedScores(predictor, self.in_memory, self.graph_logits, self.problem.beliefs, trust)

    def trust_in_beliefs(self, solution: Solution) -> float:
        """Factor of the logarithms of beliefs in the scores."""
        return self.trust * float(solution.weights[2])

    def _gram_in(self, space: Space, labels: Indices) -> Array:
        """Inner products of the chosen rows, support first, among which a mixture is fitted."""
        if space is Space.OWN_LENGTHS and self.smoothing is not None:
            rows = self.smoothing.average(self.chosen, self.lengths)
            rows = rows / max(np.abs(rows).max(initial=0.0), np.finfo(rows.dtype).tiny)
            return np.asarray((rows @ rows.T).astype(np.float64))
        gram = self.gram_of(self.chosen)
        if space is not Space.SMOOTHED:
            return gram
        centre_and_scale(gram, 0.0)
        k = neighbours_in_task(NEIGHBOURS_OF_SHARES, len(labels), len(gram), self.n_classes)
        if not k:
            return gram
        return np.asarray(smooth_gram(gram, nearest_in_gram(gram, k), neighbour_weight(len(labels), self.n_classes)))

    @abstractmethod
    def gram_of(self, chosen: Indices) -> Array:
        """Kernel matrix (c, c) of the rows ``chosen`` (c,), which may be changed."""

    @abstractmethod
    def build_kernel(self) -> None:
        """Compare the rows by the kernel."""

    @abstractmethod
    def follow_path(self, class_offsets: Array) -> None:
        """Fit the planes along the growing λ2, with these offsets (N,) of f."""

    @abstractmethod
    def support_margins(self) -> Array:
        """f (n, N) of the labelled rows."""

    @abstractmethod
    def predictor(self, solution: Solution) -> Predictor:
        """What `predict` needs."""


def row_sums(table: ArrayRows) -> Array:
    """Sum of the features of each row, (n_rows,): a number that does not depend on the order of rows."""
    sums = np.empty(table.shape[0])

    def add_up(start: int, block: Rows) -> tuple[Array, ...]:
        sums[start : start + len(block)] = block.sum(axis=1, dtype=np.float64)
        return ()

    table.accumulate(add_up)
    return sums


def fit_on_blocks(transformer: Any, source: Table) -> None:
    """Fit a transformer in the pass that also finds rows which are not finite."""
    if isinstance(transformer, CentreAndNormalise):
        (total,) = source.accumulate(partial(column_sums, prepare=transformer.prepare))
        transformer.mean_ = total / source.shape[0]
        return
    source.accumulate(column_sums)
    if transformer is None:
        return
    if isinstance(source, ArrayRows):
        transformer.fit(source.X)
    elif hasattr(source, "blocks") and hasattr(transformer, "partial_fit"):
        for _, block in source.blocks():
            transformer.partial_fit(block)
    else:
        raise ValueError(
            f"feature_transform={transformer!r} cannot be fitted on blocks of a {type(source).__name__}; use "
            '"cl2n" or "power", or transform X yourself and use None.'
        )
