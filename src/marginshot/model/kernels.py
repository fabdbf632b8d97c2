"""Kernels as functions of inner products. A new one is a class here and a line in `KERNELS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Kernel:
    """A function of two rows, by their inner product and squared lengths.

    Parameters
    ----------
    gamma : "scale", float, or ndarray that broadcasts against Gram matrices
        Width; "scale" becomes one over the total variance of the rows by `fitted`.
    degree : int
    coef0 : float

    Attributes
    ----------
    is_linear : bool
        Whether planes in the space of the kernel are planes in the space of the rows.
    is_named : bool
        Whether it is a function of inner products: then rows may be averaged first, and `approximation` gives the
        parameters of its approximation.
    takes_rows : bool
        Whether it is given rows, and not the kernel matrix itself.
    """

    gamma: Any = "scale"
    degree: int = 3
    coef0: float = 1.0

    name: ClassVar[str]
    is_linear: ClassVar[bool] = False
    is_named: ClassVar[bool] = True
    takes_rows: ClassVar[bool] = True

    def fitted(self, inner: Array) -> Self:
        """The kernel with its width fixed, by the rows' inner products (..., M, M)."""
        if isinstance(self.gamma, str):
            return replace(self, gamma=_scale(inner))
        return self

    def fitted_to_variance(self, variance: float) -> Self:
        """The kernel with its width fixed, by the rows' total variance."""
        if isinstance(self.gamma, str):
            return replace(self, gamma=1.0 / variance if variance > 0 else 1.0)
        return self

    def of_inner(self, inner: Array, left: Array, right: Array) -> Array:
        """Kernel values from inner products (..., a, b) and the squared lengths (..., a) and (..., b) of the rows."""
        raise NotImplementedError(f"{type(self).__name__} is not a function of inner products.")

    def matrix(self, left: Array, right: Array | None) -> NDArray[np.float64]:
        """Kernel (a, b) between rows (a, D) and (b, D)."""
        if right is None:
            raise ValueError("A kernel of rows needs both of them.")
        inner = (left @ right.T).astype(np.float64)
        squares = [np.einsum("ij,ij->i", rows, rows) for rows in (left, right)]
        return self.of_inner(inner, *squares).astype(np.float64, copy=False)

    def approximation(self) -> dict[str, Any]:
        """Parameters of scikit-learn's Nystroem for this kernel, its width fixed."""
        return {"kernel": self.name, "gamma": float(self.gamma)}


class Linear(Kernel):
    """k(x, y) = xᵀy."""

    name = "linear"
    is_linear = True

    def fitted(self, inner: Array) -> Self:
        """The kernel itself: it has no width."""
        return self

    def of_inner(self, inner: Array, left: Array, right: Array) -> Array:
        """The inner products themselves."""
        return inner


class RBF(Kernel):
    """k(x, y) = exp(−γ |x − y|²)."""

    name = "rbf"

    def of_inner(self, inner: Array, left: Array, right: Array) -> Array:
        """Kernel values from squared distances."""
        distances = np.maximum(left[..., :, None] + right[..., None, :] - 2.0 * inner, 0.0)
        value: Array = np.exp(-self.gamma * distances)
        return value


class Polynomial(Kernel):
    """k(x, y) = (γ xᵀy + c)^d."""

    name = "poly"

    def of_inner(self, inner: Array, left: Array, right: Array) -> Array:
        """Kernel values from inner products alone."""
        power: Array = (self.gamma * inner + self.coef0) ** self.degree
        return power

    def approximation(self) -> dict[str, Any]:
        """Parameters of Nystroem, with degree and constant."""
        return super().approximation() | {"degree": self.degree, "coef0": self.coef0}


class Precomputed(Kernel):
    """The user gives the kernel matrix itself."""

    name = "precomputed"
    is_named = False
    takes_rows = False

    def fitted(self, inner: Array) -> Self:
        """The kernel itself: it has no width."""
        return self

    def matrix(self, left: Array, right: Array | None) -> NDArray[np.float64]:
        """``left`` (a, b) is the kernel already."""
        return left.astype(np.float64, copy=False)


@dataclass(frozen=True)
class UserKernel(Kernel):
    """A callable of the user's, from rows (a, D) and (b, D) to numbers (a, b)."""

    function: Callable[[Array, Array], Any] | None = None

    name = "callable"
    is_named = False

    def fitted(self, inner: Array) -> Self:
        """The kernel itself: it has no width."""
        return self

    def matrix(self, left: Array, right: Array | None) -> NDArray[np.float64]:
        """Kernel (a, b) of the user's callable; ValueError unless it is finite and of that shape."""
        if self.function is None or right is None:
            raise ValueError("A kernel of rows needs a function and both rows.")
        values = np.asarray(self.function(left, right), dtype=np.float64)
        if values.shape != (len(left), len(right)):
            raise ValueError(
                f"kernel must give one number for each pair of rows, shape {(len(left), len(right))}; "
                f"got {values.shape}."
            )
        if not np.isfinite(values).all():
            raise ValueError("kernel must give finite numbers; got NaN or infinity.")
        return values


KERNELS: dict[str, type[Kernel]] = {kernel.name: kernel for kernel in (Linear, RBF, Polynomial, Precomputed)}


def make_kernel(kernel: str | Callable[..., Any], *, gamma: Any, degree: int, coef0: float) -> Kernel:
    """Make the kernel of this name, or of a callable."""
    if callable(kernel):
        return UserKernel(gamma, degree, coef0, function=kernel)
    if kernel not in KERNELS:
        raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, or a callable; got {kernel!r}.")
    return KERNELS[kernel](gamma, degree, coef0)


def _scale(inner: Array) -> Array:
    """One over the rows' total variance, (..., 1, 1): scikit-learn's D · X.var(), from inner products."""
    variance = np.einsum("...ii->...", inner) / inner.shape[-1] - inner.mean(axis=(-2, -1))
    return np.asarray(1.0 / np.where(variance > 0, variance, 1.0))[..., None, None]
