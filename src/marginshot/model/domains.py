"""Domains: parts of the rows that differ for another reason than class, as pictures by day and by infrared do.

Not in the paper. A camera, a light or a source shifts all rows it gave. The shift may be larger than the differences
between classes: then all infrared pictures are nearest to one and the same class. Each domain is therefore centred on
its own mean.

Rows are split in two by 2-means, started along each of the directions of largest variance. The labels show whether the
two sides are domains: the side of a row is then independent of its class. With n_c labels of class c, k_c of them on
the second side, which holds a share q of the rows,

    log BetaBin(Σ k_c; Σ n_c, ½, ½) − Σ_c log BetaBin(k_c; n_c, q, 1 − q)

is the log-odds of one unknown share for all classes against a share of its own for each class. They are large where
classes have labelled rows on both sides, and where all labelled rows of many classes lie on one side, as with examples
by day alone. With one label a class and labels on both sides, they decide nothing. The parts are split again while
their log-odds suffice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln
from sklearn.utils.extmath import randomized_svd

from marginshot.model.subsets import evenly

Array = NDArray[np.floating]
Indices = NDArray[np.int64]

# Prior log-odds against a split of domains. On the validation sets no other split has more than 2.4; two cameras
# have 3.9 and more with examples by day, 2.5 to 9.7 with five and ten labels a class from both.
LEAST_EVIDENCE = 3.0
LEAST_ROWS = 200  # on either side of a split: fewer are no evidence
LEAST_SHARE = 0.05  # of the rows, on either side: fewer may be one group of a class
_DIRECTIONS = 4  # from which splits start
_SAMPLED_ROWS = 2000  # on which splits are found
_ROUNDS = 20  # of 2-means at most


def find_domains(rows: Array, codes: Indices, groups: Indices | None = None) -> Indices:
    """Domain (n,) of each of the ``rows`` (n, D), numbered from 0; all 0 where no split is one of domains.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
    codes : ndarray of int of shape (n,)
        Classes, −1 where unknown.
    groups : ndarray of int of shape (n,), optional
        Rows of one group are one example.
    """
    domains = np.zeros(len(rows), dtype=np.int64)
    examples = _one_of_each_group(codes, groups)
    least = max(LEAST_ROWS, LEAST_SHARE * len(rows))
    parts = [np.arange(len(rows))]
    while parts:
        part = parts.pop()
        side = _split(rows[part], examples[part], least)
        if side is not None:
            domains[part[side]] = domains.max() + 1
            parts += [part[~side], part[side]]
    return domains


def domain_means(rows: Array, domains: Indices) -> NDArray[np.float64]:
    """Mean (K, D) of each domain's ``rows`` (n, D)."""
    return np.stack([rows[domains == k].mean(axis=0, dtype=np.float64) for k in range(domains.max(initial=0) + 1)])


def nearest_domain(rows: Array, means: NDArray[np.float64]) -> Indices:
    """Domain (n,) with the nearest of ``means`` (K, D) to each of the ``rows`` (n, D)."""
    if len(means) == 1:
        return np.zeros(len(rows), dtype=np.int64)
    centres = means.astype(rows.dtype)
    return np.asarray((rows @ centres.T - 0.5 * np.einsum("kd,kd->k", centres, centres)).argmax(axis=1))


def evidence_of_domains(labels: Indices, on_second: NDArray[np.bool_], share: float) -> float:
    """Log-odds that a split is one of domains, with the side of each labelled row; see the module.

    Parameters
    ----------
    labels : ndarray of int of shape (n,)
    on_second : ndarray of bool of shape (n,)
    share : float
        Share of all rows that lie on the second side.

    Examples
    --------
    >>> labels, by_day = np.repeat(np.arange(10), 2), np.zeros(20, dtype=bool)
    >>> [round(evidence_of_domains(labels, side, 0.5), 1) for side in (by_day, np.arange(20) % 2 == 1, labels > 4)]
    [7.7, 5.2, -5.8]
    """
    classes = np.unique(labels, return_inverse=True)[1]
    counts = np.bincount(classes)
    second = np.bincount(classes, weights=on_second)
    of_all = betaln(second.sum() + 0.5, counts.sum() - second.sum() + 0.5) - betaln(0.5, 0.5)
    of_each = betaln(second + share, counts - second + 1.0 - share) - betaln(share, 1.0 - share)
    return float(of_all - of_each.sum())


def _split(rows: Array, codes: Indices, least: float) -> NDArray[np.bool_] | None:
    """Which of the ``rows`` (n, D) lie on the second side of the best split of domains; None where there is none."""
    known = np.flatnonzero(codes >= 0)
    if len(rows) < 2 * least or not len(known):
        return None
    sample = rows[evenly(len(rows), _SAMPLED_ROWS)]
    directions = randomized_svd(sample - sample.mean(axis=0), _DIRECTIONS, random_state=0)[2]
    best, found = LEAST_EVIDENCE, None
    for direction in directions:
        side = nearest_domain(rows, _two_means(sample, direction)) == 1
        if least <= side.sum() <= len(rows) - least:
            evidence = evidence_of_domains(codes[known], side[known], float(side.mean()))
            if evidence > best:
                best, found = evidence, side
    return found


def _two_means(rows: Array, direction: Array) -> NDArray[np.float64]:
    """Two means (2, D) of ``rows`` (n, D) by Lloyd's algorithm, from the halves along ``direction`` (D,)."""
    along = rows @ direction
    side = along > along.mean()
    for _ in range(_ROUNDS):
        if side.all() or not side.any():
            break
        means = domain_means(rows, side.astype(np.int64))
        before, side = side, nearest_domain(rows, means) == 1
        if np.array_equal(before, side):
            break
    return means


def _one_of_each_group(codes: Indices, groups: Indices | None) -> Indices:
    """The ``codes`` (n,), −1 for all labelled rows but the first of each class and group."""
    if groups is None:
        return codes
    known = np.flatnonzero(codes >= 0)
    _, first = np.unique(np.stack((codes[known], groups[known])), axis=1, return_index=True)
    examples = np.full_like(codes, -1)
    examples[known[first]] = codes[known[first]]
    return examples
