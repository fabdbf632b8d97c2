"""Samples of the rows of a large task, for estimates of few numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAMPLED_QUERIES = 1_000
GROWTH = 1.1  # steps in which more rows are drawn for them, as labels take rows out
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
    n_query = n_rows - len(support)
    count = n_rows
    if n_query > SAMPLED_QUERIES:
        # As many of all rows as hold these queries, in steps: one more label takes its own row out and moves no other.
        count = round(GROWTH ** math.ceil(math.log(SAMPLED_QUERIES * n_rows / n_query, GROWTH)))
    return positions, np.setdiff1d(evenly(n_rows, count, seed), support, assume_unique=True)


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
