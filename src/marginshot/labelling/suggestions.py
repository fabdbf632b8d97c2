"""What to label next: the unlabelled items whose labels would help most.

Smallest margin alone picks the same doubtful corner again and again. Here each item picked covers its surroundings, and
the next pick is the one that adds most doubt not yet covered:

    gain(j) = Σ_i doubt_i · max(0, k(i, j) − max over labelled and picked l of k(i, l))

with doubt_i = 1 − (probability of the label − probability of the runner-up) and k = exp(sharpness · (cosine − 1)) on
centred features. Picks come in order: the first ten of twenty are the ten one gets when asking for ten.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

SHARPNESS = 6.0

#: Larger sets are searched in their most doubtful items and a sample of the rest, this many in all.
LARGEST_SEARCH = 2_000


def suggest_rows(
    X: NDArray[np.floating], probabilities: Array, given: NDArray[np.int64], n_suggestions: int
) -> NDArray[np.int64]:
    """Rows to label next, the most useful first, (min(n_suggestions, unlabelled rows),).

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Labelled and unlabelled rows.
    probabilities : ndarray of shape (n_rows, n_classes)
        What the classifier answers.
    given : ndarray of int64 of shape (n_rows,)
        -1 for unlabelled rows.
    n_suggestions : int
        How many rows to suggest.
    """
    unlabelled = np.flatnonzero(given < 0)
    if n_suggestions == 0 or not len(unlabelled):
        return np.empty(0, dtype=np.int64)
    doubt = doubts(probabilities)
    candidates = _candidates(unlabelled, doubt[unlabelled], max(LARGEST_SEARCH, n_suggestions))
    mean = X.mean(axis=0)
    rows = _unit(X[candidates] - mean)
    similarity = np.exp(SHARPNESS * (rows @ rows.T - 1.0))
    covered = np.exp(SHARPNESS * (rows @ _unit(X[given >= 0] - mean).T - 1.0)).max(axis=1, initial=0.0)
    picks = _cover(similarity, covered, doubt[candidates], min(n_suggestions, len(candidates)))
    return candidates[picks]


def doubts(probabilities: Array) -> Array:
    """One minus the lead of the label over the runner-up, (n_rows,)."""
    ordered = np.sort(probabilities, axis=1)
    return np.asarray(1.0 - (ordered[:, -1] - ordered[:, -2]))


def _candidates(unlabelled: NDArray[np.int64], doubt: Array, limit: int) -> NDArray[np.int64]:
    """At most ``limit`` of the unlabelled rows: half the most doubtful, half spread evenly over the others."""
    if len(unlabelled) <= limit:
        return unlabelled
    order = np.argsort(-doubt, kind="stable")
    first = limit - limit // 2
    spread = np.linspace(first, len(order) - 1, limit // 2).astype(np.int64)
    return unlabelled[np.concatenate((order[:first], order[spread]))]


def _cover(similarity: Array, covered: Array, doubt: Array, n_picks: int) -> NDArray[np.int64]:
    """Greedy picks (n_picks,) by the gain of the module's formula."""
    picks = np.empty(n_picks, dtype=np.int64)
    free = np.ones(len(covered), dtype=bool)
    for place in range(n_picks):
        gain = doubt @ np.maximum(similarity - covered[:, None], 0.0)
        picks[place] = np.argmax(np.where(free, gain, -np.inf))
        free[picks[place]] = False
        covered = np.maximum(covered, similarity[:, picks[place]])
    return picks


def _unit(rows: NDArray[np.floating]) -> NDArray[np.floating]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0))
