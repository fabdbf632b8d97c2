"""The offset of f, from the share of each class among the queries.

The paper's equations have no offset. Features are centred, so without one Σf = 0 over a task, a one-against-four split
costs a large norm, and the query term prefers to cut the classes two against three. The two works the paper builds on
(Chapelle and Zien; QN-S3VM) fix the offset at the mean of the ±1 labels; for a class of share π that is 2π − 1.

`prior="estimate"`, not in the paper, finds π in the task itself: by expectation-maximisation over the scores of the
convex stage, then shrunk towards uniform as far as the answers are uncertain. See `estimate_shares`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from marginshot.settings import Prior

Array = NDArray[np.float64]

_SHARPNESS = 5.0  # of the posteriors exp(sharpness · f)
_PSEUDO_COUNT = 1.0  # queries added to every class
_ROUNDS = 30
_ERROR_TO_SPREAD = 2.0  # spread of the shares, over 1/N, that uncertain answers alone produce, per unit of uncertainty


def is_estimated(prior: Prior) -> bool:
    """Whether the shares are estimated from the task."""
    return isinstance(prior, str) and prior == "estimate"


def starting_prior(prior: Prior, n_classes: int) -> Array:
    """Class shares (n_classes,) to begin with.

    Examples
    --------
    >>> starting_prior("uniform", 4)
    array([0.25, 0.25, 0.25, 0.25])
    """
    if prior is None or isinstance(prior, str):
        return np.full(n_classes, 1.0 / n_classes)
    shares = np.asarray(prior, dtype=np.float64)
    if shares.shape != (n_classes,):
        raise ValueError(f"prior must have one share for each of the {n_classes} classes; got shape {shares.shape}.")
    if not np.isfinite(shares).all() or (shares < 0).any() or abs(shares.sum() - 1.0) > 1e-6:
        raise ValueError(f"prior must be non-negative shares that sum to 1; got {shares.tolist()}.")
    return shares


def offsets(prior: Prior, shares: Array) -> Array:
    """Offsets 2π − 1 for shares of any shape; zero for ``prior=None``, the printed equations."""
    return np.zeros_like(shares) if prior is None else 2.0 * shares - 1.0


def estimate_shares(scores: Array) -> Array:
    """Shares (..., N) of the classes among queries with these ``scores`` (..., m, N) in the convex stage (λ2 = 0).

    Posteriors p_c ∝ π_c exp(5 f_c) and shares π_c = (Σ p_c + 1) / (m + N) are iterated to their fixed point. The
    answers are uncertain, and that alone spreads the shares: in balanced tasks by about s₀ = 2 · mean(1 − max p), in
    units of 1/N. With s the spread found, the shares are shrunk towards uniform by the factor max(0, 1 − s₀²/s²), as
    James and Stein do.

    Without queries there is no evidence, and the shares are uniform.
    """
    n_query, n_classes = scores.shape[-2:]
    uniform = 1.0 / n_classes
    shares = np.full((*scores.shape[:-2], n_classes), uniform)
    if n_query == 0:
        return shares
    logits = _SHARPNESS * scores
    for _ in range(_ROUNDS):
        posteriors = softmax(logits + np.log(shares)[..., None, :], axis=-1)
        shares = (posteriors.sum(axis=-2) + _PSEUDO_COUNT) / (n_query + n_classes * _PSEUDO_COUNT)
    uncertainty = _ERROR_TO_SPREAD * (1.0 - posteriors.max(axis=-1)).mean(axis=-1)
    spread2 = n_classes**2 * ((shares - uniform) ** 2).sum(axis=-1) / (n_classes - 1)
    trust = np.maximum(0.0, 1.0 - uncertainty**2 / np.maximum(spread2, 1e-12))
    return uniform + trust[..., None] * (shares - uniform)
