"""L-BFGS in function space for one class of one small task, compiled. Its NumPy twin is `lbfgs.py`.

Directions are coefficient vectors that carry their image under the Gram matrix K, and lengths are measured by
<a, b> = aᵀKb. The gradient of F in this geometry is the coefficient vector λ1 α + t, so an iteration needs one product
with K (the image of the new gradient); the line search moves along f + step · Kd and needs none.

A vector with its image is one array (2M,), coefficients first. Vectors have the precision of the Gram matrix, single or
double; numbers are double throughout.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import leaf, loop
from marginshot.solvers.lbfgs import ARMIJO, CURVATURE, MAX_TRIALS, MEMORY

Vector = NDArray[np.floating]
Matrix = NDArray[np.floating]
Products = tuple[Matrix, Matrix, Vector]  # <s, y> and <y, y> of the pairs, and <s, gradient> followed by <y, gradient>
Loss = Callable[[Vector, Any, Vector, Vector], float]
Minimise = Callable[..., tuple[float, int, float]]


@loop
def dot(a: Vector, b: Vector) -> float:
    """Euclidean inner product of (M,) and (M,)."""
    total = a.dtype.type(0.0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return float(total)


@loop
def add_rows(rows: Matrix, weights: Vector, out: Vector) -> None:
    """``out += weights[:n] @ rows`` for ``rows`` (n, M), eight at a time: loads are contiguous, few go to ``out``."""
    n_rows, size = rows.shape[0], out.shape[0]
    blocked = n_rows - n_rows % 8
    for j in range(0, blocked, 8):
        w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
        w4, w5, w6, w7 = weights[j + 4], weights[j + 5], weights[j + 6], weights[j + 7]
        row0, row1, row2, row3 = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
        row4, row5, row6, row7 = rows[j + 4], rows[j + 5], rows[j + 6], rows[j + 7]
        for i in range(size):
            left = w0 * row0[i] + w1 * row1[i] + w2 * row2[i] + w3 * row3[i]
            out[i] += left + w4 * row4[i] + w5 * row5[i] + w6 * row6[i] + w7 * row7[i]
    for j in range(blocked, n_rows):
        w0, row0 = weights[j], rows[j]
        for i in range(size):
            out[i] += w0 * row0[i]


@loop
def multiply(gram: Matrix, vector: Vector, out: Vector) -> None:
    """``out = gram.T @ vector[:n]`` (M,) for a ``gram`` of n rows."""
    for i in range(out.shape[0]):
        out[i] = 0.0
    add_rows(gram, vector, out)


@loop
def _remember(gradient: Vector, pairs: Matrix, products: Products, newest: int, curvature: float) -> None:
    """Bring the inner products of the pairs up to date with the newest one and the ``gradient`` (M,) it led to.

    Those with the newest change y follow from the gradient's: <s, y> = <s, new gradient> − <s, old gradient>. Its own
    are ``curvature``, <s, y>, and <y, y>.
    """
    step_change, change_change, on_gradient = products
    size = gradient.shape[0]
    for k in range(MEMORY):
        along_step, along_change = gradient.dtype.type(0.0), gradient.dtype.type(0.0)
        for i in range(size):
            along_step += pairs[k, size + i] * gradient[i]
            along_change += pairs[MEMORY + k, size + i] * gradient[i]
        step_change[k, newest] = along_step - on_gradient[k]
        change_change[k, newest] = change_change[newest, k] = along_change - on_gradient[MEMORY + k]
        on_gradient[k], on_gradient[MEMORY + k] = along_step, along_change
    length2 = gradient.dtype.type(0.0)
    for i in range(size):
        length2 += pairs[MEMORY + newest, i] * pairs[MEMORY + newest, size + i]
    step_change[newest, newest], change_change[newest, newest] = curvature, length2


@loop
def _pair_weights(products: Products, n_pairs: int, newest: int, weights: Vector, room: Matrix) -> float:
    """Two-loop recursion on the inner products alone: the direction is −scale · gradient + ``weights`` · pairs.

    Returns the scale; ``weights`` (2 · MEMORY,) belong to the steps, then to the changes; ``room`` is (2, MEMORY).
    """
    step_change, change_change, on_gradient = products
    for k in range(2 * MEMORY):
        weights[k] = 0.0
    if n_pairs == 0:
        return 1.0
    scale = step_change[newest, newest] / change_change[newest, newest]
    first, second = room[0], room[1]
    for age in range(n_pairs):
        k = (newest - age) % MEMORY
        total = on_gradient[k]
        for younger in range(age):
            j = (newest - younger) % MEMORY
            total -= first[j] * step_change[k, j]
        first[k] = total / step_change[k, k]
        weights[MEMORY + k] = scale * first[k]
    for age in range(n_pairs - 1, -1, -1):
        k = (newest - age) % MEMORY
        total = scale * on_gradient[MEMORY + k]
        for other in range(n_pairs):
            j = (newest - other) % MEMORY
            total -= scale * first[j] * change_change[k, j]
            if other > age:
                total += second[j] * step_change[j, k]
        second[k] = first[k] - total / step_change[k, k]
        weights[k] = -second[k]
    return scale


@loop
def _set_gradient(gram: Matrix, ridge: Any, coef: Vector, slope: Vector, gradient: Vector, image: Vector) -> float:
    """Write the gradient λ1 α + t and its image, each (M,); returns its norm. ``ridge`` is λ1."""
    for i in range(coef.shape[0]):
        gradient[i] = ridge * coef[i] + slope[i]
    multiply(gram, gradient, image)
    return math.sqrt(max(dot(gradient, image), 0.0))


@loop
def _next_trial(step: float, low: float, high: float, slope: float, low_slope: float, too_long: bool) -> float:
    """Next step to try: the secant's zero of the slope, kept well inside the bracket."""
    rising = slope > low_slope
    secant = low_slope / (low_slope - slope) if rising else 1.0
    if too_long:
        return low + (step - low) * (min(max(secant, 0.1), 0.9) if rising else 0.5)
    if high == math.inf:
        return low + (step - low) * (min(max(secant, 1.5), 10.0) if rising else 10.0)
    return 0.5 * (step + high)


@leaf
def make_workspace(like: Vector) -> Any:
    """The arrays `minimise` needs for vectors like this one, (M,), made once and used by many runs."""
    size, dtype = like.shape[0], like.dtype
    trial, slope, room = np.empty(size, dtype), np.empty(size, dtype), np.empty(size, dtype)
    gradient, direction = np.empty(2 * size, dtype), np.empty(2 * size, dtype)
    pairs, row_weights = np.empty((2 * MEMORY, 2 * size), dtype), np.empty(2 * MEMORY, dtype)
    products = (np.empty((MEMORY, MEMORY)), np.empty((MEMORY, MEMORY)), np.empty(2 * MEMORY))
    return (trial, slope, room), gradient, direction, pairs, row_weights, products, np.empty((2, MEMORY))


def _make_line_search(loss: Loss) -> Callable[..., tuple[float, float, float]]:
    @loop
    def search_line(
        params: Any,
        scores: Vector,
        change: Vector,
        parabola: tuple[float, float, float, float],
        descent: float,
        value: float,
        noise: float,
        vectors: tuple[Vector, Vector, Vector],
    ) -> tuple[float, float, float]:
        """Step to a weak Wolfe point; returns it with the value and the slope there.

        ``parabola`` holds λ1, |coef|², <coef, d> and |d|²: along the line only the loss has to be evaluated. A rise
        within ``noise`` is rounding. ``vectors`` are left with the scores and the loss's derivative at the new point.
        """
        trial, loss_slope, room = vectors
        lambda1, norm2, along, length2 = parabola
        low, high, step, low_slope = 0.0, math.inf, 1.0, descent
        new_value, new_slope = value, descent
        for left in range(MAX_TRIALS, 0, -1):
            stride = scores.dtype.type(step)
            for i in range(scores.shape[0]):
                trial[i] = scores[i] + stride * change[i]
            loss_value = loss(trial, params, loss_slope, room)
            new_value = 0.5 * lambda1 * (norm2 + step * (2.0 * along + step * length2)) + loss_value
            new_slope = lambda1 * (along + step * length2) + dot(loss_slope, change)
            too_long = new_value > value + ARMIJO * step * descent + noise
            if left == 1 or (not too_long and new_slope >= CURVATURE * descent):
                break
            next_step = _next_trial(step, low, high, new_slope, low_slope, too_long)
            if too_long:
                high = step
            else:
                low, low_slope = step, new_slope
            step = next_step if left > 2 else low  # the last trial returns to the best one
        return step, new_value, new_slope

    return search_line


def make_minimise(loss: Loss) -> Minimise:
    """Compile the solver for one loss.

    ``loss(scores, params, slope, room)`` returns the loss and writes its derivative by the scores into ``slope``. The
    loss is bound here and not passed at each call, because numba cannot cache a function that takes a function.
    """
    search_line = _make_line_search(loss)

    @loop
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
        real = coef.dtype.type
        ridge, rounding = real(lambda1), 4.0 * np.finfo(coef.dtype).eps
        vectors, gradient, direction, pairs, row_weights, products, room = workspace
        trial, slope, _ = vectors
        own, image = gradient[:size], gradient[size:]
        move, change = direction[:size], direction[size:]  # of the coefficients, of the scores
        n_pairs, newest, n_iter = 0, -1, 0
        for k in range(2 * MEMORY):
            products[2][k] = 0.0
            for i in range(2 * size):
                pairs[k, i] = 0.0

        for i in range(size):
            trial[i] = scores[i] - real(offset)
        norm2 = dot(coef, trial)  # αᵀKα
        value = 0.5 * lambda1 * norm2 + loss(scores, params, slope, vectors[2])
        gradient_norm = _set_gradient(gram, ridge, coef, slope, own, image)

        while gradient_norm > tol and n_iter < max_iter:
            scale = real(_pair_weights(products, n_pairs, newest, row_weights, room))
            for i in range(direction.shape[0]):
                direction[i] = -scale * gradient[i]
            add_rows(pairs, row_weights, direction)
            descent, along, length2 = dot(own, change), dot(coef, change), dot(move, change)
            parabola, noise = (lambda1, norm2, along, length2), rounding * abs(value)
            step, new_value, new_slope = search_line(params, scores, change, parabola, descent, value, noise, vectors)
            if new_value > value + noise or not new_slope > descent:
                break  # rounding hides any further decrease
            n_iter += 1
            newest = (newest + 1) % MEMORY
            n_pairs = min(n_pairs + 1, MEMORY)
            stride = real(step)
            for i in range(direction.shape[0]):
                pairs[newest, i] = stride * direction[i]
            for i in range(size):
                coef[i] += stride * move[i]
                scores[i] = trial[i]
            for i in range(gradient.shape[0]):
                pairs[MEMORY + newest, i] = -gradient[i]
            gradient_norm = _set_gradient(gram, ridge, coef, slope, own, image)
            for i in range(gradient.shape[0]):
                pairs[MEMORY + newest, i] += gradient[i]
            _remember(own, pairs, products, newest, step * (new_slope - descent))
            norm2 += step * (2.0 * along + step * length2)
            value = new_value
        return value, n_iter, gradient_norm

    return minimise
