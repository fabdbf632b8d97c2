"""Examples drawn again: what they confirm, and how sharp that lets answers be."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from marginshot import solve_tasks
from marginshot.model.confidence import agreement, expected_log_odds, match_confidence

N_WAY, N_QUERY = 5, 75


def clusters(n_shot, noise, n_tasks=3):
    """Tasks (support, labels, query) of five clusters in 32 dimensions."""
    rng = np.random.default_rng(1)
    centres = rng.standard_normal((n_tasks, N_WAY, 1, 32))
    support = centres + noise * rng.standard_normal((n_tasks, N_WAY, n_shot, 32))
    query = centres + noise * rng.standard_normal((n_tasks, N_WAY, N_QUERY // N_WAY, 32))
    labels = np.tile(np.repeat(np.arange(N_WAY), n_shot), (n_tasks, 1))
    return support.reshape(n_tasks, -1, 32), labels, query.reshape(n_tasks, -1, 32)


def test_answers_that_follow_the_clusters_are_confirmed_and_others_are_not():
    _, _, (rows, *_) = clusters(1, 0.3)
    gram, answers = rows @ rows.T, np.repeat(np.arange(N_WAY), N_QUERY // N_WAY)
    assert agreement(gram, answers, N_QUERY, N_WAY) == 1.0
    by_chance = agreement(gram, np.random.default_rng(0).permutation(answers), N_QUERY, N_WAY)
    assert by_chance < 0.35


def test_given_examples_confirm_the_answers_that_they_are_nearest_to():
    support, (labels, *_), query = clusters(3, 0.3)
    rows = np.concatenate((support[0], query[0]))
    truth = np.repeat(np.arange(N_WAY), N_QUERY // N_WAY)
    moved = np.where(np.arange(N_QUERY) % 5, truth, (truth + 1) % N_WAY)  # every fifth answer is another class
    whole, less = (agreement(rows @ rows.T, np.concatenate((labels, own)), 15, N_WAY) for own in (truth, moved))
    assert whole == 1.0
    assert_allclose(less, 1.0 - 15 / (N_QUERY + 10))


def test_a_task_in_a_batch_is_as_confirmed_as_alone():
    rng = np.random.default_rng(0)
    rows, answers = rng.standard_normal((4, 20, 8)), np.tile(np.arange(20) % 3, (4, 1))
    gram = rows @ rows.swapaxes(1, 2)
    together = agreement(gram, answers, 20, 3)
    assert_array_equal(together, [agreement(gram[i], answers[i], 20, 3) for i in range(4)])
    assert together.min() < together.max()


@pytest.mark.parametrize("scale", [0.01, 3.0, 500.0])
@pytest.mark.parametrize("accuracy", [0.4, 0.6, 0.9])
def test_mean_confidence_meets_the_accuracy_whatever_the_scale_of_scores(accuracy, scale):
    scores = scale * np.random.default_rng(0).standard_normal((6, 40, 4))
    factor = match_confidence(scores, np.full(6, accuracy))
    assert_allclose(softmax(factor[:, None, None] * scores, axis=2).max(axis=2).mean(axis=1), accuracy, atol=1e-3)


def test_scores_that_say_nothing_stay_finite():
    assert np.isfinite(match_confidence(np.zeros((3, 4)), np.array(0.9)) * np.zeros(1)).all()


def test_the_more_is_confirmed_the_more_is_expected():
    agreed = np.array([0.3, 0.6, 0.9])
    assert (np.diff(expected_log_odds(agreed, np.full(3, 0.6), 16.0)) > 0).all()
    assert (np.diff(expected_log_odds(np.full(3, 0.6), agreed, 16.0)) > 0).all()


@pytest.mark.parametrize("n_shot", [1, 5])
def test_answers_in_clear_clusters_promise_more_than_in_noise(n_shot):
    clear, noisy = (
        solve_tasks(*clusters(n_shot, noise), "auto").probabilities.max(axis=2).mean() for noise in (0.3, 2.5)
    )
    assert clear > 0.9 > 0.8 > noisy
