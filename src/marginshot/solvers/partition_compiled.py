"""PADDLE's alternation of assignments, class shares and prototypes, compiled and stopped task by task.

Prototypes are kept as weights over the task's rows, so everything happens in the Gram matrix.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import entry_point, leaf
from marginshot.solvers.task_compiled import set_support, softmax_in_place

Batch = NDArray[np.float64]
Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Keeps the logarithm of an empty class's share finite, as in the authors' code.
_SHARE_OFFSET = 1e-6


@entry_point
def partition_updates(
    gram: Batch, labels: NDArray[np.int64], n_way: int, complexity: float, max_iter: int, tol: float
) -> tuple[Batch, NDArray[np.bool_]]:
    """Soft k-means around support and queries with a price on the number of classes in use.

    Parameters
    ----------
    gram : ndarray of shape (T, n + m, n + m)
        Inner products of the support, first, and the queries.
    labels : ndarray of int64 of shape (T, n)
    n_way : int
    complexity : float
        Weight of the logarithm of a class's share in the assignments.
    max_iter : int
    tol : float
        A task stops when no assignment changes by more than this.

    Returns
    -------
    assignments : ndarray of shape (T, m, n_way)
    converged : ndarray of bool of shape (T,)
    """
    n_tasks, n_support = labels.shape
    n_query = gram.shape[1] - n_support
    assignments = np.empty((n_tasks, n_query, n_way))
    converged = np.zeros(n_tasks, dtype=np.bool_)
    members = np.empty((gram.shape[1], n_way))
    pull = np.empty(n_way)
    for t in range(n_tasks):
        set_support(members, labels[t])
        pull[:] = 0.0
        for _ in range(max_iter):
            change = _assign(gram[t], members, n_support, pull)
            _class_pull(members, n_support, complexity, pull)
            if change <= tol:
                converged[t] = True
                break
        assignments[t] = members[n_support:]
    return assignments, converged


@leaf
def _assign(gram: Matrix, members: Matrix, n_support: int, pull: Vector) -> float:
    """Reassign the queries to the means of the classes' members; the largest change of an assignment."""
    n_rows, n_way = members.shape
    weights = np.empty((n_rows, n_way))
    for c in range(n_way):
        total = 0.0
        for i in range(n_rows):
            total += members[i, c]
        for i in range(n_rows):
            weights[i, c] = members[i, c] / total
    products = np.dot(gram, weights)
    offset = np.empty(n_way)
    for c in range(n_way):
        norm = 0.0
        for i in range(n_rows):
            norm += weights[i, c] * products[i, c]
        offset[c] = pull[c] - 0.5 * norm
    change = 0.0
    row = np.empty(n_way)
    for i in range(n_support, n_rows):
        for c in range(n_way):
            row[c] = products[i, c] + offset[c]
        softmax_in_place(row)
        for c in range(n_way):
            change = max(change, abs(row[c] - members[i, c]))
            members[i, c] = row[c]
    return change


@leaf
def _class_pull(members: Matrix, n_support: int, complexity: float, pull: Vector) -> None:
    """Term that each class's share of the queries adds to its logits."""
    n_query = members.shape[0] - n_support
    for c in range(members.shape[1]):
        total = 0.0
        for i in range(n_support, members.shape[0]):
            total += members[i, c]
        pull[c] = complexity * math.log(total / n_query + _SHARE_OFFSET)
