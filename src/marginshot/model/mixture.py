"""A mixture of one cluster a class in the kernel's space: class shares, and answers to all classes jointly.

One-versus-rest planes are fitted one by one, and ignore how the queries divide among the classes. A mixture fits all
classes together. Class c is a ball around a centre, a weighted mean Σ C_ci φ(x_i) of the task's rows, and

    log p(c | x) = β (2 k(x)ᵀC_c − C_cᵀK C_c) + log-share of c + constant

Centres and responsibilities alternate, as in expectation-maximisation. A labelled row counts four times and stays in
its class; a query counts once, divided among the classes by its responsibilities. Everything is linear in the kernel,
so the logits are planes like those of FS-TMMC, and hold for rows that come later.

The sharpness follows from the task. Balls of variance v in d dimensions have β = d / (2v). d is the effective dimension
(tr K)² / tr K² of the centred kernel matrix, and v is estimated along with the centres. The first rounds work at half
the sharpness: a soft start, like the growing query weight of the planes, ends less often in a poor division.

The class shares are given, or estimated: of several divisions of the queries, with the priors of
`marginshot.model.shares`, the one with the largest evidence is taken. A centre made of few rows fits these too well,
the more so the more dimensions there are. So a quarter of the variance in the evidence is the leave-one-out variance,
with each row left out of its centre. Where neither queries nor labelled rows form clusters, shares stay equal and the
logits are zero. They are zero too with fewer than two queries a class, unless nearly all queries lie in a few classes.

Clusters may have nothing to do with the classes. Labels hidden in turn measure how far the mixture can be trusted
(`marginshot.model.stacking`).

Hints, the logits of `marginshot.model.graph`, are added to log p(c | x) while centres and shares are estimated.

One task a call. Arrays over classes and rows are (N, M), support rows first. The text is plain NumPy that numba
compiles too: `marginshot.batch.compiled` loops over tasks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginshot.model.grams import Geometry, measure
from marginshot.model.primitives import (
    add,
    add_columns,
    affine,
    decay,
    entropy,
    leave_out,
    multiply,
    normalise,
    responsibility_sums,
    sum_products,
    sum_rows,
)
from marginshot.model.shares import (
    LEAST_COUNT,
    LEAST_SHARE,
    PSEUDO_COUNT_FREE,
    PSEUDO_COUNT_SPARSE,
    certainty_of_equal,
    enough_queries,
    evidence_of_counts,
    may_be_sparse,
)

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

# Constants were chosen on validation features: EfficientNet-lite0, small ResNet, CUB, CLINC150 texts and digits, 2 to
# 40 ways, 1 to 10 shots, balanced, Dirichlet and absent classes. "Flat" gives the mean change of accuracy, in points,
# when a constant is varied that far; differences below 0.2 are within its error.
SUPPORT_WEIGHT = 4.0  # rows that a labelled row counts for. Flat: 2.7 gives +0.2, 6 gives −0.3
SHARPENING = (0.5, 0.5, 2 / 3, 5 / 6, 1.0, 1.0)  # of β, round by round. Flat: from a third −0.1, from 0.75 +0.1
FIRST_WITHIN = 2 / 3  # share of the variance within classes before the first round. Flat: 0.44 to 1 within 0.1
LEAST_WITHIN, MOST_LEFT_OUT = 0.05, 2.0  # bounds of estimated shares of the variance; guards that no real task meets
SHARE_STEPS = 5  # of the inner alternation between responsibilities and shares. Flat: 3 to 8 within 0.1
CENTRE_PRIOR = 1.0  # rows at the task's mean that every centre holds. Flat: 0.5 to 2 within 0.1
LEFT_OUT = 0.25  # weight of the leave-one-out variance beside the variance as found. Flat: 0.12 +0.1, 0.5 −0.2
# Share of the variance that classes must explain to be clusters: of queries, left out of their centres, and of labelled
# rows, of which there are fewer. Not flat above: twice as much costs 0.3 and 0.2, half as much nothing.
EXPLAINED_OF_QUERIES, EXPLAINED_OF_SUPPORT = 0.03, 0.1
# With one label a class, require 0.08 of queries: averaging with neighbours makes false clusters, which no second label
# contradicts. Not with up to four classes: one may hold nearly all queries, and clusters then explain little. Flat:
# 0.04 to 0.16.
EXPLAINED_UNCHECKED, FEW_CLASSES = 0.08, 4
HINTS_IN_EVIDENCE = 0.5  # weight of the hints when divisions are compared: neighbours err together. Flat: 0.25 to 1


class Mixture(NamedTuple):
    """Logits coef · k(rows, x) + intercept of each class at a row x, and the classes' shares of the queries.

    Attributes
    ----------
    coef : ndarray of shape (N, M)
        Over the rows of the task, support first.
    intercept : ndarray of shape (N,)
    logits : ndarray of shape (N, M)
        At the rows of the task.
    shares : ndarray of shape (N,)
        Given, or estimated: the mean responsibilities.
    within : float
        Share of the rows' variance that lies within the classes: small where clusters are far apart.
    evidence : float
        Log-probability of the rows, up to that of the counts and a constant.
    clustered : bool
        Whether clusters explain enough of the variance, and queries suffice; if not, the logits are zero. Always true
        of the result for given shares.
    equality : float
        Certainty, 0 to 1, that all queries are divided equally, where the evidence chose so; else 0.
    """

    coef: Array
    intercept: Array
    logits: Array
    shares: Array
    within: float
    evidence: float
    clustered: bool
    equality: float


class Support(NamedTuple):
    """Statistics of the labelled rows alone.

    Attributes
    ----------
    labels : ndarray of int of shape (n,)
    members : ndarray of shape (N, n)
        Weight of each labelled row in its class, 0 elsewhere.
    several : ndarray of shape (N, n)
        1 where a row is one of several of its class, else 0.
    away : ndarray of shape (N, n)
        Squared distance of each labelled row to each class mean.
    counts : ndarray of shape (N,)
        Sums of the weights.
    to_queries : ndarray of shape (N,)
        Squared distances of the class means to the mean of the queries, up to a constant.
    """

    labels: Labels
    members: Array
    several: Array
    away: Array
    counts: Array
    to_queries: Array


class Centres(NamedTuple):
    """Centres made of weighted rows, and where the rows lie about them.

    Attributes
    ----------
    sizes : ndarray of shape (N,)
        Sums of the weights, the prior row's among them.
    coef : ndarray of shape (N, M)
        The centres, over the rows.
    products : ndarray of shape (N, M)
        Their inner products with the rows.
    lengths : ndarray of shape (N,)
        Their squared lengths.
    away : ndarray of shape (N, M)
        Squared distances of the rows.
    """

    sizes: Array
    coef: Array
    products: Array
    lengths: Array
    away: Array


def fit_mixture(
    gram: NDArray[np.floating],
    labels: Labels,
    weights: Array,
    hints: Array,
    shares: Array,
    estimate: bool,
    equal_odds: float,
    n_query: int,
) -> Mixture:
    """The mixture of one task.

    Parameters
    ----------
    gram : ndarray of shape (M, M)
        Kernel matrix, support rows first.
    labels : ndarray of int of shape (n,)
        Classes of the support; each occurs.
    weights : ndarray of shape (n,)
        Weight of each labelled row; 1 by default.
    hints : ndarray of shape (N, m)
        Logits added to the queries' own while centres and shares are estimated; the returned logits do not contain
        them.
    shares : ndarray of shape (N,)
        The classes' shares of the queries, which responsibilities then keep to.
    estimate : bool
        Let the evidence decide between equal shares and the divisions of `marginshot.model.shares`. Each is sought from
        the support. The free one is also sought from all queries in one class: alternation finds only what is near, and
        a task may hardly have any queries of the other classes. ``shares`` are equal ones then.
    equal_odds : float
        Prior log-odds of equal shares, for each share that other divisions leave free; larger in many dimensions.
    n_query : int
        Queries of the task, where ``gram`` holds a sample of them.
    """
    n_classes, m = hints.shape
    geometry, support = measure(gram), look_at_support(gram, labels, weights, n_classes)
    unanswered = np.zeros((n_classes, m))
    equal = alternate(gram, geometry, support, hints, shares, 0.0, unanswered)
    if not estimate:
        return believe(equal, 1.0, shares, 0.0)
    found, clustered = equal, equal.clustered or labels_are_clustered(geometry, support)
    lead = math.inf  # of the evidence for equal shares over that for any other division
    for attempt in range(3 if m else 0):  # free from the support, free from one class, sparse from the support
        sparse = attempt == 2
        if sparse and not (lead < 0.0 and may_be_sparse(n_classes)):
            break
        start = all_in_one_class(support, m) if attempt == 1 else unanswered
        pseudo_count = PSEUDO_COUNT_SPARSE if sparse else PSEUDO_COUNT_FREE
        other = alternate(gram, geometry, support, hints, np.empty(0), pseudo_count, start)
        of_counts = evidence_of_counts(m * other.shares, sparse, equal_odds, geometry.dimensions)
        clustered = clustered or other.clustered
        lead_over_other = equal.evidence - other.evidence - of_counts
        if lead_over_other < min(lead, 0.0):
            found = other
        lead = min(lead, lead_over_other)
    if not (clustered and enough_queries(n_query, found.shares)):
        return believe(equal, 0.0, shares, 0.0)
    if lead > 0.0:
        # The counts of a sample hardly show whether the counts of all queries are equal.
        return believe(equal, 1.0, shares, certainty_of_equal(lead, n_classes) if m == n_query else 0.0)
    return believe(found, 1.0, found.shares, 0.0)


def believe(mixture: Mixture, heard: float, shares: Array, equality: float) -> Mixture:
    """The mixture with its final ``shares`` (N,) and their ``equality``; its logits are zeroed where ``heard`` is 0."""
    return Mixture(
        heard * mixture.coef,
        heard * mixture.intercept,
        heard * mixture.logits,
        shares,
        mixture.within,
        mixture.evidence,
        heard > 0.0,
        equality,
    )


def look_at_support(gram: NDArray[np.floating], labels: Labels, weights: Array, n_classes: int) -> Support:
    """Statistics of the labelled rows alone; arguments as for `fit_mixture`."""
    n, n_rows = len(labels), len(gram)
    members, several = np.zeros((n_classes, n)), np.zeros((n_classes, n))
    counts, rows_of = np.zeros(n_classes), np.zeros(n_classes)
    for i in range(n):
        members[labels[i], i] = weights[i]
        counts[labels[i]] += weights[i]
        rows_of[labels[i]] += 1.0
    for i in range(n):
        if rows_of[labels[i]] > 1.0:
            several[labels[i], i] = 1.0
    nothing = np.zeros(n_classes)
    means = affine(members, 1.0 / counts, nothing)
    products = multiply(means, gram[:n])
    lengths = sum_products(means, products[:, :n])
    away = add_columns(affine(products[:, :n], np.full(n_classes, -2.0), lengths), np.diag(gram)[:n])
    to_queries = sum_rows(products[:, n:])
    for c in range(n_classes):
        to_queries[c] = lengths[c] - 2.0 * to_queries[c] / max(n_rows - n, 1)
    return Support(labels, members, several, away, counts, to_queries)


def all_in_one_class(support: Support, n_query: int) -> Array:
    """Responsibilities (N, n_query) of the class whose mean is nearest to that of the queries, for all of them."""
    responsibilities = np.zeros((len(support.counts), n_query))
    responsibilities[np.argmin(support.to_queries)] = 1.0
    return responsibilities


def alternate(
    gram: NDArray[np.floating],
    geometry: Geometry,
    support: Support,
    hints: Array,
    shares: Array,
    pseudo_count: float,
    start: Array,
) -> Mixture:
    """Run expectation-maximisation from the responsibilities ``start`` (N, m); the caller decides on the result's use.

    The given ``shares`` (N,) are kept. An empty array, (0,), lets them follow the counts plus ``pseudo_count``.
    """
    n_classes, n = support.members.shape
    n_query = hints.shape[1]
    weights = np.zeros((n_classes, len(gram)))
    weights[:, :n] = SUPPORT_WEIGHT * support.members
    total = weights.sum() + n_query
    responsibilities, factors, within, beta = start, np.ones(n_classes), FIRST_WITHIN, 0.0
    for round_ in range(len(SHARPENING)):
        weights[:, n:] = responsibilities
        centres = place_centres(gram, geometry.squares, weights)
        if round_:
            within = share_of_variance(sum_products(weights, centres.away).sum(), total, geometry, 1.0)
        if geometry.variance > 0.0:
            beta = SHARPENING[round_] * 0.5 * geometry.dimensions / (within * geometry.variance)
        logits = affine(centres.products, np.full(n_classes, 2.0 * beta), -beta * centres.lengths)
        if n_query:
            responsibilities = respond(add(logits[:, n:], hints), shares, pseudo_count, factors)
    left_out = sum_products(weights[:, n:], leave_out(centres.away[:, n:], weights[:, n:], centres.sizes)).sum()
    of_support = leave_out(centres.away[:, :n], weights[:, :n], centres.sizes)
    all_left_out = left_out + sum_products(weights[:, :n], of_support).sum()
    # The likelihood of balls of the variance found is v^(−d/2) a row; the rest is the entropy of the responsibilities.
    log_variance = (1.0 - LEFT_OUT) * math.log(within)
    log_variance += LEFT_OUT * math.log(share_of_variance(all_left_out, total, geometry, MOST_LEFT_OUT))
    evidence = entropy(responsibilities) - 0.5 * geometry.dimensions * total * log_variance
    evidence += HINTS_IN_EVIDENCE * sum_products(responsibilities, hints).sum()
    log_factors, intercept = np.log(factors), np.empty(n_classes)
    for c in range(n_classes):
        intercept[c] = log_factors[c] - beta * centres.lengths[c]
    return Mixture(
        2.0 * beta * centres.coef,
        intercept,
        affine(logits, np.ones(n_classes), log_factors),
        sum_rows(responsibilities) / n_query if n_query else np.full(n_classes, 1.0 / n_classes),
        within,
        evidence,
        are_clustered(left_out, geometry, support),
        0.0,
    )


def place_centres(gram: NDArray[np.floating], squares: Array, weights: Array) -> Centres:
    """Centres of rows weighted by ``weights`` (N, M), each with a prior row at the task's mean."""
    sizes = sum_rows(weights) + CENTRE_PRIOR
    coef = affine(weights, 1.0 / sizes, CENTRE_PRIOR / len(gram) / sizes)
    products = multiply(coef, gram)
    lengths = sum_products(coef, products)
    away = add_columns(affine(products, np.full(len(sizes), -2.0), lengths), squares)
    return Centres(sizes, coef, products, lengths, away)


def share_of_variance(squares: float, total: float, geometry: Geometry, most: float) -> float:
    """Share of the variance that summed squared distances of rows of ``total`` weight amount to, within its bounds."""
    if geometry.variance <= 0.0:
        return FIRST_WITHIN
    return min(max(squares / (total * geometry.variance), LEAST_WITHIN), most)


def respond(logits: Array, shares: Array, pseudo_count: float, factors: Array) -> Array:
    """Responsibilities (N, m) of the classes for queries with ``logits`` (N, m); updates ``factors`` (N,) in place.

    A factor stands for the share of a class. Factors follow the counts and pseudo-counts, or make the counts meet
    ``shares`` where there are any: Sinkhorn's scaling.
    """
    n_query = logits.shape[1]
    likelihood = decay(logits)
    for _ in range(SHARE_STEPS):
        odds = responsibility_sums(likelihood, factors)
        for c in range(len(factors)):
            count = factors[c] * odds[c]
            if len(shares):
                factors[c] *= max(shares[c], LEAST_SHARE) / max(count / n_query, LEAST_SHARE)
            else:
                factors[c] = max(count + pseudo_count, LEAST_COUNT)
    return normalise(affine(likelihood, factors, np.zeros(len(factors))))


def are_clustered(left_out: float, geometry: Geometry, support: Support) -> bool:
    """Whether the clusters explain enough of the queries' variance, by leave-one-out distances.

    ``left_out`` is the sum of the queries' squared distances to their centres, each query left out of its centre. It is
    compared with that to the task's mean, each left out of the mean too.
    """
    n_classes, n = support.members.shape
    unchecked = n <= n_classes and n_classes > FEW_CLASSES
    explained = EXPLAINED_UNCHECKED if unchecked else EXPLAINED_OF_QUERIES
    return bool(left_out < (1.0 - explained) * geometry.to_mean[n:].sum())


def labels_are_clustered(geometry: Geometry, support: Support) -> bool:
    """Whether the classes explain enough of the labelled rows' variance, by the sample variance within classes."""
    within, to_mean = 0.0, 0.0
    for i in range(len(support.labels)):
        own = support.labels[i]
        if support.several[own, i] > 0.0:
            count = support.counts[own]
            within += support.away[own, i] * count / (count - support.members[own, i])
            to_mean += geometry.to_mean[i]
    return bool(within < (1.0 - EXPLAINED_OF_SUPPORT) * to_mean)
