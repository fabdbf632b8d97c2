"""PT-MAP's alternation of Sinkhorn's algorithm and class centres, compiled and stopped task by task.

Centres are kept as weights over the task's rows, so everything happens in the Gram matrix and never in the features.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._jit import entry_point, leaf

Batch = NDArray[np.float64]
Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Labels = NDArray[np.int64]


@entry_point
def transport_to_centres(
    gram: Batch, labels: Labels, n_way: int, sharpness: float, step: float, n_rounds: int, max_iter: int, tol: float
) -> tuple[Batch, NDArray[np.bool_]]:
    """Assign queries to classes of equal size, moving the class centres towards their members between rounds.

    Parameters
    ----------
    gram : ndarray of shape (T, n + m, n + m)
        Inner products of the support, first, and the queries.
    labels : ndarray of int64 of shape (T, n)
    n_way : int
    sharpness : float
        Inverse of the entropic regularisation.
    step : float
        Share of the way a centre goes towards the mean of its members in one round.
    n_rounds : int
    max_iter : int
        Sinkhorn iterations at most, in each round.
    tol : float
        Sinkhorn stops when every class's mass is right to within this share of it.

    Returns
    -------
    plan : ndarray of shape (T, m, n_way)
        Rows sum to 1, columns to m / n_way within ``tol``.
    converged : ndarray of bool of shape (T,)
        Whether the last plan met ``tol``.
    """
    n_tasks, n_support = labels.shape
    n_rows = gram.shape[1]
    n_query = n_rows - n_support
    plans = np.empty((n_tasks, n_query, n_way))
    converged = np.empty(n_tasks, dtype=np.bool_)
    members = np.zeros((n_rows, n_way))
    centres = np.zeros((n_rows, n_way))
    costs = np.empty((n_query, n_way))
    scale = np.empty(n_way)
    for t in range(n_tasks):
        members[:] = 0.0
        for i in range(n_support):
            members[i, labels[t, i]] = 1.0
        _move_centres(members, centres, 1.0)
        scale[:] = 1.0
        for _ in range(n_rounds):
            _squared_distances(gram[t], centres, costs)
            sinkhorn(costs, sharpness, scale, members[n_support:], max_iter, tol)
            _move_centres(members, centres, step)
        _squared_distances(gram[t], centres, costs)
        converged[t] = sinkhorn(costs, sharpness, scale, plans[t], max_iter, tol)
    return plans, converged


@leaf
def sinkhorn(costs: Matrix, sharpness: float, scale: Vector, plan: Matrix, max_iter: int, tol: float) -> bool:
    """Entropic optimal transport from m points of mass 1 to N classes of mass m / N; whether ``tol`` was met.

    Parameters
    ----------
    costs : ndarray of shape (m, N)
    sharpness : float
    scale : ndarray of shape (N,)
        Column factors to start from; overwritten with the last ones, so that the next call can go on from there.
    plan : ndarray of shape (m, N)
        Written to.
    max_iter : int
    tol : float
    """
    n_points, n_way = costs.shape
    share = n_points / n_way
    columns = np.empty(n_way)
    violation = np.inf
    _gibbs(costs, sharpness, plan)
    for _ in range(max_iter):
        columns[:] = 0.0
        violation = 0.0
        for i in range(n_points):
            total = 0.0
            for c in range(n_way):
                total += plan[i, c] * scale[c]
            for c in range(n_way):
                columns[c] += plan[i, c] * scale[c] / total
        for c in range(n_way):
            columns[c] = share / columns[c]
            violation = max(violation, abs(columns[c] - 1.0))
            scale[c] *= columns[c]
        if violation <= tol:
            break
    for i in range(n_points):
        total = 0.0
        for c in range(n_way):
            plan[i, c] *= scale[c]
            total += plan[i, c]
        for c in range(n_way):
            plan[i, c] /= total
    return violation <= tol


@leaf
def _gibbs(costs: Matrix, sharpness: float, plan: Matrix) -> None:
    """exp(−sharpness · cost), each row up to a factor: its largest entry is 1, so no row underflows to zeros."""
    for i in range(costs.shape[0]):
        best = costs[i, 0]
        for c in range(1, costs.shape[1]):
            best = min(best, costs[i, c])
        for c in range(costs.shape[1]):
            plan[i, c] = math.exp(-sharpness * (costs[i, c] - best))


@leaf
def _move_centres(members: Matrix, centres: Matrix, step: float) -> None:
    """Move each centre, a column of weights over the rows, towards the mean of its members."""
    for c in range(members.shape[1]):
        total = 0.0
        for i in range(members.shape[0]):
            total += members[i, c]
        for i in range(members.shape[0]):
            centres[i, c] += step * (members[i, c] / total - centres[i, c])


@leaf
def _squared_distances(gram: Matrix, centres: Matrix, costs: Matrix) -> None:
    """Squared distances of the last rows of the Gram matrix to the centres, up to a constant in each row."""
    products = np.dot(gram, centres)
    first = gram.shape[0] - costs.shape[0]
    for c in range(costs.shape[1]):
        norm = 0.0
        for i in range(gram.shape[0]):
            norm += centres[i, c] * products[i, c]
        for i in range(costs.shape[0]):
            costs[i, c] = norm - 2.0 * products[first + i, c]
