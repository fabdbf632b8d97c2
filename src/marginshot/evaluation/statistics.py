"""Statistics of many accuracies: means with intervals, paired differences, the worst tenth, calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

#: Equal-width bins of confidence in a reliability curve.
N_BINS = 15

# Confidences are summed as whole multiples of this, so that the sum does not depend on the order of the tasks.
_CONFIDENCE_UNIT = 2.0**-40

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def mean_and_interval(values: Floats) -> tuple[float, float]:
    """Mean of the values of independent tasks and half the width of its 95 % confidence interval.

    By Student's t: 1.96 standard errors with thousands of tasks, as usual in the field, and more with few.

    Parameters
    ----------
    values : ndarray of shape (n_tasks,)
        At least two.
    """
    if len(values) < 2:
        raise ValueError(f"A confidence interval needs at least 2 tasks; got {len(values)}.")
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return float(np.mean(values)), float(stdtrit(len(values) - 1, 0.975) * error)


def paired_difference(values: Floats, reference: Floats) -> tuple[float, float]:
    """Mean of ``values - reference`` over the same tasks, and half the width of its 95 % interval; both (n_tasks,)."""
    if values.shape != reference.shape:
        raise ValueError(f"A paired difference needs the same tasks; got {values.shape} and {reference.shape}.")
    return mean_and_interval(values - reference)


def interval_over_classes(values: Floats, classes: Ints, n_classes: int) -> float | None:
    """Half the 95 % interval of a mean over tasks, had the classes been drawn anew with the tasks.

    `mean_and_interval` narrows with every task, however few the classes. Here the mean is a U-statistic: a symmetric
    function of ``n_way`` classes, averaged over draws of them. Its variance is n_way² / n_classes times that of a
    class's own effect, to first order (Hoeffding 1948), and the tasks' share. A class's effect is estimated by the mean
    of the tasks it occurs in, less their noise; the other classes of these tasks come from the same few, which shrinks
    it by (n_classes − n_way) / (n_classes − 1).

    Parameters
    ----------
    values : ndarray of shape (n_tasks,)
        Accuracies, or paired differences.
    classes : ndarray of int of shape (n_tasks, n_way)
        Classes of each task, all different, below ``n_classes``.
    n_classes : int

    Returns
    -------
    float or None
        None where every task has all classes, or a class occurs in fewer than two tasks.
    """
    n_way = classes.shape[1]
    counts = np.bincount(classes.ravel(), minlength=n_classes)
    if n_way >= n_classes or counts.min() < 2:
        return None
    centred = values - values.mean()
    sums, squares = (
        np.bincount(classes.ravel(), weights=np.repeat(numbers, n_way), minlength=n_classes)
        for numbers in (centred, centred**2)
    )
    means = sums / counts
    noise = np.mean((squares / counts - means**2) / (counts - 1))
    shrinkage = (n_classes - n_way) / (n_classes - 1)
    effect = max(np.var(means, ddof=1) - noise, 0.0) / shrinkage**2
    variance = n_way**2 / n_classes * effect + np.var(values, ddof=1) / len(values)
    return float(stdtrit(n_classes - 1, 0.975) * np.sqrt(variance))


def paired_p_value(values: Floats, reference: Floats) -> float:
    """Two-sided p-value of Student's paired t-test that both means (n_tasks,) are equal."""
    mean, _ = paired_difference(values, reference)
    error = np.std(values - reference, ddof=1) / np.sqrt(len(values))
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return float(2 * stdtr(len(values) - 1, -abs(mean) / error))


def adjust_by_holm(p_values: Floats) -> Floats:
    """Holm-adjusted p-values (n,): rejecting those below 5 % keeps the chance of any false rejection at 5 %.

    Examples
    --------
    >>> adjust_by_holm(np.array([0.01, 0.04, 0.03]))
    array([0.03, 0.06, 0.06])
    """
    order = np.argsort(p_values, kind="stable")
    rising = np.maximum.accumulate(p_values[order] * np.arange(len(p_values), 0, -1))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(rising, 1.0)
    return adjusted


def find_best(accuracies: Floats, level: float = 0.05) -> NDArray[np.bool_]:
    """Which of the methods, (n_methods,), are first or not significantly below the first.

    ``accuracies`` (n_methods, n_tasks) are on the same tasks; each method is compared with the first by a paired
    t-test, with Holm's adjustment for as many comparisons.
    """
    first = int(accuracies.mean(axis=1).argmax())
    p_values = np.array([paired_p_value(row, accuracies[first]) for row in np.delete(accuracies, first, axis=0)])
    return np.insert(adjust_by_holm(p_values) >= level, first, True)


def worst_tenth(values: Floats) -> float:
    """Mean accuracy of the tenth of the tasks with the lowest accuracy, rounded up to a whole task."""
    n_worst = -(-len(values) // 10)
    return float(np.mean(np.partition(values, n_worst - 1)[:n_worst]))


def count_reliability(probabilities: NDArray[Any], predicted: Ints, labels: Ints) -> Ints:
    """Queries by confidence: how many, how many right, and their summed confidence.

    Parameters
    ----------
    probabilities : ndarray of shape (T, n_query, n_way)
    predicted, labels : ndarray of int of shape (T, n_query)

    Returns
    -------
    ndarray of int64 of shape (N_BINS, 3)
        Counts of different tasks add up, in any order, to the counts of all of them.
    """
    confidence = np.take_along_axis(probabilities, predicted[..., None], axis=2).ravel()
    bins = np.clip((confidence * N_BINS).astype(np.int64), 0, N_BINS - 1)
    right = (predicted == labels).ravel()
    counts = np.zeros((N_BINS, 3), dtype=np.int64)
    np.add.at(counts[:, 0], bins, 1)
    np.add.at(counts[:, 1], bins, right)
    np.add.at(counts[:, 2], bins, np.rint(confidence / _CONFIDENCE_UNIT).astype(np.int64))
    return counts


def detect_foreign(scores: Floats, foreign: NDArray[np.bool_]) -> Floats:
    """How well ``scores`` (T, m) tell queries that are ``foreign`` (T, m): (T, 2), zeros where none are.

    The first column is the area under the ROC curve, the second that under the precision-recall curve, by trapezoids.

    Examples
    --------
    >>> detect_foreign(np.array([[3.0, 2.0, 1.0, 0.0]]), np.array([[True, False, True, False]])).round(3)
    array([[0.75 , 0.792]])
    """
    areas = np.zeros((len(scores), 2))
    for task in np.flatnonzero(foreign.any(axis=1) & ~foreign.all(axis=1)):
        order = np.argsort(-scores[task], kind="stable")
        ends = np.flatnonzero(np.append(np.diff(scores[task][order]) != 0, True))  # equal scores are one threshold
        found = np.cumsum(foreign[task][order])[ends]
        false = ends + 1 - found
        recall = np.insert(found / found[-1], 0, 0.0)
        areas[task, 0] = np.trapezoid(recall, np.insert(false / false[-1], 0, 0.0))
        areas[task, 1] = np.trapezoid(np.insert(found / (found + false), 0, 1.0), recall)
    return areas


def reliability_curve(counts: Ints) -> tuple[Floats, Floats, Ints]:
    """Mean confidence, accuracy and number of queries of every bin that is not empty."""
    filled = counts[counts[:, 0] > 0]
    n_queries = filled[:, 0]
    return filled[:, 2] * _CONFIDENCE_UNIT / n_queries, filled[:, 1] / n_queries, n_queries


def expected_calibration_error(counts: Ints) -> float:
    """Mean distance between confidence and accuracy over the bins, weighted by their queries (0 is perfect)."""
    confidence, accuracy, n_queries = reliability_curve(counts)
    return float(np.sum(np.abs(confidence - accuracy) * n_queries) / n_queries.sum())
