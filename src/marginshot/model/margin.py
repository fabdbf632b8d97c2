"""The objective of FS-TMMC, all classes of one task in NumPy. Its compiled pair is `solvers/margin_compiled.py`.

For each class c, one against the rest (paper, Eq. 7; the offset inside f is ours, see `marginshot.model.shares`):

    F(α) = λ1/2 αᵀKα
         + 1/n Σ_support w_i/γ1 log(1 + exp(γ1 (1 − y_i f_i)))      smoothed hinge on the support
         + λ2/m Σ_query  exp(−γ2 f_i²)                              queries push the plane out of dense regions

This module holds the two sums, which depend on the scores f alone; the first term belongs to the geometry and is
handled by the solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]


def one_vs_rest(labels: NDArray[np.int64], n_classes: int, row_weights: Array | None = None) -> tuple[Array, Array]:
    """Signs y and weights w/n of each support point in each class's problem, both (n_support, n_classes).

    Positive and negative points of a problem weigh one half together, w_i = n / (2 · size of its side), whatever the
    number of each. ``row_weights`` (n_support,) divide that half among the points of a side; equally by default.

    Examples
    --------
    >>> signs, weights = one_vs_rest(np.array([0, 0, 1]), 2)
    >>> signs[:, 1]
    array([-1., -1.,  1.])
    >>> weights[:, 1]
    array([0.25, 0.25, 0.5 ])
    """
    member = labels[:, None] == np.arange(n_classes)
    each = np.ones((len(labels), 1)) if row_weights is None else row_weights[:, None]
    positive, negative = (each * member).sum(axis=0), (each * ~member).sum(axis=0)
    return np.where(member, 1.0, -1.0), np.where(member, 0.5 * each / positive, 0.5 * each / negative)


@dataclass(frozen=True)
class MarginLoss:
    """The loss of the scores, support rows first.

    Parameters
    ----------
    signs, weights : ndarray of shape (n_support, n_classes)
        As from `one_vs_rest`.
    gamma1 : float
        Sharpness of the smoothed hinge.
    gamma2 : float
        Sharpness of the query term.
    lambda2 : float
        Weight of the query term.
    """

    signs: Array
    weights: Array
    gamma1: float
    gamma2: float
    lambda2: float

    def __call__(self, scores: Array) -> tuple[Array, Array]:
        """Loss of each class (n_classes,) and its derivative t by the scores (M, n_classes), Eq. (9)."""
        n_support = len(self.signs)
        excess = self.gamma1 * (1.0 - self.signs * scores[:n_support])
        loss = (self.weights * np.logaddexp(0.0, excess)).sum(axis=0) / self.gamma1
        slope = np.empty_like(scores)
        slope[:n_support] = -self.weights * self.signs * expit(excess)
        query = scores[n_support:]
        if len(query):
            bump = np.exp(-self.gamma2 * query**2)
            # In double precision, or the sum over many rows of single precision hides the last steps' decrease.
            loss += self.lambda2 * bump.mean(axis=0, dtype=np.float64)
            slope[n_support:] = -2.0 * self.gamma2 * self.lambda2 / len(query) * query * bump
        return loss, slope

    def of_classes(self, kept: NDArray[np.bool_]) -> MarginLoss:
        """The loss of some of the classes."""
        return MarginLoss(self.signs[:, kept], self.weights[:, kept], self.gamma1, self.gamma2, self.lambda2)
