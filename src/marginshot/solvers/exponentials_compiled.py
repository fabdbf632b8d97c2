"""Exponential and logarithm as polynomials, compiled: unlike the C library's they vectorise.

``real`` is the precision, np.float32 or np.float64, in which their constants are written.
"""

from __future__ import annotations

from typing import Any

from marginshot._lib.jit import loop


@loop
def decay(exponent: float, real: Any) -> float:
    """exp of a number of at most 0, by a Taylor polynomial and six squarings, in the precision ``real``.

    The absolute error is below 1e-14 in double precision. Results are never below e^-40.
    """
    x = max(exponent, real(-40.0)) * real(0.015625)
    p = real(1.0 / 479001600.0)
    p = p * x + real(1.0 / 39916800.0)
    p = p * x + real(1.0 / 3628800.0)
    p = p * x + real(1.0 / 362880.0)
    p = p * x + real(1.0 / 40320.0)
    p = p * x + real(1.0 / 5040.0)
    p = p * x + real(1.0 / 720.0)
    p = p * x + real(1.0 / 120.0)
    p = p * x + real(1.0 / 24.0)
    p = p * x + real(1.0 / 6.0)
    p = p * x + real(0.5)
    p = p * x + real(1.0)
    p = p * x + real(1.0)
    p = p * p
    p = p * p
    p = p * p
    p = p * p
    p = p * p
    return p * p


@loop
def log1p(u: float, real: Any) -> float:
    """log(1 + u) for u in [0, 1], as 2 atanh(u / (2 + u)); relative error below 1e-15 in double precision."""
    v = u / (real(2.0) + u)
    square = v * v
    p = real(1.0 / 31.0)
    p = p * square + real(1.0 / 29.0)
    p = p * square + real(1.0 / 27.0)
    p = p * square + real(1.0 / 25.0)
    p = p * square + real(1.0 / 23.0)
    p = p * square + real(1.0 / 21.0)
    p = p * square + real(1.0 / 19.0)
    p = p * square + real(1.0 / 17.0)
    p = p * square + real(1.0 / 15.0)
    p = p * square + real(1.0 / 13.0)
    p = p * square + real(1.0 / 11.0)
    p = p * square + real(1.0 / 9.0)
    p = p * square + real(1.0 / 7.0)
    p = p * square + real(1.0 / 5.0)
    p = p * square + real(1.0 / 3.0)
    p = p * square + real(1.0)
    return real(2.0) * v * p
