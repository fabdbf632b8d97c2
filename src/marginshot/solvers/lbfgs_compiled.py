"""L-BFGS in function space for one class of one small task, compiled. Its NumPy twin is `lbfgs.py`.

Directions are coefficient vectors that carry their image under the Gram matrix K, and lengths are measured by
<a, b> = aᵀKb. The gradient of F in this geometry is the coefficient vector λ1 α + t, so an iteration needs one product
with K (the image of the new gradient); the line search moves along f + step · Kd and needs none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._jit import leaf
from marginshot.solvers.lbfgs import ARMIJO, CURVATURE, MAX_TRIALS, MEMORY

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Array = NDArray[np.float64]
Loss = Callable[[Vector, Any, Vector], float]
Minimise = Callable[..., tuple[float, int, float]]


@leaf
def dot(a: Vector, b: Vector) -> float:
    """Euclidean inner product of (M,) and (M,)."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@leaf
def multiply(gram: Matrix, vector: Vector, out: Vector) -> None:
    """``out = gram @ vector`` for a symmetric ``gram``: rows are added, so every load is contiguous."""
    size = vector.shape[0]
    out[:] = 0.0
    blocked = size - size % 4
    for j in range(0, blocked, 4):
        v0, v1, v2, v3 = vector[j], vector[j + 1], vector[j + 2], vector[j + 3]
        row0, row1, row2, row3 = gram[j], gram[j + 1], gram[j + 2], gram[j + 3]
        for i in range(size):
            out[i] += v0 * row0[i] + v1 * row1[i] + v2 * row2[i] + v3 * row3[i]
    for j in range(blocked, size):
        v0 = vector[j]
        row0 = gram[j]
        for i in range(size):
            out[i] += v0 * row0[i]


@leaf
def _quasi_newton_direction(
    gradient: Vector,
    gradient_image: Vector,
    steps: Array,
    changes: Array,
    curvatures: Vector,
    n_pairs: int,
    newest: int,
    direction: Array,
) -> None:
    """Two-loop recursion. ``steps``, ``changes`` (MEMORY, 2, M) and ``direction`` (2, M) carry their images."""
    size = gradient.shape[0]
    weights = np.empty(MEMORY)
    coef, image = direction[0], direction[1]
    for i in range(size):
        coef[i] = -gradient[i]
        image[i] = -gradient_image[i]
    if n_pairs == 0:
        return
    for age in range(n_pairs):
        k = (newest - age) % MEMORY
        weight = dot(steps[k, 1], coef) / curvatures[k]
        weights[k] = weight
        for i in range(size):
            coef[i] -= weight * changes[k, 0, i]
            image[i] -= weight * changes[k, 1, i]
    scale = curvatures[newest] / dot(changes[newest, 0], changes[newest, 1])
    for i in range(size):
        coef[i] *= scale
        image[i] *= scale
    for age in range(n_pairs - 1, -1, -1):
        k = (newest - age) % MEMORY
        weight = weights[k] - dot(changes[k, 1], coef) / curvatures[k]
        for i in range(size):
            coef[i] += weight * steps[k, 0, i]
            image[i] += weight * steps[k, 1, i]


@leaf
def _next_trial(step: float, low: float, high: float, slope: float, low_slope: float, too_long: bool) -> float:
    """Next step to try: the secant's zero of the slope, kept well inside what is still possible."""
    rising = slope > low_slope
    secant = low_slope / (low_slope - slope) if rising else 1.0
    if too_long:
        return low + (step - low) * (min(max(secant, 0.1), 0.9) if rising else 0.5)
    if high == math.inf:
        return low + (step - low) * (min(max(secant, 1.5), 10.0) if rising else 10.0)
    return 0.5 * (step + high)


def make_minimise(loss: Loss) -> Minimise:
    """Compile the solver for one loss.

    ``loss(scores, params, slope)`` returns the loss and writes its derivative by the scores into ``slope``. The loss is
    bound here and not passed at each call, because numba cannot cache a function that is handed another.
    """

    @leaf
    def search_line(
        params: Any,
        scores: Vector,
        change: Vector,
        parabola: tuple[float, float, float, float],
        descent: float,
        value: float,
        trial: Vector,
        slope: Vector,
    ) -> tuple[float, float]:
        """Step to a point of weak Wolfe type, whose scores and loss slope are left in ``trial`` and ``slope``.

        ``parabola`` holds λ1, |coef|², <coef, d> and |d|²: along the line only the loss has to be evaluated.
        """
        lambda1, norm2, along, length2 = parabola
        low, high, step, low_slope = 0.0, math.inf, 1.0, descent
        new_value = value
        for _ in range(MAX_TRIALS):
            for i in range(scores.shape[0]):
                trial[i] = scores[i] + step * change[i]
            new_value = 0.5 * lambda1 * (norm2 + step * (2.0 * along + step * length2)) + loss(trial, params, slope)
            new_slope = lambda1 * (along + step * length2) + dot(slope, change)
            too_long = new_value > value + ARMIJO * step * descent
            if not too_long and new_slope >= CURVATURE * descent:
                break
            next_step = _next_trial(step, low, high, new_slope, low_slope, too_long)
            if too_long:
                high = step
            else:
                low, low_slope = step, new_slope
            step = next_step
        return step, new_value

    @leaf
    def minimise(
        params: Any, gram: Matrix, lambda1: float, tol: float, max_iter: int, coef: Vector, scores: Vector
    ) -> tuple[float, int, float]:
        """Minimise λ1/2 αᵀKα + loss(f) from ``coef`` (α) and ``scores`` (f = Kα + offset), both updated in place.

        Returns the objective, the number of iterations and the norm of the gradient, sqrt(gᵀKg).
        """
        size = coef.shape[0]
        slope, trial, gradient, image = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
        direction = np.empty((2, size))
        steps, changes = np.empty((MEMORY, 2, size)), np.empty((MEMORY, 2, size))
        curvatures = np.empty(MEMORY)
        n_pairs, newest, n_iter = 0, -1, 0

        multiply(gram, coef, image)
        norm2 = dot(coef, image)
        value = 0.5 * lambda1 * norm2 + loss(scores, params, slope)
        for i in range(size):
            gradient[i] = lambda1 * coef[i] + slope[i]
        multiply(gram, gradient, image)
        gradient_norm = math.sqrt(max(dot(gradient, image), 0.0))

        while gradient_norm > tol and n_iter < max_iter:
            _quasi_newton_direction(gradient, image, steps, changes, curvatures, n_pairs, newest, direction)
            descent = dot(gradient, direction[1])
            along, length2 = dot(coef, direction[1]), dot(direction[0], direction[1])
            parabola = (lambda1, norm2, along, length2)
            step, new_value = search_line(params, scores, direction[1], parabola, descent, value, trial, slope)
            if new_value > value:
                break  # the value no longer resolves the decrease
            n_iter += 1
            newest = (newest + 1) % MEMORY
            n_pairs = min(n_pairs + 1, MEMORY)
            for i in range(size):
                steps[newest, 0, i] = step * direction[0, i]
                steps[newest, 1, i] = step * direction[1, i]
                coef[i] += step * direction[0, i]
                scores[i] = trial[i]
                changes[newest, 0, i] = -gradient[i]
                changes[newest, 1, i] = -image[i]
                gradient[i] = lambda1 * coef[i] + slope[i]
            multiply(gram, gradient, image)
            for i in range(size):
                changes[newest, 0, i] += gradient[i]
                changes[newest, 1, i] += image[i]
            curvatures[newest] = dot(steps[newest, 1], changes[newest, 0])
            norm2 += step * (2.0 * along + step * length2)
            value = new_value
            gradient_norm = math.sqrt(max(dot(gradient, image), 0.0))
        return value, n_iter, gradient_norm

    return minimise
