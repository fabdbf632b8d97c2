"""iLPC's rounds (propagate labels, balance them, keep the cleanest), compiled, task by task.

The graph joins all rows of a task in every round, so its propagator is one matrix. The classifier that finds the clean
labels is kept as coefficients over the rows, so its training needs the Gram matrix only.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import entry_point, leaf, routine
from marginshot.solvers.exponentials_compiled import decay

Batch = NDArray[np.float64]
Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]
Labels = NDArray[np.int64]

# Least propagated label: scaling needs positive numbers.
_LEAST = 1e-12

# Sinkhorn's iterations at most, as in the authors' code, and the relative error of a class's mass that ends them.
_MAX_SCALINGS, _MASS_TOL = 1000, 1e-6


@entry_point
def clean_labels(
    gram: Batch,
    propagator: Batch,
    labels: Labels,
    n_way: int,
    sharpness: float,
    n_best: int,
    n_steps: int,
    learning_rate: float,
    momentum: float,
    weight_decay: float,
) -> Batch:
    """In each round, label the queries of every class with the smallest loss, and propagate again with them.

    Parameters
    ----------
    gram : ndarray of shape (T, n + m, n + m)
        Inner products of the support, first, and the queries.
    propagator : ndarray of shape (T, n + m, n + m)
        From labels of the labelled rows to those of all rows.
    labels : ndarray of int64 of shape (T, n)
    n_way : int
    sharpness : float
        Exponent of the propagated labels before they are balanced.
    n_best : int
        Queries at most that each class gains in a round.
    n_steps : int
        Steps of the classifier.
    learning_rate, momentum, weight_decay : float

    Returns
    -------
    scores : ndarray of shape (T, m, n_way)
        Each query's balanced labels in the round that kept it.
    """
    n_tasks, n_support = labels.shape
    n_rows = gram.shape[1]
    n_query = n_rows - n_support
    scores = np.empty((n_tasks, n_query, n_way))
    known = np.empty(n_rows, dtype=np.int64)
    guesses = np.empty(n_rows, dtype=np.int64)
    plan = np.empty((n_rows, n_way))
    left = np.empty(n_way)
    for t in range(n_tasks):
        known[:n_support], known[n_support:] = labels[t], -1
        left[:] = n_query / n_way
        n_left = n_query
        while n_left > 0:
            _propagate(gram[t], propagator[t], known, sharpness, plan)
            if n_query > 1:
                _balance(plan, known, left)
            for i in range(n_rows):
                guesses[i] = known[i] if known[i] >= 0 else np.argmax(plan[i])
            losses = _mean_losses(gram[t], known, guesses, n_way, n_steps, learning_rate, momentum, weight_decay)
            kept = _cleanest(losses, known, guesses, n_way, n_best)
            if kept.sum() < n_way:  # too few to tell clean from noisy: the rest stay as they are
                kept[:] = known < 0
            for i in range(n_rows):
                if kept[i]:
                    known[i] = guesses[i]
                    scores[t, i - n_support] = plan[i]
                    left[guesses[i]] = max(left[guesses[i]] - 1.0, 0.0)
                    n_left -= 1
    return scores


@leaf
def _propagate(gram: Matrix, propagator: Matrix, known: Labels, sharpness: float, plan: Matrix) -> None:
    """Write the propagated labels (M, N) of the rows without one, to the power ``sharpness`` and summing to 1.

    Where no label of a class reaches a row, its mean inner product with the class's rows stands in, last in rank.
    """
    n_rows, n_way = plan.shape
    counts = np.zeros(n_way)
    for j in range(n_rows):
        if known[j] >= 0:
            counts[known[j]] += 1.0
    direct = np.empty(n_way)
    for i in range(n_rows):
        if known[i] >= 0:
            continue
        _gather(gram[i], known, direct)
        _gather(propagator[i], known, plan[i])
        largest = max(plan[i].max(), _LEAST)
        total = 0.0
        for c in range(n_way):
            reached = max(plan[i, c] / largest, 0.0) ** sharpness
            plan[i, c] = reached + _LEAST * math.exp(direct[c] / counts[c])
            total += plan[i, c]
        for c in range(n_way):
            plan[i, c] /= total


@leaf
def _gather(values: Vector, known: Labels, sums: Vector) -> None:
    """Write the sums (N,) of ``values`` (M,) over the labelled rows of each class."""
    sums[:] = 0.0
    for j in range(values.shape[0]):
        if known[j] >= 0:
            sums[known[j]] += values[j]


@leaf
def _balance(plan: Matrix, known: Labels, left: Vector) -> None:
    """Scale the rows (M, N) without a label to sum 1 and their columns in proportion to ``left``, by turns."""
    n_rows, n_way = plan.shape
    n_left = (known < 0).sum()
    goals = left * (n_left / left.sum()) if left.sum() > 0.0 else np.full(n_way, n_left / n_way)
    masses = np.empty(n_way)
    for _ in range(_MAX_SCALINGS):
        masses[:] = 0.0
        for i in range(n_rows):
            if known[i] < 0:
                total = 0.0
                for c in range(n_way):
                    total += plan[i, c]
                for c in range(n_way):
                    plan[i, c] /= total
                    masses[c] += plan[i, c]
        if (np.abs(masses - goals) <= _MASS_TOL * goals).all():
            break
        for c in range(n_way):
            factor = max(goals[c], _LEAST) / max(masses[c], _LEAST)
            for i in range(n_rows):
                if known[i] < 0:
                    plan[i, c] *= factor


@routine
def _mean_losses(
    gram: Matrix,
    known: Labels,
    guesses: Labels,
    n_way: int,
    n_steps: int,
    learning_rate: float,
    momentum: float,
    weight_decay: float,
) -> Vector:
    """Mean cross-entropy (M,) of each row over the steps of a linear classifier trained on the ``guesses`` (M,).

    It starts from the labelled rows' class means, scaled to unit length, and descends with momentum.
    """
    n_rows = gram.shape[0]
    coef, velocity = _unit_means(gram, known, n_way), np.zeros((n_way, n_rows))
    bias, bias_velocity = np.zeros(n_way), np.zeros(n_way)
    losses, p = np.zeros(n_rows), np.empty((n_way, n_rows))
    for _ in range(n_steps):
        logits = np.dot(coef, gram)
        for c in range(n_way):
            logits[c] += bias[c]
        _add_losses(logits, guesses, losses, p)
        for c in range(n_way):
            bias_slope = weight_decay * bias[c]
            for i in range(n_rows):
                slope = (p[c, i] - (1.0 if guesses[i] == c else 0.0)) / n_rows
                bias_slope += slope
                velocity[c, i] = momentum * velocity[c, i] + slope + weight_decay * coef[c, i]
                coef[c, i] -= learning_rate * velocity[c, i]
            bias_velocity[c] = momentum * bias_velocity[c] + bias_slope
            bias[c] -= learning_rate * bias_velocity[c]
    return losses


@leaf
def _unit_means(gram: Matrix, known: Labels, n_way: int) -> Matrix:
    """Means of the labelled rows of each class, scaled to unit length, as coefficients (N, M)."""
    coef = np.zeros((n_way, gram.shape[0]))
    for i in range(gram.shape[0]):
        if known[i] >= 0:
            coef[known[i], i] = 1.0
    products = np.dot(coef, gram)
    for c in range(n_way):
        square = np.dot(coef[c], products[c])
        coef[c] *= 1.0 / math.sqrt(square) if square > 0.0 else 0.0
    return coef


@leaf
def _add_losses(logits: Matrix, guesses: Labels, losses: Vector, p: Matrix) -> None:
    """Add each row's cross-entropy to ``losses`` (M,) and write the probabilities ``p`` of its ``logits``, (N, M)."""
    n_way, n_rows = logits.shape
    top, total = logits[0].copy(), np.zeros(n_rows)
    for c in range(1, n_way):
        for i in range(n_rows):
            top[i] = max(top[i], logits[c, i])
    for c in range(n_way):
        for i in range(n_rows):
            p[c, i] = decay(logits[c, i] - top[i], np.float64)
            total[i] += p[c, i]
    for i in range(n_rows):
        losses[i] += top[i] + math.log(total[i]) - logits[guesses[i], i]
    for c in range(n_way):
        for i in range(n_rows):
            p[c, i] /= total[i]


@leaf
def _cleanest(losses: Vector, known: Labels, guesses: Labels, n_way: int, n_best: int) -> NDArray[np.bool_]:
    """Which rows without a label (M,) are among the ``n_best`` of their guessed class, by smallest loss."""
    kept = np.zeros(known.shape[0], dtype=np.bool_)
    for c in range(n_way):
        for _ in range(n_best):
            best = -1
            for i in range(known.shape[0]):
                free = known[i] < 0 and guesses[i] == c and not kept[i]
                if free and (best < 0 or losses[i] < losses[best]):
                    best = i
            if best < 0:
                break
            kept[best] = True
    return kept
