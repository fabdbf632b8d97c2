"""FS-TMMC on many small tasks at once: chunks of them go through the pipeline in threads without the GIL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from marginshot._lib.threads import map_in_threads, one_blas_thread
from marginshot._lib.validation import check_row_numbers, check_table, check_task_batch
from marginshot._lib.warn import warn_user
from marginshot.batch.inputs import ArrayTasks, TableTasks
from marginshot.batch.task import BatchTask, load_parts
from marginshot.classifier.pipeline import solve
from marginshot.classifier.settings import (
    CalibrationOption,
    KernelOption,
    Lambda2Option,
    PresetOption,
    PriorOption,
    Settings,
    preset_parameters,
)
from marginshot.data.table import FeatureTable
from marginshot.model.calibration import Calibration
from marginshot.model.named_transforms import check_neighbours, make_transform
from marginshot.model.shares import starting_prior
from marginshot.solvers.continuation import stage_tolerances

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

_CHUNK = 16  # tasks a thread holds at once


class _AsPreset:
    """Marks an option that is not given: its value is the preset's."""

    def __repr__(self) -> str:
        return "as the preset says"


AS_PRESET: Any = _AsPreset()


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
    *,
    preset: PresetOption = "paper",
    lambda1: float = AS_PRESET,
    lambda2: Lambda2Option = AS_PRESET,
    gamma1: float = AS_PRESET,
    gamma2: float = AS_PRESET,
    prior: PriorOption = AS_PRESET,
    kernel: KernelOption = AS_PRESET,
    gamma: Literal["scale"] | float = AS_PRESET,
    degree: int = AS_PRESET,
    coef0: float = AS_PRESET,
    n_neighbors: int = AS_PRESET,
    calibration: CalibrationOption = AS_PRESET,
    feature_transform: Any = AS_PRESET,
    tol: float = AS_PRESET,
    max_iter: int = AS_PRESET,
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
    preset : {"printed", "paper", "auto", "balanced"}, default="paper"
        Values of the options that are not given here; see `marginshot.PRESETS`.
    lambda1, lambda2, gamma1, gamma2, prior, kernel, gamma, degree, coef0, n_neighbors, calibration, feature_transform
        As in `TransductiveMaxMarginClassifier`. The transform is fitted to each task, support and query together.
    tol, max_iter
        As in `TransductiveMaxMarginClassifier`.
    n_jobs : int, optional
        Threads; None means 1, −1 all cores.

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
    options = _options(
        preset,
        lambda1=lambda1,
        lambda2=lambda2,
        gamma1=gamma1,
        gamma2=gamma2,
        prior=prior,
        kernel=kernel,
        gamma=gamma,
        degree=degree,
        coef0=coef0,
        n_neighbors=n_neighbors,
        calibration=calibration,
        feature_transform=feature_transform,
        tol=tol,
        max_iter=max_iter,
    )
    support, labels, query = check_task_batch(support, support_labels, query)
    return _solve(ArrayTasks(support, query, labels), labels, options, n_jobs)


def solve_table_tasks(
    table: ArrayLike | FeatureTable,
    support_rows: ArrayLike,
    support_labels: ArrayLike,
    query_rows: ArrayLike,
    *,
    preset: PresetOption = "paper",
    n_jobs: int | None = None,
    **options: Any,
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
    preset, n_jobs, **options
        As in `solve_tasks`.
    """
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise TypeError(f"solve_table_tasks has no option {unknown[0]!r}; it takes {', '.join(sorted(_OPTIONS))}.")
    options = preset_parameters(preset) | options
    if not isinstance(table, FeatureTable):
        table = FeatureTable(check_table(table))
    support, labels, query = check_row_numbers(len(table.rows), support_rows, support_labels, query_rows)
    return _solve(TableTasks(table, support, query, labels), labels, options, n_jobs)


_OPTIONS = frozenset({*Settings.__dataclass_fields__, "feature_transform"})


def _options(preset: str, **given: Any) -> dict[str, Any]:
    """The preset's options, and those given beside it."""
    return preset_parameters(preset) | {name: value for name, value in given.items() if value is not AS_PRESET}


def _solve(tasks: ArrayTasks | TableTasks, labels: Labels, options: dict[str, Any], n_jobs: int | None) -> TaskAnswers:
    transformer = make_transform(options.pop("feature_transform", "cl2n"))
    settings = Settings(**options)
    if not settings.kernel_function.takes_rows:
        raise ValueError('kernel="precomputed" is for TransductiveMaxMarginClassifier; solve_tasks takes features.')
    n_classes = int(labels.max()) + 1
    settings = settings.for_task(n_classes, tasks.query.shape[1])
    shares = starting_prior(settings.prior, n_classes)
    check_neighbours(settings.n_neighbors, transformer)
    load_parts(tasks, transformer, settings, n_classes)
    with one_blas_thread():
        if isinstance(tasks, TableTasks):
            tasks.share(transformer, n_jobs)

        def solve_chunk(chunk: slice) -> tuple[Array, Array]:
            task = BatchTask(tasks, chunk, labels[chunk], n_classes, transformer, settings)
            solution = solve(task, settings, np.tile(shares, (task.n_tasks, 1)))
            return task.query_scores(solution), task.norms

        parts = map_in_threads(solve_chunk, _chunks(len(labels)), n_jobs)
    _warn_unconverged(np.concatenate([norms for _, norms in parts]), settings)
    return TaskAnswers(np.concatenate([scores for scores, _ in parts]), settings.answers)


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
