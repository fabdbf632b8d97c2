"""Information objectives on logits: TIM's mutual information, alpha-TIM's, entropy minimisation, cross-entropy alone.

For one task with support logits, labels and query logits, p_i the softmax of query i and p̄ their mean:

    cross_entropy/n Σ_support −log p_i[y_i]  −  marginal · H(p̄)  +  conditional/m Σ_query H(p_i)

H is Shannon's entropy for ``alpha = 1``, otherwise Tsallis' (1 − Σ p^alpha) / (alpha − 1), Eq. (7) of alpha-TIM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import log_softmax

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class InformationObjective:
    """Weights of the three terms and the kind of entropy.

    Parameters
    ----------
    cross_entropy : float
        Weight on the support's cross-entropy.
    marginal : float
        Weight on the entropy of the mean query prediction. Maximising it favours equally frequent classes.
    conditional : float
        Weight on the mean entropy of each query's prediction. Minimising it favours confident answers.
    alpha : float
        1 for Shannon's entropies; above 1 for Tsallis', which tolerate unequal class frequencies.
    """

    cross_entropy: float
    marginal: float
    conditional: float
    alpha: float = 1.0

    @property
    def uses_query(self) -> bool:
        """Whether the queries have any influence."""
        return self.marginal != 0.0 or self.conditional != 0.0

    def value(self, support_logits: Array, one_hot: Array, query_logits: Array) -> Array:
        """(T, n, N), (T, n, N), (T, m, N) -> (T,), the objective of each task."""
        value = -self.cross_entropy * (one_hot * log_softmax(support_logits)).sum(axis=2).mean(axis=1)
        if self.uses_query:
            log_p = log_softmax(query_logits)
            mean = np.exp(log_p).mean(axis=1)
            value -= self.marginal * self._entropy(mean, _safe_log(mean))
            value += self.conditional * self._entropy(np.exp(log_p), log_p).mean(axis=1)
        return value

    def gradient(self, support_logits: Array, one_hot: Array, query_logits: Array) -> tuple[Array, Array]:
        """Derivatives with respect to both logits, in their shapes; the arguments are not changed."""
        p = np.exp(log_softmax(support_logits))
        p -= one_hot
        p *= self.cross_entropy / support_logits.shape[1]
        if not self.uses_query:
            return p, np.zeros_like(query_logits)
        log_q = log_softmax(query_logits)
        q = np.exp(log_q)
        mean = q.mean(axis=1, keepdims=True)
        slope = self.conditional * self._entropy_slope(q, log_q)
        slope -= self.marginal * self._entropy_slope(mean, _safe_log(mean))
        # The softmax's own derivative, applied to the slope in probability space.
        slope -= (q * slope).sum(axis=2, keepdims=True)
        slope *= q
        slope /= query_logits.shape[1]
        return p, slope

    def _entropy(self, p: Array, log_p: Array) -> Array:
        """Entropy along the last axis."""
        if self.alpha == 1.0:
            return -(p * log_p).sum(axis=-1)
        return (1.0 - (p**self.alpha).sum(axis=-1)) / (self.alpha - 1.0)

    def _entropy_slope(self, p: Array, log_p: Array) -> Array:
        """Derivative of the entropy by each probability; Shannon's without its constant −1, which softmax cancels."""
        if self.alpha == 1.0:
            return -log_p
        return p ** (self.alpha - 1.0) * (self.alpha / (1.0 - self.alpha))


def _safe_log(p: Array) -> Array:
    """Logarithm of probabilities that may have underflowed to zero."""
    return np.log(np.maximum(p, np.finfo(p.dtype).tiny))
