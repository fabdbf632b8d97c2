"""The hyper-parameters of FS-TMMC, checked once, before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Kernel = str | Callable[..., Any]
Prior = str | ArrayLike | None

KERNELS = ("linear", "rbf", "poly", "precomputed")
CALIBRATIONS = ("platt", "softmax", "mixture", "graph")
# With fewer queries their term moves no plane of ``lambda2="auto"``, and a mixture must find them in few classes.
QUERIES_A_CLASS = 2
PAPER_LAMBDA2 = (0.0, 1e-5, 1e-3, 0.1, 1.0)

#: "paper" is the method as printed, with the offset; "auto" adds what makes it hold for unbalanced and many classes.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "auto": {
        "feature_transform": "discriminant",
        "n_neighbors": 8,
        "prior": "estimate",
        "lambda2": "auto",
        "calibration": "graph",
    },
}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Hyper-parameters shared by the estimator and by `solve_tasks`; the defaults are the paper's.

    Parameters
    ----------
    lambda1 : float, default=0.04
        Weight of the squared norm of f (λ1).
    lambda2 : sequence of float or "auto", default=(0, 1e-5, 1e-3, 0.1, 1)
        The growing weights of the query term (λ2). ``(0,)`` gives FS-MMC, which ignores the queries; "auto" ends at
        min(1, 5/N): with many classes each holds few of the queries, and their term steps back, and is 0 with fewer
        than two queries a class.
    gamma1 : float, default=20
        Sharpness of the smoothed hinge (γ1).
    gamma2 : float, default=2
        Sharpness of the query term (γ2).
    prior : {"uniform", "estimate"}, array of shape (n_classes,), or None, default="uniform"
        Share of each class among the queries; sets the offset 2π − 1. "estimate" finds it in the task. See
        `marginshot.model.shares` and `marginshot.model.mixture`.
    kernel : {"linear", "rbf", "poly", "precomputed"} or callable, default="linear"
        A callable takes two arrays of rows, (a, D) and (b, D), and returns (a, b).
    gamma : "scale" or float, default="scale"
        Width of "rbf" and "poly": k = exp(−gamma |x − y|²), (gamma x·y + coef0)^degree. "scale" is one over the total
        variance of the task's rows.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=1
        Constant of "poly".
    n_neighbors : int, default=0
        Neighbours each row is averaged with before the planes are fitted, fewer where rows are few; 0 leaves the rows
        alone. See `marginshot.model.neighbours`. Needs the transform "cl2n", "power" or "discriminant".
    calibration : {"platt", "softmax", "mixture", "graph"}, default="platt"
        How scores become probabilities: Platt scaling on the support; a softmax of log2(N) · f; or a softmax of f and
        the logits of a mixture together, which answers all classes jointly; or of these and of labels spread over the
        graph of neighbours, which needs ``n_neighbors``. See `marginshot.model.calibration`.
    tol : float, default=3e-4
        The last stage ends when the norm of the gradient in function space, sqrt(gᵀKg), is at most this; the first,
        convex one is solved three times as tightly, those between, which only lead on, ten times as loosely.
    max_iter : int, default=500
        Iterations of one stage of one class; reaching it raises a ConvergenceWarning.
    """

    lambda1: float = 0.04
    lambda2: Sequence[float] | str = PAPER_LAMBDA2
    gamma1: float = 20.0
    gamma2: float = 2.0
    prior: Prior = "uniform"
    kernel: Kernel = "linear"
    gamma: str | float = "scale"
    degree: int = 3
    coef0: float = 1.0
    n_neighbors: int = 0
    calibration: str = "platt"
    tol: float = 3e-4
    max_iter: int = 500

    def __post_init__(self) -> None:
        for name in ("lambda1", "gamma1", "gamma2", "tol"):
            _check_number(name, getattr(self, name), positive=True)
        _check_number("coef0", self.coef0, positive=False)
        _check_lambda2(self.lambda2)
        for name, least in (("degree", 1), ("max_iter", 1), ("n_neighbors", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}.")
        if self.calibration not in CALIBRATIONS:
            raise ValueError(f"calibration must be one of {', '.join(CALIBRATIONS)}; got {self.calibration!r}.")
        if self.calibration == "graph" and not self.n_neighbors:
            raise ValueError(
                'calibration="graph" spreads labels over neighbours and n_neighbors is 0; set n_neighbors=8, or '
                'calibration="mixture".'
            )
        if self.n_neighbors and (callable(self.kernel) or self.kernel == "precomputed"):
            raise ValueError(f"n_neighbors={self.n_neighbors} needs a named kernel on features; got {self.kernel!r}.")
        if not (isinstance(self.gamma, str) and self.gamma == "scale"):
            _check_number("gamma", self.gamma, positive=True, instead='"scale" or ')
        if not callable(self.kernel) and self.kernel not in KERNELS:
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, or a callable; got {self.kernel!r}.")
        if isinstance(self.prior, str) and self.prior not in ("uniform", "estimate"):
            raise ValueError(
                f'prior must be "uniform", "estimate", an array of class shares, or None; got {self.prior!r}.'
            )

    @property
    def stages(self) -> tuple[float, ...]:
        """The values of ``lambda2``, once it is spelled out."""
        if isinstance(self.lambda2, str):
            raise TypeError('lambda2 is "auto": for_task spells it out.')
        return tuple(float(value) for value in self.lambda2)

    def for_task(self, n_classes: int, n_query: int) -> Settings:
        """The same settings with ``lambda2`` spelled out for a task of ``n_classes`` and ``n_query`` queries."""
        if not isinstance(self.lambda2, str):
            return self
        if n_query < QUERIES_A_CLASS * n_classes:
            return replace(self, lambda2=(0.0,))
        last = min(1.0, 5.0 / n_classes)
        return replace(self, lambda2=(*(value for value in (0.0, 1e-3, 0.1) if value < last), last))


def _check_number(name: str, value: object, *, positive: bool, instead: str = "") -> None:
    bound = "greater than 0" if positive else "finite"
    valid = isinstance(value, Real) and not isinstance(value, bool) and bool(np.isfinite(float(value)))
    if not valid or (positive and float(value) <= 0):  # type: ignore[arg-type]
        raise ValueError(f"{name} must be {instead}a number {bound}; got {value!r}.")


def _check_lambda2(values: object) -> None:
    if isinstance(values, str) and values == "auto":
        return
    try:
        array: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(
            "lambda2 must be a sequence of numbers, none negative, such as (0, 0.1, 1) or (0,), or "
            f'"auto"; got {values!r}.'
        )
