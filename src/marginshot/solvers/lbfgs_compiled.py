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
Products = tuple[Matrix, Matrix, Vector, Vector]  # <s, y>, <y, y>, <s, gradient>, <y, gradient> of the pairs
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
    """``out = gram[:, :n] @ vector`` (n,) for a symmetric ``gram``: rows are added, so every load is contiguous."""
    n_rows, size = vector.shape[0], out.shape[0]
    out[:] = 0.0
    blocked = n_rows - n_rows % 4
    for j in range(0, blocked, 4):
        v0, v1, v2, v3 = vector[j], vector[j + 1], vector[j + 2], vector[j + 3]
        row0, row1, row2, row3 = gram[j], gram[j + 1], gram[j + 2], gram[j + 3]
        for i in range(size):
            out[i] += v0 * row0[i] + v1 * row1[i] + v2 * row2[i] + v3 * row3[i]
    for j in range(blocked, n_rows):
        v0 = vector[j]
        row0 = gram[j]
        for i in range(size):
            out[i] += v0 * row0[i]


@leaf
def _remember(gradient: Vector, steps: Array, changes: Array, products: Products, n_pairs: int, newest: int) -> None:
    """Bring the inner products of the pairs up to date with the newest one and the gradient it led to.

    Those with the newest change y follow from the gradient's: <s, y> = <s, new gradient> − <s, old gradient>.
    """
    step_change, change_change, step_gradient, change_gradient = products
    for age in range(n_pairs):
        k = (newest - age) % MEMORY
        along_step, along_change = dot(steps[k, 1], gradient), dot(changes[k, 1], gradient)
        step_change[k, newest] = along_step - step_gradient[k]
        change_change[k, newest] = change_change[newest, k] = along_change - change_gradient[k]
        step_gradient[k], change_gradient[k] = along_step, along_change
    step_change[newest, newest] = dot(steps[newest, 1], changes[newest, 0])
    change_change[newest, newest] = dot(changes[newest, 1], changes[newest, 0])


@leaf
def _quasi_newton_direction(
    gradient: Vector,
    image: Vector,
    steps: Array,
    changes: Array,
    products: Products,
    weights: Array,
    n_pairs: int,
    newest: int,
    direction: Array,
) -> None:
    """Two-loop recursion on the inner products alone, then one sum over the pairs; ``direction`` (2, M) has its image.

    ``steps`` and ``changes`` (MEMORY, 2, M) hold s and y with their images.
    """
    step_change, change_change, step_gradient, change_gradient = products
    first, second = weights
    scale = 1.0
    if n_pairs > 0:
        scale = step_change[newest, newest] / change_change[newest, newest]
    for age in range(n_pairs):
        k = (newest - age) % MEMORY
        total = step_gradient[k]
        for younger in range(age):
            j = (newest - younger) % MEMORY
            total -= first[j] * step_change[k, j]
        first[k] = total / step_change[k, k]
    for age in range(n_pairs - 1, -1, -1):
        k = (newest - age) % MEMORY
        total = scale * change_gradient[k]
        for other in range(n_pairs):
            j = (newest - other) % MEMORY
            total -= scale * first[j] * change_change[k, j]
            if other > age:
                total += second[j] * step_change[j, k]
        second[k] = first[k] - total / step_change[k, k]
    for i in range(gradient.shape[0]):
        direction[0, i] = -scale * gradient[i]
        direction[1, i] = -scale * image[i]
    for age in range(n_pairs):
        k = (newest - age) % MEMORY
        on_change, on_step = scale * first[k], -second[k]
        for part in range(2):
            row, change, step = direction[part], changes[k, part], steps[k, part]
            for i in range(row.shape[0]):
                row[i] += on_change * change[i] + on_step * step[i]


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


@leaf
def make_workspace(size: int) -> Any:
    """The arrays `minimise` needs for vectors of ``size``, made once and used by many runs."""
    products = (np.empty((MEMORY, MEMORY)), np.empty((MEMORY, MEMORY)), np.empty(MEMORY), np.empty(MEMORY))
    pairs = (np.empty((MEMORY, 2, size)), np.empty((MEMORY, 2, size)))
    return (
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty((2, size)),
        *pairs,
        products,
        np.empty((2, MEMORY)),
    )


def _make_line_search(loss: Loss) -> Callable[..., tuple[float, float]]:
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

    return search_line


def make_minimise(loss: Loss) -> Minimise:
    """Compile the solver for one loss.

    ``loss(scores, params, slope)`` returns the loss and writes its derivative by the scores into ``slope``. The loss is
    bound here and not passed at each call, because numba cannot cache a function that is handed another.
    """
    search_line = _make_line_search(loss)

    @leaf
    def minimise(
        params: Any,
        gram: Matrix,
        offset: float,
        lambda1: float,
        tol: float,
        max_iter: int,
        workspace: Any,
        coef: Vector,
        scores: Vector,
    ) -> tuple[float, int, float]:
        """Minimise λ1/2 αᵀKα + loss(f) from ``coef`` (α) and ``scores`` (f = Kα + offset), both updated in place.

        Returns the objective, the number of iterations and the norm of the gradient, sqrt(gᵀKg).
        """
        size = coef.shape[0]
        slope, trial, gradient, image, direction, steps, changes, products, weights = workspace
        n_pairs, newest, n_iter = 0, -1, 0

        norm2 = 0.0  # αᵀKα, and Kα is what the scores are besides the offset
        for i in range(size):
            norm2 += coef[i] * (scores[i] - offset)
        value = 0.5 * lambda1 * norm2 + loss(scores, params, slope)
        for i in range(size):
            gradient[i] = lambda1 * coef[i] + slope[i]
        multiply(gram, gradient, image)
        gradient_norm = math.sqrt(max(dot(gradient, image), 0.0))

        while gradient_norm > tol and n_iter < max_iter:
            _quasi_newton_direction(gradient, image, steps, changes, products, weights, n_pairs, newest, direction)
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
            products[2][newest], products[3][newest] = 0.0, 0.0
            _remember(gradient, steps, changes, products, n_pairs, newest)
            norm2 += step * (2.0 * along + step * length2)
            value = new_value
            gradient_norm = math.sqrt(max(dot(gradient, image), 0.0))
        return value, n_iter, gradient_norm

    return minimise
