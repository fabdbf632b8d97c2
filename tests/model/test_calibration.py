"""Platt scaling against scikit-learn and at its limits; how sharp answers are."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_softmax

from marginshot.batch.compiled import fit_platt_batch
from marginshot.model.calibration import CALIBRATIONS, Evidence
from marginshot.model.platt import PLAIN, PLATT, fit_platt, platt_probabilities
from marginshot.model.temperature import OF_CLASSES, SPREAD, temperature_by_labels
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
    """A fitted task: Platt's slopes 1 and intercepts 0, and these margins of queries."""

    margins: np.ndarray

    def fit_platt(self, regression):
        ones = np.ones((*self.margins.shape[:-2], self.margins.shape[-1]))
        return ones, 0 * ones

    def query_margins(self):
        return self.margins


def evidence(trust=1.0, omega=0.0, temperature=1.0):
    return Evidence(2, 2, *(np.array([value]) for value in (0.5, trust, temperature, omega)))


def test_what_graph_and_mixture_repeat_is_tempered():
    planes = Planes(np.zeros((1, 3, 2)))
    silent, loud = (CALIBRATIONS["graph"].combine(planes, evidence(omega=omega)) for omega in (0.0, 1.0))
    assert_allclose(loud.temper / silent.temper, 1 / 3)
    assert_allclose(loud.of_graph / silent.of_graph, 1 / 3)


def test_sharpness_leaves_the_order_of_scores():
    rng = np.random.default_rng(5)
    planes = Planes(rng.standard_normal((1, 9, 2)))
    logits, graph = rng.standard_normal((2, 1, 9, 2))
    orders = []
    for temperature in (0.1, 1.0):
        combination = CALIBRATIONS["graph"].combine(planes, evidence(omega=0.5, temperature=temperature))
        orders.append(combination.scores(planes.margins, logits, graph).argsort(axis=-1))
    np.testing.assert_array_equal(*orders)


def test_planes_alone_are_as_spread_out_whatever_their_margins_are():
    margins = np.array([[[0.02, -0.02], [-0.02, 0.02]]])
    scores = [
        CALIBRATIONS["mixture"].combine(Planes(scale * margins), evidence(trust=0.0)).scores(scale * margins, 0.0, 0.0)
        for scale in (10.0, 40.0)
    ]
    assert_allclose(scores[0], scores[1])
    assert_allclose(scores[0].std(axis=-1), 1.7)


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_temperature_is_the_best_of_a_grid(scale):
    rng = np.random.default_rng(6)
    labels, counted = np.repeat(np.arange(4), 5), np.ones(20)
    logits = scale * (3 * np.eye(4)[labels].T + 2 * rng.standard_normal((4, 20)))

    def cost(value):
        own = log_softmax(np.exp(value) * logits, axis=0)[labels, np.arange(20)]
        return -own.sum() + (value - OF_CLASSES * np.log(4)) ** 2 / (2 * SPREAD**2)

    grid = np.linspace(-4, 3, 7001)
    best = grid[np.argmin([cost(value) for value in grid])]
    usual_rows = 4 * 16
    assert_allclose(np.log(temperature_by_labels(logits, labels, counted, usual_rows)), best, atol=2e-3)


@pytest.mark.parametrize("log_odds", [[-1e4, -1e4, -1e4], [1e4, 1e4, 1e4], [0.0, 0.0, 0.0]])
def test_no_evidence_is_uniform(log_odds):
    assert_allclose(platt_probabilities(np.array(log_odds)), np.full(3, 1 / 3))


def test_probabilities_sum_to_one_and_keep_the_order():
    log_odds = np.random.default_rng(2).normal(scale=5, size=(50, 4))
    probabilities = platt_probabilities(log_odds)
    assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), log_odds.argmax(axis=1))
