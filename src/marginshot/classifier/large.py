"""One big task: `fit` in the primal, on blocks of rows.

The kernel matrix of M rows has M² entries; the planes have D. From about a thousand rows on the planes are cheaper, and
the objective, a sum over rows, is evaluated block by block. X is not copied, except with `n_neighbors` and with the
discriminant transform, which keep the rows they make in a second table.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot.classifier.passes import QueryPass, RowMap, SupportPass, VariancePass
from marginshot.classifier.pipeline import Solution
from marginshot.classifier.predictor import Predictor
from marginshot.classifier.settings import Settings
from marginshot.classifier.small import SmallTask
from marginshot.classifier.task import OneTask, Problem
from marginshot.data.rows import ArrayRows, ParquetRows, Rows, Table, map_blocks, strips
from marginshot.model.kernels import Kernel
from marginshot.model.margin import MarginLoss, one_vs_rest
from marginshot.model.mixture import Mixture
from marginshot.model.subsets import evenly
from marginshot.solvers.primal import Evaluate, follow_primal_path

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

# Below this many rows the kernel matrix is small and its answer comes with dual coefficients.
LEAST_ROWS = 1_000
# The exact kernel matrix is kept for other kernels than the linear one up to here: 200 MB in double precision.
EXACT_KERNEL_ROWS = 5_000
# Iterations of a whole λ2 sequence, for the comparison of costs.
_TYPICAL_ITERATIONS = 100
# A table of kernel features up to this size is computed once and kept; a larger one is computed in every pass.
_KEPT_BYTES = 2 * 2**30

SOLVERS = ("auto", "dual", "primal")


def chooses_primal(solver: str, settings: Settings, source: Table, n_classes: int) -> bool:
    """Whether to solve for the planes: because they are cheaper, or the only possible unknowns, or asked for."""
    possible = settings.kernel_function.is_named
    blocks_only = not isinstance(source, ArrayRows)
    if blocks_only and settings.n_neighbors:
        instead = ["n_neighbors=0"]
        if settings.answers.uses_graph:
            instead.append('calibration="mixture"')
        if getattr(settings.make_transformer(), "learns_from_labels", False):
            instead.append('feature_transform="power"')
        raise ValueError(
            f"n_neighbors={settings.n_neighbors} needs X in memory; got a {type(source).__name__}. "
            f"Set {', '.join(instead)}."
        )
    if solver == "primal" or blocks_only:
        if not possible:
            raise ValueError(
                f"kernel={settings.kernel!r} needs the whole kernel matrix, which solver={solver!r} on a "
                f"{type(source).__name__} never builds; use linear, rbf or poly."
            )
        if solver == "dual":
            raise ValueError('solver="dual" needs X in memory; pass an array, or use solver="auto".')
        return True
    if solver == "dual" or not possible:
        return False
    n_rows, n_features = source.shape
    if not settings.kernel_function.is_linear:
        return n_rows > EXACT_KERNEL_ROWS
    # Products: M² D for the kernel matrix and M² C an iteration, against 2 M D C an iteration.
    work = n_classes * _TYPICAL_ITERATIONS
    return n_rows >= LEAST_ROWS and n_rows * (n_features + work) > 2 * n_features * work


class LargeTask(OneTask):
    """A task whose unknowns are the planes; see `marginshot.model.margin` for the objective."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.kernel: Kernel = self.settings.kernel_function

    @property
    def in_memory(self) -> bool:
        """Whether transformed rows are kept: they are averaged with neighbours, or their transform uses labels."""
        return bool(self.settings.n_neighbors) or getattr(self.problem.transformer, "learns_from_labels", False)

    def build_kernel(self) -> None:
        """Features among which an "rbf" or "poly" kernel is linear, approximately: scikit-learn's Nystroem."""
        self.planes_table, self.planes_map = self.table, self.row_map
        if not self.kernel.is_linear:
            self._approximate_kernel()
        self.support = ArrayRows(self.planes_table.take(self.known.index))

    def gram_of(self, chosen: Indices) -> Array:
        """Inner products (c, c) of the rows ``chosen`` (c,) in the space of the planes."""
        features = self.features_of(chosen)
        return np.asarray((features @ features.T).astype(np.float64))

    def features_of(self, chosen: Indices) -> Rows:
        """Features (c, P) of the rows ``chosen`` (c,) in the space of the planes."""
        order = np.argsort(chosen, kind="stable")
        sorted_rows = self.planes_map(self.planes_table.take(chosen[order]))
        features = np.empty_like(sorted_rows)
        features[order] = sorted_rows
        return features

    def small(self, problem: Problem) -> SmallTask:
        """A small task of some of the rows."""
        return SmallTask(problem)

    def follow_path(self, class_offsets: Array) -> None:
        """The λ2 sequence on the planes, a pass over the blocks for each evaluation."""
        settings = self.settings
        self.class_offsets = class_offsets
        self.signs, self.weights = one_vs_rest(self.known.labels, self.n_classes, self.problem.weights)
        self.path = follow_primal_path(
            self._evaluate_at,
            settings.stages,
            self.first_planes(),
            lambda1=settings.lambda1,
            tol=settings.tol,
            max_iter=settings.max_iter,
            on_iteration=self.problem.monitor,
        )

    def first_planes(self) -> Array:
        """Planes (P, N) from which the λ2 sequence starts."""
        return np.zeros((self.planes_map(self.support.X[:1]).shape[1], self.n_classes))

    def support_margins(self) -> Array:
        """Margins f (n, N) of the labelled rows under the planes."""
        parts = [self.planes_map(strip) @ self.path.coef for _, strip in strips(self.support.X)]
        return np.concatenate([np.zeros((0, self.n_classes)), *parts]) + self.class_offsets

    def predictor(self, solution: Solution) -> Predictor:
        """Planes; those of an approximated kernel become an expansion over the landmarks."""
        coef, mixture, regression = self.path.coef, None, np.zeros_like(self.path.coef)
        if isinstance(solution.mixture, Mixture):
            # A mixture that answers was fitted in the planes' own space, to these rows.
            mixture = (self.features_of(self.chosen).T @ solution.mixture.coef.T, solution.mixture.intercept)
            regression = self.features_of(self.regression_rows).T @ self.regression_coef
        score_coef, score_intercept = solution.combination.planes(coef, solution.offsets, mixture, regression)
        nystroem = self.planes_map.nystroem if self.kernel_map is None else self.kernel_map.nystroem
        if nystroem is not None:
            coef, score_coef = nystroem.normalization_.T @ coef, nystroem.normalization_.T @ score_coef
        return Predictor(
            transformer=self.problem.transformer,
            smoothing=self.smoothing,
            graph=self.graph,
            kernel=self.kernel,
            expansion=None if nystroem is None else nystroem.components_,
            planes=coef,
            offsets=solution.offsets,
            score_coef=score_coef,
            score_intercept=score_intercept,
            graph_scale=float(solution.combination.of_graph),
        )

    kernel_map: RowMap | None = None  # the map to kernel features, where their table is kept

    def _evaluate_at(self, lambda2: float) -> Evaluate:
        settings, nothing = self.settings, np.zeros((0, self.n_classes))
        hinge = MarginLoss(self.signs, self.weights, settings.gamma1, settings.gamma2, 0.0)
        bump = MarginLoss(nothing, nothing, settings.gamma1, settings.gamma2, lambda2)

        def evaluate(planes: Array, classes: Indices) -> tuple[Array, Array]:
            kept = np.isin(np.arange(self.n_classes), classes)
            common = (self.planes_map, planes, self.class_offsets[kept])
            value, gradient = self.support.accumulate(SupportPass(*common, hinge.of_classes(kept)))
            if lambda2 and self.n_query:
                query_pass = QueryPass(*common, bump.of_classes(kept), self.known.index, self.n_query)
                query_value, query_gradient = self.planes_table.accumulate(query_pass)
                value, gradient = value + query_value, gradient + query_gradient
            return value, gradient

        return evaluate

    def _approximate_kernel(self) -> None:
        """Nystroem features of the kernel; the landmarks are at most half support rows."""
        from sklearn.kernel_approximation import Nystroem

        total, squares = self.table.accumulate(VariancePass(self.row_map))
        variance = float(squares[0] / self.n_rows - np.sum((total / self.n_rows) ** 2))
        self.kernel = self.settings.kernel_function.fitted_to_variance(variance)
        n_landmarks, seed = self.problem.n_landmarks, self.problem.seed
        labelled = self.known.index[evenly(self.n_support, n_landmarks // 2, seed)]
        others = np.setdiff1d(np.arange(self.n_rows), labelled, assume_unique=True)
        others = others[evenly(len(others), n_landmarks - len(labelled), seed)]
        landmarks = self.row_map(self.table.take(np.sort(np.concatenate((labelled, others))))).astype(np.float64)
        approximation = Nystroem(n_components=len(landmarks), random_state=seed, **self.kernel.approximation())
        self.planes_map = RowMap(self.row_map.transformer, approximation.fit(landmarks))
        if self.n_rows * len(landmarks) * 4 <= _KEPT_BYTES and isinstance(self.table, ArrayRows | ParquetRows):
            self.kernel_map = self.planes_map
            features: Rows = np.empty((self.n_rows, len(landmarks)), dtype=np.float32)
            map_blocks(self.table, self.kernel_map, features)
            self.planes_table, self.planes_map = ArrayRows(features), RowMap()
