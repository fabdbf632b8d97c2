"""Class shares: the offset of the planes, and priors over the counts of queries in each class.

The paper's equations have no offset. Features are centred, so without one Σf = 0 over a task, a one-against-four split
costs a large norm, and the query term prefers to cut the classes two against three. The two works the paper builds on
(Chapelle and Zien; QN-S3VM) fix the offset at the mean of the ±1 labels; for a class of share π that is 2π − 1.

``prior="estimate"``, not in the paper, finds π in the task: `marginshot.model.mixture` seeks divisions of the queries
and compares their evidence, to which this module adds the log-probability of the counts. Three priors over counts:

- equal: every division into N equal parts is as likely as any other;
- free: every vector of counts is as likely as any other (a flat Dirichlet);
- sparse: some classes have no queries. Every number of classes present is as likely as any other, and so is every
  choice of so many, and every vector of counts among these. Only with more than five classes, and only where free
  shares already beat equal ones.

Where equal shares win, the lead of their evidence measures how certain they are. Answers are corrected towards them to
that degree (`marginshot.model.counts`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Prior = str | ArrayLike | None

LEAST_SHARE = 1e-6  # guards a division; flat over four orders
LEAST_COUNT = 1e-3  # of a class whose pseudo-count is negative. Flat: 1e-4 to 1e-2 within 0.05
# Added to the counts of a class when its share is sought. With a half, the share is close to exp E[log π] under a flat
# Dirichlet; with minus one, a class with fewer than a query soon has none.
PSEUDO_COUNT_FREE, PSEUDO_COUNT_SPARSE = 0.5, -1.0
# Prior log-odds of equal shares, for each share that another division leaves free. Use 6 when shares set only the
# offset, because planes tolerate a wrong prior: with equal shares assumed they answer unequal ones fairly well.
EQUAL_ODDS, EQUAL_ODDS_OF_OFFSETS = 1.0, 6.0
# Effective dimension d up to which the prior log-odds are those above; beyond, they are (d / 36)^1.5, because rows are
# not balls and the evidence of many dimensions is overstated.
# Acts at 20 and more ways, and is flat there: 24 to 54.
DIMENSIONS_OF_A_NAT = 36.0
# Prior log-odds per absent class, in units of EQUAL_ODDS as raised in many dimensions: one for its share, one for its
# centre, which no query moves. One less costs 0.2 points where classes are absent.
ODDS_OF_ABSENT = 2.0
# Lead of the evidence for equal shares, for each share that another division leaves free, at which they are certain to
# 1 − 1/e. Chosen on validation features of EfficientNet-lite0, small ResNet, CUB, CLINC150 and digits, 5 to 20 ways. A
# trade: 2 gives balanced tasks 0.4 points, 4 gives 0.3; unbalanced ones lose 0.03 and 0.02, and those with nearly equal
# counts (Dirichlet, parameter 15 or 50) 0.3 and 0.1.
NATS_OF_CERTAINTY = 4.0
# With at most this many classes all are taken to be present: at one shot a wrong guess costs more than it wins.
MOST_CLASSES_ALL_PRESENT = 5
# Fewer queries a class than this determine no shares, ...
QUERIES_A_CLASS = 2
# ... unless each class present has this many. Flat: 2 to 8; without the rule 40 ways with 5 present lose 9 points.
QUERIES_OF_FOUND_CLASSES = 4.0


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


def may_be_sparse(n_classes: int) -> bool:
    """Whether some of so many classes may have no queries."""
    return n_classes > MOST_CLASSES_ALL_PRESENT


def evidence_of_counts(counts: Array, sparse: bool, equal_odds: float, dimensions: float) -> float:
    """Log-probability of ``counts`` (N,) under the free or the sparse prior, less that of equal counts.

    ``equal_odds`` and the ``dimensions`` of the rows set the prior log-odds of equal shares.
    """
    n_classes, n_query, present = len(counts), round(counts.sum()), 0
    in_dimensions = (dimensions / DIMENSIONS_OF_A_NAT) ** 1.5
    value = -max(equal_odds, in_dimensions) * (n_classes - 1.0)
    for count in counts:
        value += math.lgamma(count + 1.0) - math.lgamma(n_query / n_classes + 1.0)
        present += int(count > 0.5)
    if not sparse:
        return value + math.lgamma(n_classes) - math.lgamma(n_query + n_classes) + math.lgamma(n_query + 1.0)
    present = min(max(present, 1), n_query)
    absent = n_classes - present
    choices = math.lgamma(n_classes + 1.0) - math.lgamma(present + 1.0) - math.lgamma(absent + 1.0)
    divisions = math.lgamma(n_query) - math.lgamma(present) - math.lgamma(n_query - present + 1.0)
    worth = ODDS_OF_ABSENT * max(EQUAL_ODDS, in_dimensions) * absent
    return value - math.log(n_classes) - choices - divisions + worth


def certainty_of_equal(lead: float, n_classes: int) -> float:
    """Certainty of equal shares, 0 to 1, whose evidence is larger by ``lead`` nats than that of any other division.

    Examples
    --------
    >>> [round(certainty_of_equal(lead, 5), 2) for lead in (-3.0, 0.0, 4.0, 16.0)]
    [0.0, 0.0, 0.22, 0.63]
    """
    return 1.0 - math.exp(-max(lead, 0.0) / (NATS_OF_CERTAINTY * (n_classes - 1)))


def enough_queries(n_query: int, shares: Array) -> bool:
    """Whether this many queries determine the ``shares`` (N,).

    Shares of entropy H count as exp H equal classes.
    """
    entropy = 0.0
    for share in shares:
        entropy -= share * math.log(max(share, LEAST_SHARE**2))
    return bool(n_query >= min(QUERIES_A_CLASS * len(shares), QUERIES_OF_FOUND_CLASSES * math.exp(entropy)))
