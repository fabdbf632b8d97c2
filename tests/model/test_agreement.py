"""Examples drawn from the answers: what they confirm, and how sharp that lets answers be."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit, softmax

from marginshot import TransductiveMaxMarginClassifier, solve_tasks
from marginshot.classifier import pipeline
from marginshot.model.agreement import (
    CHECKS_BEFORE,
    LEAKAGE,
    MOST_CHANGE,
    agreement,
    agreement_of_given,
    expected_log_odds,
    left_out_log_odds,
    match_confidence,
)

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


def test_given_examples_confirm_the_answers_that_they_are_nearest_to():
    support, (labels, *_), query = clusters(3, 0.3)
    rows = np.concatenate((support[0], query[0]))
    truth = np.repeat(np.arange(N_WAY), N_QUERY // N_WAY)
    moved = np.where(np.arange(N_QUERY) % 5, truth, (truth + 1) % N_WAY)  # every fifth answer is another class
    answers = (np.concatenate((labels, own)) for own in (truth, moved))
    assert_allclose([agreement_of_given(rows @ rows.T, labels, own, N_WAY) for own in answers], [1.0, 0.8])


@pytest.mark.parametrize("noise", [0.3, 2.5])
def test_a_labelled_row_is_left_out_of_the_mean_of_its_class(noise):
    support, (labels, *_), query = clusters(3, noise)
    rows, answers = np.concatenate((support[0], query[0])), np.concatenate((labels, np.arange(N_QUERY) % N_WAY))
    found = 0
    for i, own in enumerate(labels):
        others = np.arange(len(rows)) != i
        means = np.stack([rows[others & (answers == c)].mean(axis=0) for c in range(N_WAY)])
        found += ((rows[i] - means) ** 2).sum(axis=1).argmin() == own
    log_odds, n_checks = left_out_log_odds(rows @ rows.T, labels, answers, N_WAY)
    assert n_checks == len(labels)
    assert_allclose(log_odds, logit((found + 1) / (n_checks + 2)) - LEAKAGE / 2)


def test_the_only_label_of_a_class_is_not_looked_for():
    rows = np.random.default_rng(0).standard_normal((6, 8))
    labels = np.array([0, 1, 1])
    assert left_out_log_odds(rows @ rows.T, labels, np.array([0, 1, 1, 0, 1, 0]), 2)[1] == 2


@pytest.mark.parametrize("n_shot", [1, 3])
def test_answers_are_as_sure_as_what_confirms_them_lets_them_be(monkeypatch, n_shot):
    tasks = clusters(n_shot, 1.5)
    answers = solve_tasks(*tasks, preset="auto")
    confirming = []

    def unchanged(gram, labels, scores, rows_a_class):
        assert rows_a_class == n_shot + N_QUERY / N_WAY
        own = np.concatenate((labels, scores.argmax(axis=2)), axis=1)
        if n_shot == 1:
            agreed, of_given = agreement(gram, own, N_WAY), agreement_of_given(gram, labels, own, N_WAY)
            confirming.append(expected_log_odds(agreed, of_given, rows_a_class))
        else:
            confirming.append(left_out_log_odds(gram, labels, own, N_WAY)[0])
        return np.ones(len(scores))

    monkeypatch.setattr(pipeline, "sharpening", unchanged)
    before = solve_tasks(*tasks, preset="auto")
    assert_array_equal(answers.labels, before.labels)
    confidence = before.probabilities.max(axis=2).mean(axis=1)
    weight = 1.0 if n_shot == 1 else 15 / (15 + CHECKS_BEFORE)
    expected = expit(weight * np.concatenate(confirming) + (1 - weight) * logit(confidence))
    assert_allclose(answers.probabilities.max(axis=2).mean(axis=1), expected, atol=1e-4)
    assert np.abs(confidence - expected).max() > 0.001


@pytest.mark.parametrize("solver", ["dual", "primal"])
@pytest.mark.parametrize("n_shot", [1, 3])
def test_one_task_is_as_sure_as_in_a_batch(solver, n_shot):
    support, labels, query = clusters(n_shot, 0.9, n_tasks=1)
    batch = solve_tasks(support, labels, query, preset="auto").probabilities[0]
    y = np.concatenate((labels[0], np.full(N_QUERY, -1)))
    classifier = TransductiveMaxMarginClassifier.from_preset("auto", solver=solver)
    one = classifier.fit(np.concatenate((support[0], query[0])), y).label_distributions_[n_shot * N_WAY :]
    assert_allclose(one, batch, atol=2e-3)
