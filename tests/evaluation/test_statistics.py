"""Statistics against scipy, against simulation, and on cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.metrics import auc, precision_recall_curve, roc_auc_score

from marginshot.evaluation.statistics import (
    N_BINS,
    adjust_by_holm,
    count_reliability,
    detect_foreign,
    expected_calibration_error,
    find_best,
    interval_over_classes,
    mean_and_interval,
    paired_difference,
    paired_p_value,
    reliability_curve,
    worst_tenth,
)


@pytest.mark.parametrize("n_tasks", [2, 10, 1000])
def test_interval_is_students(n_tasks):
    values = np.random.default_rng(n_tasks).random(n_tasks)
    mean, ci95 = mean_and_interval(values)
    low, high = stats.t.interval(0.95, n_tasks - 1, loc=values.mean(), scale=stats.sem(values))
    assert_allclose([mean - ci95, mean + ci95], [low, high], rtol=1e-12)


def test_interval_is_the_fields_for_many_tasks():
    values = np.random.default_rng(0).random(10_000)
    assert_allclose(mean_and_interval(values)[1], 1.96 * values.std() / 100, rtol=1e-3)


def test_interval_of_one_task_is_refused():
    with pytest.raises(ValueError, match="at least 2 tasks; got 1"):
        mean_and_interval(np.array([0.5]))


def test_paired_interval_is_narrower_where_tasks_are_hard_for_both():
    rng = np.random.default_rng(1)
    hardness = rng.normal(0.6, 0.1, size=500)
    one, other = hardness + rng.normal(0.02, 0.01, size=500), hardness
    gap, ci95 = paired_difference(one, other)
    assert abs(gap - 0.02) < ci95 < 0.002
    assert ci95 < mean_and_interval(one)[1] / 5
    assert_allclose(paired_difference(other, one), (-gap, ci95))
    with pytest.raises(ValueError, match=r"same tasks; got \(500,\) and \(499,\)"):
        paired_difference(one, other[1:])


def test_worst_tenth():
    assert worst_tenth(np.arange(100.0)[::-1]) == np.mean(np.arange(10))
    assert worst_tenth(np.array([0.4, 0.1, 0.9])) == 0.1
    assert worst_tenth(np.arange(11.0)) == 0.5


def test_reliability_by_hand():
    probabilities = np.array([[[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.0, 1.0]]])
    predicted = np.array([[0, 0, 1, 1]])
    counts = count_reliability(probabilities, predicted, labels=np.array([[0, 1, 1, 1]]))
    confidence, accuracy, n_queries = reliability_curve(counts)
    assert_allclose(confidence, [0.6, 0.9, 1.0], atol=1e-11)
    assert_allclose(accuracy, [1.0, 0.5, 1.0])
    assert_array_equal(n_queries, [1, 2, 1])
    assert_allclose(expected_calibration_error(counts), (0.4 + 2 * 0.4 + 0) / 4, atol=1e-11)


def test_reliability_adds_up_in_any_order():
    rng = np.random.default_rng(2)
    probabilities = rng.dirichlet(np.ones(4), size=(30, 7))
    predicted, labels = probabilities.argmax(axis=2), rng.integers(4, size=(30, 7))
    whole = count_reliability(probabilities, predicted, labels)
    parts = [
        count_reliability(probabilities[i : i + 7], predicted[i : i + 7], labels[i : i + 7]) for i in (21, 0, 28, 14, 7)
    ]
    assert_array_equal(sum(parts), whole)
    assert whole.shape == (N_BINS, 3)


def test_honest_probabilities_have_no_calibration_error():
    rng = np.random.default_rng(3)
    probabilities = rng.dirichlet(np.ones(5), size=(2000, 50))
    labels = (rng.random((2000, 50, 1)) > probabilities.cumsum(axis=2)).sum(axis=2)
    counts = count_reliability(probabilities, probabilities.argmax(axis=2), labels)
    assert expected_calibration_error(counts) < 0.01


def test_paired_p_value_is_that_of_the_t_test():
    values, reference = np.random.default_rng(0).random((2, 40))
    assert paired_p_value(values, reference) == pytest.approx(stats.ttest_rel(values, reference).pvalue)
    assert paired_p_value(values, values) == 1.0
    assert paired_p_value(np.full(3, 0.5), np.full(3, 0.25)) == 0.0


@pytest.mark.parametrize("n", [0, 1, 7])
def test_holm_rejects_as_his_steps_do(n):
    p_values = np.random.default_rng(n).random(n) / 20
    adjusted = adjust_by_holm(p_values)
    rejected = np.zeros(n, dtype=bool)
    for step, place in enumerate(np.argsort(p_values)):
        if p_values[place] * (n - step) > 0.05:
            break
        rejected[place] = True
    assert_array_equal(adjusted <= 0.05, rejected)
    assert (adjusted >= p_values).all()


def test_the_best_are_the_first_and_those_not_significantly_below_it():
    first = np.random.default_rng(1).random(200)
    accuracies = np.stack([first - 0.1 + 0.01 * first, first, first - 1e-4 * np.tile([-1.0, 1.1], 100)])
    assert_array_equal(find_best(accuracies), [False, True, True])
    assert_array_equal(find_best(accuracies[:1]), [True])


def _class_world(rng, n_classes):
    """Tasks of 4 classes: each adds an effect of its own, of three points, to its tasks; noise comes on top."""
    effects = rng.normal(0.0, 0.03, n_classes)
    classes = np.array([rng.choice(n_classes, 4, replace=False) for _ in range(600)])
    return 0.7 + effects[classes].sum(axis=1) + rng.normal(0.0, 0.08, 600), classes


def test_interval_over_classes_holds_the_mean_over_all_classes_that_could_be():
    """Worlds of 20 classes each: 95 % of the intervals must hold 0.7, while those over tasks are far too narrow."""
    rng = np.random.default_rng(0)
    hits = {"classes": 0, "tasks": 0}
    for _ in range(300):
        values, classes = _class_world(rng, 20)
        mean, over_tasks = mean_and_interval(values)
        hits["classes"] += abs(mean - 0.7) <= interval_over_classes(values, classes, 20)
        hits["tasks"] += abs(mean - 0.7) <= over_tasks
    assert 0.92 <= hits["classes"] / 300 <= 0.98
    assert hits["tasks"] / 300 < 0.5


def test_without_effects_of_classes_both_intervals_are_nearly_alike():
    rng = np.random.default_rng(1)
    classes = np.array([rng.choice(30, 5, replace=False) for _ in range(3000)])
    values = rng.normal(0.5, 0.1, 3000)
    ratio = interval_over_classes(values, classes, 30) / mean_and_interval(values)[1]
    assert 1.0 <= ratio < 1.6


def test_no_interval_over_classes_where_there_is_nothing_to_draw():
    classes = np.tile(np.arange(3), (10, 1))
    assert interval_over_classes(np.linspace(0, 1, 10), classes, 3) is None
    assert interval_over_classes(np.linspace(0, 1, 10), classes, 4) is None


def test_foreign_queries_are_told_as_scikit_learn_measures_it():
    rng = np.random.default_rng(0)
    foreign = rng.random((20, 60)) < 0.4
    scores = np.round(rng.normal(size=(20, 60)) + foreign, 1)  # with equal scores
    found = detect_foreign(scores, foreign)
    for task in range(20):
        precision, recall, _ = precision_recall_curve(foreign[task], scores[task])
        assert_allclose(found[task], [roc_auc_score(foreign[task], scores[task]), auc(recall, precision)], rtol=1e-12)
    assert_allclose(detect_foreign(scores, np.zeros_like(foreign)), 0.0)
