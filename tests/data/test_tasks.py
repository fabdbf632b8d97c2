"""Tasks: the same whatever surrounds them, drawn fairly, and never quietly smaller than asked."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from marginshot.data.features import FeatureBank, make_bank
from marginshot.data.sampler import TaskSampler, TaskSettings, apportion, sample_without_replacement, spread_shots


def make(sizes: list[int], n_features: int = 3) -> FeatureBank:
    y = np.repeat(np.arange(len(sizes)), sizes)
    y = np.random.default_rng(7).permutation(y)
    X = np.arange(len(y) * n_features).reshape(len(y), n_features)
    return make_bank(X, y, "made", classes=[f"class {c}" for c in range(len(sizes))])


SETTINGS = [
    {},
    {"n_way": 3, "n_shot": 5, "n_query_per_class": 4},
    {"n_shot": (1, 5, 5, 3, 2)},
    {"dirichlet": 2.0},
    {"dirichlet": 0.01, "n_query_per_class": 3},
    {"n_way": 7, "present": 2},
    {"n_way": 6, "present": 3, "dirichlet": 1.0, "n_shot": 2},
]


@pytest.fixture(scope="module")
def bank() -> FeatureBank:
    return make([40, 25, 60, 33, 80, 41, 29, 50])


@pytest.mark.parametrize("kwargs", SETTINGS)
def test_a_task_depends_on_seed_and_number_alone(bank, kwargs):
    whole = TaskSampler(bank, seed=5, **kwargs).batch(0, 60)
    for start, stop in [(0, 1), (17, 18), (31, 60)]:
        part = TaskSampler(bank, seed=5, **kwargs).batch(start, stop)
        for name in ("support", "support_labels", "query", "query_labels", "support_rows", "query_rows", "redrawn"):
            assert_array_equal(getattr(part, name), getattr(whole, name)[start:stop], err_msg=name)
    other = TaskSampler(bank, seed=6, **kwargs).batch(0, 60)
    assert (other.support_rows != whole.support_rows).any(axis=1).mean() > 0.9


@pytest.mark.parametrize("kwargs", SETTINGS)
def test_a_task_is_what_was_asked_for(bank, kwargs):
    sampler = TaskSampler(bank, **kwargs)
    batch, shape = sampler.batch(0, 200), sampler.settings
    assert batch.support.shape == (200, shape.n_support, 3)
    assert batch.query.shape == (200, shape.n_query, 3)
    assert batch.support.dtype == np.float32
    assert_array_equal(batch.support, bank.X[batch.support_rows])
    assert_array_equal(batch.query, bank.X[batch.query_rows])
    for t in range(200):
        rows = np.concatenate([batch.support_rows[t], batch.query_rows[t]])
        assert len(set(rows)) == len(rows), "an example occurs twice in a task"
        assert_array_equal(np.bincount(batch.support_labels[t], minlength=shape.n_way), shape.shots)
        # One class of the bank behind every label of the task, another behind every other label.
        labels = np.concatenate([batch.support_labels[t], batch.query_labels[t]])
        pairs = set(zip(labels.tolist(), bank.y[rows].tolist(), strict=True))
        assert len(pairs) == len({c for _, c in pairs}) == shape.n_way


def test_balanced_queries_are_balanced(bank):
    batch = TaskSampler(bank, n_way=4, n_query_per_class=6).batch(0, 20)
    for labels in batch.query_labels:
        assert_array_equal(np.bincount(labels), [6, 6, 6, 6])


def test_only_some_classes_are_present(bank):
    batch = TaskSampler(bank, n_way=6, present=2, n_query_per_class=5).batch(0, 3000)
    counts = np.stack([np.bincount(labels, minlength=6) for labels in batch.query_labels])
    assert_array_equal(np.sort(counts, axis=1), np.tile([0, 0, 0, 0, 5, 5], (3000, 1)))
    # Every label is present equally often: 1/3 of 3,000, within five standard deviations.
    assert np.abs((counts > 0).sum(axis=0) - 1000).max() < 5 * np.sqrt(3000 * 2 / 9)


@pytest.mark.parametrize("alpha", [0.5, 2.0, 20.0])
def test_shares_have_the_moments_of_a_dirichlet(alpha):
    sampler = TaskSampler(make([120] * 5), dirichlet=alpha, n_query_per_class=20)
    batch = sampler.batch(0, 4000)
    assert not batch.redrawn.any()
    shares = np.stack([np.bincount(labels, minlength=5) for labels in batch.query_labels]) / 100
    assert_allclose(shares.sum(axis=1), 1)
    variance = 0.2 * 0.8 / (5 * alpha + 1)
    assert np.abs(shares.mean(axis=0) - 0.2).max() < 5 * np.sqrt(variance / 4000)
    assert np.abs(shares.var(axis=0) / variance - 1).max() < 0.15


def test_shares_that_do_not_fit_are_redrawn_and_reported():
    bank = make([20] * 5)
    batch = TaskSampler(bank, dirichlet=1.0, n_query_per_class=8).batch(0, 300)
    assert 0.2 < batch.redrawn.mean() < 1
    counts = np.stack([np.bincount(labels, minlength=5) for labels in batch.query_labels])
    assert counts.max() <= 19
    assert_array_equal(counts.sum(axis=1), 40)
    roomy = TaskSampler(make([60] * 5), dirichlet=1.0, n_query_per_class=8).batch(0, 300)
    untouched = ~batch.redrawn
    assert_array_equal(batch.query_labels[untouched], roomy.query_labels[untouched])


def test_shares_that_never_fit_raise():
    sampler = TaskSampler(make([16] * 5), dirichlet=0.001)
    with pytest.raises(ValueError, match=r"has 16 examples, too few for 75 queries shared out with dirichlet=0\.001"):
        sampler.batch(0, 5)


def test_examples_are_drawn_evenly():
    """Every example of a class serves as support, and as query, equally often."""
    bank = make([12, 20, 16])
    batch = TaskSampler(bank, n_way=2, n_shot=2, n_query_per_class=4).batch(0, 12000)
    chosen = 12000 * 2 / 3
    for rows, per_class in [(batch.support_rows, 2), (batch.query_rows, 4)]:
        counts = np.bincount(rows.ravel(), minlength=48)
        for c, size in enumerate([12, 20, 16]):
            expected = chosen * per_class / size
            assert np.abs(counts[bank.y == c] - expected).max() < 5 * np.sqrt(expected)


def test_drawing_without_replacement_gives_every_order_equally_often():
    n_rows = 24000
    uniforms = np.random.default_rng(0).random((n_rows, 3))
    picks = sample_without_replacement(uniforms, np.full(n_rows, 4))
    codes = picks @ np.array([16, 4, 1])
    for order in permutations(range(4), 3):
        count = (codes == np.array(order) @ np.array([16, 4, 1])).sum()
        assert abs(count - n_rows / 24) < 5 * np.sqrt(n_rows / 24), order


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 40), st.integers(0, 60), st.integers(0, 2**32 - 1))
def test_drawing_without_replacement_equals_a_shuffle(k, extra, seed):
    rng = np.random.default_rng(seed)
    uniforms = rng.random((5, k))
    size = k + extra
    picks = sample_without_replacement(uniforms, np.full(5, size))
    for row, numbers in zip(uniforms, picks, strict=True):
        pool = np.arange(size)
        for j, u in enumerate(row):
            other = j + int(u * (size - j))
            pool[[j, other]] = pool[[other, j]]
        assert_array_equal(numbers, pool[:k])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=12), st.integers(1, 200))
def test_apportion_is_whole_and_near(weights, total):
    shares = np.array([weights]) / np.sum(weights)
    counts = apportion(shares, total)
    assert counts.sum() == total
    assert np.abs(counts - shares * total).max() < 1 + 1e-9


def test_spread_shots():
    assert spread_shots(1, 5, 5) == (1, 2, 3, 4, 5)
    assert spread_shots(2, 2, 3) == (2, 2, 2)
    assert spread_shots(1, 10, 4) == (1, 4, 7, 10)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n_way": 9}, r"n_way=9 is more than the 8 classes of made\. Lower n_way"),
        ({"n_way": 1}, "n_way must be at least 2; got 1"),
        ({"n_shot": -1}, "n_shot must be at least 1, or 0 for class names as the support; got -1"),
        ({"n_shot": (1, 2)}, r"need one number per class: 5 for n_way=5; got \(1, 2\)"),
        ({"n_query_per_class": 0}, "n_query_per_class must be at least 1; got 0"),
        ({"dirichlet": -1.0}, r"dirichlet must be a positive number; got -1\.0"),
        ({"present": 6}, r"present must lie in 1\.\.n_way=5; got 6"),
        ({"seed": -1}, "seed must be at least 0; got -1"),
        (
            {"n_shot": 5, "n_query_per_class": 21},
            r"Class 'class 1' of made has 25 examples but 5 shots \+ 21 queries need",
        ),
    ],
)
def test_impossible_settings_are_named(bank, kwargs, message):
    with pytest.raises(ValueError, match=message):
        TaskSampler(bank, **kwargs)


def test_batch_bounds_are_checked(bank):
    with pytest.raises(ValueError, match="0 <= start <= stop; got 5 and 3"):
        TaskSampler(bank).batch(5, 3)
    assert TaskSampler(bank).batch(4, 4).support.shape == (0, 5, 3)


def test_settings_count_examples():
    shape = TaskSettings(n_way=4, n_shot=(1, 2, 3, 4), n_query_per_class=10, present=3)
    assert (shape.n_support, shape.n_query) == (10, 30)


@pytest.fixture
def named_bank() -> FeatureBank:
    """Six classes with embedded names, and a prior that says the row and the class."""
    bank = make([9, 8, 7, 9, 8, 7])
    prior = 10.0 * np.arange(len(bank.y))[:, None] + np.arange(6)
    return make_bank(bank.X, bank.y, "named", names=-1.0 - np.arange(18).reshape(6, 3), prior=prior)


def test_without_shots_the_names_are_the_support(named_bank):
    asked = {"n_way": 4, "n_query_per_class": 2, "seed": 3}
    batch = TaskSampler(named_bank, n_shot=0, **asked).batch(5, 9)
    assert_array_equal(batch.support_labels, np.tile(np.arange(4), (4, 1)))
    assert_array_equal(batch.support, named_bank.names[batch.classes])
    right = np.take_along_axis(batch.classes, batch.query_labels, axis=1)
    assert_array_equal(named_bank.y[batch.query_rows], right)
    assert_array_equal(batch.classes, TaskSampler(named_bank, n_shot=1, **asked).draw_classes(5, 9))


def test_the_prior_of_a_task_has_its_rows_and_classes(named_bank):
    batch = TaskSampler(named_bank, n_way=4, n_shot=2, n_query_per_class=2).batch(0, 3)
    assert sorted(batch.priors) == ["prior", "support_prior"]
    for name, rows in (("prior", batch.query_rows), ("support_prior", batch.support_rows)):
        assert_array_equal(batch.priors[name], 10 * rows[:, :, None] + batch.classes[:, None, :])
        with pytest.raises(ValueError, match="read-only"):
            batch.priors[name][:] = 0
    unshot = TaskSampler(named_bank, n_way=4, n_shot=0, n_query_per_class=2).batch(0, 3)
    assert list(unshot.priors) == ["prior"]


def test_no_shots_need_names(bank):
    with pytest.raises(ValueError, match="has no embedded class names, which tasks without shots need"):
        TaskSampler(bank, n_way=2, n_shot=0, n_query_per_class=1)
    with pytest.raises(ValueError, match="n_shot must be at least 1, or 0 for class names as the support"):
        TaskSettings(n_way=2, n_shot=(0, 1))


def test_foreign_queries_are_of_other_classes_and_come_last(bank):
    sampler = TaskSampler(bank, n_way=3, n_shot=2, n_query_per_class=4, foreign=2, seed=1)
    batch = sampler.batch(0, 50)
    assert batch.query_labels.shape == (50, 20)
    assert_array_equal(batch.query_labels[:, 12:], -1)
    own = np.take_along_axis(batch.classes, batch.query_labels[:, :12], axis=1)
    assert_array_equal(bank.y[batch.query_rows[:, :12]], own)
    foreign = bank.y[batch.query_rows[:, 12:]]
    assert not (foreign[:, :, None] == batch.classes[:, None, :]).any()
    assert all(sorted(np.unique(row, return_counts=True)[1]) == [4, 4] for row in foreign)
    assert all(len(set(rows)) == 26 for rows in np.concatenate((batch.support_rows, batch.query_rows), axis=1).tolist())
    assert_array_equal(sampler.batch(7, 9).query_rows, batch.query_rows[7:9])
    assert_array_equal(sampler.draw_classes(0, 50), batch.classes)


def test_foreign_classes_that_are_not_there_are_named(bank):
    with pytest.raises(ValueError, match=r"n_way=3 and \d+ foreign classes are more than the \d+ classes of .* Lower"):
        TaskSampler(bank, n_way=3, n_query_per_class=2, foreign=len(bank.classes) - 2)
    with pytest.raises(ValueError, match="foreign must be at least 0; got -1"):
        TaskSampler(bank, foreign=-1)
