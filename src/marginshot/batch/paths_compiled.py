"""The engine's compiled entry point: pairs the objective with the solver and follows the λ2 sequence, task by task.

Its NumPy twin, for one task, is `solvers/continuation.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import entry_point, loop
from marginshot.solvers.lbfgs_compiled import make_minimise, make_workspace, multiply
from marginshot.solvers.margin_compiled import margin_loss

Array = NDArray[np.float64]
Vector = NDArray[np.floating]
Matrix = NDArray[np.floating]

minimise = make_minimise(margin_loss)

_LANES = 16  # numbers of single precision in the widest vector register


@loop
def _padded(size: int) -> int:
    """The next multiple of `_LANES`: with rows padded by zeros, vectorised loops leave no remainder."""
    return (size + _LANES - 1) // _LANES * _LANES


@loop
def _copy(source: Matrix, target: Matrix, size: int) -> None:
    """Copy the first ``size`` rows and columns."""
    for i in range(size):
        for j in range(size):
            target[i, j] = source[i, j]


@loop
def _one_vs_rest(labels: NDArray[np.int64], positive: int, signs: Vector, weights: Vector) -> None:
    """Write the first n signs and weights w/n of the problem ``positive`` against the rest."""
    n_positive = 0
    for i in range(labels.shape[0]):
        if labels[i] == positive:
            n_positive += 1
    for i in range(labels.shape[0]):
        if labels[i] == positive:
            signs[i], weights[i] = 1.0, 0.5 / n_positive
        else:
            signs[i], weights[i] = -1.0, 0.5 / (labels.shape[0] - n_positive)


@entry_point
def follow_paths(
    grams: NDArray[np.floating],
    labels: NDArray[np.int64],
    offsets: Array,
    lambda2: Array,
    lambda1: float,
    gamma1: float,
    gamma2: float,
    tolerances: Array,
    max_iter: int,
    scores: Array,
    gradient_norm: Array,
) -> None:
    """Solve each task of a batch by itself, every class against the rest, in the precision of ``grams``.

    ``grams`` (T, M, M), support rows first; ``labels`` (T, n); ``offsets`` (T, N); ``lambda2`` and ``tolerances``
    (stages,). Written in place: ``scores`` (T, M, N); ``gradient_norm`` (T, N, stages).
    """
    n_rows, n_support = grams.shape[1], labels.shape[1]
    size, support_size = _padded(n_rows), _padded(n_support)
    gram, support_gram = np.zeros((n_rows, size), grams.dtype), np.zeros((n_support, support_size), grams.dtype)
    signs, weights = np.zeros(support_size, grams.dtype), np.zeros(support_size, grams.dtype)
    no_weights, query_weights = np.zeros(support_size, grams.dtype), np.zeros(size, grams.dtype)
    for i in range(n_support, n_rows):
        query_weights[i] = 1.0 / (n_rows - n_support)
    coef, column = np.zeros(size, grams.dtype), np.zeros(size, grams.dtype)
    small_workspace, workspace = make_workspace(coef[:support_size]), make_workspace(coef)
    for task in range(grams.shape[0]):
        _copy(grams[task], gram, n_rows)
        _copy(gram, support_gram, n_support)
        for c in range(offsets.shape[1]):
            _one_vs_rest(labels[task], c, signs, weights)
            for i in range(size):
                coef[i], column[i] = 0.0, offsets[task, c]
            on_support = True  # without weight on the queries their coefficients stay zero
            for stage in range(lambda2.shape[0]):
                on_support = on_support and lambda2[stage] == 0.0
                used = support_size if on_support else size
                params = (signs, weights, no_weights if on_support else query_weights, gamma1, gamma2, lambda2[stage])
                _, _, gradient_norm[task, c, stage] = minimise(
                    params,
                    support_gram if on_support else gram,
                    offsets[task, c],
                    lambda1,
                    tolerances[stage],
                    max_iter,
                    small_workspace if on_support else workspace,
                    coef[:used],
                    column[:used],
                )
                if on_support:
                    multiply(gram, coef[:n_support], column)
                    for i in range(size):
                        column[i] += offsets[task, c]
            for i in range(n_rows):
                scores[task, i, c] = column[i]
