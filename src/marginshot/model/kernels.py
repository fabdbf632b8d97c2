"""Kernels as functions of inner products, for one task or a batch of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.classifier.settings import Settings

Array = NDArray[np.floating]


def call_kernel(kernel: Callable[[Array, Array], Any], left: Array, right: Array) -> NDArray[np.float64]:
    """What a user's kernel gives for rows (a, D) and (b, D), if that is finite numbers of shape (a, b)."""
    values = np.asarray(kernel(left, right), dtype=np.float64)
    if values.shape != (len(left), len(right)):
        raise ValueError(
            f"kernel must give one number for each pair of rows, shape {(len(left), len(right))}; got {values.shape}."
        )
    if not np.isfinite(values).all():
        raise ValueError("kernel must give finite numbers; got NaN or infinity.")
    return values


@dataclass(frozen=True)
class KernelFunction:
    """A named kernel with its width fixed.

    Parameters
    ----------
    kind : {"linear", "rbf", "poly"}
    gamma : float or ndarray that broadcasts against the Gram matrices
    degree : int
    coef0 : float
    """

    kind: str
    gamma: float | Array
    degree: int
    coef0: float

    @classmethod
    def fitted(cls, settings: Settings, inner: Array) -> KernelFunction:
        """The kernel of ``settings``, its width "scale" taken from the rows' inner products (..., M, M)."""
        gamma: float | Array = 1.0
        if settings.kernel != "linear":
            gamma = _scale(inner) if settings.gamma == "scale" else float(settings.gamma)
        return cls(str(settings.kernel), gamma, settings.degree, settings.coef0)

    def __call__(self, inner: Array, left: Array, right: Array) -> Array:
        """Kernel values from inner products (..., a, b) and the squared lengths (..., a) and (..., b) of the rows."""
        if self.kind == "linear":
            return inner
        if self.kind == "poly":
            power: Array = (self.gamma * inner + self.coef0) ** self.degree
            return power
        distances = np.maximum(left[..., :, None] + right[..., None, :] - 2.0 * inner, 0.0)
        value: Array = np.exp(-self.gamma * distances)
        return value


def _scale(inner: Array) -> Array:
    """One over the rows' total variance, (..., 1, 1): scikit-learn's D · X.var(), from inner products."""
    variance = np.einsum("...ii->...", inner) / inner.shape[-1] - inner.mean(axis=(-2, -1))
    return np.asarray(1.0 / np.where(variance > 0, variance, 1.0))[..., None, None]
