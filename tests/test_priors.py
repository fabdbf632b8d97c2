"""Shares estimated from the task."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from marginshot.priors import estimate_shares, offsets, starting_prior
from marginshot.settings import Settings


def scores_with(counts, margin=1.0, noise=0.0, seed=0):
    """Scores (m, N) of queries whose own class is ahead by ``margin``."""
    labels = np.repeat(np.arange(len(counts)), counts)
    own = labels[:, None] == np.arange(len(counts))
    return np.where(own, 0.0, -margin) + noise * np.random.default_rng(seed).standard_normal(own.shape)


def test_certain_answers_give_their_shares():
    assert_allclose(estimate_shares(scores_with([30, 15, 5], margin=5.0)), np.array([31, 16, 6]) / 53, atol=0.01)


def test_uncertain_answers_are_not_trusted():
    assert_allclose(estimate_shares(scores_with([20, 15, 15], margin=0.2, noise=0.3)), 1 / 3)


def test_shares_sum_to_one_and_a_batch_is_its_tasks():
    scores = np.stack([scores_with([10, 5, 15], margin=0.8, noise=0.4, seed=seed) for seed in range(6)])
    shares = estimate_shares(scores)
    assert_allclose(shares.sum(axis=1), 1)
    assert (shares > 0).all()
    for task in range(6):
        assert_allclose(estimate_shares(scores[task]), shares[task], rtol=1e-12)


def test_without_queries_uniform():
    assert_array_equal(estimate_shares(np.empty((2, 0, 4))), np.full((2, 4), 0.25))


def test_offsets():
    assert_allclose(offsets("uniform", starting_prior("uniform", 5)), -0.6)
    assert_array_equal(offsets(None, starting_prior(None, 5)), 0)


@pytest.mark.parametrize(
    ("n_classes", "stages"), [(2, (0, 1e-3, 0.1, 1)), (10, (0, 1e-3, 0.1, 0.5)), (100, (0, 1e-3, 0.05))]
)
def test_automatic_lambda2(n_classes, stages):
    assert Settings(lambda2="auto").for_classes(n_classes).stages == stages
