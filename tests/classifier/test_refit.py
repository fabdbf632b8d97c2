from __future__ import annotations

import numpy as np
import pytest

from marginshot.classifier.estimator import TransductiveMaxMarginClassifier
from marginshot.classifier.refit import Refitter


def clusters(n_rows: int = 1500, n_classes: int = 6, noise: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    truth = np.arange(n_rows) % n_classes
    centres = rng.normal(0, 1, (n_classes, 24))
    return (centres[truth] + rng.normal(0, noise, (n_rows, 24))).astype(np.float32), truth


@pytest.fixture
def auto() -> TransductiveMaxMarginClassifier:
    return TransductiveMaxMarginClassifier.from_preset("auto")


def labelled(truth: np.ndarray, n_labels: int) -> np.ndarray:
    y = np.full(len(truth), -1)
    y[:n_labels] = truth[:n_labels]
    return y


def test_labels_one_by_one_are_answered_as_by_a_complete_fit(auto):
    X, truth = clusters()
    y = labelled(truth, 18)
    refitter = Refitter(auto, X)
    first = refitter.refit(y)
    assert first.solver_ == "primal"
    np.testing.assert_array_equal(first.transduction_, auto.fit(X, y).transduction_)
    for row in range(18, 24):
        y[row] = truth[row]
        answer = refitter.refit(y)
        fresh = TransductiveMaxMarginClassifier.from_preset("auto").fit(X, y)
        assert np.mean(answer.transduction_ == fresh.transduction_) >= 0.99
        assert np.abs(answer.label_distributions_ - fresh.label_distributions_).mean() < 0.01
        assert answer.n_iter_.sum() < fresh.n_iter_.sum() / 2
    assert (answer.transduction_[:24] == truth[:24]).all()


def test_second_labels_beside_one_a_class_are_answered_as_by_a_complete_fit(auto):
    X, truth = clusters(n_classes=25, noise=1.2)
    y = labelled(truth, 25)
    refitter = Refitter(auto, X)
    refitter.fit(y)
    for row in range(25, 27):
        y[row] = truth[row]
        answer = refitter.refit(y)
    fresh = TransductiveMaxMarginClassifier.from_preset("auto").fit(X, y)
    # The first labels that can be hidden weigh the experts, and only in a complete fit.
    assert np.mean(answer.transduction_ == fresh.transduction_) >= 0.97


def test_a_label_taken_back_is_as_if_it_had_not_been_given(auto):
    X, truth = clusters()
    y = labelled(truth, 24)
    refitter = Refitter(auto, X)
    first = refitter.fit(y)
    y[5] = (truth[5] + 1) % 6
    refitter.refit(y)
    y[5] = truth[5]
    np.testing.assert_allclose(refitter.refit(y).label_distributions_, first.label_distributions_, atol=0.02)


def test_classes_come_and_go(auto):
    X, truth = clusters()
    y = labelled(np.where(truth == 5, 4, truth), 24)
    y[truth == 5] = -1
    refitter = Refitter(auto, X)
    assert refitter.fit(y).classes_.tolist() == [0, 1, 2, 3, 4]
    y[5:24:6] = 5
    grown = refitter.refit(y)
    assert grown.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    assert np.mean(grown.transduction_ == truth) > 0.9
    y[y == 2] = -1
    shrunk = refitter.refit(y)
    assert shrunk.classes_.tolist() == [0, 1, 3, 4, 5]
    assert np.mean((shrunk.transduction_ == truth)[truth != 2]) > 0.9


def test_weights_and_names(auto):
    X, truth = clusters()
    names = np.array([f"class {c}" for c in range(6)], dtype=object)
    y = np.where(np.arange(len(X)) < 18, names[truth], "")
    weights = np.ones(len(X))
    refitter = Refitter(auto, X)
    refitter.fit(y, sample_weight=weights)
    weights[3] = 0.25
    answer = refitter.refit(y, sample_weight=weights)
    fresh = auto.fit(X, y, sample_weight=weights)
    assert answer.classes_.tolist() == names.tolist()
    assert np.mean(answer.transduction_ == fresh.transduction_) >= 0.99


def test_a_small_task_is_fitted_from_nothing(auto):
    X, truth = clusters(300)
    refitter = Refitter(auto, X)
    refitter.fit(labelled(truth, 12))
    y = labelled(truth, 13)
    np.testing.assert_array_equal(refitter.refit(y).label_distributions_, auto.fit(X, y).label_distributions_)
    assert refitter.drift(y) == 0


def test_drift_counts_labels_that_differ(auto):
    X, truth = clusters()
    refitter, y = Refitter(auto, X), labelled(truth, 20)
    assert refitter.drift(y) == np.inf
    refitter.fit(y)
    assert refitter.drift(y) == 0
    y[20] = truth[20]
    y[3] = (truth[3] + 1) % 6
    y[4] = -1
    assert refitter.drift(y) == pytest.approx(3 / 20)
    refitter.refit(y)
    assert refitter.drift(y) == pytest.approx(3 / 20)
    y[truth == 1] = -1
    assert refitter.drift(y) == np.inf


def test_rows_without_neighbours_are_refitted_too():
    X, truth = clusters()
    plain = TransductiveMaxMarginClassifier.from_preset(
        "auto", n_neighbors=0, calibration="mixture", feature_transform="power"
    )
    refitter, y = Refitter(plain, X), labelled(truth, 18)
    refitter.fit(y)
    y[18:20] = truth[18:20]
    answer, fresh = refitter.refit(y), plain.fit(X, y)
    assert np.mean(answer.transduction_ == fresh.transduction_) >= 0.99


def test_a_refit_that_ends_after_a_complete_fit_does_not_replace_it(auto):
    X, truth = clusters()
    refitter = Refitter(auto, X)
    refitter.fit(labelled(truth, 18))
    old = refitter._last
    refitter.fit(labelled(truth, 30))
    refitter._fit(labelled(truth, 20), {}, old)
    assert refitter.drift(labelled(truth, 30)) == 0
