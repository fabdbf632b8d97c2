"""Platt scaling against scikit-learn and at its limits; the experts in a combination."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from marginshot.batch.compiled import fit_platt_batch
from marginshot.model.calibration import CALIBRATIONS
from marginshot.model.platt import PLAIN, PLATT, fit_platt, platt_probabilities
from reference import scipy_fs_tmmc


@pytest.mark.parametrize("n_shot", [1, 5])
def test_against_scikit_learns_logistic_regression(n_shot):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), n_shot)
    margins = np.where(labels[:, None] == np.arange(4), 0.8, -0.9) + 0.3 * rng.standard_normal((len(labels), 4))
    for regression, reference in (
        (PLATT, scipy_fs_tmmc.platt_probabilities),
        (PLAIN, scipy_fs_tmmc.logistic_probabilities),
    ):
        slope, intercept = fit_platt(margins, labels, np.ones(len(labels)), *regression)
        expected = reference(margins, labels, 4)
        assert_allclose(1 / (1 + np.exp(-(slope * margins + intercept))), expected, atol=1e-4)


def test_smoothed_targets_keep_a_separable_support_finite():
    slope, intercept = fit_platt(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([0, 1]), np.ones(2), *PLATT)
    # Targets 2/3 and 1/3 are met exactly: σ(A + B) = 2/3, σ(−A + B) = 1/3.
    assert_allclose(slope, np.full(2, np.log(2)))
    assert_allclose(intercept, np.zeros(2), atol=1e-12)


def test_constant_margins_give_a_flat_curve():
    slope, intercept = fit_platt(np.full((6, 3), -0.3), np.repeat(np.arange(3), 2), np.ones(6), *PLATT)
    assert_allclose(slope, 0, atol=1e-9)
    assert_allclose(platt_probabilities(slope * -0.3 + intercept), np.full(3, 1 / 3))


@pytest.mark.parametrize("regression", [PLATT, PLAIN])
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_compiled_equals_numpy(scale, regression):
    rng = np.random.default_rng(3)
    margins, labels = scale * rng.standard_normal((7, 20, 3)), np.tile(np.repeat(np.arange(3), (1, 2, 6)), (7, 1))
    slope, intercept = np.empty((2, 7, 3))
    fit_platt_batch(margins, labels, *regression, slope, intercept)
    for task in range(7):
        # Rows after the support take no part.
        expected = fit_platt(margins[task, :9], labels[task], np.ones(9), *regression)
        assert_allclose(slope[task], expected[0], rtol=1e-6, atol=1e-8)
        assert_allclose(intercept[task], expected[1], rtol=1e-6, atol=1e-8)


def test_a_row_that_counts_twice_is_a_row_twice():
    rng = np.random.default_rng(4)
    margins, labels = rng.standard_normal((6, 2)), np.array([0, 0, 0, 1, 1, 1])
    weighted = fit_platt(margins, labels, np.array([2.0, 1, 1, 1, 1, 1]), *PLATT)
    doubled = fit_platt(margins[[0, 0, 1, 2, 3, 4, 5]], labels[[0, 0, 1, 2, 3, 4, 5]], np.ones(7), *PLATT)
    assert_allclose(weighted, doubled, rtol=1e-6)


@dataclass
class Planes:
    """A fitted task: Platt's slopes 1 and intercepts 0."""

    def fit_platt(self, regression):
        return np.ones((1, 2)), np.zeros((1, 2))


def test_the_experts_are_weighed_apart():
    rng = np.random.default_rng(5)
    margins, logits, graph, regression = rng.standard_normal((4, 1, 9, 2))
    combination = CALIBRATIONS["graph"].combine(Planes(), (1, 2))
    weighted = combination.weighted(np.array([[3.0, 0.5]]))
    assert_allclose(weighted.transductive(margins, logits, graph), 3 * combination.transductive(margins, logits, graph))
    assert_allclose(weighted.inductive(regression), 0.5 * combination.inductive(regression))


@pytest.mark.parametrize("log_odds", [[-1e4, -1e4, -1e4], [1e4, 1e4, 1e4], [0.0, 0.0, 0.0]])
def test_no_evidence_is_uniform(log_odds):
    assert_allclose(platt_probabilities(np.array(log_odds)), np.full(3, 1 / 3))


def test_probabilities_sum_to_one_and_keep_the_order():
    log_odds = np.random.default_rng(2).normal(scale=5, size=(50, 4))
    probabilities = platt_probabilities(log_odds)
    assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), log_odds.argmax(axis=1))
