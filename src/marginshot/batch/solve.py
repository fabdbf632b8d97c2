"""FS-TMMC on many small tasks at once: chunks of them go through the pipeline in threads without the GIL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from marginshot._lib.threads import count_jobs, map_in_threads, one_blas_thread
from marginshot._lib.validation import check_beliefs, check_row_numbers, check_table, check_task_batch
from marginshot._lib.warn import warn_user
from marginshot.batch.inputs import ArrayTasks, TableTasks
from marginshot.batch.task import BatchTask, folds_in_tasks, load_parts
from marginshot.classifier.pipeline import solve
from marginshot.classifier.settings import PresetOption, Settings, as_settings
from marginshot.data.table import FeatureTable
from marginshot.model.beliefs import log_beliefs
from marginshot.model.calibration import Calibration
from marginshot.model.shares import starting_prior
from marginshot.model.stacking import N_FOLDS
from marginshot.solvers.continuation import stage_tolerances

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_CHUNK = 32  # tasks a thread holds at once


@dataclass(frozen=True, eq=False)
class TaskAnswers:
    """Answers to the queries of many tasks. ``np.asarray(answers)`` is the array of scores.

    Attributes
    ----------
    scores : ndarray of shape (n_tasks, n_query, N)
        The largest is the answer: Platt's log-odds of each class, or with another calibration logits.
    """

    scores: Array
    calibration: Calibration

    @property
    def labels(self) -> Labels:
        """The class of each query, (n_tasks, n_query)."""
        return np.asarray(self.scores.argmax(axis=2))

    @property
    def probabilities(self) -> Array:
        """The probability of each class, (n_tasks, n_query, N)."""
        return self.calibration.probabilities(self.scores)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.scores, dtype=dtype, copy=copy)


def solve_tasks(
    support: ArrayLike,
    support_labels: ArrayLike,
    query: ArrayLike,
    settings: Settings | PresetOption = "auto",
    *,
    prior: ArrayLike | None = None,
    support_prior: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> TaskAnswers:
    """Answers to the queries of many few-shot tasks under FS-TMMC.

    Each task is solved by itself: its scores do not depend on the other tasks of the batch, nor on the number of
    threads, to the last bit. The first call after installation compiles the solver, says so, and keeps it on disk.

    Parameters
    ----------
    support : array of shape (n_tasks, n_support, n_features)
    support_labels : array of int of shape (n_tasks, n_support)
        Classes 0 … N−1; each occurs in every task, not necessarily equally often.
    query : array of shape (n_tasks, n_query, n_features)
    settings : Settings or {"printed", "paper", "auto", "balanced"}, default="auto"
        Hyper-parameters, or the name of a preset: ``Settings.from_preset("paper", lambda1=0.1)``. The feature transform
        is fitted to each task, support and query together.
    prior, support_prior : array of shape (n_tasks, n_query, N) and (n_tasks, n_support, N), optional
        Beliefs, at least 0, about the class of each row, as ``class_prior`` of `TransductiveMaxMarginClassifier.fit`.
        Without those about the support, which judges them, the others are trusted as they are.
    n_jobs : int or None, default=None
        Threads; None means as many as BLAS is set to use (``OMP_NUM_THREADS``), −1 all cores.

    Returns
    -------
    TaskAnswers
        ``scores``, ``labels`` and ``probabilities`` of every query.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> centres = 4 * rng.standard_normal((3, 16))
    >>> support = centres + rng.standard_normal((10, 3, 16))                   # ten 3-way 1-shot tasks
    >>> query = np.repeat(centres, 5, axis=0) + rng.standard_normal((10, 15, 16))
    >>> answers = solve_tasks(support, np.tile(np.arange(3), (10, 1)), query)
    >>> answers.scores.shape
    (10, 15, 3)
    >>> bool((answers.labels == np.repeat(np.arange(3), 5)).all())
    True
    """
    support, labels, query = check_task_batch(support, support_labels, query)
    beliefs = _beliefs_of_rows(prior, support_prior, labels, query.shape[1])
    return _solve(ArrayTasks(support, query, labels), labels, as_settings(settings), n_jobs, beliefs)


def solve_table_tasks(
    table: ArrayLike | FeatureTable,
    support_rows: ArrayLike,
    support_labels: ArrayLike,
    query_rows: ArrayLike,
    settings: Settings | PresetOption = "auto",
    *,
    n_jobs: int | None = None,
) -> TaskAnswers:
    """Answers to the queries of many few-shot tasks over one table of features.

    No task's features are copied before it is solved, and tasks share what depends on the table alone: up to 4096 rows
    all inner products. For several calls over one table give a `FeatureTable`: what they share is kept between them.

    Parameters
    ----------
    table : array of shape (n_rows, n_features), or FeatureTable
    support_rows : array of int of shape (n_tasks, n_support)
        Row numbers of the table.
    support_labels : array of int of shape (n_tasks, n_support)
        Classes 0 … N−1; each occurs in every task.
    query_rows : array of int of shape (n_tasks, n_query)
        Row numbers of the table.
    settings, n_jobs
        As in `solve_tasks`.
    """
    if not isinstance(table, FeatureTable):
        table = FeatureTable(check_table(table))
    support, labels, query = check_row_numbers(len(table.rows), support_rows, support_labels, query_rows)
    return _solve(TableTasks(table, support, query, labels), labels, as_settings(settings), n_jobs)


def _beliefs_of_rows(
    prior: ArrayLike | None, support_prior: ArrayLike | None, labels: Labels, n_query: int
) -> Array | None:
    """Logarithms (T, M, N) of the beliefs about all rows, support first; None where none are given."""
    if prior is None and support_prior is None:
        return None
    logs = np.zeros((len(labels), labels.shape[1] + n_query, int(labels.max()) + 1))
    parts = {"support_prior": (support_prior, logs[:, : labels.shape[1]]), "prior": (prior, logs[:, labels.shape[1] :])}
    for name, (given, written) in parts.items():
        beliefs = check_beliefs(name, given, written.shape)
        if beliefs is not None:
            written[:] = log_beliefs(beliefs)
    return logs


def _solve(
    tasks: ArrayTasks | TableTasks,
    labels: Labels,
    settings: Settings,
    n_jobs: int | None,
    beliefs: Array | None = None,
) -> TaskAnswers:
    if not settings.kernel_function.takes_rows:
        raise ValueError('kernel="precomputed" is for TransductiveMaxMarginClassifier; solve_tasks takes features.')
    n_classes = int(labels.max()) + 1
    shares = starting_prior(settings.prior, n_classes)
    transformer, n_jobs = settings.make_transformer(), count_jobs(n_jobs)
    load_parts(tasks, transformer, settings, n_classes)
    with one_blas_thread():
        if isinstance(tasks, TableTasks):
            tasks.share(transformer, n_jobs)

        def solve_chunk(chunk: slice) -> tuple[Array, Array]:
            plain, lengths = tasks.inner(chunk, transformer, settings.kernel_function)
            own, order = labels[chunk], tasks.support_sums(chunk)
            scores = np.empty((len(own), tasks.query.shape[1], n_classes))
            norms = np.empty((len(own), n_classes, len(settings.stages)))
            for alike in _alike(own, order, n_classes):
                task = BatchTask(
                    plain[alike],
                    lengths[alike],
                    own[alike],
                    order[alike],
                    n_classes,
                    transformer,
                    settings,
                    None if beliefs is None else beliefs[chunk][alike],
                )
                solution = solve(task, settings, np.tile(shares, (task.n_tasks, 1)))
                scores[alike], norms[alike] = task.query_scores(solution), task.norms
            return scores, norms

        parts = map_in_threads(solve_chunk, _chunks(len(labels)), n_jobs)
    _warn_unconverged(np.concatenate([norms for _, norms in parts]), settings)
    return TaskAnswers(np.concatenate([scores for scores, _ in parts]), settings.answers)


def _alike(labels: Labels, order: Array, n_classes: int) -> Iterator[NDArray[np.bool_]]:
    """Tasks (T,) with as many labels of each class, of which as many are hidden at a time.

    ``labels`` and ``order`` have shape (T, n). Where classes have unequal numbers of labels, the order of the rows
    decides how many each third has.
    """
    counts = (labels[..., None] == np.arange(n_classes)).sum(axis=1)
    if (counts != counts[:, :1]).any():
        folds = folds_in_tasks(labels, order)
        counts = np.concatenate((counts, (folds[..., None] == np.arange(N_FOLDS)).sum(axis=1)), axis=1)
    _, kinds = np.unique(counts, axis=0, return_inverse=True)
    for kind in range(int(kinds.max(initial=-1)) + 1):
        yield kinds.ravel() == kind


def _chunks(n_tasks: int) -> Iterator[slice]:
    for start in range(0, n_tasks, _CHUNK):
        yield slice(start, min(start + _CHUNK, n_tasks))


def _warn_unconverged(norms: Array, settings: Settings) -> None:
    tolerances = stage_tolerances(settings.tol, len(settings.stages))
    missed = np.argwhere(~(norms <= tolerances))  # NaN has not converged
    if len(missed):
        task, c, stage = missed[0]
        warn_user(
            f"{len(np.unique(missed[:, 0]))} of {len(norms)} tasks did not converge within "
            f"max_iter={settings.max_iter}; the first is task {task}: class {c}, lambda2={settings.stages[stage]:g}, "
            f"gradient norm {norms[task, c, stage]:.2g} > {tolerances[stage]:g}. Raise max_iter or tol.",
            ConvergenceWarning,
        )
