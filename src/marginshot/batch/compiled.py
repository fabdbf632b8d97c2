"""The model compiled: numba takes the one text of `marginshot.model` and loops over tasks.

Each entry point below writes into arrays of the batch what a function of the model returns for each task. What stands
here and not in the model exists for small tasks alone: neighbours by insertion, and the graph's system solved densely.
"""

from __future__ import annotations

import inspect
import math
from types import ModuleType

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

import marginshot.batch.primitives  # noqa: F401  (compiled bodies of what the model calls)
from marginshot._lib.jit import CALL_OPTIONS, entry_point, leaf, loop, routine
from marginshot.model import grams, graph, mixture, neighbours, platt, primitives, shares
from marginshot.model.graph import DAMPING, LEAST_REACHED
from marginshot.solvers.lbfgs_compiled import dot
from marginshot.solvers.margin_compiled import total
from marginshot.solvers.task_compiled import nearest_neighbours

Array = NDArray[np.float64]
Gram = NDArray[np.float32]
Indices = NDArray[np.int64]
Features = NDArray[np.floating]


def _compile(module: ModuleType, *names: str) -> None:
    """Let numba compile functions of a module where compiled code calls them; all of them by default."""
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__ and (not names or name in names):
            register_jitable(**CALL_OPTIONS)(value)


_compile(grams)
_compile(mixture)
_compile(platt, "fit_platt", "fit_logistic", "penalised_sums")
_compile(shares, "evidence_of_counts", "enough_queries", "may_be_sparse", "certainty_of_equal")
_compile(neighbours, "average_gram", "smooth_gram")
_compile(graph, "measure_edges", "even_masses", "graph_logits")


@entry_point
def centre_rows(
    support: Features, query: Features, rooted: bool, rows: Gram, means: Features, squares: Features
) -> None:
    """Write the ``rows`` (T, M, D) of tasks, those of ``support`` (T, n, D) first, then ``query`` (T, m, D), centred.

    Where ``rooted``, they are first prepared as by `CentreAndNormalise.prepare` with the power ¾. Written too: the
    ``means`` (T, D) subtracted, in the precision of the features, and the largest sum of ``squares`` (T,) of a row.
    """
    n, n_rows = support.shape[1], rows.shape[1]
    room = np.empty((n_rows if rooted else 0, rows.shape[2]), support.dtype)
    for task in range(len(rows)):
        mean, largest = means[task], 0.0
        mean[:] = 0.0
        for i in range(n_rows):
            row = support[task, i] if i < n else query[task, i - n]
            square = _take_root(row, room[i]) if rooted else dot(row, row)
            largest = max(largest, square)
            _add(room[i] if rooted else row, mean)
        squares[task] = largest
        mean /= n_rows
        for i in range(n_rows):
            row = room[i] if rooted else support[task, i] if i < n else query[task, i - n]
            _subtract(row, mean, rows[task, i])


@loop
def _take_root(row: Features, out: Features) -> float:
    """Write sign(x) |x|^0.75 of each feature (D,), scaled to unit length; returns the sum of squares before."""
    zero, square = row.dtype.type(0.0), row.dtype.type(0.0)
    for j in range(row.shape[0]):
        root = math.sqrt(abs(row[j]))
        power = root * math.sqrt(root)  # two square roots take a tenth of the time of a power
        out[j] = power if row[j] >= zero else -power
        square += power * power
    scale = row.dtype.type(1.0) / math.sqrt(square) if square > zero else zero
    for j in range(row.shape[0]):
        out[j] *= scale
    return float(square)


@loop
def _add(row: Features, out: Features) -> None:
    for j in range(row.shape[0]):
        out[j] += row[j]


@loop
def _subtract(row: Features, shift: Features, out: Gram) -> None:
    for j in range(row.shape[0]):
        out[j] = row[j] - shift[j]


@entry_point
def look_up_grams(table_inner: NDArray[np.float32], rows: Indices, out: Gram, lengths: Gram, least: float) -> None:
    """Write the inner products (T, M, M) of each task's ``rows`` (T, M), centred on their mean and of unit length.

    ``table_inner`` (n_rows, n_rows) holds the inner products of the table's rows about any one origin. The ``lengths``
    (T, M) of the centred rows are written too.
    """
    n_rows = rows.shape[1]
    for task in range(rows.shape[0]):
        gram, numbers = out[task], rows[task]
        for i in range(n_rows):
            source = table_inner[numbers[i]]
            for j in range(i + 1):  # most are far apart in memory: fetch each once
                gram[i, j] = gram[j, i] = source[numbers[j]]
        lengths[task] = primitives.centre_and_scale(gram, least)


@entry_point
def centre_grams(gram_batch: Gram, lengths: Gram, least: float) -> None:
    """Centre each task's inner products (T, M, M) and scale its rows to unit length, in place; write their lengths."""
    for task in range(gram_batch.shape[0]):
        lengths[task] = primitives.centre_and_scale(gram_batch[task], least)


@entry_point
def find_neighbours(inner: Gram, nearest: Indices) -> None:
    """Write the places (T, M, k) of each unit row's neighbours, nearest first, by inner products (T, M, M).

    A row without direction is nobody's neighbour and has itself for neighbours. Of more rows equally near than are
    asked for, the first are taken.
    """
    n_rows = inner.shape[1]
    directed = np.empty(n_rows, np.bool_)
    for task in range(inner.shape[0]):
        for i in range(n_rows):
            directed[i] = inner[task, i, i] > 0.0
        nearest_neighbours(inner[task], directed, nearest[task])


@entry_point
def smooth_grams(inner: Gram, nearest: Indices, weight: float, out: Gram) -> None:
    """Write the inner products (T, M, M) of rows averaged with their neighbours, centred and of unit length."""
    for task in range(inner.shape[0]):
        out[task] = neighbours.smooth_gram(inner[task], nearest[task], weight)


@entry_point
def average_grams(inner: Gram, lengths: Gram, nearest: Indices, weight: float, out: Gram) -> None:
    """Write the inner products (T, M, M) of rows averaged with their neighbours, each of its own length (T, M)."""
    n_rows = inner.shape[1]
    scaled = np.empty((n_rows, n_rows), np.float32)
    for task in range(inner.shape[0]):
        for i in range(n_rows):
            for j in range(n_rows):
                scaled[i, j] = inner[task, i, j] * (lengths[task, i] * lengths[task, j])
        out[task] = neighbours.average_gram(scaled, nearest[task], weight)


@entry_point
def fit_mixtures(
    gram_batch: Gram,
    labels: Indices,
    hints: Array,
    class_shares: Array,
    estimate: bool,
    equal_odds: float,
    logits: Array,
    found: Array,
    clustered: Array,
    equalities: Array,
) -> None:
    """Fit a mixture to each task.

    ``gram_batch`` (T, M, M), support rows first; ``labels`` (T, n); ``hints`` (T, N, m); ``class_shares`` (T, N).
    Written in place: ``logits`` (T, N, M), shares ``found`` (T, N), ``clustered`` and ``equalities`` (T,).
    """
    weights, n_query = np.ones(labels.shape[1]), hints.shape[2]
    for task in range(gram_batch.shape[0]):
        fitted = mixture.fit_mixture(
            gram_batch[task], labels[task], weights, hints[task], class_shares[task], estimate, equal_odds, n_query
        )
        logits[task], found[task] = fitted.logits, fitted.shares
        clustered[task], equalities[task] = fitted.clustered, fitted.equality


@entry_point
def fit_platt_batch(
    margins: Array, labels: Indices, smoothed: bool, ridge: float, slope: Array, intercept: Array
) -> None:
    """Write slope and intercept (T, N), fitted on the first n of ``margins`` (T, M, N) with ``labels`` (T, n).

    ``smoothed`` and ``ridge`` are those of `marginshot.model.platt.Regression`.
    """
    n_support = labels.shape[1]
    weights = np.ones(n_support)
    for task in range(margins.shape[0]):
        support = margins[task, :n_support]
        slope[task], intercept[task] = platt.fit_platt(support, labels[task], weights, smoothed, ridge)


@entry_point
def spread_labels(inner: Gram, nearest: Indices, labels: Indices, logits: Array) -> None:
    """Spread the ``labels`` (T, n) of each task over the graph of its neighbours.

    ``inner`` (T, M, M), inner products of unit rows, support rows first; ``nearest`` (T, M, k). Written in place:
    ``logits`` (T, M, N) of all rows.
    """
    n_rows, n_classes = logits.shape[1:]
    squares, reached = np.empty(nearest.shape[1:]), np.empty((n_rows, n_classes))
    for task in range(inner.shape[0]):
        gram = inner[task]
        for i in range(n_rows):
            for place in range(nearest.shape[2]):
                neighbour = nearest[task, i, place]
                squares[i, place] = 0.0 if neighbour == i else max(2.0 - 2.0 * np.float64(gram[i, neighbour]), 0.0)
        width, weight = graph.measure_edges(squares)
        known = _with_direction(labels[task], gram)
        _solve(_system(nearest[task], squares, width), known, reached)
        graph.even_masses(reached, _count_labels(known, n_classes))
        logits[task] = graph.graph_logits(reached, weight, LEAST_REACHED)


@leaf
def _count_labels(labels: Indices, n_classes: int) -> Array:
    """Labelled rows of each class, (N,), from the ``labels`` (n,), −1 for rows without direction."""
    counts = np.zeros(n_classes)
    for label in labels:
        if label >= 0:
            counts[label] += 1.0
    return counts


@leaf
def _system(nearest: Indices, squares: Array, width: float) -> Array:
    """Matrix I − 0.95 D^−½ W D^−½, (M, M), of the linear system of label spreading."""
    n_rows, k = nearest.shape
    system, inverse = np.zeros((n_rows, n_rows)), np.zeros(n_rows)
    for i in range(n_rows):
        for place in range(k):
            if nearest[i, place] != i:
                edge = np.exp(-squares[i, place] / width)
                system[i, nearest[i, place]] = system[nearest[i, place], i] = edge
    for i in range(n_rows):
        degree = total(system[i])
        if degree > 0.0:
            inverse[i] = 1.0 / np.sqrt(degree)
    for i in range(n_rows):
        for j in range(n_rows):
            system[i, j] *= -DAMPING * inverse[i] * inverse[j]
        system[i, i] = 1.0
    return system


@routine
def _solve(system: Array, labels: Indices, reached: Array) -> None:
    """Write what spreads from the ``labels`` (n,) to all rows, (M, N); changes the ``system`` (M, M).

    Queries are eliminated first: what spreads between labelled rows needs only a system of their own size.
    """
    n, (n_rows, n_classes) = len(labels), reached.shape
    columns = np.zeros((n, n_classes))
    for i in range(n):
        if labels[i] >= 0:
            columns[i, labels[i]] = 1.0
    _eliminate(system)
    for i in range(n - 1, -1, -1):
        for j in range(i):
            _add_scaled(-system[i, j], columns[i], columns[j])
        columns[i] /= system[i, i]
    for i in range(n):
        for j in range(i):
            _add_scaled(-system[i, j], columns[j], columns[i])
    spread = np.empty((n_classes, n_rows))
    spread[:, :n] = columns.T
    for i in range(n, n_rows):
        for c in range(n_classes):
            spread[c, i] = -dot(system[i, :i], spread[c, :i])
    reached[:] = spread.T


@loop
def _eliminate(system: Array) -> None:
    """Factor a symmetric positive definite matrix (M, M) as UᵀDU in place, from its last row to its first.

    The rows of U end at the diagonal, which holds D. Zeros of a sparse graph are skipped.
    """
    for k in range(len(system) - 1, -1, -1):
        row, pivot = system[k], system[k, k]
        for i in range(k):
            if row[i] != 0.0:
                target, factor = system[i], row[i] / pivot
                for j in range(i + 1):
                    target[j] -= factor * row[j]
        for i in range(k):
            row[i] /= pivot


@loop
def _add_scaled(factor: float, row: Array, out: Array) -> None:
    for i in range(row.shape[0]):
        out[i] += factor * row[i]


@leaf
def _with_direction(labels: Indices, inner: Gram) -> Indices:
    """The labels (n,), −1 for rows without direction, which take no part in the spreading."""
    known = labels.copy()
    for i in range(len(known)):
        if inner[i, i] <= 0.0:
            known[i] = -1
    return known
