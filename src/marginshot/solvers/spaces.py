"""Geometries of the solver: how coefficients become scores, and the inner product that measures lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Space(Protocol):
    """The operations of a function space that the solver needs. Every array has one column per class."""

    def pull_back(self, slope: Array) -> Array:
        """Gradient of a loss whose derivative by the scores is ``slope``, as coefficients."""

    def dual(self, coef: Array) -> Array:
        """The array d with <a, coef> = Σ a·d for every a."""

    def scores(self, coef: Array, dual: Array) -> Array:
        """Scores of all rows under ``coef``, whose dual is given."""


@dataclass(frozen=True)
class GramSpace:
    """f = Kα: coefficients are α, lengths are αᵀKα, and the dual of α is its image Kα, which is also its scores."""

    gram: Array

    def pull_back(self, slope: Array) -> Array:
        """α-coefficients of the gradient: the slope itself."""
        return slope

    def dual(self, coef: Array) -> Array:
        """Kα: the one product with K of an iteration."""
        return self.gram @ coef

    def scores(self, coef: Array, dual: Array) -> Array:
        """Kα, which is the dual."""
        return dual


class EuclideanSpace:
    """R^D: a plane is its own dual, and takes the place of the scores."""

    def pull_back(self, slope: Array) -> Array:
        """The slope itself: the loss already returns gradients by the planes."""
        return slope

    def dual(self, coef: Array) -> Array:
        """The plane itself."""
        return coef

    def scores(self, coef: Array, dual: Array) -> Array:
        """The plane itself."""
        return coef
