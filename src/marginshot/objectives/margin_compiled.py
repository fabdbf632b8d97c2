"""The objective of FS-TMMC for one class of one small task, compiled. Its NumPy twin is `margin.py`.

Both compute the part of F(alpha) that depends on the scores f alone, Eq. (5) of the paper without its first term, and
its derivative t, Eq. (7):

    1/n Σ_support w_i/γ1 log(1 + exp(γ1 (1 − y_i f_i)))  +  λ2/m Σ_query exp(−γ2 f_i²)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot._jit import leaf

Vector = NDArray[np.float64]
MarginParams = tuple[Vector, Vector, float, float, float]


@leaf
def decay(exponent: float) -> float:
    """exp of a number that is not positive, by a Taylor polynomial and six squarings.

    Unlike the C library's, it vectorises. Absolute error below 1e-14; below e^-40 it stays there.
    """
    x = max(exponent, -40.0) * 0.015625
    p = 1.0 / 479001600.0
    p = p * x + 1.0 / 39916800.0
    p = p * x + 1.0 / 3628800.0
    p = p * x + 1.0 / 362880.0
    p = p * x + 1.0 / 40320.0
    p = p * x + 1.0 / 5040.0
    p = p * x + 1.0 / 720.0
    p = p * x + 1.0 / 120.0
    p = p * x + 1.0 / 24.0
    p = p * x + 1.0 / 6.0
    p = p * x + 0.5
    p = p * x + 1.0
    p = p * x + 1.0
    p = p * p
    p = p * p
    p = p * p
    p = p * p
    p = p * p
    return p * p


@leaf
def log1p(u: float) -> float:
    """log(1 + u) for u in [0, 1], as 2 atanh(u / (2 + u)); vectorises, relative error below 1e-15."""
    v = u / (2.0 + u)
    square = v * v
    p = 1.0 / 31.0
    p = p * square + 1.0 / 29.0
    p = p * square + 1.0 / 27.0
    p = p * square + 1.0 / 25.0
    p = p * square + 1.0 / 23.0
    p = p * square + 1.0 / 21.0
    p = p * square + 1.0 / 19.0
    p = p * square + 1.0 / 17.0
    p = p * square + 1.0 / 15.0
    p = p * square + 1.0 / 13.0
    p = p * square + 1.0 / 11.0
    p = p * square + 1.0 / 9.0
    p = p * square + 1.0 / 7.0
    p = p * square + 1.0 / 5.0
    p = p * square + 1.0 / 3.0
    p = p * square + 1.0
    return 2.0 * v * p


@leaf
def margin_loss(scores: Vector, params: MarginParams, slope: Vector) -> float:
    """Loss of ``scores`` (M,), support first; writes its derivative by the scores into ``slope`` (M,).

    ``params`` holds signs (n,), weights (n,), gamma1, gamma2 and lambda2. A task without queries has M = n.
    """
    signs, weights, gamma1, gamma2, lambda2 = params
    n_support = signs.shape[0]
    n_query = scores.shape[0] - n_support
    hinge = 0.0
    for i in range(n_support):
        z = gamma1 * (1.0 - signs[i] * scores[i])
        small = decay(-abs(z))  # exp of -|z| never overflows
        hinge += weights[i] * (max(z, 0.0) + log1p(small))
        sigmoid = (1.0 if z >= 0.0 else small) / (1.0 + small)
        slope[i] = -weights[i] * signs[i] * sigmoid
    if n_query == 0:
        return hinge / gamma1
    density, pull = 0.0, -2.0 * gamma2 * lambda2 / n_query
    query, query_slope = scores[n_support:], slope[n_support:]  # loops from zero vectorise, others do not
    for i in range(n_query):
        bump = decay(-gamma2 * query[i] * query[i])
        density += bump
        query_slope[i] = pull * query[i] * bump
    return hinge / gamma1 + lambda2 * density / n_query
