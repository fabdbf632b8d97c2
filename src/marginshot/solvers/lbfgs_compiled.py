"""L-BFGS in function space for one class of one small task, compiled. Its NumPy twin is `lbfgs.py`.

Directions are coefficient vectors that carry their image under the Gram matrix K, and lengths are measured by
<a, b> = aᵀKb. The gradient of F in this geometry is the coefficient vector λ1 α + t, so an iteration needs one product
with K (the image of the new gradient); the line search moves along f + step · Kd and needs none.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._jit import leaf

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

MEMORY = 8  # pairs kept
ARMIJO = 1e-4  # sufficient decrease
CURVATURE = 0.9  # weak Wolfe
MAX_TRIALS = 30  # of the line search


@leaf
def _dot(a: Vector, b: Vector) -> float:
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
    steps: NDArray[Any],
    changes: NDArray[Any],
    curvatures: Vector,
    n_pairs: int,
    newest: int,
    weights: Vector,
    direction: NDArray[Any],
) -> None:
    """Two-loop recursion. ``steps``, ``changes`` (MEMORY, 2, M) hold s and y with their images; so does ``direction``."""
    size = gradient.shape[0]
    coef, image = direction[0], direction[1]
    for i in range(size):
        coef[i] = -gradient[i]
        image[i] = -gradient_image[i]
    if n_pairs == 0:
        return
    for age in range(n_pairs):
        k = (newest - age) % MEMORY
        weight = _dot(steps[k, 1], coef) / curvatures[k]
        weights[k] = weight
        for i in range(size):
            coef[i] -= weight * changes[k, 0, i]
            image[i] -= weight * changes[k, 1, i]
    scale = curvatures[newest] / _dot(changes[newest, 0], changes[newest, 1])
    for i in range(size):
        coef[i] *= scale
        image[i] *= scale
    for age in range(n_pairs - 1, -1, -1):
        k = (newest - age) % MEMORY
        weight = weights[k] - _dot(changes[k, 1], coef) / curvatures[k]
        for i in range(size):
            coef[i] += weight * steps[k, 0, i]
            image[i] += weight * steps[k, 1, i]


@leaf
def minimise(
    loss: Any,
    params: Any,
    gram: Matrix,
    lambda1: float,
    tol: float,
    max_iter: int,
    coef: Vector,
    scores: Vector,
) -> tuple[float, int, float]:
    """Minimise λ1/2 αᵀKα + loss(f), from ``coef`` (α) and ``scores`` (f = Kα + b), both updated in place.

    ``loss(f, params, slope)`` returns the loss and writes its derivative. Returns the objective, the number of
    iterations and the norm of the gradient, sqrt(gᵀKg); converged where that norm is at most ``tol``.
    """
    size = coef.shape[0]
    slope, gradient, image = np.empty(size), np.empty(size), np.empty(size)
    new_gradient, new_image, trial = np.empty(size), np.empty(size), np.empty(size)
    direction = np.empty((2, size))
    steps, changes = np.empty((MEMORY, 2, size)), np.empty((MEMORY, 2, size))
    curvatures, weights = np.empty(MEMORY), np.empty(MEMORY)
    n_pairs, newest = 0, -1

    multiply(gram, coef, image)
    norm2 = _dot(coef, image)  # |f|² = αᵀKα
    value = 0.5 * lambda1 * norm2 + loss(scores, params, slope)
    for i in range(size):
        gradient[i] = lambda1 * coef[i] + slope[i]
    multiply(gram, gradient, image)
    gradient_norm = math.sqrt(max(_dot(gradient, image), 0.0))

    n_iter = 0
    while gradient_norm > tol and n_iter < max_iter:
        _quasi_newton_direction(
            gradient, image, steps, changes, curvatures, n_pairs, newest, weights, direction
        )
        # Along the line, everything but the loss is a parabola in the step.
        descent = _dot(gradient, direction[1])
        along = 0.0  # αᵀKd
        for i in range(size):
            along += coef[i] * direction[1, i]
        length2 = _dot(direction[0], direction[1])
        if n_pairs == 0 or descent >= 0.0:
            pass
        low, high, step = 0.0, math.inf, 1.0
        low_slope = descent
        new_value = value
        for _ in range(MAX_TRIALS):
            for i in range(size):
                trial[i] = scores[i] + step * direction[1, i]
            new_norm2 = norm2 + 2.0 * step * along + step * step * length2
            new_value = 0.5 * lambda1 * new_norm2 + loss(trial, params, slope)
            new_slope = lambda1 * (along + step * length2) + _dot(slope, direction[1])
            if new_value > value + ARMIJO * step * descent:
                high = step
                step = low + (high - low) * 0.5 if new_slope <= low_slope else low + (high - low) * min(max(
                    low_slope / (low_slope - new_slope), 0.1), 0.9)
            elif new_slope < CURVATURE * descent:
                # secant towards the zero of the slope
                factor = low_slope / (low_slope - new_slope) if new_slope > low_slope else 10.0
                width = step - low
                low_new = step
                if high == math.inf:
                    step = low + width * min(max(factor, 1.5), 10.0)
                else:
                    step = 0.5 * (step + high)
                low = low_new
                low_slope = new_slope
            else:
                break
        n_iter += 1
        newest = (newest + 1) % MEMORY
        for i in range(size):
            s, ks = step * direction[0, i], step * direction[1, i]
            coef[i] += s
            scores[i] = trial[i]
            steps[newest, 0, i], steps[newest, 1, i] = s, ks
            new_gradient[i] = lambda1 * coef[i] + slope[i]
        multiply(gram, new_gradient, new_image)
        for i in range(size):
            changes[newest, 0, i] = new_gradient[i] - gradient[i]
            changes[newest, 1, i] = new_image[i] - image[i]
            gradient[i], image[i] = new_gradient[i], new_image[i]
        curvatures[newest] = _dot(steps[newest, 1], changes[newest, 0])
        n_pairs = min(n_pairs + 1, MEMORY)
        norm2, value = new_norm2, new_value
        gradient_norm = math.sqrt(max(_dot(gradient, image), 0.0))
    return value, n_iter, gradient_norm
