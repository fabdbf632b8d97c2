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
    DIMENSIONS_TO_SHARPNESS,
    FREE_ROUNDS,
    LEAST_SHARE,
    ROUNDS,
    SHARE_STEPS,
    SUPPORT_WEIGHT,
)

Array = NDArray[np.float64]
Gram = NDArray[np.float32]


@leaf
def _sharpness(gram: Gram) -> float:
    n_rows = gram.shape[0]
    trace, squares, rows, grand = 0.0, 0.0, 0.0, 0.0
    for i in range(n_rows):
        total, square = 0.0, 0.0
        row = gram[i]
        for j in range(n_rows):
            total += np.float64(row[j])
            square += np.float64(row[j]) * np.float64(row[j])
        trace += np.float64(gram[i, i])
        squares += square
        rows += (total / n_rows) ** 2
        grand += total / n_rows**2
    trace -= n_rows * grand
    squares += (n_rows * grand) ** 2 - 2.0 * n_rows * rows
    if trace > 1e-6 and squares > 1e-6:
        return DIMENSIONS_TO_SHARPNESS * n_rows * trace / squares
    return 0.0


@leaf
def _weigh_classes(likelihood: Array, shares: Array, round_: int, answers: Array, factors: Array) -> None:
    """Factors (N,) on the classes' likelihoods (N, m): the answers (N, m) keep to ``shares``, where there are any."""
    if shares.size:
        _keep_to(likelihood, shares, answers, factors)
        return
    factors[:] = 1.0
    if round_ >= FREE_ROUNDS:
        for _ in range(SHARE_STEPS):
            _answer(likelihood, factors, answers)
            for c in range(factors.shape[0]):
                factors[c] = answers[c].sum() + 0.5


@leaf
def _keep_to(likelihood: Array, shares: Array, answers: Array, factors: Array) -> None:
    """Sinkhorn's scaling of the classes."""
    for c in range(factors.shape[0]):
        factors[c] = max(shares[c], LEAST_SHARE)
    for _ in range(3 * SHARE_STEPS):
        _answer(likelihood, factors, answers)
        for c in range(factors.shape[0]):
            mean = answers[c].sum() / likelihood.shape[1]
            factors[c] *= max(shares[c], LEAST_SHARE) / max(mean, LEAST_SHARE)


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
def _alternate(gram: Gram, labels: NDArray[np.int64], beta: float, shares: Array, logits: Array, found: Array) -> float:
    """Write logits (M, N) and shares (N,) after the last round; returns the evidence but for that of the counts."""
    n_classes, n_rows, n_support = found.shape[0], gram.shape[0], labels.shape[0]
    n_query = n_rows - n_support
    centres, products = np.empty((n_classes, n_rows), np.float32), np.empty((n_classes, n_rows), np.float32)
    scaled, likelihood = np.empty((n_classes, n_rows)), np.empty((n_classes, n_query))
    answers, factors = np.zeros((n_classes, n_query)), np.ones(n_classes)
    for round_ in range(ROUNDS):
        _place_centres(labels, answers, centres)
        np.dot(centres, gram, products)
        for c in range(n_classes):
            _scale(centres[c], products[c], beta, scaled[c])
        if n_query:
            _exponentiate(scaled[:, n_support:], likelihood)
            _weigh_classes(likelihood, shares, round_, answers, factors)
            _answer(likelihood, factors, answers)
    evidence = 0.0
    for i in range(n_support):
        evidence += SUPPORT_WEIGHT * scaled[labels[i], i]
    for c in range(n_classes):
        log_factor = math.log(factors[c])
        found[c] = answers[c].sum() / n_query if n_query else 1.0 / n_classes
        for i in range(n_rows):
            logits[i, c] = scaled[c, i] + log_factor
        for i in range(n_query):
            if answers[c, i] > 0.0:
                evidence += answers[c, i] * (scaled[c, n_support + i] - math.log(answers[c, i]))
    return evidence


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
def _place_centres(labels: NDArray[np.int64], answers: Array, centres: NDArray[np.float32]) -> None:
    """Weights (N, M) of the rows in each class's centre."""
    n_support, n_query = labels.shape[0], answers.shape[1]
    centres[:] = np.float32(0.0)
    for i in range(n_support):
        centres[labels[i], i] = SUPPORT_WEIGHT
    for c in range(answers.shape[0]):
        row, source = centres[c, n_support:], answers[c]
        for i in range(n_query):
            row[i] = source[i]
        centres[c] /= centres[c].sum()


@leaf
def _scale(centre: NDArray[np.float32], product: NDArray[np.float32], beta: float, scaled: Array) -> None:
    """β (2 kᵀC − CᵀKC) of one class at every row."""
    length = 0.0
    for i in range(centre.shape[0]):
        length += np.float64(centre[i]) * np.float64(product[i])
    for i in range(centre.shape[0]):
        scaled[i] = beta * (2.0 * np.float64(product[i]) - length)


@leaf
def _evidence_of_counts(shares: Array, n_query: int) -> float:
    """How much the counts speak for unequal classes: flat Dirichlet against equal parts, less the head start."""
    n_classes = shares.shape[0]
    value = math.lgamma(n_classes) - math.lgamma(n_query + n_classes) + math.lgamma(n_query + 1.0)
    value -= n_classes - 1.0
    for c in range(n_classes):
        value += math.lgamma(n_query * shares[c] + 1.0) - math.lgamma(n_query / n_classes + 1.0)
    return value


@entry_point
def fit_mixtures(
    grams: NDArray[np.float32],
    labels: NDArray[np.int64],
    shares: Array,
    estimate: bool,
    logits: Array,
    found: Array,
) -> None:
    """Fit a mixture to each task of a batch: `marginshot.mixture.fit_mixture` with ``shares``, or None to estimate.

    ``grams`` (T, M, M), support rows first; ``labels`` (T, n); ``shares`` (T, N), uniform where they are estimated.
    Written in place: ``logits`` (T, M, N); ``found`` (T, N), the shares given or estimated.
    """
    n_query = grams.shape[1] - labels.shape[1]
    nothing = np.empty(0)
    other_logits, other_found = np.empty(logits.shape[1:]), np.empty(found.shape[1])
    for task in range(grams.shape[0]):
        gram = grams[task]
        beta = _sharpness(gram)
        evidence = _alternate(gram, labels[task], beta, shares[task], logits[task], found[task])
        if not estimate:
            found[task] = shares[task]
        else:
            other = _alternate(gram, labels[task], beta, nothing, other_logits, other_found)
            if other + _evidence_of_counts(other_found, n_query) > evidence:
                logits[task], found[task] = other_logits, other_found
