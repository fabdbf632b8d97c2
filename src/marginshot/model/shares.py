"""The offset of f, from the share of each class among the queries.

The paper's equations have no offset. Features are centred, so without one Σf = 0 over a task, a one-against-four split
costs a large norm, and the query term prefers to cut the classes two against three. The two works the paper builds on
(Chapelle and Zien; QN-S3VM) fix the offset at the mean of the ±1 labels; for a class of share π that is 2π − 1.

`prior="estimate"`, not in the paper, finds π in the task itself: `marginshot.model.mixture`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot.classifier.settings import Prior

Array = NDArray[np.float64]


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
