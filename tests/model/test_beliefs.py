"""Beliefs about classes from elsewhere: how far they are trusted, and what they change."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from marginshot import PRESETS, Settings, TransductiveMaxMarginClassifier, solve_tasks
from marginshot.data.rows import ParquetRows
from marginshot.methods import get_method
from marginshot.model.beliefs import log_beliefs, trust_of
from tasks_for_tests import blobs


def a_task(seed=0, n_shot=2, spread=4.0, n_way=4, sharpness=1.0):
    """Rows (n, D), labels with gaps, truth, and beliefs that are right more often than not."""
    rng = np.random.default_rng(seed)
    support, labels, query, truth = blobs(rng, 1, n_way, n_shot, 40, 12, spread)
    truth = np.concatenate((labels[0], truth[0]))
    y = np.where(np.arange(len(truth)) < labels.shape[1], truth, -1)
    beliefs = softmax(sharpness * (2.0 * np.eye(n_way)[truth] + rng.normal(0, 1.0, (len(truth), n_way))), axis=1)
    return np.concatenate((support[0], query[0])), y, truth, beliefs


def right(clf, y, truth):
    return np.mean((clf.transduction_ == truth)[y < 0])


def test_trust_is_the_best_factor_of_another_optimiser():
    rng = np.random.default_rng(0)
    labels, weights = rng.integers(4, size=60), rng.uniform(0.5, 2.0, 60)
    logs = log_beliefs(softmax(6.0 * (np.eye(4)[labels] + rng.normal(0, 1, (60, 4))), axis=1))

    def loss(log_factor):
        own = log_softmax(np.exp(log_factor) * logs, axis=1)[np.arange(60), labels]
        return log_factor**2 / 2 - weights @ own

    expected = np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded").x)
    assert expected < 0.5
    assert_allclose(trust_of(logs, labels, weights), expected, rtol=0.06)  # half a step of the factors tried
    batch = trust_of(np.stack((logs, 0 * logs)), np.stack((labels, labels)), np.stack((weights, weights)))
    assert_allclose(batch, [trust_of(logs, labels, weights), 1.0], rtol=1e-12)


@pytest.mark.parametrize("preset", list(PRESETS))
def test_beliefs_help_every_preset(preset):
    """Right beliefs help, with as many labels as judge them, and by nearly as much where they are far too sure."""
    plain, helped, sure = [], [], []
    for seed in range(4):
        X, y, truth, beliefs = a_task(seed)
        clf = TransductiveMaxMarginClassifier.from_preset(preset)
        plain.append(right(clf.fit(X, y), y, truth))
        assert clf.class_prior_weight_ == 1.0
        helped.append(right(clf.fit(X, y, class_prior=beliefs), y, truth))
        sure.append(right(clf.fit(X, y, class_prior=beliefs**8), y, truth))
        assert clf.class_prior_weight_ < 0.6
    assert np.mean(helped) > np.mean(plain) + 0.03
    assert np.mean(sure) > np.mean(plain) + 0.02


def test_beliefs_without_a_meaning_do_little_harm():
    plain, misled = [], []
    for seed in range(6):
        X, y, truth, beliefs = a_task(seed, n_shot=5, spread=2.5)
        wrong = np.random.default_rng(seed).permutation(beliefs)
        clf = TransductiveMaxMarginClassifier()
        plain.append(right(clf.fit(X, y), y, truth))
        misled.append(right(clf.fit(X, y, class_prior=wrong), y, truth))
        assert clf.class_prior_weight_ < 0.4
    assert np.mean(misled) > np.mean(plain) - 0.03


def test_rows_of_zeros_say_nothing():
    X, y, _, beliefs = a_task()
    silent = TransductiveMaxMarginClassifier().fit(X, y, class_prior=np.zeros_like(beliefs))
    plain = TransductiveMaxMarginClassifier().fit(X, y)
    assert_allclose(silent.label_distributions_, plain.label_distributions_, atol=1e-9)


@pytest.mark.parametrize("preset", ["paper", "auto", "balanced"])
def test_a_classifier_answers_as_a_batch_does(preset):
    X, y, _, beliefs = a_task(n_shot=3)
    n = int((y >= 0).sum())
    settings = Settings.from_preset(preset, tol=1e-5)
    batch = solve_tasks(
        X[None, :n], y[None, :n], X[None, n:], settings, prior=beliefs[None, n:], support_prior=beliefs[None, :n]
    )
    clf = TransductiveMaxMarginClassifier.from_preset(preset, tol=1e-5, solver="dual")
    assert_allclose(clf.fit(X, y, class_prior=beliefs).label_distributions_[n:], batch.probabilities[0], atol=5e-3)


def test_the_methods_take_a_prior_too():
    X, y, truth, beliefs = a_task(1, n_shot=1)
    n = int((y >= 0).sum())
    arrays, prior = (X[None, :n], y[None, :n], X[None, n:]), beliefs[None, n:]
    for name, preset in (("fs-tmmc", "paper"), ("fs-tmmc-auto", "auto"), ("fs-tmmc-balanced", "balanced")):
        scores = get_method(name).predict_scores(*arrays, prior=prior, support_prior=beliefs[None, :n])
        answers = solve_tasks(*arrays, preset, prior=prior, support_prior=beliefs[None, :n])
        assert_array_equal(scores, answers.scores)
        alone = get_method(name).predict_scores(*arrays)
        assert np.mean(scores[0].argmax(1) == truth[n:]) > np.mean(alone[0].argmax(1) == truth[n:])


def test_small_large_and_rows_read_in_blocks_agree(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y, _, beliefs = a_task(n_shot=4, spread=2.0)
    options = {"n_neighbors": 0, "calibration": "mixture", "feature_transform": "power", "tol": 1e-5}
    small, large = (
        TransductiveMaxMarginClassifier(solver=solver, **options).fit(X, y, class_prior=beliefs)
        for solver in ("dual", "primal")
    )
    pq.write_table(pa.table({str(i): column for i, column in enumerate(X.T)}), tmp_path / "X.parquet")
    rows = ParquetRows(tmp_path / "X.parquet")
    blocks = TransductiveMaxMarginClassifier(**options).fit(rows, y, class_prior=beliefs)
    for clf in (large, blocks):
        assert_allclose(clf.label_distributions_, small.label_distributions_, atol=5e-3)


def test_later_rows_with_beliefs_of_their_own_are_scored_by_the_weight():
    X, y, _, beliefs = a_task()
    clf = TransductiveMaxMarginClassifier().fit(X, y, class_prior=beliefs)
    scores = clf.decision_function(X) + clf.class_prior_weight_ * np.log(beliefs)
    assert_allclose(softmax(scores, axis=1)[y < 0], clf.label_distributions_[y < 0], atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p[:, 1:], r"class_prior must have one belief for each row and class, shape \(168, 4\); got"),
        (lambda p: -p, "class_prior must hold probabilities, finite and at least 0"),
        (lambda p: np.ma.masked_less(p, 0.1), "class_prior has .* masked values"),
    ],
)
def test_strange_beliefs_are_named(change, message):
    X, y, _, beliefs = a_task()
    with pytest.raises(ValueError, match=message):
        TransductiveMaxMarginClassifier().fit(X, y, class_prior=change(beliefs))


def test_beliefs_are_refused_with_dask():
    da = pytest.importorskip("dask.array")
    X, y, _, beliefs = a_task()
    with pytest.raises(ValueError, match="class_prior is held in memory, and X is a Dask array; pass X as an array"):
        TransductiveMaxMarginClassifier.from_preset("paper").fit(da.from_array(X), y, class_prior=beliefs)
