"""L-BFGS in function space, all classes of one task at once, in NumPy. Its compiled twin is `lbfgs_compiled.py`.

Vectors carry their dual (see `spaces`), so inner products cost no product with K. In `GramSpace` the gradient of F is
the coefficient vector λ1 α + t, an iteration needs one product with K, and the line search none: it moves along
f + step · Kd. This is far better conditioned than L-BFGS on α with the Euclidean product, whose gradient is
K(λ1 α + t), Eq. (8).

Each class is a problem of its own with its own steps; classes share the products, and drop out once converged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from marginshot.solvers.spaces import Space

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MEMORY = 4  # pairs kept; five save 2 % of the iterations and cost a tenth more each
ARMIJO = 1e-4  # sufficient decrease
CURVATURE = 0.9  # weak Wolfe condition
MAX_TRIALS = 30  # trials of a line search; more means that rounding hides the decrease


class Loss(Protocol):
    """Loss of the scores, one per class, and its derivative."""

    def __call__(self, scores: Array) -> tuple[Array, Array]:
        """(M, C) -> (C,), (M, C)."""

    def of_classes(self, kept: Mask) -> Loss:
        """This loss for some of the classes only."""


@dataclass
class Minimum:
    """Where each class's minimisation ended.

    Attributes
    ----------
    coef : ndarray of shape (P, n_classes)
    scores : ndarray of shape (M, n_classes)
    objective, gradient_norm : ndarray of shape (n_classes,)
    n_iter : ndarray of int of shape (n_classes,)
    """

    coef: Array
    scores: Array
    objective: Array
    gradient_norm: Array
    n_iter: NDArray[np.int64]


@dataclass
class _Point:
    """The current point of the classes still at work."""

    coef: Array
    scores: Array
    norm2: Array  # <coef, coef>
    value: Array
    gradient: Array
    gradient_dual: Array

    def of_classes(self, kept: Mask) -> _Point:
        return _Point(**{name: array[..., kept] for name, array in vars(self).items()})

    def gradient_norm(self) -> Array:
        return np.sqrt(np.maximum(_dot(self.gradient, self.gradient_dual), 0.0))


@dataclass
class _Pair:
    """A step s and the change of gradient y it made, with their duals; ``curvature`` is <s, y>."""

    step: Array
    step_dual: Array
    change: Array
    change_dual: Array
    curvature: Array

    def of_classes(self, kept: Mask) -> _Pair:
        return _Pair(**{name: array[..., kept] for name, array in vars(self).items()})


@dataclass
class _Bracket:
    """Steps known to be too short and too long, and the slope at the former."""

    low: Array
    high: Array
    low_slope: Array


def _dot(a: Array, b: Array) -> Array:
    return np.einsum("ic,ic->c", a, b)


def minimise(
    space: Space,
    loss: Loss,
    coef: Array,
    scores: Array,
    *,
    lambda1: float,
    tol: float,
    max_iter: int,
    on_iteration: Callable[[int, Array], None] | None = None,
) -> Minimum:
    """Minimise λ1/2 |coef|² + loss(scores) for each class, from ``coef`` (P, C) with its ``scores`` (M, C).

    A class has converged when the norm of its gradient, in the geometry of ``space``, is at most ``tol``.
    ``on_iteration`` is called with the number of each iteration and the gradient norms of the classes not yet
    converged.
    """
    n_classes = coef.shape[1]
    point = _start(space, loss, coef, scores, lambda1)
    best = Minimum(coef.copy(), scores.copy(), point.value.copy(), np.zeros(n_classes), np.zeros(n_classes, np.int64))
    active = np.ones(n_classes, dtype=bool)
    pairs: deque[_Pair] = deque(maxlen=MEMORY)
    stalled = np.zeros(n_classes, dtype=bool)
    for iteration in range(max_iter + 1):
        norm = point.gradient_norm()
        if on_iteration is not None:
            on_iteration(iteration, norm)
        finished = (norm <= tol) | stalled | (iteration == max_iter)
        if finished.any():
            _store(best, np.flatnonzero(active)[finished], point.of_classes(finished), norm[finished], iteration)
            active[active] = ~finished
            if not active.any():
                break
            point, loss = point.of_classes(~finished), loss.of_classes(~finished)
            pairs = deque((pair.of_classes(~finished) for pair in pairs), maxlen=MEMORY)
        direction, direction_dual = _quasi_newton_direction(point, pairs)
        point, pair, stalled = _line_search(space, loss, point, direction, direction_dual, lambda1)
        pairs.append(pair)
    return best


def _start(space: Space, loss: Loss, coef: Array, scores: Array, lambda1: float) -> _Point:
    norm2 = _dot(coef, space.dual(coef))
    value, slope = loss(scores)
    gradient = lambda1 * coef + space.pull_back(slope)
    return _Point(coef, scores, norm2, 0.5 * lambda1 * norm2 + value, gradient, space.dual(gradient))


def _store(best: Minimum, classes: NDArray[np.int64], point: _Point, norm: Array, iteration: int) -> None:
    best.coef[:, classes] = point.coef
    best.scores[:, classes] = point.scores
    best.objective[classes] = point.value
    best.gradient_norm[classes] = norm
    best.n_iter[classes] = iteration


def _quasi_newton_direction(point: _Point, pairs: deque[_Pair]) -> tuple[Array, Array]:
    """Two-loop recursion; returns the direction and its dual."""
    direction, dual = -point.gradient, -point.gradient_dual
    if not pairs:
        return direction, dual
    weights = []
    for pair in reversed(pairs):
        weight = _divide(_dot(pair.step_dual, direction), pair.curvature)
        direction = direction - weight * pair.change
        dual = dual - weight * pair.change_dual
        weights.append(weight)
    newest = pairs[-1]
    scale = np.where(newest.curvature > 0, _divide(newest.curvature, _dot(newest.change, newest.change_dual)), 1.0)
    direction, dual = scale * direction, scale * dual
    for pair, weight in zip(pairs, reversed(weights), strict=True):
        correction = weight - _divide(_dot(pair.change_dual, direction), pair.curvature)
        direction = direction + correction * pair.step
        dual = dual + correction * pair.step_dual
    return direction, dual


def _divide(numerator: Array, curvature: Array) -> Array:
    """Quotient, zero where a stalled step left a pair without curvature."""
    return np.divide(numerator, curvature, out=np.zeros_like(numerator), where=curvature > 0)


def _line_search(
    space: Space, loss: Loss, point: _Point, direction: Array, dual: Array, lambda1: float
) -> tuple[_Point, _Pair, Mask]:
    """Move each class to a weak Wolfe point; a class stays where no step lowers its value.

    Only the loss is evaluated: along the line λ1/2 |coef|² is a parabola in the step.
    """
    scores_change = space.scores(direction, dual)
    along, length2 = _dot(point.coef, dual), _dot(direction, dual)
    descent = _dot(point.gradient, dual)
    step = np.ones_like(descent)
    bracket = _Bracket(low=np.zeros_like(descent), high=np.full_like(descent, np.inf), low_slope=descent)
    for left in range(MAX_TRIALS, 0, -1):
        scores = point.scores + step * scores_change
        norm2 = point.norm2 + 2.0 * step * along + step**2 * length2
        loss_value, loss_slope = loss(scores)
        value = 0.5 * lambda1 * norm2 + loss_value
        slope = lambda1 * (along + step * length2) + _dot(loss_slope, scores_change)
        too_long = value > point.value + ARMIJO * step * descent
        too_short = ~too_long & (slope < CURVATURE * descent)
        unsettled = too_long | too_short
        if left == 1 or not unsettled.any():
            break
        step, bracket = _next_trial(step, bracket, slope, too_long, too_short)
        if left == 2:  # the last trial returns to the best one
            step = np.where(unsettled, bracket.low, step)
    stalled = (value > point.value) | (step == 0)
    step = np.where(stalled, 0.0, step)
    coef = point.coef + step * direction
    gradient = np.where(stalled, point.gradient, lambda1 * coef + space.pull_back(loss_slope))
    gradient_dual = space.dual(gradient)
    new = _Point(
        coef=coef,
        scores=np.where(stalled, point.scores, scores),
        norm2=np.where(stalled, point.norm2, norm2),
        value=np.where(stalled, point.value, value),
        gradient=gradient,
        gradient_dual=gradient_dual,
    )
    change, change_dual = gradient - point.gradient, gradient_dual - point.gradient_dual
    pair = _Pair(step * direction, step * dual, change, change_dual, step * _dot(change, dual))
    return new, pair, stalled


def _next_trial(
    step: Array, bracket: _Bracket, slope: Array, too_long: Mask, too_short: Mask
) -> tuple[Array, _Bracket]:
    """Next step to try in each class: the secant's zero of the slope, kept well inside the bracket."""
    rising = slope > bracket.low_slope
    secant = np.divide(bracket.low_slope, bracket.low_slope - slope, out=np.ones_like(slope), where=rising)
    shorter = bracket.low + (step - bracket.low) * np.where(rising, np.clip(secant, 0.1, 0.9), 0.5)
    longer = bracket.low + (step - bracket.low) * np.where(rising, np.clip(secant, 1.5, 10.0), 10.0)
    between = np.where(np.isinf(bracket.high), longer, 0.5 * (step + bracket.high))
    new_bracket = _Bracket(
        low=np.where(too_short, step, bracket.low),
        high=np.where(too_long, step, bracket.high),
        low_slope=np.where(too_short, slope, bracket.low_slope),
    )
    return np.where(too_long, shorter, np.where(too_short, between, step)), new_bracket
