"""One big task on one machine: `fit` in the primal, on blocks of rows.

The kernel matrix of M rows has M² entries; the planes have D. From about a thousand rows on the planes are cheaper,
and the objective, a sum over rows, is evaluated block by block. Nothing of the size of X is copied, but with
`n_neighbors` and with the discriminant transform, where the rows they make are a table of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from numbers import Integral
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from marginshot.classifier.passes import QueryPass, RowMap, SupportPass, VariancePass, column_sums
from marginshot.classifier.progress import FitMonitor, warn_interrupted
from marginshot.classifier.settings import Settings
from marginshot.data.labels import Labelled, encode_labels
from marginshot.data.rows import ArrayRows, ParquetRows, Rows, strips
from marginshot.model.calibration import Calibration, probabilities_of
from marginshot.model.discriminant import DiscriminantTransform
from marginshot.model.graph import LabelGraph, spread_labels
from marginshot.model.kernels import KernelFunction
from marginshot.model.margin import MarginLoss, one_vs_rest
from marginshot.model.mixture import Mixture
from marginshot.model.named_transforms import fit_rows, make_transform
from marginshot.model.neighbours import NeighbourSmoothing, check_neighbours
from marginshot.model.shares import offsets, starting_prior
from marginshot.model.subsets import evenly, sample_rows
from marginshot.model.task_mixture import find_mixture, keeps_lengths, needs_mixture
from marginshot.model.transforms import CentreAndNormalise, widened
from marginshot.solvers.continuation import Path
from marginshot.solvers.primal import Evaluate, follow_primal_path

if TYPE_CHECKING:
    from marginshot.classifier.distributed import DaskRows
    from marginshot.classifier.estimator import TransductiveMaxMarginClassifier as Classifier

    Table = ArrayRows | ParquetRows | DaskRows

Array = NDArray[np.float64]

# Below this many rows the kernel matrix is small and its answer comes with dual coefficients.
LEAST_ROWS = 1_000
# The exact kernel matrix is kept for other kernels than the linear one up to here: 200 MB in double precision.
EXACT_KERNEL_ROWS = 5_000
# Iterations of a whole λ2 sequence, for the comparison of costs.
_TYPICAL_ITERATIONS = 100
# A table of kernel features up to this size is computed once and kept; a larger one is computed in every pass.
_KEPT_BYTES = 2 * 2**30
# `label_distributions_` is left out where it would be larger than this and than a tenth of X.
_DISTRIBUTIONS_BYTES = 256 * 2**20

SOLVERS = ("auto", "dual", "primal")


def as_source(X: Any) -> Table | None:
    """X as a table to be read in blocks, or None for what is small or has to be converted first."""
    if isinstance(X, ParquetRows):
        return X
    if is_dask(X):
        from marginshot.classifier.distributed import DaskRows

        return DaskRows(X)
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in (np.float16, np.float32, np.float64):
        return ArrayRows(X) if len(X) >= LEAST_ROWS and X.shape[1] else None
    return None


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array; asked without importing Dask."""
    return type(X).__module__.startswith("dask.array") and hasattr(X, "to_delayed")


def read_labels(source: Table, y: Any) -> Labelled:
    """The labelled rows of ``y`` (n_rows,); beside Dask blocks it is read where they are."""
    if isinstance(source, ArrayRows | ParquetRows):
        return Labelled.from_codes(*encode_labels(y, n_rows=source.shape[0]))
    return source.read_labels(y)


def check_options(estimator: Classifier) -> None:
    """Raise ValueError for an option of large fits that means nothing."""
    if estimator.solver not in SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(SOLVERS)}; got {estimator.solver!r}.")
    landmarks = estimator.n_landmarks
    if isinstance(landmarks, bool) or not isinstance(landmarks, Integral) or landmarks < 2:
        raise ValueError(f"n_landmarks must be a whole number of at least 2; got {landmarks!r}.")
    if estimator.callback is not None and not callable(estimator.callback):
        raise ValueError(f"callback must be a callable or None; got {estimator.callback!r}.")


def lazy_on_dask(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of the classifier answer a Dask array with a Dask array, computed where the blocks are."""

    @wraps(method)
    def wrapper(estimator: Classifier, X: Any) -> Any:
        check_is_fitted(estimator)
        if not is_dask(X):
            return method(estimator, X)
        from marginshot.classifier.distributed import map_rows

        return map_rows(estimator, method.__name__, X)

    return wrapper


def chooses_primal(estimator: Classifier, source: Table, n_classes: int) -> bool:
    """Whether the planes are the cheaper unknowns, or the only possible ones, or asked for."""
    possible = estimator.kernel in ("linear", "rbf", "poly") if isinstance(estimator.kernel, str) else False
    blocks_only = not isinstance(source, ArrayRows)
    if blocks_only and estimator.n_neighbors:
        instead = ["n_neighbors=0"]
        if estimator.calibration == "graph":
            instead.append('calibration="mixture"')
        if estimator.feature_transform == "discriminant":
            instead.append('feature_transform="power"')
        raise ValueError(
            f"n_neighbors={estimator.n_neighbors} needs X in memory; got a {type(source).__name__}. "
            f"Set {', '.join(instead)}."
        )
    if estimator.solver == "primal" or blocks_only:
        if not possible:
            raise ValueError(
                f"kernel={estimator.kernel!r} needs the whole kernel matrix, which solver={estimator.solver!r} on a "
                f"{type(source).__name__} never builds; use linear, rbf or poly."
            )
        if estimator.solver == "dual":
            raise ValueError('solver="dual" needs X in memory; pass an array, or use solver="auto".')
        return True
    if estimator.solver == "dual" or not possible:
        return False
    n_rows, n_features = source.shape
    if estimator.kernel != "linear":
        return n_rows > EXACT_KERNEL_ROWS
    # Products: M² D for the kernel matrix and M² C an iteration, against 2 M D C an iteration.
    work = n_classes * _TYPICAL_ITERATIONS
    return n_rows >= LEAST_ROWS and n_rows * (n_features + work) > 2 * n_features * work


def fit(estimator: Classifier, source: Table, known: Labelled, settings: Settings) -> None:
    """Set every learned attribute of ``estimator`` from the rows of ``source``.

    Nothing is set if it fails. Ctrl-C leaves the last complete stage; a second one leaves it without transduction.
    """
    transformer = make_transform(estimator.feature_transform)
    check_neighbours(settings, transformer)
    rows, row_map, lengths = _transform(transformer, source, known, settings)
    smoothing = NeighbourSmoothing.of_task(settings.n_neighbors, source.shape[0], known)
    kernel_function, averaged = None, None
    if smoothing is not None:
        rows = ArrayRows(smoothing.fit_transform(cast(ArrayRows, rows).X))
        if keeps_lengths(settings, len(known.classes)):
            averaged = partial(smoothing.average, lengths=lengths)
    graph, hints = spread_labels(smoothing, known.index, known.labels, len(known.classes), settings)
    table, table_map = rows, row_map
    if estimator.kernel != "linear":
        row_map, kernel_function = _approximate_kernel(row_map, rows, known.index, settings, estimator.n_landmarks)
        table, table_map = _keep_kernel_features(rows, row_map)
    monitor = FitMonitor(estimator.verbose, estimator.callback, settings.stages, len(known.classes))
    solution = _Problem(table, table_map, known, settings, graph, hints, averaged).solve(monitor)
    estimator.__dict__.update(_learned(solution, row_map, kernel_function, known))
    estimator._transformer, estimator._smoothing, estimator._graph = transformer, smoothing, graph
    if solution.path.interrupted:
        warn_interrupted(settings.stages, solution.path.objective.shape[1], stacklevel=3)
    else:
        estimator._warn_unconverged(solution.path, settings)
    _set_transduction(estimator, rows, known, hints, transformed=rows is not source)


def _learned(
    solution: _Solution, row_map: RowMap, kernel_function: KernelFunction | None, known: Labelled
) -> dict[str, Any]:
    """The attributes behind `predict`. Kernel planes become an expansion over the landmarks."""
    path = solution.path
    learned: dict[str, Any] = {
        "classes_": known.classes,
        "prior_": solution.shares,
        "intercept_": solution.intercept,
        "objective_": path.objective,
        "n_iter_": path.n_iter.sum(axis=1),
        "solver_": "primal",
        "_score_intercept": solution.score_intercept,
        "_graph_scale": solution.graph_scale,
        "_kernel_function": kernel_function,
        "_rows": None,
    }
    if kernel_function is None:
        return learned | {"coef_": path.coef.T.copy(), "_score_coef": solution.score_coef}
    nystroem = row_map.nystroem
    return learned | {
        "dual_coef_": path.coef.T @ nystroem.normalization_,
        "_score_coef": nystroem.normalization_.T @ solution.score_coef,
        "_rows": nystroem.components_,
    }


def map_blocks(source: Table, of_block: Callable[[Rows], Array], n_columns: int) -> Array:
    """What ``of_block`` makes of each block's rows, (n_rows, n_columns); raises where X is not finite."""
    values = np.empty((source.shape[0], n_columns))

    def work(start: int, block: Rows) -> tuple[Array, ...]:
        column_sums(start, block)
        for first, strip in strips(block):
            values[start + first : start + first + len(strip)] = of_block(widened(strip))
        return ()

    source.accumulate(work)
    return values


def _set_transduction(
    estimator: Classifier, source: Table, known: Labelled, hints: Array | None, *, transformed: bool
) -> None:
    """Label every row; on Dask blocks only when asked for, where they are.

    ``hints`` (n_rows, n_classes) are the graph's logits, where there is one; ``transformed`` says that the rows are
    those the planes live among already.
    """
    if not isinstance(source, ArrayRows | ParquetRows):
        estimator.transduction_, estimator.label_distributions_ = source.label(estimator, known)
        return
    n_rows, n_classes = source.shape[0], len(known.classes)
    codes = np.empty(n_rows, dtype=np.int32)
    n_bytes = 4 * n_rows * n_classes
    kept = n_bytes <= max(_DISTRIBUTIONS_BYTES, n_rows * source.shape[1] * source.dtype.itemsize // 10)
    distributions: Rows | None = np.empty((n_rows, n_classes), dtype=np.float32) if kept else None

    def work(start: int, block: Rows) -> tuple[Array, ...]:
        for first, strip in strips(block):
            part = slice(start + first, start + first + len(strip))
            rows = widened(strip)
            if transformed:
                scores = estimator._scores_of(rows, 0.0 if hints is None else hints[part])
            else:
                scores = estimator._scores_of(*estimator._transformed(rows))
            codes[part] = scores.argmax(axis=1)
            if distributions is not None:
                distributions[part] = probabilities_of(estimator.calibration, scores)
        return ()

    source.accumulate(work)
    codes[known.index] = known.labels
    estimator.transduction_ = known.classes[codes]
    if distributions is not None:
        distributions[known.index] = np.eye(n_classes)[known.labels]
        estimator.label_distributions_ = distributions  # in single precision


def _transform(
    transformer: Any, source: Table, known: Labelled, settings: Settings
) -> tuple[Table, RowMap, NDArray[np.floating]]:
    """Fit the transformer: a table, what is to be done to its rows, and the lengths they had if nothing is any more."""
    if not settings.n_neighbors and not isinstance(transformer, DiscriminantTransform):
        _fit_transformer(transformer, source)
        return source, RowMap(transformer), np.ones(0)
    if not isinstance(source, ArrayRows):
        raise ValueError(
            f'feature_transform="discriminant" needs X in memory; got a {type(source).__name__}. Set "power" instead.'
        )
    source.accumulate(column_sums)
    rows, lengths = fit_rows(transformer, widened(source.X), known.codes(source.shape[0]))
    return ArrayRows(rows), RowMap(), lengths


def _fit_transformer(transformer: Any, source: Table) -> None:
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
    elif isinstance(source, ParquetRows) and hasattr(transformer, "partial_fit"):
        for _, block in source.blocks():
            transformer.partial_fit(block)
    else:
        raise ValueError(
            f"feature_transform={transformer!r} cannot be fitted on blocks of a {type(source).__name__}; use "
            '"cl2n" or "power", or transform X yourself and use None.'
        )


def _approximate_kernel(
    row_map: RowMap, source: Table, support: NDArray[np.int64], settings: Settings, n_landmarks: int
) -> tuple[RowMap, KernelFunction]:
    """Nystroem features of an "rbf" or "poly" kernel; the landmarks are at most half support rows."""
    from sklearn.kernel_approximation import Nystroem

    n_rows = source.shape[0]
    gamma: Any = settings.gamma
    if gamma == "scale":
        total, squares = source.accumulate(VariancePass(row_map))
        variance = float(squares[0] / n_rows - np.sum((total / n_rows) ** 2))
        gamma = 1.0 / variance if variance > 0 else 1.0
    labelled = support[evenly(len(support), n_landmarks // 2)]
    others = np.setdiff1d(np.arange(n_rows), labelled, assume_unique=True)
    others = others[evenly(len(others), n_landmarks - len(labelled))]
    landmarks = row_map(source.take(np.sort(np.concatenate((labelled, others))))).astype(np.float64)
    function = KernelFunction(str(settings.kernel), float(gamma), settings.degree, settings.coef0)
    approximation = Nystroem(
        kernel=function.kind,
        gamma=function.gamma,
        degree=function.degree if function.kind == "poly" else None,
        coef0=function.coef0 if function.kind == "poly" else None,
        n_components=len(landmarks),
        random_state=0,
    ).fit(landmarks)
    return RowMap(row_map.transformer, approximation), function


def _keep_kernel_features(source: Table, row_map: RowMap) -> tuple[Table, RowMap]:
    """The table of kernel features, where it is small enough to keep, else the rows and the map to apply to them."""
    n_rows, width = source.shape[0], len(row_map.nystroem.components_)
    if n_rows * width * 4 > _KEPT_BYTES or not isinstance(source, ArrayRows | ParquetRows):
        return source, row_map
    features: Rows = np.empty((n_rows, width), dtype=np.float32)

    def work(start: int, block: Rows) -> tuple[Array, ...]:
        for first, strip in strips(block):
            features[start + first : start + first + len(strip)] = row_map(strip)
        return ()

    source.accumulate(work)
    return ArrayRows(features), RowMap()


@dataclass(frozen=True)
class _Solution:
    path: Path
    shares: Array
    intercept: Array
    score_coef: Array
    score_intercept: Array
    graph_scale: float


class _Problem:
    """The objective of one big task and its solution; see `marginshot.model.margin` for the formula."""

    def __init__(
        self,
        table: Table,
        row_map: RowMap,
        known: Labelled,
        settings: Settings,
        graph: LabelGraph | None,
        hints: Array | None,
        averaged: Callable[[NDArray[np.int64]], NDArray[np.floating]] | None,
    ) -> None:
        self._averaged = averaged
        self._table, self._row_map, self._known, self._settings = table, row_map, known, settings
        self._graph_weight, self._hints = 0.0 if graph is None else graph.weight, hints
        self._support = ArrayRows(table.take(known.index))
        self._n_query = table.shape[0] - len(known.index)
        self._signs, self._weights = one_vs_rest(known.labels, len(known.classes))

    def solve(self, monitor: FitMonitor) -> _Solution:
        """The λ2 sequence, with the shares first estimated where the prior says so."""
        prior = self._settings.prior
        shares = starting_prior(prior, len(self._known.classes))
        mixture = None
        if needs_mixture(self._settings):
            mixture = self._find_mixture(shares)
            shares = mixture.shares
        intercept = offsets(prior, shares)
        path = self._follow(self._settings.stages, intercept, monitor)
        margins = self._margins(self._support.X, path.coef, intercept)
        kind = self._settings.calibration
        calibration = Calibration.fit(kind, margins, self._known.labels, mixture, self._graph_weight)
        planes = calibration.planes(path.coef, intercept, mixture)
        return _Solution(path, shares, intercept, *planes, float(calibration.of_graph))

    def _find_mixture(self, shares: Array) -> Mixture:
        """A mixture whose planes are (P, N), as those of f are."""
        positions, queries = sample_rows(self._known.index, self._known.labels, self._table.shape[0])
        rows = self._row_map(np.concatenate((self._support.X[positions], self._table.take(queries))))
        gram = (rows @ rows.T).astype(np.float64)
        hints = None if self._hints is None else self._hints[queries]
        chosen = np.concatenate((self._known.index[positions], queries))
        averaged = None if self._averaged is None else self._averaged(chosen)
        n_query = self._table.shape[0] - len(self._known.index)
        mixture = find_mixture(gram, self._known.labels[positions], shares, self._settings, hints, averaged, n_query)
        return replace(mixture, coef=rows.T @ mixture.coef)

    def _margins(self, block: Rows, planes: Array, intercept: Array) -> Array:
        parts = [self._row_map(strip) @ planes for _, strip in strips(block)]
        return np.concatenate([np.zeros((0, len(intercept))), *parts]) + intercept

    def _follow(self, stages: Sequence[float], intercept: Array, monitor: FitMonitor | None = None) -> Path:
        settings = self._settings
        return follow_primal_path(
            lambda value: self._evaluate_at(value, intercept),
            stages,
            np.zeros((self._row_map(self._support.X[:1]).shape[1], len(intercept))),
            lambda1=settings.lambda1,
            tol=settings.tol,
            max_iter=settings.max_iter,
            on_iteration=monitor,
        )

    def _evaluate_at(self, lambda2: float, intercept: Array) -> Evaluate:
        settings, nothing = self._settings, np.zeros((0, len(intercept)))
        hinge = MarginLoss(self._signs, self._weights, settings.gamma1, settings.gamma2, 0.0)
        bump = MarginLoss(nothing, nothing, settings.gamma1, settings.gamma2, lambda2)

        def evaluate(planes: Array, classes: NDArray[np.int64]) -> tuple[Array, Array]:
            kept = np.isin(np.arange(len(intercept)), classes)
            common = (self._row_map, planes, intercept[kept])
            value, gradient = self._support.accumulate(SupportPass(*common, hinge.of_classes(kept)))
            if lambda2 and self._n_query:
                query_pass = QueryPass(*common, bump.of_classes(kept), self._known.index, self._n_query)
                query_value, query_gradient = self._table.accumulate(query_pass)
                value, gradient = value + query_value, gradient + query_gradient
            return value, gradient

        return evaluate
