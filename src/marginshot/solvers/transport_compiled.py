"""PT-MAP's alternation of balanced transport and class centres, compiled and stopped task by task.

Centres are kept as weights over the task's rows, so everything happens in the Gram matrix and never in the features.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import entry_point, leaf
from marginshot.solvers.task_compiled import set_support, softmax_in_place

Batch = NDArray[np.float64]
Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

# Longest move of a potential in one Newton step. Where assignments are hard, the dual is almost linear and its
# curvature gives steps that are too long.
_LONGEST_STEP = 8.0


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
        Newton steps at most for each plan.
    tol : float
        A plan is finished when every class's mass is right to within this share of it.

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
    potentials = np.empty(n_way)
    for t in range(n_tasks):
        set_support(members, labels[t])
        move_centres(members, centres, 1.0)
        potentials[:] = 0.0
        for _ in range(n_rounds):
            squared_distances_to_centres(gram[t], centres, costs)
            balanced_plan(costs, sharpness, potentials, members[n_support:], max_iter, tol)
            move_centres(members, centres, step)
        squared_distances_to_centres(gram[t], centres, costs)
        converged[t] = balanced_plan(costs, sharpness, potentials, plans[t], max_iter, tol)
    return plans, converged


@leaf
def balanced_plan(costs: Matrix, sharpness: float, potentials: Vector, plan: Matrix, max_iter: int, tol: float) -> bool:
    """Entropic transport from m points of mass 1 to N classes of mass m / N; whether ``tol`` was met.

    This is the limit of Sinkhorn's iterations, found by Newton's method on the dual, which is convex in the N class
    potentials. It is quick also where a thousand iterations of Sinkhorn's do not converge.

    Parameters
    ----------
    costs : ndarray of shape (m, N)
    sharpness : float
    potentials : ndarray of shape (N,)
        Where to start; overwritten with the last ones, so that the next call can go on from there.
    plan : ndarray of shape (m, N)
        Written to.
    max_iter : int
    tol : float
    """
    n_way = costs.shape[1]
    share = costs.shape[0] / n_way
    masses = np.empty(n_way)
    trial = np.empty(n_way)
    value = _dual(costs, sharpness, potentials, plan, masses)
    for _ in range(max_iter):
        if np.abs(masses - share).max() <= tol * share:
            return True
        step = _newton_step(plan, masses)
        slope = np.dot(masses - share, step)
        length = 1.0
        for _ in range(40):
            trial[:] = potentials + length * step
            new_value = _dual(costs, sharpness, trial, plan, masses)
            # The last term allows for rounding, which near the optimum is as large as the decrease.
            if new_value <= value + 1e-4 * length * slope + 1e-13 * abs(value):
                break
            length *= 0.5
        potentials[:] = trial
        value = new_value
    return np.abs(masses - share).max() <= tol * share


@leaf
def _dual(costs: Matrix, sharpness: float, potentials: Vector, plan: Matrix, masses: Vector) -> float:
    """Σ_i log Σ_c exp(g_c − sharpness · cost_ic) − m/N Σ_c g_c; writes the plan and the masses of its columns."""
    n_points, n_way = costs.shape
    value = 0.0
    masses[:] = 0.0
    for i in range(n_points):
        for c in range(n_way):
            plan[i, c] = potentials[c] - sharpness * costs[i, c]
        value += softmax_in_place(plan[i])
        for c in range(n_way):
            masses[c] += plan[i, c]
    for c in range(n_way):
        value -= n_points / n_way * potentials[c]
    return value


@leaf
def _newton_step(plan: Matrix, masses: Vector) -> Vector:
    """Newton's step for the potentials, shortened to ``_LONGEST_STEP``."""
    n_points, n_way = plan.shape
    share = n_points / n_way
    hessian = -np.dot(plan.T, plan)
    for c in range(n_way):
        hessian[c, c] += masses[c] + 1e-9 * share
        for k in range(n_way):
            hessian[c, k] += share / n_way  # a common shift of all potentials changes nothing: keep it at zero
    step = np.linalg.solve(hessian, share - masses)
    longest = np.abs(step).max()
    if longest > _LONGEST_STEP:
        step *= _LONGEST_STEP / longest
    return step


@leaf
def move_centres(members: Matrix, centres: Matrix, step: float) -> None:
    """Move each centre, a column of weights over the rows, towards the mean of its members."""
    for c in range(members.shape[1]):
        total = 0.0
        for i in range(members.shape[0]):
            total += members[i, c]
        for i in range(members.shape[0]):
            centres[i, c] += step * (members[i, c] / total - centres[i, c])


@leaf
def squared_distances_to_centres(gram: Matrix, centres: Matrix, costs: Matrix) -> None:
    """Squared distances of the last rows of the Gram matrix to the centres, up to a constant in each row."""
    products = np.dot(gram, centres)
    first = gram.shape[0] - costs.shape[0]
    for c in range(costs.shape[1]):
        norm = 0.0
        for i in range(gram.shape[0]):
            norm += centres[i, c] * products[i, c]
        for i in range(costs.shape[0]):
            costs[i, c] = norm - 2.0 * products[first + i, c]
