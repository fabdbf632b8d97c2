"""The mixture of class clusters: shares by evidence, answers that keep to shares, and its compiled twin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax

from marginshot import PRESETS, Settings, solve_tasks
from marginshot.batch.task import fit_mixtures
from marginshot.model import mixture as model
from marginshot.model.grams import measure


def clusters(counts, *, shots=1, spread=0.15, seed=0, dimensions=20):
    """Rows of len(counts) clusters, ``shots`` labelled ones of each class first, then the queries; their classes."""
    rng = np.random.default_rng(seed)
    n_classes = len(counts)
    centres = np.eye(n_classes, dimensions)
    labels = np.tile(np.arange(n_classes), shots)
    truth = np.repeat(np.arange(n_classes), counts)
    classes = np.concatenate((labels, truth))
    rows = centres[classes] + spread * rng.standard_normal((len(classes), dimensions))
    return rows - rows.mean(axis=0), labels, truth


def fit_mixture(gram, labels, shares, n_classes, equal_odds=0.0, hints=None, n_query=None):
    """With shares (N,), or None to estimate them; hints (m, N)."""
    n_queries = len(gram) - len(labels)
    return model.fit_mixture(
        gram,
        labels,
        np.ones(len(labels)),
        np.zeros((n_classes, n_queries)) if hints is None else np.ascontiguousarray(hints.T),
        np.full(n_classes, 1 / n_classes) if shares is None else shares,
        shares is None,
        equal_odds,
        n_queries if n_query is None else n_query,
    )


def answers(rows, labels, shares, n_classes):
    mixture = fit_mixture(rows @ rows.T, labels, shares, n_classes)
    at_rows = mixture.coef @ (rows @ rows.T) + mixture.intercept[:, None]
    assert_allclose(at_rows, mixture.logits, atol=1e-6 * max(1.0, abs(at_rows).max()))
    return softmax(mixture.logits.T, axis=-1), mixture


@pytest.mark.parametrize("seed", range(5))
def test_equal_classes_are_found_equal(seed):
    rows, labels, truth = clusters([15] * 5, seed=seed)
    posteriors, mixture = answers(rows, labels, None, 5)
    assert_array_equal(mixture.shares, 0.2)
    assert np.mean(posteriors[5:].argmax(axis=1) == truth) > 0.9


def test_equal_shares_are_the_more_certain_the_more_queries_show_them():
    found = []
    for counts in ([4] * 5, [15] * 5, [60] * 5, [30, 5, 5, 5, 5]):
        rows, labels, _ = clusters(counts)
        found.append(fit_mixture(rows @ rows.T, labels, None, 5))
    certainties = [mixture.equality for mixture in found]
    assert 0.0 < certainties[0] < certainties[1] < certainties[2] < 1.0
    assert certainties[3] == 0.0
    rows, labels, _ = clusters([15] * 5)
    assert fit_mixture(rows @ rows.T, labels, None, 5, n_query=1_000).equality == 0.0  # a sample
    assert fit_mixture(rows @ rows.T, labels, np.full(5, 0.2), 5).equality == 0.0  # given


def test_in_many_dimensions_equal_shares_have_a_longer_equal_odds(monkeypatch):
    """Overlapping balls of 200 dimensions: wrong divisions of equal classes seem sure without it, the guard aside."""
    monkeypatch.setattr("marginshot.model.mixture.EXPLAINED_UNCHECKED", 0.03)

    def misjudged():
        errors = []
        for seed in range(10):
            rows, labels, _ = clusters([10] * 10, seed=seed, spread=0.15, dimensions=200)
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            errors.append(abs(fit_mixture(rows @ rows.T, labels, None, 10).shares - 0.1).max())
        return np.mean(errors)

    with_lead = misjudged()
    monkeypatch.setattr("marginshot.model.shares.DIMENSIONS_OF_A_NAT", np.inf)
    assert with_lead < 0.5 * misjudged()


@pytest.mark.parametrize("seed", range(5))
def test_unequal_classes_are_found_unequal(seed):
    counts = [40, 20, 10, 5, 0]
    rows, labels, truth = clusters(counts, seed=seed)
    posteriors, mixture = answers(rows, labels, None, 5)
    assert_allclose(mixture.shares, np.array(counts) / 75, atol=0.08)
    assert np.mean(posteriors[5:].argmax(axis=1) == truth) > 0.9


@pytest.mark.parametrize("shots", [3, 5])
def test_most_classes_may_be_absent(shots, monkeypatch):
    """Three of twenty, overlapping: unknown shares alone leave queries with classes of which there are none."""

    def missed():
        shares = []
        for seed in range(10):
            rows, labels, _ = clusters([0] * 17 + [20] * 3, shots=shots, seed=seed, spread=0.35, dimensions=30)
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
            shares.append(fit_mixture(rows @ rows.T, labels, None, 20).shares[:17].sum())
        return np.mean(shares)

    supposed = missed()
    monkeypatch.setattr("marginshot.model.shares.MOST_CLASSES_ALL_PRESENT", 100)
    assert supposed < 0.5 * missed()


def test_answers_keep_to_given_shares():
    rows, labels, _ = clusters([15] * 5)
    shares = np.array([0.4, 0.3, 0.2, 0.1, 0.0])
    posteriors, _ = answers(rows, labels, shares, 5)
    assert_allclose(posteriors[5:].mean(axis=0), shares, atol=0.01)


def test_no_queries_and_no_difference_between_rows():
    rows, labels, _ = clusters([0, 0, 0], shots=3)
    posteriors, mixture = answers(rows, labels, None, 3)
    assert_allclose(mixture.shares, 1 / 3)
    assert_allclose(posteriors, 1 / 3, err_msg="of too few queries a mixture says nothing")
    posteriors, mixture = answers(np.zeros((12, 4)), np.array([0, 1, 2]), None, 3)
    assert measure(np.zeros((12, 12)))[2:] == (0, 0)
    assert_allclose(posteriors, 1 / 3)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), scale=st.floats(1e-6, 1e6), shift=st.floats(-3.0, 3.0))
def test_scaling_and_shifting_all_rows_change_no_answer(seed, scale, shift):
    rows, labels, _ = clusters([12, 8, 4], seed=seed)
    posteriors, _ = answers(rows, labels, None, 3)
    moved, _ = answers(scale * (rows + shift), labels, None, 3)
    assert_allclose(moved, posteriors, atol=1e-5)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), order=st.permutations(range(3)))
def test_classes_and_queries_may_come_in_any_order(seed, order):
    rows, labels, _ = clusters([12, 8, 4], shots=2, seed=seed)
    posteriors, _ = answers(rows, labels, None, 3)
    shuffle = np.concatenate((np.arange(6), 6 + np.random.default_rng(seed).permutation(24)))
    renamed, _ = answers(rows[shuffle], np.asarray(order)[labels], None, 3)
    assert_allclose(renamed[:, order], posteriors[shuffle], atol=1e-7)


@pytest.mark.parametrize(
    ("counts", "shots", "dimensions"),
    [
        ([15] * 5, 1, 20),
        ([30, 20, 10, 0], 3, 20),
        ([9] * 12, 5, 20),
        ([0, 0], 2, 20),
        ([12, 9] * 6, 5, 300),
        ([20, 0, 0, 9, 0, 0, 0, 15, 0, 0], 3, 20),
        ([0, 1, 0, 0, 1, 0, 0], 2, 20),
        ([3] * 60, 3, 400),
    ],
)
@pytest.mark.parametrize("estimate", [True, False])
@pytest.mark.parametrize("hinted", [True, False])
def test_compiled_it_answers_as_in_numpy(counts, shots, dimensions, estimate, hinted):
    n_classes = len(counts)
    tasks = [clusters(counts, shots=shots, seed=seed, spread=0.5, dimensions=dimensions) for seed in range(4)]
    grams = np.stack([rows @ rows.T for rows, _, _ in tasks]).astype(np.float32)
    labels = np.stack([labels for _, labels, _ in tasks])
    shares = np.full((4, n_classes), 1 / n_classes)
    hints = hinted * np.random.default_rng(0).standard_normal((4, sum(counts), n_classes))
    by_class = np.ascontiguousarray(hints.transpose(0, 2, 1))
    compiled = fit_mixtures(grams, labels, by_class, None if estimate else shares, 0.0, 1.0)
    for task in range(4):
        given = None if estimate else shares[task]
        mixture = fit_mixture(grams[task].astype(np.float64), labels[task], given, n_classes, hints=hints[task])
        assert_allclose(compiled.logits[task], mixture.logits.T, atol=2e-3)
        assert_allclose(compiled.shares[task], mixture.shares, atol=1e-5)
        assert compiled.clustered[task] == mixture.clustered
        assert_allclose(compiled.equality[task], mixture.equality, atol=1e-5)


def nuisance(seed, shots=5, n_classes=10, dimensions=100):
    """Classes that differ in most features, and two strong features that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    classes = np.tile(np.arange(n_classes), shots + 15)
    rows = (0.7 * rng.standard_normal((n_classes, dimensions)))[classes]
    rows += rng.standard_normal(rows.shape)
    rows[:, :2] += 6.0 * rng.choice([-1, 1], size=(len(rows), 2))
    rows -= rows.mean(axis=0)
    n_support = shots * n_classes
    return rows / np.linalg.norm(rows, axis=1, keepdims=True), classes[:n_support], classes[n_support:]


def test_clusters_that_cross_the_classes_are_found_out_by_hidden_labels():
    tasks = [nuisance(seed) for seed in range(10)]
    support, query = (np.stack([rows[part] for rows, _, _ in tasks]) for part in (slice(50), slice(50, None)))
    labels, truth = np.stack([task[1] for task in tasks]), np.stack([task[2] for task in tasks])

    def accuracy(**options):
        return np.mean(solve_tasks(support, labels, query, Settings(**options)).labels == truth)

    assert accuracy(**PRESETS["auto"]) > accuracy(**PRESETS["paper"] | {"lambda2": (0,)}) - 0.01


def test_hints_lead_to_the_classes_they_name():
    """Between two labelled rows as far from either cluster, only what is known beforehand tells which is which."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], 20)
    rows = np.concatenate((np.zeros((2, 6)), np.eye(2, 6)[truth] + 0.1 * rng.standard_normal((40, 6))))
    rows -= rows.mean(axis=0)
    for named in (truth, 1 - truth):
        hints = np.log(np.where(named[:, None] == np.arange(2), 0.8, 0.2))
        mixture = fit_mixture(rows @ rows.T, np.array([0, 1]), None, 2, hints=hints)
        assert_array_equal(mixture.logits[:, 2:].argmax(axis=0), named)


@pytest.mark.parametrize(("dimensions", "shots"), [(200, 1), (1000, 1), (20, 5), (200, 5), (1000, 5)])
def test_rows_without_clusters_speak_for_no_class(dimensions, shots):
    """A centre of few rows fits these, the better the more dimensions there are: no reason to believe in it."""
    for seed in range(5):
        rows, labels, _ = clusters([15] * 5, shots=shots, seed=seed, spread=5.0, dimensions=dimensions)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        _, mixture = answers(rows, labels, None, 5)
        assert mixture.shares.max() < 0.5


def test_one_class_may_have_nearly_all_queries():
    rows, labels, truth = clusters([29, 1], spread=0.2)
    posteriors, mixture = answers(rows, labels, None, 2)
    assert mixture.shares[0] > 0.9
    assert np.mean(posteriors[2:].argmax(axis=1) == truth) > 0.95


def test_within_is_small_where_clusters_are_far_apart():
    near, far = (answers(*clusters([15] * 3, spread=spread)[:2], None, 3)[1].within for spread in (0.5, 0.05))
    assert far < 0.5 * near


def test_given_shares_are_kept_to_where_nothing_is_clustered():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((40, 200))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = np.arange(4)
    assert fit_mixture(rows @ rows.T, labels, None, 4).clustered is False
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    posteriors, mixture = answers(rows, labels, shares, 4)
    assert mixture.clustered
    assert_allclose(posteriors[4:].mean(axis=0), shares, atol=0.02)


def test_a_sample_of_the_queries_is_enough_where_they_are():
    rows, labels, _ = clusters([1] * 8, shots=2)
    assert fit_mixture(rows @ rows.T, labels, None, 8).clustered is False
    assert fit_mixture(rows @ rows.T, labels, None, 8, n_query=1_000).clustered


def test_a_task_of_a_batch_is_as_if_alone():
    tasks = [clusters(counts, shots=1, seed=seed) for seed, counts in enumerate([[4] * 6, [24] + [0] * 5] * 4)]
    grams = np.stack([rows @ rows.T for rows, _, _ in tasks]).astype(np.float32)
    labels, hints = np.stack([task[1] for task in tasks]), np.zeros((8, 6, 24))
    together = fit_mixtures(grams, labels, hints, None, 1.0, 1.0)
    for i in range(8):
        alone = fit_mixtures(grams[i : i + 1], labels[i : i + 1], hints[:1], None, 1.0, 1.0)
        assert_array_equal(together.logits[i], alone.logits[0])
        assert_array_equal(together.shares[i], alone.shares[0])


def test_a_row_that_counts_twice_is_a_row_twice():
    rows, labels, _ = clusters([10, 10], shots=2, spread=0.4)
    twice = np.concatenate((rows[:1], rows))
    hints, shares = np.zeros((2, 20)), np.full(2, 0.5)
    weighted = model.fit_mixture(rows @ rows.T, labels, np.array([2.0, 1, 1, 1]), hints, shares, False, 0.0, 20)
    doubled = model.fit_mixture(
        twice @ twice.T, np.concatenate((labels[:1], labels)), np.ones(5), hints, shares, False, 0.0, 20
    )
    # Not equal: the doubled row also counts twice for the task's mean and variance.
    assert_allclose(weighted.logits[:, 4:], doubled.logits[:, 5:], rtol=0.2, atol=0.5)
