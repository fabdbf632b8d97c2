"""Assignments of a Gaussian mixture, drawn to a prior and smoothed over a graph of the queries: TransCLIP and StatA."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import inner_products, largest_in_row, softmax

Array = NDArray[np.float64]

# Fixed in the authors' code of both methods: the likelihood is divided by this, and assignments take so many rounds.
_TEMPERATURE = 50.0
_ROUNDS = 5
_LEAST_BELIEF = np.finfo(np.float64).tiny
# Variance below which a feature is constant: it tells no classes apart, and must not divide by zero.
_LEAST_VARIANCE = 1e-10


def query_graph(query: Array, n_neighbors: int) -> Array:
    """Cosines of each query to its nearest others, summed both ways, over twice their number; (T, m, D) -> (T, m, m).

    Rows have unit length. Neighbours that are equally near are all kept.
    """
    weights = inner_products(query, query)
    m = weights.shape[1]
    weights[:, np.arange(m), np.arange(m)] = -np.inf
    weights = np.where(largest_in_row(weights, n_neighbors) & np.isfinite(weights), weights, 0.0)
    graph: Array = (weights + weights.swapaxes(1, 2)) / (2 * n_neighbors)
    return graph


def pull_of_support(support: Array, members: Array, query: Array, n_neighbors: int) -> Array:
    """What support rows add to the queries nearest to them, in the units of `query_graph`; -> (T, m, N)."""
    weights = inner_products(support, query)
    weights = np.where(largest_in_row(weights, n_neighbors), weights, 0.0)
    pull: Array = np.matmul(weights.swapaxes(1, 2), members) / (2 * n_neighbors)
    return pull


def log_densities(rows: Array, means: Array, variances: Array) -> Array:
    """Log-densities of diagonal Gaussians but for a constant: (T, m, D), (T, N, D), (T, N or 1, D) -> (T, m, N)."""
    precisions = 1.0 / np.maximum(variances, _LEAST_VARIANCE)
    squares = inner_products(rows**2, precisions) - 2.0 * inner_products(rows, means * precisions)
    squares = squares + (means**2 * precisions).sum(axis=2)[:, None, :]
    densities: Array = -0.5 * (squares - np.log(precisions).sum(axis=2)[:, None, :])
    return densities


def assign(
    log_likelihood: Array, prior: Array, prior_weight: float, graph: Array, start: Array, pull: Array | float = 0.0
) -> Array:
    """Assignments (T, m, N) after a few rounds: prior, likelihood, ``pull``, and the assignments of neighbours."""
    evidence = prior_weight * np.log(np.maximum(prior, _LEAST_BELIEF)) + log_likelihood / _TEMPERATURE + pull
    for _ in range(_ROUNDS):
        start = softmax(evidence + np.matmul(graph, start))
    return start


def squared_deviations(rows: Array, members: Array, means: Array) -> Array:
    """Weighted sums of squared deviations of rows (T, m, D) from each class's mean (T, N, D); -> (T, N, D)."""
    turned = members.swapaxes(1, 2)
    sums = np.matmul(turned, rows**2) - 2.0 * means * np.matmul(turned, rows)
    deviations: Array = np.maximum(sums + means**2 * members.sum(axis=1)[:, :, None], 0.0)
    return deviations
