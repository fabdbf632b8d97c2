"""The hyper-parameters of FS-TMMC, checked once, before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginshot.model.calibration import CALIBRATIONS, Calibration
from marginshot.model.kernels import Kernel, make_kernel
from marginshot.model.shares import QUERIES_A_CLASS, is_estimated

KernelOption = Literal["linear", "rbf", "poly", "precomputed"] | Callable[..., Any]
PriorOption = Literal["uniform", "estimate"] | ArrayLike | None
CalibrationOption = Literal["platt", "logistic", "none", "softmax", "mixture", "graph"]
Lambda2Option = Sequence[float] | Literal["auto"]
PresetOption = Literal["printed", "paper", "auto", "balanced"]

PRINTED_LAMBDA2 = (0.0, 1e-5, 1e-3, 0.1, 1.0)
LAMBDA2 = (0.0, 0.1, 1.0)  # without 1e-5 and 1e-3: their stages end where they start

_PRINTED: dict[str, Any] = {"prior": None, "calibration": "logistic", "lambda2": PRINTED_LAMBDA2, "tol": 3e-5}
_AUTO: dict[str, Any] = {
    "feature_transform": "discriminant",
    "n_neighbors": 8,
    "prior": "estimate",
    "lambda2": "auto",
    "calibration": "graph",
}
#: "printed" is the paper word for word. "paper" adds the offset and Platt's smoothed targets, and has fewer stages.
#: "auto" adds the steps for unbalanced and many classes. "balanced" is "auto" for classes known to have equally many
#: unlabelled rows.
#: docs/results/departures.md measures each difference.
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "printed": MappingProxyType(_PRINTED),
        "paper": MappingProxyType({}),
        "auto": MappingProxyType(_AUTO),
        "balanced": MappingProxyType(_AUTO | {"prior": "uniform"}),
    }
)


def preset_parameters(preset: str) -> dict[str, Any]:
    """The parameters that a preset sets."""
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}; got {preset!r}.")
    return dict(PRESETS[preset])


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Hyper-parameters shared by the estimator and by `solve_tasks`; the defaults are the paper's.

    `TransductiveMaxMarginClassifier` documents each of them.
    """

    lambda1: float = 0.04
    lambda2: Lambda2Option = LAMBDA2
    gamma1: float = 20.0
    gamma2: float = 2.0
    prior: PriorOption = "uniform"
    kernel: KernelOption = "linear"
    gamma: Literal["scale"] | float = "scale"
    degree: int = 3
    coef0: float = 1.0
    n_neighbors: int = 0
    calibration: CalibrationOption = "platt"
    tol: float = 3e-4
    max_iter: int = 500

    def __post_init__(self) -> None:
        for name in ("lambda1", "gamma1", "gamma2", "tol"):
            _check_number(name, getattr(self, name), positive=True)
        _check_number("coef0", self.coef0, positive=False)
        _check_lambda2(self.lambda2)
        for name, least in (("degree", 1), ("max_iter", 1), ("n_neighbors", 0)):
            check_count(name, getattr(self, name), least)
        if self.calibration not in CALIBRATIONS:
            raise ValueError(f"calibration must be one of {', '.join(CALIBRATIONS)}; got {self.calibration!r}.")
        if self.answers.uses_graph and not self.n_neighbors:
            raise ValueError(
                f'calibration="{self.calibration}" spreads labels over neighbours and n_neighbors is 0; set '
                'n_neighbors=8, or calibration="mixture".'
            )
        if not (isinstance(self.gamma, str) and self.gamma == "scale"):
            _check_number("gamma", self.gamma, positive=True, instead='"scale" or ')
        if self.n_neighbors and not self.kernel_function.is_named:
            raise ValueError(f"n_neighbors={self.n_neighbors} needs a named kernel on features; got {self.kernel!r}.")
        if isinstance(self.prior, str) and self.prior not in ("uniform", "estimate"):
            raise ValueError(
                f'prior must be "uniform", "estimate", an array of class shares, or None; got {self.prior!r}.'
            )

    @cached_property
    def kernel_function(self) -> Kernel:
        """The kernel, its width not yet fixed."""
        return make_kernel(self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    @property
    def answers(self) -> Calibration:
        """The calibration, which turns margins into scores and probabilities."""
        return CALIBRATIONS[self.calibration]

    @property
    def needs_mixture(self) -> bool:
        """Whether the class shares or the probabilities come from a mixture."""
        return is_estimated(self.prior) or self.answers.answers_jointly

    @property
    def meets_shares(self) -> bool:
        """Whether answers are to meet the class shares, as far as these are certain."""
        return self.answers.answers_jointly and self.prior is not None

    @property
    def stages(self) -> tuple[float, ...]:
        """The values of ``lambda2``; raises while it is "auto"."""
        if isinstance(self.lambda2, str):
            raise TypeError('lambda2 is "auto"; call for_task to get its values.')
        return tuple(float(value) for value in self.lambda2)

    def for_task(self, n_classes: int, n_query: int) -> Settings:
        """The settings with numbers for ``lambda2`` for a task of ``n_classes`` and ``n_query`` queries."""
        if not isinstance(self.lambda2, str):
            return self
        if n_query < QUERIES_A_CLASS * n_classes:
            return replace(self, lambda2=(0.0,))
        last = min(1.0, 5.0 / n_classes)
        return replace(self, lambda2=(*(value for value in LAMBDA2 if value < last), last))


def check_count(name: str, value: object, least: int) -> None:
    """Raise ValueError unless ``value`` is a whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}.")


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
