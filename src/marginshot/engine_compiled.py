"""The engine's compiled entry point: pairs the objective with the solver and follows the λ2 sequence, task by task.

Its NumPy twin, for one task, is `solvers/continuation.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot._jit import entry_point, leaf
from marginshot.objectives.margin_compiled import margin_loss
from marginshot.solvers.lbfgs_compiled import make_minimise, make_workspace, multiply

Array = NDArray[np.float64]

minimise = make_minimise(margin_loss)


@leaf
def _one_vs_rest(labels: NDArray[np.int64], positive: int, signs: Array, weights: Array) -> None:
    """Signs (n,) and weights w/n (n,) of the problem ``positive`` against the rest."""
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
    grams: NDArray[np.float32],
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
    """Solve each task of a batch by itself, every class against the rest.

    ``grams`` (T, M, M), support rows first; ``labels`` (T, n); ``offsets`` (T, N); ``lambda2`` and ``tolerances``
    (stages,). Written in place: ``scores``
    (T, M, N); ``gradient_norm`` (T, N, stages).
    """
    n_tasks, n_rows = grams.shape[0], grams.shape[1]
    n_support = labels.shape[1]
    signs, weights = np.empty(n_support), np.empty(n_support)
    coef, column = np.empty(n_rows), np.empty(n_rows)
    small_workspace, workspace = make_workspace(n_support), make_workspace(n_rows)
    for task in range(n_tasks):
        gram = grams[task].astype(np.float64)
        support_gram = gram[:n_support, :n_support].copy()
        for c in range(offsets.shape[1]):
            _one_vs_rest(labels[task], c, signs, weights)
            coef[:] = 0.0
            column[:] = offsets[task, c]
            on_support = True  # without weight on the queries their coefficients stay zero
            for stage in range(lambda2.shape[0]):
                params = (signs, weights, gamma1, gamma2, lambda2[stage])
                on_support = on_support and lambda2[stage] == 0.0
                size = n_support if on_support else n_rows
                _, _, gradient_norm[task, c, stage] = minimise(
                    params,
                    support_gram if on_support else gram,
                    offsets[task, c],
                    lambda1,
                    tolerances[stage],
                    max_iter,
                    small_workspace if on_support else workspace,
                    coef[:size],
                    column[:size],
                )
                if on_support:
                    multiply(gram, coef[:n_support], column)
                    column += offsets[task, c]
            scores[task, :, c] = column
