"""The hyper-parameters of FS-TMMC, checked once, before any work starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginshot.model.calibration import CALIBRATIONS, Calibration
from marginshot.model.kernels import Kernel, make_kernel
from marginshot.model.named_transforms import check_neighbours, make_transform
from marginshot.model.shares import is_estimated

KernelOption = Literal["linear", "rbf", "poly", "precomputed"] | Callable[..., Any]
PriorOption = Literal["uniform", "estimate"] | ArrayLike | None
CalibrationOption = Literal["platt", "logistic", "none", "softmax", "mixture", "graph"]
Lambda2Option = Sequence[float]
PresetOption = Literal["printed", "paper", "auto", "balanced"]

#: The paper's stages.
LAMBDA2 = (0.0, 1e-5, 1e-3, 0.1, 1.0)
#: Those of "auto", for speed: the stages left out end where they start.
FEWER_LAMBDA2 = (0.0, 0.1, 1.0)

_PAPER: dict[str, Any] = {
    "lambda2": LAMBDA2,
    "prior": "uniform",
    "meet_prior": False,
    "n_neighbors": 0,
    "calibration": "platt",
    "feature_transform": "cl2n",
    "tol": 3e-4,
}
_AUTO: dict[str, Any] = {
    "lambda2": FEWER_LAMBDA2,
    "prior": "estimate",
    "meet_prior": False,
    "n_neighbors": 8,
    "calibration": "graph",
    "feature_transform": "discriminant",
    "tol": 3e-4,
}
#: "printed" is the paper's objective as printed, solved in function space. "paper" adds the offset and Platt's
#: smoothed targets.
#: "auto" adds the steps for unbalanced and many classes. "balanced" is "auto" for classes known to have equally many
#: unlabelled rows.
#: Each has a value for every parameter in which presets differ. docs/results/departures.md measures the differences.
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "printed": MappingProxyType(_PAPER | {"prior": None, "calibration": "logistic", "tol": 3e-5}),
        "paper": MappingProxyType(_PAPER),
        "auto": MappingProxyType(_AUTO),
        "balanced": MappingProxyType(_AUTO | {"prior": "uniform", "meet_prior": True}),
    }
)


def preset_parameters(preset: str) -> dict[str, Any]:
    """The parameters that a preset sets."""
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}; got {preset!r}.")
    return dict(PRESETS[preset])


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Hyper-parameters of `TransductiveMaxMarginClassifier`, which documents each of them, for `solve_tasks`.

    The defaults are those of the preset "auto".

    Examples
    --------
    >>> Settings(lambda1=0.1).stages
    (0.0, 0.1, 1.0)
    >>> Settings.from_preset("paper", lambda1=0.1).stages
    (0.0, 1e-05, 0.001, 0.1, 1.0)
    """

    lambda1: float = 0.04
    lambda2: Lambda2Option = FEWER_LAMBDA2
    gamma1: float = 20.0
    gamma2: float = 2.0
    prior: PriorOption = "estimate"
    meet_prior: bool = False
    kernel: KernelOption = "linear"
    gamma: Literal["scale"] | float = "scale"
    degree: int = 3
    coef0: float = 1.0
    n_neighbors: int = 8
    calibration: CalibrationOption = "graph"
    feature_transform: Any = "discriminant"
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
            raise ValueError(
                f"n_neighbors={self.n_neighbors} needs a named kernel on features; got {self.kernel!r}. Set "
                'n_neighbors=0 and calibration="mixture", or start from_preset("paper", kernel=...).'
            )
        if isinstance(self.prior, str) and self.prior not in ("uniform", "estimate"):
            raise ValueError(
                f'prior must be "uniform", "estimate", an array of class shares, or None; got {self.prior!r}.'
            )
        self._check_meeting()
        check_neighbours(self.n_neighbors, self.make_transformer())

    @classmethod
    def from_preset(cls, preset: PresetOption, **parameters: Any) -> Self:
        """Settings of a preset, one of `PRESETS`, and any others given here."""
        return cls(**(preset_parameters(preset) | parameters))

    def _check_meeting(self) -> None:
        """Raise ValueError where ``meet_prior`` lacks known shares, or a calibration that can meet them."""
        if not isinstance(self.meet_prior, bool | np.bool_):
            raise ValueError(f"meet_prior must be True or False; got {self.meet_prior!r}.")
        if not self.meet_prior:
            return
        if self.prior is None or is_estimated(self.prior):
            raise ValueError(
                f"meet_prior=True needs class shares that are known; got prior={self.prior!r}. "
                'Set prior="uniform" or an array of shares.'
            )
        if not self.answers.answers_jointly:
            raise ValueError(
                f'meet_prior=True needs calibration="mixture" or "graph"; got calibration="{self.calibration}".'
            )

    def make_transformer(self) -> Any:
        """An unfitted transformer of the rows; None where they are not transformed, or are a kernel matrix."""
        return make_transform(self.feature_transform) if self.kernel_function.takes_rows else None

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
        return self.answers.answers_jointly and (self.meet_prior or is_estimated(self.prior))

    @property
    def stages(self) -> tuple[float, ...]:
        """The values of ``lambda2``."""
        return tuple(float(value) for value in self.lambda2)


def as_settings(settings: Settings | PresetOption) -> Settings:
    """The settings themselves, or those of the preset that is named."""
    return settings if isinstance(settings, Settings) else Settings.from_preset(settings)


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
    try:
        array: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(
            f"lambda2 must be a sequence of numbers, none negative, such as (0, 0.1, 1) or (0,); got {values!r}."
        )
