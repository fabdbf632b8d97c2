"""The mixture of class clusters for a batch of small tasks, compiled. Its NumPy twin, `mixture.py`, explains it.

Arrays over classes and rows are (N, M) here: loops run along the rows of a class, and vectorise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import entry_point, leaf
from marginshot.classifier.settings import QUERIES_A_CLASS
from marginshot.model.mixture import (
    CENTRE_PRIOR,
    DIMENSIONS_OF_A_NAT,
    EXPLAINED_OF_QUERIES,
    EXPLAINED_OF_SUPPORT,
    EXPLAINED_UNCHECKED,
    FEW_CLASSES,
    FIRST_WITHIN,
    HEAD_START,
    HINTS_IN_EVIDENCE,
    LEAST_COUNT,
    LEAST_SHARE,
    LEAST_SPREAD,
    LEAST_WITHIN,
    LEFT_OUT,
    MANY_CLASSES,
    MISPLACED,
    MISPLACED_SHARE,
    MOST_LEFT_OUT,
    OF_ANY_DIVISION,
    OF_CLASSES_PRESENT,
    QUERIES_OF_FOUND_CLASSES,
    SHARE_STEPS,
    SHARPENING,
    STARTS_OF_AN_ABSENT,
    SUPPORT_WEIGHT,
)
from marginshot.solvers.exponentials_compiled import decay

Array = NDArray[np.float64]
Gram = NDArray[np.float32]
#: Sizes (N,), weights of the rows (N, M or n), the centres' inner products with these, and their lengths (N,).
Centres = tuple[Array, Gram, Gram, Array]


@leaf
def _spread(gram: Gram, n_support: int) -> tuple[float, float, float]:
    """Variance and effective dimension of the rows, and the queries' squared distances to the mean of the others."""
    n_rows = gram.shape[0]
    trace, squares, rows, grand, to_mean = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n_rows):
        total, square = 0.0, 0.0
        row = gram[i]
        for j in range(n_rows):
            total += np.float64(row[j])
            square += np.float64(row[j]) * np.float64(row[j])
        trace += np.float64(gram[i, i])
        if i >= n_support:
            to_mean += np.float64(gram[i, i]) - 2.0 * total / n_rows
        squares += square
        rows += (total / n_rows) ** 2
        grand += total / n_rows**2
    to_mean = (to_mean + (n_rows - n_support) * grand) * (n_rows / (n_rows - 1.0)) ** 2
    least = LEAST_SPREAD * trace
    trace -= n_rows * grand
    squares += (n_rows * grand) ** 2 - 2.0 * n_rows * rows
    if trace > least and squares > least * least:
        return trace / n_rows, trace * trace / squares, to_mean
    return 0.0, 0.0, to_mean


@leaf
def _weigh_classes(likelihood: Array, shares: Array, phantom: float, answers: Array, factors: Array) -> None:
    """Better factors (N,) on the classes' likelihoods (N, m): the answers keep to ``shares``, where there are any."""
    n_classes, n_query = likelihood.shape
    for _ in range(SHARE_STEPS):
        _answer(likelihood, factors, answers)
        for c in range(n_classes):
            count = answers[c].sum()
            if shares.size:
                factors[c] *= max(shares[c], LEAST_SHARE) / max(count / n_query, LEAST_SHARE)
            else:
                factors[c] = max(count + phantom, LEAST_COUNT)


@leaf
def _answer(likelihood: Array, factors: Array, answers: Array) -> None:
    """Answers (N, m): the likelihoods times the factors, normalised over the classes."""
    n_classes, n_query = likelihood.shape
    total = np.zeros(n_query)
    for c in range(n_classes):
        row, out, factor = likelihood[c], answers[c], factors[c]
        for i in range(n_query):
            out[i] = factor * row[i]
            total[i] += out[i]
    for c in range(n_classes):
        out = answers[c]
        for i in range(n_query):
            out[i] /= total[i]


@leaf
def _alternate(
    gram: Gram,
    spread: tuple[float, float, float],
    labels: NDArray[np.int64],
    means: Centres,
    hints: Array,
    shares: Array,
    phantom: float,
    answers: Array,
    logits: Array,
    found: Array,
) -> tuple[float, float, bool, float]:
    """Write logits (M, N) and shares (N,) after the last round, starting from ``answers`` (N, m), which are changed.

    ``hints`` (N, m) stand beside the likelihoods of the queries; ``phantom`` queries are added to the counts where no
    ``shares`` are.

    Returns the evidence but for that of the counts, the share of the variance within the classes, whether there are
    clusters, and how far labelled rows bear it out, by comparison with ``means`` (see `_means_of_support`).
    """
    n_classes, n_rows, n_support = found.shape[0], gram.shape[0], labels.shape[0]
    n_query = n_rows - n_support
    weights, sizes = np.empty((n_classes, n_rows), np.float32), np.empty(n_classes)
    centres, products = np.empty((n_classes, n_rows), np.float32), np.empty((n_classes, n_rows), np.float32)
    scaled, likelihood, factors = np.empty((n_classes, n_rows)), np.empty((n_classes, n_query)), np.ones(n_classes)
    variance, dimensions, to_mean = spread
    total, within = (SUPPORT_WEIGHT * n_support + n_query) * variance, FIRST_WITHIN
    for round_ in range(len(SHARPENING)):
        _place_centres(gram, labels, answers, weights, sizes, centres, products)
        if round_ and variance > 0.0:
            within = min(max(_distances(gram, weights, centres, products) / total, LEAST_WITHIN), 1.0)
        beta = SHARPENING[round_] * 0.5 * dimensions / (within * variance) if variance > 0.0 else 0.0
        for c in range(n_classes):
            _scale(centres[c], products[c], beta, scaled[c])
        if n_query:
            _exponentiate(scaled[:, n_support:], hints, likelihood)
            _weigh_classes(likelihood, shares, phantom, answers, factors)
            _answer(likelihood, factors, answers)
    of_support, of_queries = _left_out(gram, n_support, weights, sizes, centres, products)
    share = min(max((of_support + of_queries) / total, LEAST_WITHIN), MOST_LEFT_OUT) if variance > 0.0 else FIRST_WITHIN
    log_variance = (1.0 - LEFT_OUT) * math.log(within) + LEFT_OUT * math.log(share)
    evidence = -0.5 * dimensions * (SUPPORT_WEIGHT * n_support + n_query) * log_variance
    for c in range(n_classes):
        log_factor = math.log(factors[c])
        found[c] = answers[c].sum() / n_query if n_query else 1.0 / n_classes
        for i in range(n_rows):
            logits[i, c] = scaled[c, i] + log_factor
        for i in range(n_query):
            if answers[c, i] > 0.0:
                evidence += answers[c, i] * (HINTS_IN_EVIDENCE * hints[c, i] - math.log(answers[c, i]))
    trust = _trust(gram, labels, beta, (sizes, centres, products, _lengths(centres, products)), means)
    unchecked = n_support <= n_classes and n_classes > FEW_CLASSES
    explained = EXPLAINED_UNCHECKED if unchecked else EXPLAINED_OF_QUERIES
    return evidence, within, of_queries < (1.0 - explained) * to_mean, trust


@leaf
def _distances(gram: Gram, weights: Gram, centres: Gram, products: Gram) -> float:
    """Σ weight · squared distance of all rows to all centres."""
    total = 0.0
    for c in range(centres.shape[0]):
        length = _length(centres[c], products[c])
        for i in range(gram.shape[0]):
            distance = np.float64(gram[i, i]) - 2.0 * np.float64(products[c, i]) + length
            total += np.float64(weights[c, i]) * distance
    return total


@leaf
def _left_out(
    gram: Gram, n_support: int, weights: Gram, sizes: Array, centres: Gram, products: Gram
) -> tuple[float, float]:
    """The same with each row left out of the centre, of the support and of the queries."""
    of_support, of_queries = 0.0, 0.0
    for c in range(centres.shape[0]):
        length = _length(centres[c], products[c])
        for i in range(gram.shape[0]):
            weight = np.float64(weights[c, i])
            distance = np.float64(gram[i, i]) - 2.0 * np.float64(products[c, i]) + length
            distance *= weight * (sizes[c] / (sizes[c] - weight)) ** 2
            if i < n_support:
                of_support += distance
            else:
                of_queries += distance
    return of_support, of_queries


@leaf
def _trust(
    gram: Gram,
    labels: NDArray[np.int64],
    beta: float,
    mixture: Centres,
    means: Centres,
) -> float:
    """How far a mixture is believed that finds labelled rows, left out, in their class no less than the means do."""
    counts = means[0]
    lead, n_checked = 0.0, 0
    for i in range(labels.shape[0]):
        own, square = labels[i], np.float64(gram[i, i])
        if counts[own] > 1.0:
            without = (mixture[0][own] / (mixture[0][own] - SUPPORT_WEIGHT)) ** 2
            lead += _found(square, own, beta, without, mixture[3], mixture[2][:, i])
            without = (counts[own] / (counts[own] - 1.0)) ** 2
            lead -= _found(square, own, beta, without, means[3], means[2][:, i])
            n_checked += 1
    return min(max(1.0 + lead / (MISPLACED + MISPLACED_SHARE * n_checked), 0.0), 1.0)


@leaf
def _lengths(centres: Gram, products: Gram) -> Array:
    """CᵀKC of every class, (N,)."""
    lengths = np.empty(centres.shape[0])
    for c in range(centres.shape[0]):
        lengths[c] = _length(centres[c], products[c])
    return lengths


@leaf
def _found(
    square: float, own: int, beta: float, without: float, lengths: Array, products: NDArray[np.float32]
) -> float:
    """Probability of a row's ``own`` class, from which it is so many times as far ``without`` itself in the centre."""
    distances = np.empty(lengths.shape[0])
    nearest, total = np.inf, 0.0
    for c in range(lengths.shape[0]):
        distances[c] = square - 2.0 * np.float64(products[c]) + lengths[c]
        if c == own:
            distances[c] *= without
        nearest = min(nearest, distances[c])
    for c in range(lengths.shape[0]):
        total += math.exp(beta * (nearest - distances[c]))
    return math.exp(beta * (nearest - distances[own])) / total


@leaf
def _exponentiate(scaled: Array, hints: Array, likelihood: Array) -> None:
    """Likelihoods (N, m), the hints among them, relative to each query's largest."""
    n_classes, n_query = likelihood.shape
    top = np.full(n_query, -np.inf)
    for c in range(n_classes):
        row, hint = scaled[c], hints[c]
        for i in range(n_query):
            top[i] = max(top[i], row[i] + hint[i])
    for c in range(n_classes):
        row, hint, out = scaled[c], hints[c], likelihood[c]
        for i in range(n_query):
            out[i] = decay(row[i] + hint[i] - top[i], np.float64)


@leaf
def _place_centres(
    gram: Gram, labels: NDArray[np.int64], answers: Array, weights: Gram, sizes: Array, centres: Gram, products: Gram
) -> None:
    """Weights (N, M) of the rows in each class, the centres they make, and these centres' inner products with all rows.

    ``sizes`` (N,) are the weights' sums with that of the prior row.
    """
    n_support, n_rows = labels.shape[0], gram.shape[0]
    prior = np.float32(CENTRE_PRIOR / n_rows)
    weights[:] = np.float32(0.0)
    for i in range(n_support):
        weights[labels[i], i] = SUPPORT_WEIGHT
    for c in range(answers.shape[0]):
        row, source = weights[c, n_support:], answers[c]
        for i in range(source.shape[0]):
            row[i] = source[i]
        sizes[c] = weights[c].sum() + CENTRE_PRIOR
        scale = np.float32(1.0 / sizes[c])
        for i in range(n_rows):
            centres[c, i] = (weights[c, i] + prior) * scale
    np.dot(centres, gram, products)


@leaf
def _length(centre: NDArray[np.float32], product: NDArray[np.float32]) -> float:
    """CᵀKC of one class."""
    length = 0.0
    for i in range(centre.shape[0]):
        length += np.float64(centre[i]) * np.float64(product[i])
    return length


@leaf
def _scale(centre: NDArray[np.float32], product: NDArray[np.float32], beta: float, scaled: Array) -> None:
    """β (2 kᵀC − CᵀKC) of one class at every row."""
    length = _length(centre, product)
    for i in range(centre.shape[0]):
        scaled[i] = beta * (2.0 * np.float64(product[i]) - length)


@leaf
def _means_of_support(gram: Gram, labels: NDArray[np.int64], n_classes: int) -> Centres:
    """The means of the labelled rows of each class."""
    n_support = labels.shape[0]
    means, products = np.zeros((n_classes, n_support), np.float32), np.empty((n_classes, n_support), np.float32)
    counts = np.zeros(n_classes)
    for i in range(n_support):
        means[labels[i], i] = np.float32(1.0)
        counts[labels[i]] += 1.0
    for c in range(n_classes):
        means[c] /= np.float32(counts[c])
    np.dot(means, np.ascontiguousarray(gram[:n_support, :n_support]), products)
    return counts, means, products, _lengths(means, products)


@leaf
def _labels_are_clustered(gram: Gram, labels: NDArray[np.int64], of_support: Centres) -> bool:
    """Whether labelled rows are nearer to their class than to the task's mean, where classes have several."""
    n_rows, (counts, _, products, lengths) = gram.shape[0], of_support
    grand, within, to_mean = 0.0, 0.0, 0.0
    for i in range(n_rows):
        grand += np.float64(gram[i].sum()) / n_rows**2
    for i in range(labels.shape[0]):
        own, square = labels[i], np.float64(gram[i, i])
        count = counts[own]
        if count > 1.0:
            distance = square - 2.0 * np.float64(products[own, i]) + lengths[own]
            within += distance * count / (count - 1.0)
            to_mean += square - 2.0 * np.float64(gram[i].sum()) / n_rows + grand
    return within < (1.0 - EXPLAINED_OF_SUPPORT) * to_mean * (n_rows / (n_rows - 1.0)) ** 2


@leaf
def _put_into_one_class(gram: Gram, of_support: Centres, answers: Array) -> None:
    """Answers (N, m) that put every query into the class whose support is nearest to their mean."""
    _, means, _, lengths = of_support
    n_support = means.shape[1]
    to_queries = np.zeros(n_support)
    for i in range(n_support):
        for j in range(n_support, gram.shape[0]):
            to_queries[i] += np.float64(gram[i, j])
    nearest, least = 0, np.inf
    for c in range(means.shape[0]):
        distance = lengths[c]
        for i in range(n_support):
            distance -= 2.0 * np.float64(means[c, i]) * to_queries[i] / answers.shape[1]
        if distance < least:
            nearest, least = c, distance
    answers[:] = 0.0
    answers[nearest] = 1.0


@leaf
def _evidence_of_counts(shares: Array, n_query: int, lead: float, dimensions: float, phantom: float) -> float:
    """What the counts say for unequal classes, any division of them or some present, against equal parts."""
    n_classes, present = shares.shape[0], 0
    in_dimensions = (dimensions / DIMENSIONS_OF_A_NAT) ** 1.5
    value = -max(lead, in_dimensions) * (n_classes - 1.0)
    for c in range(n_classes):
        value += math.lgamma(n_query * shares[c] + 1.0) - math.lgamma(n_query / n_classes + 1.0)
        present += int(n_query * shares[c] > 0.5)
    if phantom > 0.0:
        return value + math.lgamma(n_classes) - math.lgamma(n_query + n_classes) + math.lgamma(n_query + 1.0)
    present = min(max(present, 1), n_query)
    absent = n_classes - present
    choices = math.lgamma(n_classes + 1.0) - math.lgamma(present + 1.0) - math.lgamma(absent + 1.0)
    divisions = math.lgamma(n_query) - math.lgamma(present) - math.lgamma(n_query - present + 1.0)
    worth = STARTS_OF_AN_ABSENT * max(HEAD_START, in_dimensions) * absent
    return value - math.log(n_classes) - choices - divisions + worth


@leaf
def _are_enough(n_query: int, shares: Array) -> bool:
    entropy = 0.0
    for share in shares:
        if share > 0.0:
            entropy -= share * math.log(share)
    return n_query >= min(QUERIES_A_CLASS * shares.shape[0], QUERIES_OF_FOUND_CLASSES * math.exp(entropy))


@entry_point
def fit_mixtures(
    grams: NDArray[np.float32],
    labels: NDArray[np.int64],
    hints: Array,
    shares: Array,
    estimate: bool,
    lead: float,
    logits: Array,
    found: Array,
    within: Array,
) -> None:
    """Fit a mixture to each task of a batch, as `fit_mixture` does with ``shares``, or None to estimate.

    ``grams`` (T, M, M), support rows first; ``labels`` (T, n); ``hints`` (T, N, m), zero where there
    are none; ``shares`` (T, N), uniform where they are estimated;
    ``lead``, the least head start of equal shares.
    Written in place: ``logits`` (T, M, N); ``found`` (T, N), the shares given or estimated; ``within`` (T,).
    """
    n_classes, n_query = found.shape[1], grams.shape[1] - labels.shape[1]
    nothing, answers = np.empty(0), np.empty((n_classes, n_query))
    n_unequal = 0 if n_query == 0 or not estimate else 3 if n_classes > MANY_CLASSES else 2
    equal_logits, equal_found = np.empty(logits.shape[1:]), np.empty(n_classes)
    other_logits, other_found = np.empty(logits.shape[1:]), np.empty(n_classes)
    for task in range(grams.shape[0]):
        gram, known = grams[task], labels[task]
        spread, means = _spread(gram, known.shape[0]), _means_of_support(gram, known, n_classes)
        answers[:] = 0.0
        evidence, within[task], clustered, trust = _alternate(
            gram, spread, known, means, hints[task], shares[task], 0.0, answers, logits[task], found[task]
        )
        equal_within = within[task]
        equal_logits[:], equal_found[:] = logits[task], found[task]
        unequal = False
        for hypothesis in range(n_unequal):  # any division, the same from one class, some classes present
            if hypothesis == 2 and not unequal:
                break
            if hypothesis == 1:
                _put_into_one_class(gram, means, answers)
            else:
                answers[:] = 0.0
            phantom = OF_CLASSES_PRESENT if hypothesis == 2 else OF_ANY_DIVISION
            other, other_within, seen, other_trust = _alternate(
                gram, spread, known, means, hints[task], nothing, phantom, answers, other_logits, other_found
            )
            other += _evidence_of_counts(other_found, n_query, lead, spread[1], phantom)
            clustered = clustered or seen
            if other > evidence:
                logits[task], found[task], within[task], evidence = other_logits, other_found, other_within, other
                unequal, trust = True, other_trust
        clustered = clustered or (estimate and _labels_are_clustered(gram, known, means))
        if estimate and not (clustered and _are_enough(n_query, found[task])):
            logits[task], found[task], within[task], trust = equal_logits, equal_found, equal_within, 0.0
        logits[task] *= trust
        found[task] = trust * found[task] + (1.0 - trust) / n_classes if estimate else shares[task]
