"""The hyper-parameters of FS-TMMC, checked once, before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Kernel = str | Callable[..., Any]
Prior = str | ArrayLike | None

KERNELS = ("linear", "rbf", "poly", "precomputed")
PAPER_LAMBDA2 = (0.0, 1e-5, 1e-3, 0.1, 1.0)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Hyper-parameters shared by the estimator and by `solve_tasks`; the defaults are the paper's.

    Parameters
    ----------
    lambda1 : float, default=0.04
        Weight of the squared norm of f (λ1).
    lambda2 : sequence of float, default=(0, 1e-5, 1e-3, 0.1, 1)
        The growing weights of the query term (λ2). ``(0,)`` gives FS-MMC, which ignores the queries.
    gamma1 : float, default=20
        Sharpness of the smoothed hinge (γ1).
    gamma2 : float, default=2
        Sharpness of the query term (γ2).
    prior : {"uniform", "estimate"}, array of shape (n_classes,), or None, default="uniform"
        Share of each class among the queries; sets the offset 2π − 1. See `marginshot.priors`.
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        A callable takes two arrays of rows, (a, D) and (b, D), and returns (a, b).
    gamma : "scale" or float, default="scale"
        Width of "rbf" and "poly": k = exp(−gamma |x − y|²), (gamma x·y + coef0)^degree. "scale" is one over the total
        variance of the task's rows.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=1
        Constant of "poly".
    tol : float, default=1e-4
        A stage ends when the norm of the gradient in function space, sqrt(gᵀKg), is at most this.
    max_iter : int, default=500
        Iterations of one stage of one class; reaching it raises a ConvergenceWarning.
    """

    lambda1: float = 0.04
    lambda2: Sequence[float] = PAPER_LAMBDA2
    gamma1: float = 20.0
    gamma2: float = 2.0
    prior: Prior = "uniform"
    kernel: Kernel = "linear"
    gamma: str | float = "scale"
    degree: int = 3
    coef0: float = 1.0
    tol: float = 1e-4
    max_iter: int = 500

    def __post_init__(self) -> None:
        for name in ("lambda1", "gamma1", "gamma2", "tol"):
            _check_number(name, getattr(self, name), positive=True)
        _check_number("coef0", self.coef0, positive=False)
        _check_lambda2(self.lambda2)
        for name in ("degree", "max_iter"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}.")
        if self.gamma != "scale":
            _check_number("gamma", self.gamma, positive=True, instead='"scale" or ')
        if not callable(self.kernel) and self.kernel not in KERNELS:
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, or a callable; got {self.kernel!r}.")
        if isinstance(self.prior, str) and self.prior not in ("uniform", "estimate"):
            raise ValueError(
                f'prior must be "uniform", "estimate", an array of class shares, or None; got {self.prior!r}.'
            )


def _check_number(name: str, value: object, *, positive: bool, instead: str = "") -> None:
    bound = "greater than 0" if positive else "finite"
    valid = isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(float(value)))
    if not valid or (positive and float(value) <= 0):  # type: ignore[arg-type]
        raise ValueError(f"{name} must be {instead}a number {bound}; got {value!r}.")


def _check_lambda2(values: object) -> None:
    try:
        array: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(
            f"lambda2 must be a sequence of numbers, none negative, such as (0, 0.1, 1) or (0,); got {values!r}."
        )
