"""The λ2 sequence in the primal, for one big task: the unknowns are the planes w in R^D, one column per class.

The solver is `lbfgs.minimise` with the same stages, line search and stopping rule as on a kernel matrix. Here a point
is its own dual and carries no scores: the loss is a function of the planes, and a pass over the rows gives its value
and its gradient at once, so that nothing of the size of the rows is kept between passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginshot.solvers.continuation import OnIteration, stack_stages, stage_tolerances
from marginshot.solvers.lbfgs import Minimum, minimise

Array = NDArray[np.float64]
#: (D, C'), classes (C',) -> values (C',) and gradients (D, C') of the loss of these classes' planes.
Evaluate = Callable[[Array, NDArray[np.int64]], tuple[Array, Array]]


class EuclideanSpace:
    """R^D: a plane is its own dual, and stands for its scores."""

    def pull_back(self, slope: Array) -> Array:
        """The loss hands out gradients already."""
        return slope

    def dual(self, coef: Array) -> Array:
        """The plane itself."""
        return coef

    def scores(self, coef: Array, dual: Array) -> Array:
        """The plane itself."""
        return coef


class PlaneLoss:
    """Loss of the planes, (D, C) -> (C,), (D, C), evaluated for those classes only whose plane has changed.

    A line search tries steps until every class is content; the classes that are need not be computed again.
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
        """The same loss for some of the classes."""
        loss = PlaneLoss(self._evaluate, self._classes[kept])
        loss._planes, loss._value, loss._gradient = self._planes[:, kept], self._value[kept], self._gradient[:, kept]
        return loss


@dataclass(frozen=True)
class PrimalPath:
    """The end of the λ2 sequence, and how each stage went.

    Attributes
    ----------
    coef : ndarray of shape (D, n_classes)
        The planes.
    objective, gradient_norm : ndarray of shape (n_classes, n_stages)
    n_iter : ndarray of int of shape (n_classes, n_stages)
    interrupted : bool
        Ctrl-C came before the last stage ended; only the stages before are here.
    """

    coef: Array
    objective: Array
    gradient_norm: Array
    n_iter: NDArray[np.int64]
    interrupted: bool


def follow_primal_path(
    evaluate_at: Callable[[float], Evaluate],
    lambda2: Sequence[float],
    start: Array,
    *,
    lambda1: float,
    tol: float,
    max_iter: int,
    on_iteration: OnIteration | None = None,
) -> PrimalPath:
    """Solve every stage of ``lambda2`` from the planes ``start`` (D, n_classes).

    ``evaluate_at(value)`` computes the loss with that query weight. Ctrl-C ends the path after its last complete stage,
    if there is one.
    """
    stages: list[Minimum] = []
    interrupted = False
    try:
        for index, (value, stage_tol) in enumerate(zip(lambda2, stage_tolerances(tol, len(lambda2)), strict=True)):
            coef = stages[-1].coef if stages else start
            stages.append(
                minimise(
                    EuclideanSpace(),
                    PlaneLoss(evaluate_at(value), np.arange(coef.shape[1])),
                    coef,
                    coef,
                    lambda1=lambda1,
                    tol=stage_tol,
                    max_iter=max_iter,
                    on_iteration=None if on_iteration is None else on_iteration(index),
                )
            )
    except KeyboardInterrupt:
        if not stages:
            raise
        interrupted = True
    return PrimalPath(stages[-1].coef, **stack_stages(stages), interrupted=interrupted)
