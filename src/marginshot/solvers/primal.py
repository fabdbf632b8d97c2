"""The λ2 sequence in the primal, for one big task: the unknowns are the planes w in R^D, one column per class.

The solver is `lbfgs.minimise` with the same stages, line search and stopping rule as on a kernel matrix. Here a point
is its own dual and carries no scores. The loss is a function of the planes, and one pass over the rows gives its value
and gradient. Nothing of the size of the rows is kept between passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from marginshot.solvers.continuation import OnIteration, Path, Tell, follow_stages
from marginshot.solvers.lbfgs import Minimum, minimise
from marginshot.solvers.spaces import EuclideanSpace

Array = NDArray[np.float64]
#: (D, C'), classes (C',) -> values (C',) and gradients (D, C') of the loss of these classes' planes.
Evaluate = Callable[[Array, NDArray[np.int64]], tuple[Array, Array]]


class PlaneLoss:
    """Loss of the planes, (D, C) -> (C,), (D, C), evaluated only for classes whose plane has changed.

    A line search goes on until every class has its step; classes that have one are not computed again.
    """

    def __init__(self, evaluate: Evaluate, classes: NDArray[np.int64]) -> None:
        self._evaluate = evaluate
        self._classes = classes
        self._planes = np.full((0, len(classes)), np.nan)
        self._value = np.full(len(classes), np.nan)
        self._gradient = self._planes

    def __call__(self, scores: Array) -> tuple[Array, Array]:
        """Loss of each class and its gradient; the planes stand for their scores."""
        planes = scores
        if len(self._planes) != len(planes):
            self._planes = np.full_like(planes, np.nan)
            self._gradient = np.empty_like(planes)
        moved = (planes != self._planes).any(axis=0)
        if moved.any():
            self._value[moved], self._gradient[:, moved] = self._evaluate(planes[:, moved], self._classes[moved])
            self._planes = planes.copy()
        return self._value.copy(), self._gradient.copy()

    def of_classes(self, kept: NDArray[np.bool_]) -> PlaneLoss:
        """This loss for some of the classes only."""
        loss = PlaneLoss(self._evaluate, self._classes[kept])
        loss._planes, loss._value, loss._gradient = self._planes[:, kept], self._value[kept], self._gradient[:, kept]
        return loss


def follow_primal_path(
    evaluate_at: Callable[[float], Evaluate],
    lambda2: Sequence[float],
    start: Array,
    *,
    lambda1: float,
    tol: float,
    max_iter: int,
    on_iteration: OnIteration | None = None,
) -> Path:
    """The path from the planes ``start`` (D, n_classes); ``evaluate_at(value)`` is the loss with that query weight."""

    def solve(value: float, before: Minimum | None, stage_tol: float, tell: Tell | None) -> Minimum:
        coef = start if before is None else before.coef
        return minimise(
            EuclideanSpace(),
            PlaneLoss(evaluate_at(value), np.arange(coef.shape[1])),
            coef,
            coef,
            lambda1=lambda1,
            tol=stage_tol,
            max_iter=max_iter,
            on_iteration=tell,
        )

    return follow_stages(solve, lambda2, tol, on_iteration)
