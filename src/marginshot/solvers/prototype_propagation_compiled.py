"""protoLP's alternation of transport, label propagation through prototypes, and moving them, compiled, task by task.

Prototypes are kept as weights over the task's rows, so everything happens in the Gram matrix.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import entry_point, leaf
from marginshot.solvers.task_compiled import rows_to_sum_one, set_support
from marginshot.solvers.transport_compiled import balanced_plan, move_centres, squared_distances_to_centres

Batch = NDArray[np.float64]
Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

# Least propagated label: they may be slightly negative, and scaling needs positive numbers.
_LEAST = 1e-12


@entry_point
def propagate_through_prototypes(
    gram: Batch,
    labels: Labels,
    n_way: int,
    sharpness: float,
    graph_weight: float,
    propagated: float,
    step: float,
    n_rounds: int,
    max_iter: int,
    tol: float,
) -> tuple[Batch, NDArray[np.bool_]]:
    """Assign queries to prototypes of equal mass, which follow the propagated labels.

    Parameters
    ----------
    gram : ndarray of shape (T, n + m, n + m)
        Inner products of the support, first, and the queries.
    labels : ndarray of int64 of shape (T, n)
    n_way : int
    sharpness : float
        Inverse of the entropic regularisation.
    graph_weight : float
        Weight of the graph's smoothness against the labels of the support.
    propagated : float
        Share of the propagated labels, the rest being the transport plan's, in the prototypes' members.
    step : float
        Share of the way a prototype goes towards the mean of its members in one round.
    n_rounds : int
    max_iter : int
        Newton steps at most for each plan, and ten times as many scalings of the propagated labels.
    tol : float
        Relative error of a class's mass at which either is finished.

    Returns
    -------
    plan : ndarray of shape (T, m, n_way)
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
    potentials = np.empty(n_way)
    for t in range(n_tasks):
        set_support(members, labels[t])
        counts = members.sum(axis=0)
        move_centres(members, centres, 1.0)
        _to_unit_length(gram[t], centres)
        potentials[:] = 0.0
        for _ in range(n_rounds):
            squared_distances_to_centres(gram[t], centres, costs)
            plan = members[n_support:]
            balanced_plan(costs, sharpness, potentials, plan, max_iter, tol)
            labelled = _propagate(members, n_support, counts, graph_weight)
            _balance(labelled, 10 * max_iter, tol)
            for i in range(n_query):
                for c in range(n_way):
                    plan[i, c] = min((1.0 - propagated) * plan[i, c] + propagated * labelled[i, c], 1.0)
            move_centres(members, centres, step)
        squared_distances_to_centres(gram[t], centres, costs)
        converged[t] = balanced_plan(costs, sharpness, potentials, plans[t], max_iter, tol)
    return plans, converged


@leaf
def _to_unit_length(gram: Matrix, centres: Matrix) -> None:
    """Scale centres, columns of weights (M, N), to unit length; a zero centre is not changed."""
    products = np.dot(gram, centres)
    for c in range(centres.shape[1]):
        square = 0.0
        for i in range(centres.shape[0]):
            square += centres[i, c] * products[i, c]
        if square > 0.0:
            scale = 1.0 / math.sqrt(square)
            for i in range(centres.shape[0]):
                centres[i, c] *= scale


@leaf
def _propagate(members: Matrix, n_support: int, counts: Vector, graph_weight: float) -> Matrix:
    """Labels (m, N) of the queries: Z (Z_lᵀZ_l + weight · L)⁻¹ Z_lᵀY with L = ZᵀZ − ZᵀZ Λ⁻¹ ZᵀZ.

    Z are the ``members`` (n + m, N), Λ their sums over the rows, and Z_l, those of the support, its labels Y.
    """
    n_way = members.shape[1]
    links = np.dot(members.T, members)
    weighted = np.empty((n_way, n_way))
    for c in range(n_way):
        total = 0.0
        for i in range(members.shape[0]):
            total += members[i, c]
        for k in range(n_way):
            weighted[c, k] = links[c, k] / total
    system = graph_weight * (links - np.dot(links, weighted))
    for c in range(n_way):
        system[c, c] += counts[c]
    return np.maximum(np.dot(members[n_support:], np.linalg.solve(system, np.diag(counts))), _LEAST)


@leaf
def _balance(plan: Matrix, max_iter: int, tol: float) -> None:
    """Scale rows (m, N) to sum 1 and columns to m / N by turns, until the columns have it."""
    n_points, n_way = plan.shape
    share = n_points / n_way
    masses = np.empty(n_way)
    for _ in range(max_iter):
        rows_to_sum_one(plan, masses)
        if np.abs(masses - share).max() <= tol * share:
            break
        for c in range(n_way):
            for i in range(n_points):
                plan[i, c] *= share / masses[c]
