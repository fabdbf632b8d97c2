"""BMS's alternation of min-size Sinkhorn and boosted class weights, compiled, task by task.

Class weights are kept as coefficients over the task's rows, so everything happens in the Gram matrix.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import entry_point, leaf
from marginshot.solvers.task_compiled import rows_to_sum_one, set_support, softmax_in_place

Batch = NDArray[np.float64]
Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

# A class is large enough if it would grow by at most this share of its size.
_SAME = 1e-10


@entry_point
def min_size_rounds(
    gram: Batch,
    labels: Labels,
    n_way: int,
    sharpness: float,
    balanced: bool,
    n_rounds: int,
    n_sinkhorn: int,
    n_steps: int,
    learning_rate: float,
    momentum: float,
) -> Batch:
    """Assign queries so that no class falls below the size of the smallest in the round before.

    Parameters
    ----------
    gram : ndarray of shape (T, n + m, n + m)
        Inner products of the support, first, and the queries.
    labels : ndarray of int64 of shape (T, n)
    n_way : int
    sharpness : float
        Factor on the inner products with the class weights.
    balanced : bool
        Every class gets m / n_way from the first round on.
    n_rounds : int
    n_sinkhorn : int
    n_steps : int
        Gradient steps on the class weights in each round.
    learning_rate, momentum : float

    Returns
    -------
    assignments : ndarray of shape (T, m, n_way)
        Rows sum to 1.
    """
    n_tasks, n_support = labels.shape
    n_rows = gram.shape[1]
    n_query = n_rows - n_support
    assignments = np.empty((n_tasks, n_query, n_way))
    members = np.empty((n_rows, n_way))
    weights = np.empty((n_rows, n_way))
    scores = np.empty((n_rows, n_way))
    equal = n_query / n_way
    for t in range(n_tasks):
        set_support(members, labels[t])
        _unit_means(gram[t], members, weights, scores)
        least = equal if balanced else min(equal, n_support / n_way)
        for _ in range(n_rounds):
            for i in range(n_support, n_rows):
                for c in range(n_way):
                    members[i, c] = sharpness * scores[i, c]
                softmax_in_place(members[i])
            if n_query > 1:
                _raise_small_classes(members[n_support:], least, n_sinkhorn)
            if not balanced:
                least = min(equal, _smallest_class(members))
            _unit_means(gram[t], members, weights, scores)
            _boost(gram[t], members, weights, scores, n_steps, learning_rate, momentum)
        for i in range(n_query):
            total = members[n_support + i].sum()
            for c in range(n_way):
                assignments[t, i, c] = members[n_support + i, c] / total
    return assignments


@leaf
def _raise_small_classes(plan: Matrix, least: float, n_iter: int) -> None:
    """Min-size Sinkhorn: rows (m, N) to sum 1, then the columns below ``least`` up to it, ``n_iter`` times.

    Ends earlier where nothing changes any more.
    """
    n_points, n_way = plan.shape
    masses = np.empty(n_way)
    for _ in range(n_iter):
        raised = False
        rows_to_sum_one(plan, masses)
        for c in range(n_way):
            if masses[c] < least:
                factor = least / max(masses[c], 1e-300)
                raised = raised or factor > 1.0 + _SAME
                for i in range(n_points):
                    plan[i, c] *= factor
        if not raised:
            break


@leaf
def _smallest_class(members: Matrix) -> float:
    """Size of the smallest class, counting each row (M, N) for its most probable class."""
    counts = np.zeros(members.shape[1])
    for i in range(members.shape[0]):
        counts[np.argmax(members[i])] += 1.0
    return counts.min()


@leaf
def _unit_means(gram: Matrix, members: Matrix, weights: Matrix, scores: Matrix) -> None:
    """Write the means of the classes' members, scaled to unit length, and their inner products with the rows."""
    weights[:] = members
    scores[:] = np.dot(gram, members)
    _to_unit_length(weights, scores)


@leaf
def _to_unit_length(weights: Matrix, scores: Matrix) -> None:
    """Scale class weights, columns of coefficients (M, N), and their ``scores`` (M, N) to unit length."""
    for c in range(weights.shape[1]):
        square = 0.0
        for i in range(weights.shape[0]):
            square += weights[i, c] * scores[i, c]
        scale = 1.0 / math.sqrt(square) if square > 0.0 else 0.0
        for i in range(weights.shape[0]):
            weights[i, c] *= scale
            scores[i, c] *= scale


@leaf
def _boost(
    gram: Matrix,
    members: Matrix,
    weights: Matrix,
    scores: Matrix,
    n_steps: int,
    learning_rate: float,
    momentum: float,
) -> None:
    """Gradient steps with momentum on the cross-entropy of scale · cosine against ``members``, by weights and scale."""
    n_rows, n_way = members.shape
    slope = np.empty((n_rows, n_way))
    velocity = np.zeros((n_rows, n_way))
    scale, scale_velocity = 1.0, 0.0
    for _ in range(n_steps):
        scale_slope = 0.0
        for i in range(n_rows):
            total = 0.0
            for c in range(n_way):
                slope[i, c] = scale * scores[i, c]
                total += members[i, c]
            softmax_in_place(slope[i])
            for c in range(n_way):
                slope[i, c] = (total * slope[i, c] - members[i, c]) / n_rows
                scale_slope += slope[i, c] * scores[i, c]
        for c in range(n_way):
            radial = 0.0
            for i in range(n_rows):
                radial += slope[i, c] * scores[i, c]
            for i in range(n_rows):
                gradient = scale * (slope[i, c] - radial * weights[i, c])
                velocity[i, c] = momentum * velocity[i, c] + gradient
                weights[i, c] -= learning_rate * velocity[i, c]
        scale_velocity = momentum * scale_velocity + scale_slope
        scale -= learning_rate * scale_velocity
        scores[:] = np.dot(gram, weights)
        _to_unit_length(weights, scores)
