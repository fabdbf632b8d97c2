"""Biases that make the counts of the answers match known class shares (Sinkhorn's scaling).

Not in the paper. Where the shares π of the classes among m queries are known, answers with other counts contain errors.
Scores z are corrected by one bias a class, so that

    Σ_i softmax_c(2 (z_i + b)) = m π_c

This is Sinkhorn's scaling, an optimal transport of queries to classes of known sizes. The sum is sharper than the
probabilities softmax(z + b) and softer than the labels. Rows whose scores are all zero are not counted.

The biases minimise the convex function ½ Σ_i logsumexp(2 (z_i + b)) − m π·b. Newton's method needs the counts and their
derivatives, which are sums over rows: a large task adds them up block by block.

Shares that the user gives are certain. Estimated shares are certain only in part, and only where they are found to be
equal (`marginshot.model.shares`); that part of the biases is then added.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Counts (..., N) that biases (..., N) lead to, and their derivatives (..., N, N).
Divide = Callable[[Array], tuple[Array, Array]]

# Of the softmax that is counted. Chosen on balanced validation tasks of EfficientNet-lite0, small ResNet, CUB and
# CLINC150, 2, 5 and 20 ways. Flat: 1.4 to 3 within 0.06 points; 1 costs 0.14 and 4 costs 0.08.
SHARPNESS = 2.0
TOLERANCE = 1e-6  # of the queries: how exactly counts are met
MAX_ITER = 300  # 5 to 10 are usual; each absent class takes some 20
# Largest range of a step. Third derivatives of logsumexp are at most the range of a step times the second ones, so up
# to here every Newton step descends.
LONGEST_STEP = 1.0
RIDGE = 1e-9  # of the queries: where all answers are certain, second derivatives vanish


def meet_shares(shares: Array, certainty: Array, divide: Divide) -> Array:
    """Biases (..., N) with which ``divide`` meets the ``shares`` (..., N) of the rows it counts, each task by itself.

    They are multiplied by the ``certainty`` (...) of the shares, 0 to 1.

    Examples
    --------
    >>> scores = np.array([[1.0, 0.0], [0.6, 0.0], [0.2, 0.0], [0.0, 0.5]])
    >>> biases = meet_shares(np.array([0.5, 0.5]), np.array(1.0), lambda b: divide_scores(scores, b))
    >>> (scores + biases).argmax(axis=1)
    array([0, 0, 1, 1])
    """
    biases = np.zeros_like(shares)
    unmet = certainty > 0.0
    for _ in range(MAX_ITER):
        counts, derivatives = divide(biases)
        total = counts.sum(axis=-1, keepdims=True)
        excess = counts - shares * total
        unmet &= np.abs(excess).max(axis=-1) > TOLERANCE * total[..., 0]
        if not unmet.any():
            break
        ridge = (RIDGE * total + np.finfo(np.float64).tiny)[..., None] * np.eye(shares.shape[-1])
        step = np.linalg.solve(derivatives + ridge, excess[..., None])[..., 0]
        longest = np.ptp(step, axis=-1, keepdims=True)
        biases = np.where(unmet[..., None], biases - step / np.maximum(longest / LONGEST_STEP, 1.0), biases)
    return np.asarray(certainty[..., None] * biases)


def divide_scores(scores: Array, biases: Array) -> tuple[Array, Array]:
    """Counts (..., N) of rows with ``scores`` (..., m, N) under ``biases`` (..., N); their derivatives (..., N, N)."""
    answers = (
        np.ascontiguousarray(np.swapaxes(scores, -1, -2)) + biases[..., None]
    )  # (..., N, m): sums over few classes
    answers -= answers.max(axis=-2, keepdims=True)
    answers = np.exp(SHARPNESS * answers)
    answers *= (scores.any(axis=-1) / answers.sum(axis=-2))[..., None, :]
    counts = answers.sum(axis=-1)
    derivatives = counts[..., None] * np.eye(counts.shape[-1]) - answers @ np.swapaxes(answers, -1, -2)
    return counts, SHARPNESS * derivatives
