"""LaplacianShot's bound updates, Algorithm 1 of its paper, compiled and stopped task by task."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import entry_point, leaf
from marginshot.solvers.task_compiled import nearest_neighbours, negative_entropy, softmax_in_place

Batch = NDArray[np.float64]
Matrix = NDArray[np.float64]


@entry_point
def bound_updates(
    costs: Batch, distances: Batch, smoothing: float, n_neighbors: int, max_iter: int, tol: float
) -> Batch:
    """Soft assignments that stay near their costs and agree with their neighbours.

    Each task minimises over the simplex Σ_i y_iᵀa_i + Σ_i y_iᵀlog y_i − smoothing Σ_ij w_ij y_iᵀy_j, where w_ij is 1
    if j is one of i's nearest neighbours.

    Parameters
    ----------
    costs : ndarray of shape (T, m, N)
        Squared distance of each query to each prototype, a in the paper.
    distances : ndarray of shape (T, m, m)
        Squared distances between the queries.
    smoothing : float
        λ in the paper.
    n_neighbors : int
        At most m - 1.
    max_iter : int
    tol : float
        A task stops when the objective changes by less than this share of itself.

    Returns
    -------
    assignments : ndarray of shape (T, m, N)
    """
    n_tasks, n_query, n_way = costs.shape
    assignments = np.empty((n_tasks, n_query, n_way))
    neighbours = np.empty((n_query, n_neighbors), dtype=np.int64)
    previous, everyone = np.empty((n_query, n_way)), np.ones(n_query, np.bool_)
    for t in range(n_tasks):
        nearest_neighbours(-distances[t], everyone, neighbours)
        assignments[t] = -costs[t]
        for i in range(n_query):
            softmax_in_place(assignments[t, i])
        bound = np.inf
        for iteration in range(max_iter):
            previous[:] = assignments[t]
            _update(costs[t], neighbours, smoothing, previous, assignments[t])
            last, bound = bound, _bound(costs[t], neighbours, smoothing, assignments[t])
            # The first two updates always happen, as in the reference implementations.
            if iteration > 1 and abs(bound - last) <= tol * abs(last):
                break
    return assignments


@leaf
def _update(
    costs: Matrix, neighbours: NDArray[np.int64], smoothing: float, previous: Matrix, assignments: Matrix
) -> None:
    """One step for every query at once, from ``previous`` to ``assignments``."""
    for i in range(costs.shape[0]):
        for c in range(costs.shape[1]):
            pull = 0.0
            for j in neighbours[i]:
                pull += previous[j, c]
            assignments[i, c] = smoothing * pull - costs[i, c]
        softmax_in_place(assignments[i])


@leaf
def _bound(costs: Matrix, neighbours: NDArray[np.int64], smoothing: float, assignments: Matrix) -> float:
    """The objective in the docstring of ``bound_updates``."""
    total = 0.0
    for i in range(costs.shape[0]):
        total += negative_entropy(assignments[i])
        for c in range(costs.shape[1]):
            pull = 0.0
            for j in neighbours[i]:
                pull += assignments[j, c]
            total += assignments[i, c] * (costs[i, c] - smoothing * pull)
    return total
