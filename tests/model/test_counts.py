"""Counts are met as far as they are certain: by the biases themselves, in batches, and in the estimator."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from marginshot import PRESETS, Settings, TransductiveMaxMarginClassifier, solve_tasks
from marginshot.data.rows import ParquetRows
from marginshot.methods import get_method
from marginshot.model.counts import SHARPNESS, divide_scores, meet_shares
from mixtures import mixture

SHARES = np.array([0.4, 0.3, 0.2, 0.1])


def counts_of(scores):
    """Counts (..., N) that the answers with these scores (..., m, N) stand for."""
    return softmax(SHARPNESS * scores, axis=-1).sum(axis=-2)


def assert_same_up_to_sharpness(ours, theirs):
    """Agreement counts rows: in single precision one more may be confirmed, which changes the common sharpness."""
    assert_array_equal(ours.argmax(axis=-1), theirs.argmax(axis=-1))
    assert_allclose(ours / ours.std(), theirs / theirs.std(), atol=0.02)
    assert_allclose(ours.std(), theirs.std(), rtol=0.05)


def meet(scores, shares, certainty=1.0):
    certainty = np.broadcast_to(certainty, scores.shape[:-2])
    return scores + meet_shares(shares, certainty, lambda biases: divide_scores(scores, biases))[..., None, :]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 1000),
    scale=st.sampled_from([0.01, 1.0, 10.0, 100.0]),
    shares=st.lists(st.integers(0, 9), min_size=2, max_size=6).filter(any),
)
def test_counts_are_met_by_any_scores(seed, scale, shares):
    shares = np.array(shares) / np.sum(shares)
    scores = scale * np.random.default_rng(seed).standard_normal((30, len(shares)))
    assert_allclose(counts_of(meet(scores, shares)), 30 * shares, atol=1e-4)


def test_sinkhorns_scaling_finds_the_same_biases():
    scores = np.random.default_rng(0).standard_normal((50, 4))
    scaled = scores.copy()
    for _ in range(500):
        scaled += (np.log(50 * SHARES) - np.log(counts_of(scaled))) / SHARPNESS
    found = meet(scores, SHARES)
    assert_allclose(found - found.mean(axis=1, keepdims=True), scaled - scaled.mean(axis=1, keepdims=True), atol=1e-5)


def test_scores_that_meet_the_shares_already_stay():
    scores = np.log(np.full((8, 2), 0.5)) + np.array([1.0, -1.0, 1, -1, 1, -1, 1, -1])[:, None] * [1.0, 0.0]
    assert_allclose(meet(scores, counts_of(scores) / 8), scores, atol=1e-6)


def test_rows_that_say_nothing_are_not_counted():
    scores = np.random.default_rng(0).standard_normal((20, 4))
    scores[5] = 0.0
    assert_allclose(counts_of(np.delete(meet(scores, SHARES), 5, axis=0)), 19 * SHARES, atol=1e-4)
    assert_array_equal(meet(np.zeros((3, 4)), SHARES), 0.0)


def test_tasks_are_moved_as_far_as_their_shares_are_certain():
    scores = np.random.default_rng(0).standard_normal((3, 20, 4))
    moved = meet(scores, np.tile(SHARES, (3, 1)), certainty=[1.0, 0.25, 0.0]) - scores
    assert_allclose(moved[1], 0.25 * (meet(scores[1], SHARES) - scores[1]), atol=1e-12)
    assert_array_equal(moved[2], 0.0)


def tasks(n_tasks=4, counts=(15,) * 4, shots=2, seed=0, n_features=24, spread=0.8):
    """Overlapping classes: support, labels, query, their classes."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((n_tasks, len(counts), n_features))
    labels, truth = np.tile(np.arange(len(counts)), shots), np.repeat(np.arange(len(counts)), counts)
    rows = centres[:, np.concatenate((labels, truth))]
    rows = rows + spread * rng.standard_normal(rows.shape) * 2
    return rows[:, : len(labels)], np.tile(labels, (n_tasks, 1)), rows[:, len(labels) :], truth


@pytest.mark.parametrize("calibration", ["mixture", "graph"])
@pytest.mark.parametrize("prior", ["uniform", SHARES, (0.5, 0.5, 0.0, 0.0)])
def test_tasks_of_a_batch_meet_the_prior(prior, calibration):
    support, labels, query, _ = tasks()
    settings = Settings.from_preset("auto", prior=prior, meet_prior=True, calibration=calibration)
    scores = solve_tasks(support, labels, query, settings).scores
    shares = np.full(4, 0.25) if isinstance(prior, str) else np.asarray(prior)
    assert_allclose(counts_of(scores), np.tile(60 * shares, (4, 1)), atol=1e-3)
    alone = solve_tasks(support[1:2], labels[1:2], query[1:2], settings)
    assert_array_equal(alone.scores[0], scores[1])


def test_classes_and_queries_may_come_in_any_order():
    support, labels, query, _ = tasks(1, spread=0.5)
    known = Settings.from_preset("auto", prior=SHARES, meet_prior=True)
    scores = solve_tasks(support, labels, query, known).scores
    classes, rows = np.array([2, 0, 3, 1]), np.random.default_rng(1).permutation(60)
    shares = np.empty(4)
    shares[classes] = SHARES
    moved = solve_tasks(support, classes[labels], query[:, rows], replace(known, prior=shares)).scores
    assert_allclose(moved[0][:, classes], scores[0][rows], atol=5e-3)


def test_the_paper_and_its_estimated_prior_are_left_alone(monkeypatch):
    support, labels, query, _ = tasks()
    monkeypatch.setattr("marginshot.classifier.pipeline.meet_shares", None)
    for prior in ("uniform", "estimate"):
        settings = Settings.from_preset("paper", prior=prior)
        assert abs(counts_of(solve_tasks(support, labels, query, settings).scores) - 15).max() > 0.1


@pytest.mark.parametrize("prior", ["uniform", SHARES])
def test_a_prior_alone_is_not_met(prior, monkeypatch):
    support, labels, query, _ = tasks()
    monkeypatch.setattr("marginshot.classifier.pipeline.meet_shares", None)
    scores = solve_tasks(support, labels, query, Settings.from_preset("auto", prior=prior)).scores
    shares = np.full(4, 0.25) if isinstance(prior, str) else prior
    assert abs(counts_of(scores) - 60 * shares).max() > 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": "estimate"}, "meet_prior=True needs class shares that are known; got prior='estimate'"),
        ({"prior": None}, "meet_prior=True needs class shares that are known; got prior=None"),
        ({"prior": "uniform", "calibration": "platt"}, 'needs calibration="mixture" or "graph"; got .*"platt"'),
        ({"prior": "uniform", "meet_prior": 1}, "meet_prior must be True or False; got 1"),
    ],
)
def test_shares_that_cannot_be_met_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Settings.from_preset("auto", **{"meet_prior": True} | options)


def uncertain(monkeypatch, answer):
    """What ``answer`` returns, and what it would if no shares were certain."""
    moved = answer()
    with monkeypatch.context() as patch:
        patch.setattr("marginshot.classifier.pipeline.meet_shares", lambda shares, *_: np.zeros_like(shares))
        return moved, answer()


@pytest.mark.parametrize("n_classes", [3, 5])
def test_equal_counts_that_are_found_are_met_in_part(n_classes, monkeypatch):
    support, labels, query, _ = tasks(8, counts=(15,) * n_classes, spread=0.6)
    moved, plain = uncertain(monkeypatch, lambda: solve_tasks(support, labels, query, "auto").scores)
    known = solve_tasks(support, labels, query, "balanced").scores
    off = [abs(counts_of(scores) - 15).sum(axis=1) for scores in (plain, moved, known)]
    certain = abs(moved - plain).max(axis=(1, 2)) > 0.0
    assert certain.sum() >= 4
    assert (off[1][certain] < off[0][certain]).all()
    assert (off[2] < off[1]).all()
    biases = moved - plain
    assert_allclose(biases, np.broadcast_to(biases[:, :1], biases.shape), atol=1e-9)


def test_unequal_counts_that_are_found_are_not_met(monkeypatch):
    support, labels, query, _ = tasks(8, counts=(40, 10, 6, 4), spread=0.4)
    moved, plain = uncertain(monkeypatch, lambda: solve_tasks(support, labels, query, "auto").scores)
    assert_array_equal(moved, plain)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_a_classifier_meets_equal_counts_as_a_batch_does(n_classes):
    support, labels, query, _ = tasks(1, counts=(15,) * n_classes, spread=0.6)
    options = {**PRESETS["auto"], "tol": 1e-5}
    y = np.concatenate((labels[0], np.full(15 * n_classes, -1)))
    clf = TransductiveMaxMarginClassifier(**options).fit(np.concatenate((support[0], query[0])), y)
    in_batch = solve_tasks(support, labels, query, Settings(**options)).scores[0]
    assert_same_up_to_sharpness(clf.decision_function(query[0]), in_batch)


def test_balanced_tasks_gain_and_the_method_is_the_preset():
    support, labels, query, truth = tasks(60, shots=1, spread=1.0)
    known = solve_tasks(support, labels, query, "balanced")
    assert np.mean(known.labels == truth) > np.mean(solve_tasks(support, labels, query, "auto").labels == truth)
    assert_array_equal(get_method("fs-tmmc-balanced").predict_scores(support, labels, query), known.scores)


@pytest.mark.parametrize("prior", ["uniform", SHARES])
def test_a_classifier_meets_the_prior_as_a_batch_does(prior):
    support, labels, query, _ = tasks(1)
    options = {**PRESETS["auto"], "prior": prior, "meet_prior": True, "tol": 1e-5}
    clf = TransductiveMaxMarginClassifier(**options)
    clf.fit(np.concatenate((support[0], query[0])), np.concatenate((labels[0], np.full(60, -1))))
    shares = np.full(4, 0.25) if isinstance(prior, str) else prior
    scores = clf.decision_function(query[0])
    assert_allclose(counts_of(scores), 60 * shares, atol=1e-3)
    assert_same_up_to_sharpness(scores, solve_tasks(support, labels, query, Settings(**options)).scores[0])
    assert_array_equal(clf.transduction_[: len(labels[0])], labels[0])


BLOCKS = PRESETS["paper"] | {
    "calibration": "mixture",
    "feature_transform": "power",
    "prior": SHARES,
    "meet_prior": True,
    "tol": 3e-5,
}


@pytest.mark.parametrize("preset", [BLOCKS, {**PRESETS["balanced"], "tol": 3e-5}])
def test_a_large_task_meets_the_prior_as_a_small_one_does(preset):
    X, y, _, _ = mixture(400, n_features=8, distance=2.0, dtype=np.float64)
    fits = [TransductiveMaxMarginClassifier(solver=solver, **preset).fit(X, y) for solver in ("dual", "primal")]
    small, large = (clf.label_distributions_ for clf in fits)
    assert_allclose(large, small, atol=5e-3)
    shares = np.full(4, 0.25) if isinstance(preset["prior"], str) else preset["prior"]
    for clf in fits:
        assert_allclose(counts_of(clf.decision_function(X[y < 0])), shares * np.sum(y < 0), atol=1e-2)
        assert_array_equal(clf.predict(X[y < 0]), clf.transduction_[y < 0])
        assert_array_equal(clf.transduction_[y >= 0], y[y >= 0])


def test_rows_read_in_blocks_meet_the_prior(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    X, y, _, _ = mixture(600, n_features=8, distance=2.0)
    pq.write_table(pa.table({str(i): column for i, column in enumerate(X.T)}), tmp_path / "X.parquet")
    clf = TransductiveMaxMarginClassifier(**BLOCKS).fit(ParquetRows(tmp_path / "X.parquet"), y)
    assert_allclose(counts_of(clf.decision_function(X[y < 0])), SHARES * np.sum(y < 0), atol=1e-2)
