"""Labels spread over the graph of neighbours of each of many small tasks, compiled. `graph.py` explains it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.jit import entry_point, leaf, routine
from marginshot.model.graph import (
    DAMPING,
    DOUBT,
    FULL_DIMENSION,
    LEAST_REACHED,
    LEAST_SQUARE,
    LEAST_WIDTH,
    MISJUDGED,
    MISJUDGED_SHARE,
    MOST_CHECKED,
    WIDTH,
)
from marginshot.model.subsets import draws

Array = NDArray[np.float64]
Gram = NDArray[np.float32]
Indices = NDArray[np.int64]

_DRAWS = draws(MOST_CHECKED)


@entry_point
def spread_labels(
    inner: NDArray[np.float32],
    nearest: NDArray[np.int64],
    products: NDArray[np.float32],
    counts: NDArray[np.int64],
    labels: NDArray[np.int64],
    logits: Array,
    weights: Array,
) -> None:
    """Spread the labels of each task of a batch.

    ``inner`` (T, M, M), inner products of unit rows, support rows first; a row without direction is zero, and has no
    edges. ``nearest``, ``products`` (T, M, k) and ``counts`` (T, M): `marginshot.model.neighbours.TaskNeighbours`.
    ``labels`` (T, n). Written in place: ``logits`` (T, M, N) of all rows, and the graph's weight ω (T,).
    """
    n_rows, n_classes = logits.shape[1:]
    squares, system = np.empty(nearest.shape[1:]), np.empty((n_rows, n_rows))
    reached = np.empty((n_rows, n_classes))
    for task in range(inner.shape[0]):
        gram, count = inner[task], counts[task]
        for i in range(n_rows):
            for place in range(count[i]):
                squares[i, place] = max(2.0 - 2.0 * np.float64(products[task, i, place]), 0.0)
        width, weight = _measure(squares, count)
        _tie(nearest[task], squares, count, width, system)
        known = _with_direction(labels[task], gram)
        checked = _checked(known, n_classes)
        at_support = _solve(system, known, checked, reached)
        if len(checked):
            weight *= _trust(gram, known, checked, at_support[:, n_classes:], n_classes)
        _take_logarithms(weight, reached, logits[task])
        weights[task] = weight


@routine
def _solve(system: Array, labels: Indices, checked: Indices, reached: Array) -> Array:
    """Write what spreads from the ``labels`` (n,) to all rows, (M, N).

    Returns, at the support, the same and what spreads from each of the ``checked`` rows (c,) by itself, (n, N + c).
    Queries are eliminated first: what spreads between labelled rows needs only a system of their own size.
    """
    n, (n_rows, n_classes) = len(labels), reached.shape
    columns = np.zeros((n, n_classes + len(checked)))
    for i in range(n):
        if labels[i] >= 0:
            columns[i, labels[i]] = 1.0
    for place in range(len(checked)):
        columns[checked[place], n_classes + place] = 1.0
    among_support = system[:n, :n].copy()
    through = np.zeros((n_rows - n, n))
    if n < n_rows:
        through[:] = np.linalg.solve(system[n:, n:].copy(), system[n:, :n].copy())
        among_support -= np.dot(system[:n, n:].copy(), through)
    at_support = np.zeros(columns.shape)
    at_support[:] = np.linalg.solve(among_support, columns)
    reached[:n] = at_support[:, :n_classes]
    reached[n:] = -np.dot(through, reached[:n])
    return at_support


@leaf
def _with_direction(labels: Indices, inner: Gram) -> Indices:
    """The labels (n,), −1 for rows without direction, which neither tell nor are told."""
    known = labels.copy()
    for i in range(len(known)):
        if inner[i, i] <= 0.0:
            known[i] = -1
    return known


@leaf
def _measure(squares: Array, counts: Indices) -> tuple[float, float]:
    """Width s of the edges, and weight ω of the graph by its dimension; copies of a row tell of neither."""
    total, logs, n_rows, n_pairs = 0.0, 0.0, 0, 0
    for i in range(len(counts)):
        last, nearest = counts[i] - 1, np.inf
        for place in range(counts[i]):
            if squares[i, place] > LEAST_SQUARE:
                nearest = min(nearest, squares[i, place])
                if place < last:
                    logs += 0.5 * math.log(squares[i, last] / squares[i, place])
                    n_pairs += 1
        if nearest < np.inf:
            total += nearest
            n_rows += 1
    width = max(WIDTH * total / n_rows, LEAST_WIDTH) if n_rows else LEAST_WIDTH
    return width, min((FULL_DIMENSION * logs / n_pairs) ** 2, 1.0) if n_pairs else 0.0


@leaf
def _tie(nearest: Indices, squares: Array, counts: Indices, width: float, system: Array) -> None:
    """I − 0.95 D^−½ W D^−½, (M, M)."""
    n_rows = len(counts)
    system[:] = 0.0
    for i in range(n_rows):
        for place in range(counts[i]):
            edge = math.exp(-squares[i, place] / width)
            system[i, nearest[i, place]] = system[nearest[i, place], i] = edge
    inverse = np.zeros(n_rows)
    for i in range(n_rows):
        degree = system[i].sum()
        if degree > 0.0:
            inverse[i] = 1.0 / math.sqrt(degree)
    for i in range(n_rows):
        for j in range(n_rows):
            system[i, j] *= -DAMPING * inverse[i] * inverse[j]
        system[i, i] = 1.0


@leaf
def _checked(labels: Indices, n_classes: int) -> Indices:
    """Labelled rows whose class has others, at most so many, as `subsets.evenly` draws them."""
    counts = np.zeros(n_classes, np.int64)
    for i in range(len(labels)):
        if labels[i] >= 0:
            counts[labels[i]] += 1
    several = np.empty(len(labels), np.int64)
    total = 0
    for i in range(len(labels)):
        if labels[i] >= 0 and counts[labels[i]] > 1:
            several[total] = i
            total += 1
    n_checked = min(total, MOST_CHECKED)
    checked = np.empty(n_checked, np.int64)
    for place in range(n_checked):
        start = place * total // n_checked
        width = (place + 1) * total // n_checked - start
        checked[place] = several[start + int(_DRAWS[place] * width)]
    return checked


@leaf
def _trust(inner: Gram, labels: Indices, checked: Indices, reached: NDArray[np.floating], n_classes: int) -> float:
    """How far the graph is believed, from rows (c,) told by the other labels; ``reached`` (M, c) from each of them."""
    spread, sums = np.empty(n_classes), np.empty(n_classes)
    counts, lengths = np.zeros(n_classes), np.zeros(n_classes)
    for i in range(len(labels)):
        if labels[i] < 0:
            continue
        counts[labels[i]] += 1.0
        for j in range(len(labels)):
            if labels[i] == labels[j]:
                lengths[labels[i]] += np.float64(inner[i, j])
    lead = 0
    for place in range(len(checked)):
        row = checked[place]
        own = labels[row]
        spread[:], sums[:] = 0.0, 0.0
        for j in range(len(labels)):
            if j != row and labels[j] >= 0:
                spread[labels[j]] += reached[j, place]
                sums[labels[j]] += np.float64(inner[row, j])
        best, nearness = 0, -np.inf
        for c in range(n_classes):
            count, length = counts[c], lengths[c]
            if c == own:
                count -= 1.0
                length -= 2.0 * sums[c] + np.float64(inner[row, row])
            value = 2.0 * sums[c] / count - length / count**2 if count > 0.0 else -np.inf
            if value > nearness:
                best, nearness = c, value
        lead += int(spread.argmax() == own) - int(best == own)
    return min(max(1.0 + lead / (MISJUDGED + MISJUDGED_SHARE * len(checked)), 0.0), 1.0)


@leaf
def _take_logarithms(weight: float, reached: NDArray[np.floating], logits: Array) -> None:
    """Logits (M, N), from what has spread to each row in the first N columns."""
    n_rows, n_classes = logits.shape
    for i in range(n_rows):
        total = 0.0
        for c in range(n_classes):
            total += max(reached[i, c], 0.0)
        scale = 1.0 / total if total > LEAST_REACHED else 0.0
        for c in range(n_classes):
            logits[i, c] = weight * math.log(scale * max(reached[i, c], 0.0) + DOUBT)
