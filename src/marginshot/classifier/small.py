"""One small task: the whole kernel matrix, and α for every row (the dual)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot.classifier.passes import RowMap
from marginshot.classifier.pipeline import Solution
from marginshot.classifier.predictor import Predictor
from marginshot.classifier.task import OneTask, Problem
from marginshot.data.rows import ArrayRows
from marginshot.model.margin import MarginLoss, one_vs_rest
from marginshot.model.mixture import Mixture
from marginshot.solvers.continuation import follow_path

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class SmallTask(OneTask):
    """A task whose kernel matrix is held in memory."""

    table: ArrayRows

    @property
    def in_memory(self) -> bool:
        """True: the transformed rows are kept."""
        return True

    def small(self, problem: Problem) -> SmallTask:
        """A task of some of the rows."""
        return SmallTask(problem)

    def transform(self) -> None:
        """Fit and apply the feature transform, unless the user gives the kernel matrix."""
        if self.settings.kernel_function.takes_rows:
            super().transform()
        else:
            self.row_map = RowMap()

    def build_kernel(self) -> None:
        """The kernel matrix, its rows and columns in the order of the table."""
        rows, kernel = self.table.X, self.settings.kernel_function
        if kernel.is_named:
            inner = (rows @ rows.T).astype(np.float64)
            squares = np.einsum("ij,ij->i", rows, rows)
            self.kernel = kernel.fitted(inner)
            self.gram = self.kernel.of_inner(inner, squares, squares).astype(np.float64, copy=False)
        else:
            self.kernel = kernel
            self.gram = kernel.matrix(rows, rows if kernel.takes_rows else None)

    def gram_of(self, chosen: Indices) -> Array:
        """A part of the kernel matrix."""
        return self.gram[np.ix_(chosen, chosen)]

    def follow_path(self, class_offsets: Array) -> None:
        """The λ2 sequence on the kernel matrix with the support rows first."""
        unlabelled = np.flatnonzero(self.known.codes(self.n_rows) < 0)
        self.order = np.concatenate((self.known.index, unlabelled))
        settings, labels = self.settings, self.known.labels
        signs, weights = one_vs_rest(labels, self.n_classes, self.problem.weights)
        self.path = follow_path(
            self.gram[np.ix_(self.order, self.order)],
            lambda lambda2: MarginLoss(signs, weights, settings.gamma1, settings.gamma2, lambda2),
            settings.stages,
            n_support=len(labels),
            offsets=class_offsets,
            lambda1=settings.lambda1,
            tol=settings.tol,
            max_iter=settings.max_iter,
            on_iteration=self.problem.monitor,
        )

    def support_margins(self) -> Array:
        """Margins f (n, N) of the labelled rows, from the solver."""
        return self.path.scores[: self.n_support]

    def alphas(self) -> Array:
        """α of each class over the rows of the table, (N, M)."""
        alphas = np.empty((self.n_classes, self.n_rows))
        alphas[:, self.order] = self.path.coef.T
        return alphas

    def predictor(self, solution: Solution) -> Predictor:
        """The planes as an expansion over the rows; with a linear kernel, as vectors in feature space."""
        coef, mixture = self.alphas().T, None
        if isinstance(solution.mixture, Mixture):
            over_rows = np.zeros_like(coef)
            over_rows[self.chosen] = solution.mixture.coef.T
            mixture = (over_rows, solution.mixture.intercept)
        regression: Array | float = 0.0
        if solution.mixture is not None:
            regression = np.zeros_like(coef)
            regression[self.regression_rows] = self.regression_coef
        score_coef, score_intercept = solution.combination.planes(coef, solution.offsets, mixture, regression)
        if self.kernel.is_linear:
            coef, score_coef = self.table.X.T @ coef, self.table.X.T @ score_coef
        return Predictor(
            transformer=self.problem.transformer,
            smoothing=self.smoothing,
            graph=self.graph,
            kernel=self.kernel,
            expansion=None if self.kernel.is_linear or not self.kernel.takes_rows else self.table.X,
            planes=coef,
            offsets=solution.offsets,
            score_coef=score_coef,
            score_intercept=score_intercept,
            graph_scale=float(solution.combination.of_graph),
        )
