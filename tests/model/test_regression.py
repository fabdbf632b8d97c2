"""The softmax regression against scikit-learn's, and what its weights mean."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from marginshot.model import regression
from marginshot.model.regression import C, fit_regression


def rows_and_labels(seed=0):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(3), 6)
    rows = rng.standard_normal((18, 10)) + 2.0 * np.eye(10)[labels]
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), labels


def test_it_is_scikit_learns_logistic_regression(monkeypatch):
    monkeypatch.setattr(regression, "_STEPS", 500)
    rows, labels = rows_and_labels()
    coef = fit_regression(rows @ rows.T, labels, np.ones(18), 3)
    theirs = LogisticRegression(C=C, fit_intercept=False, tol=1e-8).fit(rows, labels)
    assert_allclose(softmax(rows @ rows.T @ coef, axis=1), theirs.predict_proba(rows), atol=1e-4)


def test_classes_count_alike_however_many_labels_they_have():
    rows, labels = rows_and_labels()
    few = np.concatenate((np.arange(6), [6, 12]))
    coef = fit_regression(rows[few] @ rows[few].T, labels[few], np.ones(8), 3)
    heavy = fit_regression(rows[few] @ rows[few].T, labels[few], np.where(labels[few] == 0, 5.0, 1.0), 3)
    assert_allclose(coef, heavy)


def test_a_task_of_a_batch_is_as_if_alone():
    tasks = [rows_and_labels(seed) for seed in range(3)]
    grams = np.stack([rows @ rows.T for rows, _ in tasks])
    labels = np.stack([own for _, own in tasks])
    together = fit_regression(grams, labels, np.ones((3, 18)), 3)
    assert_allclose(together[1], fit_regression(grams[1], labels[1], np.ones(18), 3))
