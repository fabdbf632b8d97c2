"""The objective of FS-TMMC for one class of one small task, compiled. Its NumPy twin is `margin.py`.

Both compute the part of F(alpha) that depends on the scores f alone, Eq. (7) of the paper without its first term, and
its derivative t, Eq. (9):

    1/n Σ_support w_i/γ1 log(1 + exp(γ1 (1 − y_i f_i)))  +  λ2/m Σ_query exp(−γ2 f_i²)

in the precision of the scores. A row to which a term does not apply has weight zero in it, so that loops run over whole
vector registers; their sums are taken apart, because a loop with a sum is unrolled further and leaves a slow remainder.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import loop
from marginshot.solvers.exponentials_compiled import decay, log1p

Vector = NDArray[np.floating]
MarginParams = tuple[Vector, Vector, Vector, float, float, float]


@loop
def margin_loss(scores: Vector, params: MarginParams, slope: Vector, terms: Vector) -> float:
    """Loss of ``scores`` (M,), support first; writes its derivative by the scores into ``slope`` (M,).

    ``params`` holds signs and weights w/n of the first rows, which contain the support, query weights 1/m (M,), gamma1,
    gamma2 and lambda2. ``terms`` (M,) is room to work in.
    """
    signs, support_weights, query_weights, gamma1, gamma2, lambda2 = params
    real = scores.dtype.type
    narrow, steep, pull = real(-gamma2), real(gamma1), real(-2.0 * gamma2 * lambda2)
    zero, one = real(0.0), real(1.0)
    for i in range(scores.shape[0]):
        bump = query_weights[i] * decay(narrow * scores[i] * scores[i], real)
        terms[i] = bump
        slope[i] = pull * scores[i] * bump
    density = total(terms)
    for i in range(signs.shape[0]):
        z = steep * (one - signs[i] * scores[i])
        small = decay(-abs(z), real)  # exp of -|z| never overflows
        terms[i] = support_weights[i] * (max(z, zero) + log1p(small, real))
        slope[i] -= support_weights[i] * signs[i] * (one if z >= zero else small) / (one + small)
    return lambda2 * density + total(terms[: signs.shape[0]]) / gamma1


@loop
def total(values: Vector) -> float:
    """Sum of (M,)."""
    result = values.dtype.type(0.0)
    for i in range(values.shape[0]):
        result += values[i]
    return float(result)
