"""Samples of the rows of a large task, for estimates of few numbers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]

SAMPLED_QUERIES = 1_000
GROWTH = 1.1  # steps in which more rows are drawn for them, as labels take rows out
SAMPLED_SHOTS = 50
SAMPLED_SUPPORT = 1_000


def sample_rows(
    support: Indices, labels: Indices, groups: Indices, order: Indices, seed: int = 0
) -> tuple[Indices, Indices]:
    """Rows that stand for all rows of a task: positions in ``support``, and row numbers of queries, each sorted.

    Parameters
    ----------
    support, labels : ndarray of int of shape (n,)
        The labelled rows, in order, and their classes.
    groups : ndarray of int of shape (n_rows,)
        Rows of one group are one example: at most one of them is a query, and none if one of them has a label.
    order : ndarray of int of shape (n_rows,)
        Row numbers, sorted by a key of the rows that does not depend on the order in which they were given.
    seed : int, default=0
    """
    shots = max(min(SAMPLED_SHOTS, SAMPLED_SUPPORT // max(len(np.unique(labels)), 1)), 1)
    places = np.empty(len(groups), dtype=np.int64)
    places[order] = np.arange(len(order))
    by_place = np.argsort(places[support], kind="stable")
    members = [by_place[labels[by_place] == c] for c in np.unique(labels)]
    positions = np.sort(np.concatenate([rows[evenly(len(rows), shots, seed)] for rows in members]))
    others = order[~np.isin(groups[order], groups[support])]
    _, first = np.unique(groups[others], return_index=True)
    others = others[np.sort(first)]
    # As many of all rows as hold these queries, in steps: one more label takes its own row out and moves few others.
    count = len(others)
    if count > SAMPLED_QUERIES:
        count = round(GROWTH ** math.ceil(math.log(SAMPLED_QUERIES, GROWTH)))
    return positions, np.sort(others[evenly(len(others), count, seed)])


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
