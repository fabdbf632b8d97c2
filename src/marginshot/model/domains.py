"""Domains: parts of the rows that differ for another reason than class, as pictures by day and by infrared do.

Not in the paper. A camera, a light or a source shifts all rows it gave. The shift may be larger than the differences
between classes: then all infrared pictures are nearest to one and the same class. Each domain is therefore centred on
its own mean.

Rows are split in two by 2-means, started along each of the directions of largest variance. The labels show whether the
two sides are domains. A third of them is hidden in turn, and predicted by a softmax regression on the others: with each
side centred on its own mean, the hidden labels of domains become more likely, those of classes less.

Examples by day alone say little of this kind, and one label a class cannot be hidden. Then the sides tell: those of
domains are independent of the class. With n_c labels of class c, k_c of them on the second side, which holds a share q
of the rows,

    log BetaBin(Σ k_c; Σ n_c, ½, ½) − Σ_c log BetaBin(k_c; n_c, q, 1 − q)

is the log-odds of one unknown share for all classes against a share of its own for each class. They are large where all
labelled rows of many classes lie on one side. With one label a class and labels on both sides, nothing is decided. The
parts are split again while there is evidence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, softmax
from sklearn.utils.extmath import randomized_svd

from marginshot.model.regression import fit_regression
from marginshot.model.stacking import FIRST_WRONG, N_FOLDS, folds_of
from marginshot.model.subsets import evenly
from marginshot.model.transforms import l2_normalize

Array = NDArray[np.floating]
Indices = NDArray[np.int64]

# Nats by which hidden labels have to become more likely. On the validation sets, with 2 to 30 labels a class, splits
# that gain more change the accuracy of `auto` by −1 to 18 points, 3 in the mean. Two cameras, with three labels a class
# from both, gain 1.4 and more; no other split but those of sounds (up to 42) gains more than 1.3. Flat: 0.6 to 1.3.
LEAST_GAIN = 1.0
# Log-odds that suffice where hidden labels are no less likely. Two cameras have 6 and more with examples by day.
LEAST_EVIDENCE = 3.0
# Log-odds below which no label is hidden: sides depend on the class.
LEAST_ODDS = -20.0
MOST_HIDDEN = 500  # labels of a sample
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
    tried = known[np.argsort(codes[known], kind="stable")][evenly(len(known), MOST_HIDDEN)]
    labels = np.unique(codes[tried], return_inverse=True)[1]
    best, found, whole = (-np.inf, -np.inf), None, None
    for direction in directions:
        side = nearest_domain(rows, _two_means(sample, direction)) == 1
        if not least <= side.sum() <= len(rows) - least:
            continue
        evidence = evidence_of_domains(codes[known], side[known], float(side.mean()))
        if evidence < LEAST_ODDS:
            continue
        if whole is None:
            whole = hidden_likelihood(rows[tried], labels, rows.mean(axis=0, dtype=np.float64)[None])
        gain = hidden_likelihood(rows[tried], labels, domain_means(rows, side.astype(np.int64)), side[tried]) - whole
        shown = gain >= LEAST_GAIN or (gain >= 0.0 and evidence >= LEAST_EVIDENCE)
        if shown and (gain, evidence) > best:
            best, found = (gain, evidence), side
    return found


def hidden_likelihood(
    rows: Array, labels: Indices, means: NDArray[np.float64], on_second: NDArray[np.bool_] | None = None
) -> float:
    """Log-likelihood of labels that are hidden in turn, by a softmax regression on the others; 0 where none can be.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
        Labelled ones.
    labels : ndarray of int of shape (n,)
        Each class occurs.
    means : ndarray of shape (K, D)
        Origins of the domains.
    on_second : ndarray of bool of shape (n,), optional
        Whether each row is of the second domain; by default there is one.

    Examples
    --------
    >>> rows, labels = np.tile([[1.0, 1.0], [1.0, -1.0]], (4, 1)), np.tile([0, 1], 4)
    >>> rows[4:] *= -1.0
    >>> means, second = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.arange(8) > 3
    >>> labels[4:] = 1 - labels[4:]
    >>> bool(hidden_likelihood(rows, labels, means, second) > hidden_likelihood(rows, labels, np.zeros((1, 2))))
    True
    """
    origins = means[0] if on_second is None else means[on_second.astype(np.int64)]
    unit = l2_normalize(rows - origins)
    gram, n_classes = unit @ unit.T, int(labels.max()) + 1
    folds = folds_of(labels, np.arange(len(labels)), rows.sum(axis=1))
    total = 0.0
    for fold in range(N_FOLDS):
        hidden, kept = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        if len(hidden):
            coef = fit_regression(gram[np.ix_(kept, kept)], labels[kept], np.ones(len(kept)), n_classes)
            probabilities = softmax(gram[np.ix_(hidden, kept)] @ coef, axis=1)
            own = probabilities[np.arange(len(hidden)), labels[hidden]]
            total += float(np.log((1.0 - FIRST_WRONG) * own + FIRST_WRONG / n_classes).sum())
    return total


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
