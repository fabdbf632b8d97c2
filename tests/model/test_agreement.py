"""Examples drawn from the answers: what they confirm, and how sharp that lets one-shot answers be."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from marginshot import TransductiveMaxMarginClassifier, solve_tasks
from marginshot.classifier import pipeline
from marginshot.model.agreement import MOST_CHANGE, agreement, expected_accuracy, match_confidence, share_of_single

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
    assert agreement(gram, answers, N_WAY) == 1.0
    by_chance = agreement(gram, np.random.default_rng(0).permutation(answers), N_WAY)
    assert by_chance < 0.35


def test_a_task_in_a_batch_is_as_confirmed_as_alone():
    rng = np.random.default_rng(0)
    rows, answers = rng.standard_normal((4, 20, 8)), np.tile(np.arange(20) % 3, (4, 1))
    gram = rows @ rows.swapaxes(1, 2)
    together = agreement(gram, answers, 3)
    assert_array_equal(together, [agreement(gram[i], answers[i], 3) for i in range(4)])
    assert together.min() < together.max()


@pytest.mark.parametrize("accuracy", [0.6, 0.8, 0.9])
def test_mean_confidence_meets_the_accuracy(accuracy):
    scores = 3 * np.random.default_rng(0).standard_normal((6, 40, 4))
    factor = match_confidence(scores, np.full(6, accuracy))
    assert_allclose(softmax(factor[:, None, None] * scores, axis=2).max(axis=2).mean(axis=1), accuracy, atol=1e-4)


def test_a_sharpness_changes_so_far_and_no_farther():
    scores = np.random.default_rng(0).standard_normal((40, 4))
    assert_allclose(np.log(match_confidence(scores, np.array(0.999))), MOST_CHANGE)
    assert_allclose(np.log(match_confidence(scores, np.array(0.26))), -MOST_CHANGE)
    assert match_confidence(np.zeros((3, 4)), np.array(0.9)) > 0  # nothing speaks for any class


def test_single_labels_are_counted():
    assert_array_equal(share_of_single(np.array([[0, 1, 2, 2], [0, 0, 1, 1]]), 3), [2 / 3, 0])


def test_one_shot_answers_are_as_sure_as_their_agreement_lets_them_be(monkeypatch):
    tasks = clusters(1, 1.5)
    answers = solve_tasks(*tasks, preset="auto")
    agreed = []

    def unchanged(gram, labels, scores):
        agreed.append(agreement(gram, np.concatenate((labels, scores.argmax(axis=2)), axis=1), N_WAY))
        return np.ones(len(scores))

    monkeypatch.setattr(pipeline, "sharpening", unchanged)
    before = solve_tasks(*tasks, preset="auto")
    assert_array_equal(answers.labels, before.labels)
    expected = expected_accuracy(np.concatenate(agreed), 16.0)
    assert_allclose(answers.probabilities.max(axis=2).mean(axis=1), expected, atol=1e-4)
    assert np.abs(before.probabilities.max(axis=2).mean(axis=1) - expected).max() > 0.01


@pytest.mark.parametrize(("n_shot", "asked"), [(1, True), (2, False)])
def test_examples_are_drawn_only_where_a_class_has_one_label(monkeypatch, n_shot, asked):
    called = []
    monkeypatch.setattr(pipeline, "sharpening", lambda gram, labels, scores: called.append(1) or np.ones(len(scores)))
    solve_tasks(*clusters(n_shot, 0.5), preset="auto")
    assert bool(called) == asked


@pytest.mark.parametrize("solver", ["dual", "primal"])
def test_one_task_is_as_sure_as_in_a_batch(solver):
    support, labels, query = clusters(1, 0.9, n_tasks=1)
    batch = solve_tasks(support, labels, query, preset="auto").probabilities[0]
    y = np.concatenate((labels[0], np.full(N_QUERY, -1)))
    classifier = TransductiveMaxMarginClassifier.from_preset("auto", solver=solver)
    one = classifier.fit(np.concatenate((support[0], query[0])), y).label_distributions_[N_WAY:]
    assert_allclose(one, batch, atol=2e-3)
