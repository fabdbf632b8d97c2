"""Worklists and estimates: what is promised is what is reached, and checked answers correct what was promised."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from marginshot.labelling.answers.worklist import Evidence, audit_estimate, expected_accuracy, fit_correction, worklist


def draw(seed, n, sharpness=1.0):
    """Probabilities, and answers right as often as the probabilities would say with log-odds times ``sharpness``."""
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.4, 1.0, n)
    odds = (confidence / (1 - confidence)) ** sharpness
    return confidence, rng.random(n) < odds / (1 + odds)


@pytest.mark.parametrize("target", [0.8, 0.9, 0.99])
def test_what_is_promised_is_reached(target):
    confidence, right = draw(0, 4000)
    work = worklist(confidence, np.zeros(4000, dtype=bool), target)
    reached = right.copy()
    reached[work.rows] = True
    assert work.expected[-1] >= target
    assert np.mean(reached) == pytest.approx(work.expected[-1], abs=0.02)
    assert (np.diff(confidence[work.rows]) >= 0).all()
    assert (np.diff(work.expected) > 0).all()


def test_nothing_to_check_where_the_target_is_reached():
    assert len(worklist(np.full(10, 0.97), np.zeros(10, dtype=bool), 0.95).rows) == 0
    assert len(worklist(np.full(10, 0.5), np.ones(10, dtype=bool), 0.95).rows) == 0


def test_all_is_to_be_checked_for_certainty():
    checked = np.arange(10) < 4
    work = worklist(np.full(10, 0.9), checked, 1.0)
    assert sorted(work.rows.tolist()) == [4, 5, 6, 7, 8, 9]
    assert work.expected[-1] == pytest.approx(1.0)


def test_a_target_outside_of_0_to_1_is_refused():
    with pytest.raises(ValueError, match=r"between 0 and 1; got 95"):
        worklist(np.ones(3), np.zeros(3, dtype=bool), 95)


@pytest.mark.parametrize("sharpness", [0.4, 1.0, 2.0])
def test_checked_answers_correct_a_classifier_that_is_too_sure_or_not_sure_enough(sharpness):
    confidence, right = draw(1, 3000, sharpness)
    checked = np.zeros(3000, dtype=bool)
    checked[:300] = True
    correction = fit_correction(Evidence(confidence[:300], right[:300]))
    estimate = expected_accuracy(confidence, checked, correction)
    truth = (right | checked).mean()
    assert estimate.value == pytest.approx(truth, abs=0.03)
    assert estimate.low <= truth <= estimate.high


def test_the_interval_narrows_with_what_is_checked():
    confidence, right = draw(2, 2000)
    nothing = np.zeros(2000, dtype=bool)
    first = expected_accuracy(confidence, nothing)
    later = expected_accuracy(confidence, nothing, fit_correction(Evidence(confidence[:200], right[:200])))
    assert later.high - later.low < 0.7 * (first.high - first.low)


def test_an_audit_is_unbiased_and_its_interval_holds():
    rng = np.random.default_rng(0)
    found = [audit_estimate(int(rng.binomial(30, 0.8)), 30, 1.0) for _ in range(400)]
    assert np.mean([estimate.value for estimate in found]) == pytest.approx(0.8, abs=0.015)
    assert np.mean([estimate.low <= 0.8 <= estimate.high for estimate in found]) >= 0.95
    interval = stats.binomtest(24, 30).proportion_ci(method="exact")
    assert audit_estimate(24, 30, 1.0).low == pytest.approx(interval.low)
    assert audit_estimate(24, 30, 1.0).high == pytest.approx(interval.high)
    assert audit_estimate(30, 30, 0.5).high == 1.0


def test_labels_of_an_earlier_source_promise_little():
    confidence, checked = np.linspace(0.5, 1.0, 200), np.zeros(200, dtype=bool)

    def width(correction):
        expected = expected_accuracy(confidence, checked, correction)
        assert expected.low <= expected.value <= expected.high
        return expected.high - expected.low

    own = width(fit_correction(None, 3.0))
    by_old = [width(fit_correction(None, 3.0, labels)) for labels in (0.0, 0.5, 1.0, 3.0, 100.0)]
    assert by_old == sorted(by_old, reverse=True)
    assert by_old[0] > 1.8 * own
    assert by_old[-1] == pytest.approx(own, rel=0.01)
    sure = expected_accuracy(np.ones(200), checked, fit_correction(None, 3.0, 0.0))
    assert sure.low < 0.97


def test_at_one_label_a_class_the_interval_goes_far_below_a_high_promise():
    """Clusters that are no classes may be promised 95 %: with one label a class nobody can know."""
    confidence, nothing = np.full(400, 0.95), np.zeros(400, dtype=bool)
    lows = [expected_accuracy(confidence, nothing, fit_correction(None, labels)).low for labels in (1.0, 1.5, 2.0, 5.0)]
    assert lows == sorted(lows)
    assert lows[0] < 0.7
    assert lows[2] == lows[3] > 0.8
