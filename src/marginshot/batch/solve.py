"""FS-TMMC on many small tasks at once: kernel matrices, compiled solver, Platt scaling, in threads without the GIL."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from marginshot._lib.threads import map_in_threads, one_blas_thread
from marginshot._lib.validation import check_table_tasks, check_task_batch
from marginshot.batch.inputs import ArrayTasks, TableTasks, kernel_of
from marginshot.classifier.settings import Settings
from marginshot.model.calibration import Calibration
from marginshot.model.graph import uses_graph
from marginshot.model.named_transforms import make_transform
from marginshot.model.neighbours import TaskNeighbours, check_neighbours, neighbour_weight, neighbours_in_task
from marginshot.model.shares import is_estimated, offsets, starting_prior
from marginshot.model.task_mixture import answers_elsewhere, head_start, keeps_lengths, needs_mixture, share_grams
from marginshot.solvers.continuation import stage_tolerances

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Grams = NDArray[np.floating]

_CHUNK = 16  # tasks a thread holds at once
_LEAST_SINGLE_NORM = 1e-5  # gradient norm that single precision still resolves, with rows of unit length


def solve_tasks(
    support: ArrayLike,
    support_labels: ArrayLike,
    query: ArrayLike,
    *,
    table: ArrayLike | None = None,
    feature_transform: Any = "cl2n",
    n_jobs: int | None = None,
    **hyper_parameters: Any,
) -> Array:
    """Scores of the queries of many few-shot tasks under FS-TMMC.

    Each task is solved by itself: its scores do not depend on the other tasks of the batch, nor on the number of
    threads, to the last bit. The first call after installation compiles the solver, says so, and keeps it on disk.

    Parameters
    ----------
    support : array of shape (n_tasks, n_support, n_features)
    support_labels : array of int of shape (n_tasks, n_support)
        Classes 0 … N−1; each occurs in every task, not necessarily equally often.
    query : array of shape (n_tasks, n_query, n_features)
    table : array of shape (n_rows, n_features), optional
        With it, ``support`` (n_tasks, n_support) and ``query`` (n_tasks, n_query) are row numbers of this table: no
        task's features are copied before it is solved, and tasks share the table's inner products.
    feature_transform : {"cl2n", "power", "discriminant", None} or transformer, default="cl2n"
        What is done to the rows of a task, support and query together; see `TransductiveMaxMarginClassifier`.
    n_jobs : int, optional
        Threads; None means 1, −1 all cores.
    **hyper_parameters
        ``lambda1``, ``lambda2``, ``gamma1``, ``gamma2``, ``prior``, ``kernel``, ``gamma``, ``degree``, ``coef0``,
        ``n_neighbors``, ``calibration``, ``tol``, ``max_iter``, as in `TransductiveMaxMarginClassifier`; a whole
        preset is ``**marginshot.PRESETS["auto"]``.

    Returns
    -------
    ndarray of shape (n_tasks, n_query, N)
        The largest is the answer. They are Platt's log-odds of each class, which `marginshot.platt_probabilities` makes
        probabilities; with any other ``calibration`` they are logits.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> centres = 4 * rng.standard_normal((3, 16))
    >>> support = centres + rng.standard_normal((10, 3, 16))                   # ten 3-way 1-shot tasks
    >>> query = np.repeat(centres, 5, axis=0) + rng.standard_normal((10, 15, 16))
    >>> scores = solve_tasks(support, np.tile(np.arange(3), (10, 1)), query)
    >>> scores.shape
    (10, 15, 3)
    >>> bool((scores.argmax(axis=2) == np.repeat(np.arange(3), 5)).all())
    True
    """
    settings = Settings(**hyper_parameters)
    if settings.kernel == "precomputed":
        raise ValueError('kernel="precomputed" is for TransductiveMaxMarginClassifier; solve_tasks takes features.')
    tasks, labels = _open_tasks(support, support_labels, query, table)
    n_classes = int(labels.max()) + 1
    settings = settings.for_task(n_classes, tasks.query.shape[1])
    shares = starting_prior(settings.prior, n_classes)
    transformer = make_transform(feature_transform)
    check_neighbours(settings, transformer)
    _load_solver(_precision(settings))
    if settings.n_neighbors:
        _load_neighbours()
    if needs_mixture(settings):
        _load_mixture()
    if uses_graph(settings):
        _load_graph()
    with one_blas_thread():
        if isinstance(tasks, TableTasks):
            tasks.share(transformer, n_jobs)
        parts = map_in_threads(
            lambda chunk: _solve_chunk(tasks, chunk, labels[chunk], shares, transformer, settings),
            _chunks(len(labels)),
            n_jobs,
        )
    _warn_unconverged(np.concatenate([norms for _, norms in parts]), settings)
    return np.concatenate([scores for scores, _ in parts])


def _open_tasks(
    support: ArrayLike, support_labels: ArrayLike, query: ArrayLike, table: ArrayLike | None
) -> tuple[ArrayTasks | TableTasks, Labels]:
    """The checked tasks, of features or of a table's rows, and their labels (T, n)."""
    if table is None:
        support, labels, query = check_task_batch(support, support_labels, query)
        return ArrayTasks(support, query, labels), labels
    table, support_rows, labels, query_rows = check_table_tasks(table, support, support_labels, query)
    return TableTasks(table, support_rows, query_rows, labels), labels


def _chunks(n_tasks: int) -> Iterator[slice]:
    for start in range(0, n_tasks, _CHUNK):
        yield slice(start, min(start + _CHUNK, n_tasks))


_of_thread = threading.local()


def _load(what: str, smallest_task: Callable[[], Any]) -> None:
    """Compile, or read from numba's cache, what ``smallest_task`` calls; it is told if that takes long."""
    from marginshot._lib.jit import announce_compilation

    started = time.thread_time()
    with announce_compilation(f"{what} for batches of tasks"):
        smallest_task()
    _of_thread.compiling = seconds_compiling() + time.thread_time() - started


def seconds_compiling() -> float:
    """Time this thread has spent so far with compiling, which no task is to be charged for."""
    return getattr(_of_thread, "compiling", 0.0)


@lru_cache
def _load_solver(precision: Any) -> None:
    def solve() -> None:
        labels = np.array([[0, 1]])
        margins, _ = _run_solver(np.eye(2, dtype=precision)[None], labels, np.zeros((1, 2)), Settings())
        _calibrate("platt", margins, labels, None, 0.0)

    _load(f"the solver in {precision.__name__}", solve)


@lru_cache(maxsize=1)
def _load_neighbours() -> None:
    gram = np.eye(2, dtype=np.float32)[None]

    def average() -> None:
        neighbours = TaskNeighbours.find(gram, 1)
        kernel_of(gram, neighbours, 2, Settings(), 2)
        _average_rows(gram, np.ones((1, 2), dtype=np.float32), neighbours, 0.5)

    _load("neighbours inside the kernel", average)


@lru_cache(maxsize=1)
def _load_mixture() -> None:
    gram, labels, hints = np.eye(2, dtype=np.float32)[None], np.array([[0, 1]]), np.zeros((1, 0, 2))
    _load("the mixture", lambda: _fit_mixtures(gram, labels, hints, np.full((1, 2), 0.5), True, 0.0))


@lru_cache(maxsize=1)
def _load_graph() -> None:
    gram = np.eye(2, dtype=np.float32)[None]
    _load("the graph of neighbours", lambda: _spread_labels(gram, TaskNeighbours.find(gram, 1), np.array([[0, 1]]), 2))


def _solve_chunk(
    tasks: ArrayTasks | TableTasks,
    chunk: slice,
    labels: Labels,
    shares: Array,
    transformer: Any,
    settings: Settings,
) -> tuple[Array, Array]:
    """Scores of the queries (T, m, N), and the gradient norms (T, N, stages) at which the solver stopped."""
    n_support, n_classes = labels.shape[1], len(shares)
    inner, lengths = tasks.inner(chunk, transformer, settings.kernel)
    n_neighbors = neighbours_in_task(settings.n_neighbors, n_support, inner.shape[1], n_classes)
    neighbours = TaskNeighbours.find(inner, n_neighbors) if n_neighbors else None
    grams = kernel_of(inner, neighbours, n_support, settings, n_classes)
    task_shares = np.tile(shares, (len(labels), 1))
    hints, graph_weight = np.zeros((len(labels), grams.shape[1] - n_support, n_classes)), np.zeros(len(labels))
    if neighbours is not None and uses_graph(settings):
        all_hints, graph_weight = _spread_labels(inner, neighbours, labels, n_classes)
        hints = all_hints[:, n_support:]
    logits: Array | float = 0.0
    within: Array | None = None
    if needs_mixture(settings):
        if neighbours is not None and keeps_lengths(settings, n_classes):
            source = _average_rows(inner, lengths, neighbours, neighbour_weight(n_support, n_classes))
        else:
            source = share_grams(grams, n_support, n_classes, settings)
        estimate = is_estimated(settings.prior)
        lead = head_start(settings)
        all_logits, task_shares, within = _fit_mixtures(source, labels, hints, task_shares, estimate, lead)
        if answers_elsewhere(settings, n_classes):
            speaks = all_logits.any(axis=(1, 2), keepdims=True)
            all_logits, _, within = _fit_mixtures(grams, labels, hints, task_shares, False, 0.0)
            all_logits *= speaks
        logits = all_logits[:, n_support:]
    margins, norms = _follow_paths(grams, labels, offsets(settings.prior, task_shares), settings)
    calibration = _calibrate(settings.calibration, margins, labels, within, graph_weight)
    scores = calibration.scores(margins[:, n_support:], logits, hints)
    # A query at the mean of the task has no direction: nothing speaks for any class.
    directionless = grams.diagonal(axis1=1, axis2=2)[:, n_support:] == 0
    if directionless.any():
        scores[directionless] = 0.0
    return scores, norms


def _calibrate(
    kind: str, margins: Array, labels: Labels, within: Array | None, graph_weight: Array | float
) -> Calibration:
    """The calibration fitted on the support, first in ``margins`` (T, M, N); ``within``, ``graph_weight`` (T,)."""
    if kind == "softmax":
        return Calibration.fit(kind, margins[:, : labels.shape[1]], labels, None)
    from marginshot.batch.platt_compiled import fit_platt_batch  # imports numba

    slope, intercept = np.empty((2, len(margins), margins.shape[2]))
    fit_platt_batch(margins, labels, slope, intercept)
    return Calibration.from_platt(kind, slope, intercept, labels.shape[1], within, graph_weight)


def _follow_paths(grams: Grams, labels: Labels, task_offsets: Array, settings: Settings) -> tuple[Array, Array]:
    """Scores (T, M, N) of all rows, and gradient norms (T, N, stages).

    Single precision is faster and enough for the usual tolerances; a task that does not converge in it is solved
    again in double precision, whatever the other tasks of the batch do.
    """
    tolerances = stage_tolerances(settings.tol, len(settings.stages))
    if _precision(settings) is np.float64:
        return _run_solver(grams.astype(np.float64), labels, task_offsets, settings)
    scores, norms = _run_solver(grams, labels, task_offsets, settings)
    stalled = ~(norms <= tolerances).all(axis=(1, 2))
    if stalled.any():
        _load_solver(np.float64)
        scores[stalled], norms[stalled] = _run_solver(
            grams[stalled].astype(np.float64), labels[stalled], task_offsets[stalled], settings
        )
    return scores, norms


def _precision(settings: Settings) -> Any:
    """Precision in which the gradient can become as small as the tolerances ask."""
    least = stage_tolerances(settings.tol, len(settings.stages)).min()
    return np.float32 if least >= _LEAST_SINGLE_NORM else np.float64


def _run_solver(grams: Grams, labels: Labels, task_offsets: Array, settings: Settings) -> tuple[Array, Array]:
    """The same, in the precision of ``grams``."""
    from marginshot.batch.paths_compiled import follow_paths  # imports numba

    (n_tasks, n_rows), n_classes = grams.shape[:2], task_offsets.shape[1]
    scores = np.empty((n_tasks, n_rows, n_classes))
    norms = np.empty((n_tasks, n_classes, len(settings.stages)))
    follow_paths(
        grams,
        labels,
        task_offsets,
        np.array(settings.stages),
        float(settings.lambda1),
        float(settings.gamma1),
        float(settings.gamma2),
        stage_tolerances(settings.tol, len(settings.stages)),
        int(settings.max_iter),
        scores,
        norms,
    )
    return scores, norms


def _average_rows(inner: Grams, lengths: Grams, neighbours: TaskNeighbours, weight: float) -> Grams:
    """Inner products (T, M, M) of rows averaged with their neighbours, of their own lengths."""
    from marginshot.batch.neighbours_compiled import average_grams  # imports numba

    averaged = np.empty_like(inner)
    average_grams(inner, lengths, neighbours.nearest, neighbours.counts, weight, averaged)
    return averaged


def _fit_mixtures(
    grams: NDArray[np.float32], labels: Labels, hints: Array, task_shares: Array, estimate: bool, lead: float
) -> tuple[Array, Array, Array]:
    """Logits (T, M, N) of all rows, the classes' shares (T, N), given or estimated, and the variance within (T,)."""
    from marginshot.batch.mixture_compiled import fit_mixtures  # imports numba

    logits, found = np.empty((*grams.shape[:2], task_shares.shape[1])), np.empty_like(task_shares)
    within = np.empty(len(grams))
    by_class = np.ascontiguousarray(hints.transpose(0, 2, 1))
    fit_mixtures(grams, labels, by_class, task_shares, estimate, lead, logits, found, within)
    return logits, found, within


def _spread_labels(inner: Grams, neighbours: TaskNeighbours, labels: Labels, n_classes: int) -> tuple[Array, Array]:
    """The graph's logits (T, M, N) of all rows, and its weight (T,)."""
    from marginshot.batch.graph_compiled import spread_labels  # imports numba

    logits, weights = np.empty((*inner.shape[:2], n_classes)), np.empty(len(inner))
    spread_labels(inner, *neighbours, labels, logits, weights)
    return logits, weights


def _warn_unconverged(norms: Array, settings: Settings) -> None:
    tolerances = stage_tolerances(settings.tol, len(settings.stages))
    missed = np.argwhere(~(norms <= tolerances))  # NaN has not converged
    if len(missed):
        task, c, stage = missed[0]
        warnings.warn(
            f"{len(np.unique(missed[:, 0]))} of {len(norms)} tasks did not converge within "
            f"max_iter={settings.max_iter}; the first is task {task}: class {c}, lambda2={settings.stages[stage]:g}, "
            f"gradient norm {norms[task, c, stage]:.2g} > {tolerances[stage]:g}. Raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )
