"""A chunk of small tasks of one size, as the pipeline asks it. Compiled parts are loaded before the first task."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.batch.inputs import ArrayTasks, TableTasks, inner_products, learn_from_labels
from marginshot.classifier.pipeline import (
    ALONE,
    NEIGHBOURS_OF_SHARES,
    ExpertScores,
    HiddenLabels,
    Solution,
    Space,
    space_of_shares,
)
from marginshot.classifier.settings import Settings
from marginshot.model.beliefs import trust_of
from marginshot.model.counts import Divide, divide_scores
from marginshot.model.neighbours import neighbour_weight, neighbours_among, neighbours_in_task
from marginshot.model.platt import PLATT, Regression
from marginshot.model.regression import fit_regression
from marginshot.model.shares import is_estimated
from marginshot.model.stacking import N_FOLDS, folds_of
from marginshot.model.transforms import CentreAndNormalise, gives_directions
from marginshot.solvers.continuation import stage_tolerances

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Grams = NDArray[np.floating]

_LEAST_SINGLE_NORM = 1e-5  # gradient norm that single precision still resolves, with rows of unit length


@dataclass(frozen=True)
class BatchMixture:
    """Mixtures of some tasks: logits (T, M, N) at all rows, shares (T, N), and the rest of a `Mixture`, each (T,)."""

    logits: Array
    shares: Array
    clustered: Array
    equality: Array


class BatchTask:
    """Some tasks of one size.

    Parameters
    ----------
    plain, lengths : ndarray of shape (T, M, M) and (T, M)
        Inner products of the rows, support first, before a transform learns from labels; and the lengths they had.
    labels : ndarray of int of shape (T, n)
    order : ndarray of shape (T, n)
        A number of each labelled row that does not depend on the order of rows.
    n_classes : int
    transformer : transformer or None
    settings : Settings
    beliefs : ndarray of shape (T, M, N) or None
        What is believed of each row's class, as logarithms.
    """

    def __init__(
        self,
        plain: Grams,
        lengths: Grams,
        labels: Labels,
        order: Array,
        n_classes: int,
        transformer: Any,
        settings: Settings,
        beliefs: Array | None = None,
    ) -> None:
        self.plain, self.plain_lengths, self.labels, self.order = plain, lengths, labels, order
        self.settings, self.given_beliefs = settings, beliefs
        self.transformer, self.n_classes = transformer, n_classes
        self.n_tasks, self.n_support = labels.shape
        self.n_picked = 0
        self.n_query = plain.shape[1] - self.n_support
        self.nearest = np.empty((self.n_tasks, 0, 0), np.int64)
        self.graph_logits: Array | None = None
        self.beliefs: Array | None = None

    def transform(self) -> None:
        """Inner products of the transformed rows, support first, and the lengths the rows had."""
        self.inner, self.lengths = learn_from_labels(
            self.plain.copy(), self.plain_lengths.copy(), self.labels, self.transformer, self.settings.kernel_function
        )
        self.rows = self.inner

    def average_with_neighbours(self, n_neighbors: int, weight: float) -> None:
        """Average each row with its neighbours, inside the inner products."""
        self.nearest, self.weight = find_nearest(self.inner, n_neighbors), weight
        self.rows = smooth(self.inner, self.nearest, weight)

    def spread_labels(self) -> None:
        """Spread the labels over the graph of neighbours."""
        self.graph_logits = spread(self.inner, self.nearest, self.labels, self.n_classes)

    def build_kernel(self) -> None:
        """Kernel matrices (T, M, M) of the rows as they are now."""
        kernel = self.settings.kernel_function
        self.grams = self.rows
        if kernel.is_named:
            squares = np.einsum("tii->ti", self.rows)
            self.grams = kernel.fitted(self.rows).of_inner(self.rows, squares, squares)
            self.grams = np.ascontiguousarray(self.grams, dtype=np.float32)

    def hear_beliefs(self) -> None:
        """Scale what is believed of the rows as far as the labels of each task confirm it."""
        if self.given_beliefs is not None:
            trust = trust_of(self.given_beliefs[:, : self.n_support], self.labels, np.ones(self.labels.shape))
            self.beliefs = trust[:, None, None] * self.given_beliefs

    def fit_mixture(self, space: Space, shares: Array | None, equal_odds: float, heard: Array | float) -> BatchMixture:
        """Fit a mixture to each task."""
        hints = np.zeros((self.n_tasks, self.n_classes, self.n_query))
        if self.graph_logits is not None:
            hints = np.ascontiguousarray(self.graph_logits[:, self.n_support :].transpose(0, 2, 1))
        if self.beliefs is not None:
            hints += self.beliefs[:, self.n_support :].transpose(0, 2, 1)
        return fit_mixtures(self._grams_in(space), self.labels, hints, shares, equal_odds, heard)

    def follow_path(self, class_offsets: Array) -> None:
        """Margins (T, M, N) of all rows, and the gradient norms (T, N, stages) at which the solver stopped."""
        self.margins, self.norms = follow_paths(self.grams, self.labels, class_offsets, self.settings)

    def fit_platt(self, regression: Regression) -> tuple[Array, Array]:
        """Slopes and intercepts (T, N) of a regression of each class on the margins of the support."""
        return fit_platt(self.margins, self.labels, regression)

    def fit_regression(self) -> None:
        """Logits (T, m, N) of the queries under a softmax regression fitted to the support."""
        n = self.n_support
        coef = fit_regression(self.grams[:, :n, :n], self.labels, np.ones(self.labels.shape), self.n_classes)
        self.regression_logits = np.asarray(self.grams[:, n:, :n] @ coef)

    def divide(self, solution: Solution) -> Divide:
        """Divide all queries of each task, as a function of class biases (T, N)."""
        return partial(divide_scores, self.query_scores(solution))

    def expert_scores(self, solution: Solution) -> ExpertScores:
        """Scores of the experts at all rows."""
        transductive, inductive = (self.query_scores(solution.believing(weights)) for weights in ALONE)
        beliefs = None if self.beliefs is None else self.beliefs[:, self.n_support :]
        gram = self.inner if self.nearest.size else self.grams
        return ExpertScores(gram, self.labels, transductive, inductive, beliefs)

    def query_scores(self, solution: Solution) -> Array:
        """Scores of the queries, (T, m, N)."""
        n, combination = self.n_support, solution.combination
        logits = solution.mixture.logits[:, n:] if isinstance(solution.mixture, BatchMixture) else 0.0
        graph_logits = 0.0 if self.graph_logits is None else self.graph_logits[:, n:]
        scores = combination.transductive(self.margins[:, n:], logits, graph_logits)
        if solution.mixture is not None:
            scores += combination.inductive(self.regression_logits)
        if gives_directions(self.transformer):  # a query at the mean of the task has none
            scores[self.grams.diagonal(axis1=1, axis2=2)[:, n:] == 0] = 0.0
        if self.beliefs is not None:
            scores += solution.weights[..., 2, None, None] * self.beliefs[:, n:]
        return scores

    def hide_labels(self) -> Iterator[HiddenLabels]:
        """The tasks with a third of their labels hidden in turn; all hide as many labels at a time."""
        folds = folds_in_tasks(self.labels, self.order)
        for fold in range(N_FOLDS):
            is_hidden = folds == fold
            n_hidden = int(is_hidden[0].sum())
            if not n_hidden:
                continue
            # The rows that keep their label, the queries, then the hidden ones.
            kept, hidden = np.split(np.argsort(is_hidden, axis=1, kind="stable"), [self.n_support - n_hidden], axis=1)
            queries = np.broadcast_to(np.arange(self.n_support, self.plain.shape[1]), (self.n_tasks, self.n_query))
            rows = np.concatenate((kept, queries, hidden), axis=1)
            across = np.arange(self.n_tasks)[:, None]
            task = BatchTask(
                np.ascontiguousarray(self.plain[across[:, :, None], rows[:, :, None], rows[:, None, :]]),
                np.ascontiguousarray(self.plain_lengths[across, rows]),
                self.labels[across, kept],
                self.order[across, kept],
                self.n_classes,
                self.transformer,
                self.settings,
                None if self.given_beliefs is None else self.given_beliefs[across, rows],
            )
            places = np.broadcast_to(self.n_query + np.arange(n_hidden), hidden.shape)
            yield HiddenLabels(task, places, self.labels[across, hidden], np.ones(hidden.shape), hidden)

    def _grams_in(self, space: Space) -> Grams:
        """The kernel matrices (T, M, M) in which a mixture is fitted."""
        if space is Space.OWN_LENGTHS and self.nearest.size:
            return average(self.inner, self.lengths, self.nearest, self.weight)
        if space is not Space.SMOOTHED:
            return self.grams
        unit = self.grams.copy()
        centre(unit)
        n_rows = self.n_support + self.n_query
        k = neighbours_in_task(NEIGHBOURS_OF_SHARES, self.n_support, n_rows, self.n_classes)
        if not k:
            return unit
        return smooth(unit, find_nearest(unit, k), neighbour_weight(self.n_support, self.n_classes))


def folds_in_tasks(labels: Labels, order: Array) -> Labels:
    """Fold (T, n) in which each labelled row is hidden, by ``labels`` and ``order`` (T, n); see `folds_of`."""
    alone = np.arange(labels.shape[1])
    return np.stack([folds_of(own, alone, by) for own, by in zip(labels, order, strict=True)])


def centre(grams: Grams) -> None:
    """Centre kernel matrices (T, M, M) and scale their rows to unit length, in place."""
    from marginshot.batch.compiled import centre_grams  # imports numba

    centre_grams(grams, np.empty(grams.shape[:2], np.float32), 0.0)


def find_nearest(inner: Grams, n_neighbors: int) -> Labels:
    """Places (T, M, k) of the neighbours of unit rows with inner products (T, M, M)."""
    from marginshot.batch.compiled import find_neighbours  # imports numba

    nearest = np.empty((*inner.shape[:2], neighbours_among(n_neighbors, inner.shape[1])), np.int64)
    find_neighbours(inner, nearest)
    return nearest


def smooth(inner: Grams, nearest: Labels, weight: float) -> Grams:
    """Inner products (T, M, M) of rows averaged with their neighbours, centred and of unit length."""
    from marginshot.batch.compiled import smooth_grams  # imports numba

    smoothed = np.empty_like(inner)
    smooth_grams(inner, nearest, weight, smoothed)
    return smoothed


def average(inner: Grams, lengths: Grams, nearest: Labels, weight: float) -> Grams:
    """Inner products (T, M, M) of rows averaged with their neighbours, of their own lengths (T, M)."""
    from marginshot.batch.compiled import average_grams  # imports numba

    averaged = np.empty_like(inner)
    average_grams(inner, lengths, nearest, weight, averaged)
    return averaged


def spread(inner: Grams, nearest: Labels, labels: Labels, n_classes: int) -> Array:
    """The graph's logits (T, M, N) of all rows."""
    from marginshot.batch.compiled import spread_labels  # imports numba

    logits = np.empty((*inner.shape[:2], n_classes))
    spread_labels(inner, nearest, labels, logits)
    return logits


def fit_mixtures(
    grams: Grams, labels: Labels, hints: Array, shares: Array | None, equal_odds: float, heard: Array | float
) -> BatchMixture:
    """A mixture for each task, its logits times ``heard`` (T,); arguments as for `marginshot.model.mixture`."""
    from marginshot.batch import compiled  # imports numba

    n_tasks, n_rows, n_classes = len(grams), grams.shape[1], hints.shape[1]
    given = np.full((n_tasks, n_classes), 1.0 / n_classes) if shares is None else np.ascontiguousarray(shares)
    logits, found = np.empty((n_tasks, n_classes, n_rows)), np.empty((n_tasks, n_classes))
    clustered, equality = np.empty((2, n_tasks))
    written = (logits, found, clustered, equality)
    compiled.fit_mixtures(grams, labels, hints, given, shares is None, equal_odds, *written)
    heard = np.broadcast_to(heard, n_tasks)
    logits *= heard[:, None, None]
    return BatchMixture(logits.transpose(0, 2, 1), found, heard * clustered, equality)


def fit_platt(margins: Array, labels: Labels, regression: Regression) -> tuple[Array, Array]:
    """Slopes and intercepts (T, N), fitted on the support, first in ``margins`` (T, M, N)."""
    from marginshot.batch.compiled import fit_platt_batch  # imports numba

    slope, intercept = np.empty((2, len(margins), margins.shape[2]))
    fit_platt_batch(margins, labels, *regression, slope, intercept)
    return slope, intercept


def follow_paths(grams: Grams, labels: Labels, class_offsets: Array, settings: Settings) -> tuple[Array, Array]:
    """Margins (T, M, N) and gradient norms (T, N, stages) of tasks with kernel matrices (T, M, M).

    Single precision is faster and enough for the usual tolerances. A task that does not converge in it is solved again
    in double precision, whatever the other tasks of the batch do.
    """
    precision = precision_for(settings)
    margins, norms = run_solver(grams.astype(precision, copy=False), labels, class_offsets, settings)
    stalled = ~(norms <= stage_tolerances(settings.tol, len(settings.stages))).all(axis=(1, 2))
    if stalled.any() and precision is np.float32:
        _load_solver(np.float64)
        margins[stalled], norms[stalled] = run_solver(
            grams[stalled].astype(np.float64), labels[stalled], class_offsets[stalled], settings
        )
    return margins, norms


def run_solver(grams: Grams, labels: Labels, class_offsets: Array, settings: Settings) -> tuple[Array, Array]:
    """Margins (T, M, N) and gradient norms (T, N, stages), in the precision of ``grams``."""
    from marginshot.batch import paths_compiled  # imports numba

    (n_tasks, n_rows), n_classes = grams.shape[:2], class_offsets.shape[1]
    margins = np.empty((n_tasks, n_rows, n_classes))
    norms = np.empty((n_tasks, n_classes, len(settings.stages)))
    paths_compiled.follow_paths(
        grams,
        labels,
        class_offsets,
        np.array(settings.stages),
        float(settings.lambda1),
        float(settings.gamma1),
        float(settings.gamma2),
        stage_tolerances(settings.tol, len(settings.stages)),
        int(settings.max_iter),
        margins,
        norms,
    )
    return margins, norms


def precision_for(settings: Settings) -> Any:
    """Precision in which the gradient can become as small as the tolerances ask."""
    least = stage_tolerances(settings.tol, len(settings.stages)).min()
    return np.float32 if least >= _LEAST_SINGLE_NORM else np.float64


def load_parts(tasks: ArrayTasks | TableTasks, transformer: Any, settings: Settings, n_classes: int) -> None:
    """Compile, or read from numba's cache, every part that tasks of so many classes need.

    Rows of a table are multiplied once for all tasks; the few tasks that centre their own compile that when they come.
    """
    if isinstance(tasks, ArrayTasks) and gives_directions(transformer):
        _load_rows(tasks.precision)
    _load_solver(precision_for(settings))
    space = space_of_shares(settings, n_classes) if is_estimated(settings.prior) else Space.KERNEL
    if settings.n_neighbors or space is Space.SMOOTHED:
        _load_neighbours()
    if space is Space.OWN_LENGTHS:
        _load_own_lengths()
    if space is Space.SMOOTHED:
        _load_centring()
    if settings.needs_mixture:
        _load_mixture()
    if settings.answers.uses_graph:
        _load_graph()


_of_thread = threading.local()


def seconds_compiling() -> float:
    """Time this thread has spent so far with compiling, which no task is to be charged for."""
    return getattr(_of_thread, "compiling", 0.0)


def _load(what: str, smallest_task: Callable[[], Any]) -> None:
    """Compile, or read from numba's cache, what ``smallest_task`` calls; announce it if that takes long."""
    from marginshot._lib.jit import announce_compilation

    started = time.thread_time()
    with announce_compilation(f"{what} for batches of tasks"):
        smallest_task()
    _of_thread.compiling = seconds_compiling() + time.thread_time() - started


@lru_cache
def _load_rows(precision: Any) -> None:
    features, labels = np.eye(2, dtype=precision)[None], np.array([[0, 1]])
    transform = CentreAndNormalise()
    _load("rows of tasks", lambda: inner_products(features, features, labels, transform, Settings().kernel_function))


@lru_cache
def _load_solver(precision: Any) -> None:
    labels = np.array([[0, 1]])

    def solve() -> None:
        margins, _ = run_solver(np.eye(2, dtype=precision)[None], labels, np.zeros((1, 2)), Settings())
        fit_platt(margins, labels, PLATT)

    _load(f"the solver in {precision.__name__}", solve)


@lru_cache(maxsize=1)
def _load_neighbours() -> None:
    gram = np.eye(4, dtype=np.float32)[None]
    _load("neighbours inside the kernel", lambda: smooth(gram, find_nearest(gram, 1), 0.5))


@lru_cache(maxsize=1)
def _load_own_lengths() -> None:
    gram = np.eye(4, dtype=np.float32)[None]
    _load("shares of few classes", lambda: average(gram, np.ones((1, 4), np.float32), find_nearest(gram, 1), 0.5))


@lru_cache(maxsize=1)
def _load_centring() -> None:
    _load("shares by smoothed rows", lambda: centre(np.eye(4, dtype=np.float32)[None]))


@lru_cache(maxsize=1)
def _load_mixture() -> None:
    gram, labels, hints = np.eye(2, dtype=np.float32)[None], np.array([[0, 1]]), np.zeros((1, 2, 0))
    _load("the mixture", lambda: fit_mixtures(gram, labels, hints, None, 0.0, 1.0))


@lru_cache(maxsize=1)
def _load_graph() -> None:
    gram = np.eye(4, dtype=np.float32)[None]
    _load("the graph of neighbours", lambda: spread(gram, find_nearest(gram, 1), np.array([[0, 1]]), 2))
