"""Rows of a large task that stand for all of them, where few numbers are to be found."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SAMPLED_QUERIES = 1_000
SAMPLED_SHOTS = 50
SAMPLED_SUPPORT = 1_000


def sample_rows(support: NDArray[np.int64], labels: NDArray[np.int64], n_rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Rows of a task that a mixture is fitted on: positions in ``support``, and row numbers of queries.

    ``support`` (n,) are the labelled rows of ``n_rows``, in order, and ``labels`` (n,) their classes.
    """
    classes = np.unique(labels)
    shots = max(min(SAMPLED_SHOTS, SAMPLED_SUPPORT // len(classes)), 1)
    members = [np.flatnonzero(labels == c) for c in classes]
    positions = np.concatenate([rows[evenly(len(rows), shots, seed)] for rows in members])
    queries = evenly(n_rows - len(support), SAMPLED_QUERIES, seed)
    # The k-th query is row k + the number of support rows before it.
    before = support - np.arange(len(support))
    return positions, queries + np.searchsorted(before, queries, side="right")


def evenly(size: int, count: int, seed: int = 0) -> NDArray[np.int64]:
    """At most ``count`` of the numbers below ``size``, in order: one drawn from each of ``count`` equal parts.

    The draws of one seed are always the same. Equal steps instead could meet the same classes again and again, where
    rows take turns.

    Examples
    --------
    >>> evenly(3, 5), evenly(100, 5)
    (array([0, 1, 2]), array([12, 25, 40, 60, 96]))
    """
    if size <= count:
        return np.arange(size)
    edges = np.arange(count) * size // count
    return edges + (draws(count, seed) * np.diff(edges, append=size)).astype(np.int64)


def draws(count: int, seed: int = 0) -> NDArray[np.float64]:
    """The places in their parts, 0 to 1, that `evenly` takes."""
    return np.random.default_rng(seed).random(count)
