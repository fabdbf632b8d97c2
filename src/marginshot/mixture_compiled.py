"""The mixture of class clusters for a batch of small tasks, compiled. Its NumPy twin, `mixture.py`, explains it.

Arrays over classes and rows are (N, M) here: loops run along the rows of a class, and vectorise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._jit import entry_point, leaf
from marginshot.kernels.exponentials_compiled import decay
from marginshot.mixture import (
    FIRST_WITHIN,
    LEAST_SHARE,
    LEAST_WITHIN,
    SHARE_STEPS,
    SHARPENING,
    SUPPORT_WEIGHT,
)

Array = NDArray[np.float64]
Gram = NDArray[np.float32]


@leaf
def _spread(gram: Gram, n_support: int) -> tuple[float, float, float]:
    """Variance and effective dimension of the rows, and Σ weight · |x|², of which the centres explain a part."""
    n_rows = gram.shape[0]
    trace, squares, rows, grand, weighted = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(n_rows):
        total, square = 0.0, 0.0
        row = gram[i]
        for j in range(n_rows):
            total += np.float64(row[j])
            square += np.float64(row[j]) * np.float64(row[j])
        trace += np.float64(gram[i, i])
        weighted += np.float64(gram[i, i]) * (SUPPORT_WEIGHT if i < n_support else 1.0)
        squares += square
        rows += (total / n_rows) ** 2
        grand += total / n_rows**2
    trace -= n_rows * grand
    squares += (n_rows * grand) ** 2 - 2.0 * n_rows * rows
    if trace > 1e-6 and squares > 1e-6:
        return trace / n_rows, trace * trace / squares, weighted
    return 0.0, 0.0, weighted


@leaf
def _weigh_classes(likelihood: Array, shares: Array, answers: Array, factors: Array) -> None:
    """Better factors (N,) on the classes' likelihoods (N, m): the answers keep to ``shares``, where there are any."""
    n_classes, n_query = likelihood.shape
    for _ in range(SHARE_STEPS):
        _answer(likelihood, factors, answers)
        for c in range(n_classes):
            count = answers[c].sum()
            if shares.size:
                factors[c] *= max(shares[c], LEAST_SHARE) / max(count / n_query, LEAST_SHARE)
            else:
                factors[c] = count + 0.5


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
    shares: Array,
    answers: Array,
    logits: Array,
    found: Array,
) -> tuple[float, float]:
    """Write logits (M, N) and shares (N,) after the last round, starting from ``answers`` (N, m), which are changed.

    Returns the evidence but for that of the counts, and the share of the variance within the classes.
    """
    n_classes, n_rows, n_support = found.shape[0], gram.shape[0], labels.shape[0]
    n_query = n_rows - n_support
    centres, products = np.empty((n_classes, n_rows), np.float32), np.empty((n_classes, n_rows), np.float32)
    scaled, likelihood, factors = np.empty((n_classes, n_rows)), np.empty((n_classes, n_query)), np.ones(n_classes)
    variance, dimensions, squares = spread
    weight, within = SUPPORT_WEIGHT * n_support + n_query, FIRST_WITHIN
    for round_ in range(len(SHARPENING)):
        explained = _place_centres(gram, labels, answers, centres, products)
        if round_ and variance > 0.0:
            within = min(max((squares - explained) / (weight * variance), LEAST_WITHIN), 1.0)
        beta = SHARPENING[round_] * 0.5 * dimensions / (within * variance) if variance > 0.0 else 0.0
        for c in range(n_classes):
            _scale(centres[c], products[c], beta, scaled[c])
        if n_query:
            _exponentiate(scaled[:, n_support:], likelihood)
            _weigh_classes(likelihood, shares, answers, factors)
            _answer(likelihood, factors, answers)
    evidence = -0.5 * dimensions * weight * math.log(within)
    for c in range(n_classes):
        log_factor = math.log(factors[c])
        found[c] = answers[c].sum() / n_query if n_query else 1.0 / n_classes
        for i in range(n_rows):
            logits[i, c] = scaled[c, i] + log_factor
        for i in range(n_query):
            if answers[c, i] > 0.0:
                evidence -= answers[c, i] * math.log(answers[c, i])
    return evidence, within


@leaf
def _exponentiate(scaled: Array, likelihood: Array) -> None:
    """Likelihoods (N, m) relative to each query's largest."""
    n_classes, n_query = likelihood.shape
    top = np.full(n_query, -np.inf)
    for c in range(n_classes):
        row = scaled[c]
        for i in range(n_query):
            top[i] = max(top[i], row[i])
    for c in range(n_classes):
        row, out = scaled[c], likelihood[c]
        for i in range(n_query):
            out[i] = decay(row[i] - top[i], np.float64)


@leaf
def _place_centres(
    gram: Gram,
    labels: NDArray[np.int64],
    answers: Array,
    centres: NDArray[np.float32],
    products: NDArray[np.float32],
) -> float:
    """Weights (N, M) of the rows in each class's centre, their inner products with all rows, and what they explain."""
    n_support, n_query = labels.shape[0], answers.shape[1]
    sizes = np.empty(answers.shape[0])
    centres[:] = np.float32(0.0)
    for i in range(n_support):
        centres[labels[i], i] = SUPPORT_WEIGHT
    for c in range(answers.shape[0]):
        row, source = centres[c, n_support:], answers[c]
        for i in range(n_query):
            row[i] = source[i]
        sizes[c] = centres[c].sum()
        centres[c] /= np.float32(sizes[c])
    np.dot(centres, gram, products)
    explained = 0.0
    for c in range(answers.shape[0]):
        explained += sizes[c] * _length(centres[c], products[c])
    return explained


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
def _put_into_one_class(gram: Gram, labels: NDArray[np.int64], answers: Array) -> None:
    """Answers (N, m) that put every query into the class whose support is nearest to their mean."""
    n_support, n_classes = labels.shape[0], answers.shape[0]
    nothing = np.empty((n_classes, 0))
    centres, products = np.empty((n_classes, n_support), np.float32), np.empty((n_classes, n_support), np.float32)
    _place_centres(np.ascontiguousarray(gram[:n_support, :n_support]), labels, nothing, centres, products)
    to_queries = np.zeros(n_support)
    for i in range(n_support):
        for j in range(n_support, gram.shape[0]):
            to_queries[i] += np.float64(gram[i, j])
    nearest, least = 0, np.inf
    for c in range(n_classes):
        distance = _length(centres[c], products[c])
        for i in range(n_support):
            distance -= 2.0 * np.float64(centres[c, i]) * to_queries[i] / answers.shape[1]
        if distance < least:
            nearest, least = c, distance
    answers[:] = 0.0
    answers[nearest] = 1.0


@leaf
def _evidence_of_counts(shares: Array, n_query: int, lead: float) -> float:
    """What the counts say for unequal classes: flat Dirichlet against equal parts, less their head start."""
    n_classes = shares.shape[0]
    value = math.lgamma(n_classes) - math.lgamma(n_query + n_classes) + math.lgamma(n_query + 1.0)
    value -= lead * (n_classes - 1.0)
    for c in range(n_classes):
        value += math.lgamma(n_query * shares[c] + 1.0) - math.lgamma(n_query / n_classes + 1.0)
    return value


@entry_point
def fit_mixtures(
    grams: NDArray[np.float32],
    labels: NDArray[np.int64],
    shares: Array,
    estimate: bool,
    lead: float,
    logits: Array,
    found: Array,
    within: Array,
) -> None:
    """Fit a mixture to each task of a batch: `marginshot.mixture.fit_mixture` with ``shares``, or None to estimate.

    ``grams`` (T, M, M), support rows first; ``labels`` (T, n); ``shares`` (T, N), uniform where they are estimated;
    ``lead``, the head start of equal shares.
    Written in place: ``logits`` (T, M, N); ``found`` (T, N), the shares given or estimated; ``within`` (T,).
    """
    n_classes, n_query = found.shape[1], grams.shape[1] - labels.shape[1]
    nothing, answers = np.empty(0), np.empty((n_classes, n_query))
    other_logits, other_found = np.empty(logits.shape[1:]), np.empty(n_classes)
    for task in range(grams.shape[0]):
        gram, known = grams[task], labels[task]
        spread = _spread(gram, known.shape[0])
        answers[:] = 0.0
        evidence, within[task] = _alternate(gram, spread, known, shares[task], answers, logits[task], found[task])
        if not estimate:
            found[task] = shares[task]
            continue
        for start in range(2 if n_query else 0):
            if start == 0:
                answers[:] = 0.0
            else:
                _put_into_one_class(gram, known, answers)
            other, other_within = _alternate(gram, spread, known, nothing, answers, other_logits, other_found)
            other += _evidence_of_counts(other_found, n_query, lead)
            if other > evidence:
                logits[task], found[task], within[task], evidence = other_logits, other_found, other_within, other
