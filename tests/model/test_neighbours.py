"""The search for neighbours finds what scikit-learn's does, and nearly that where rows are many."""

from unittest.mock import Mock

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.neighbors import NearestNeighbors

from marginshot import TransductiveMaxMarginClassifier
from marginshot._lib.threads import giving_way, limit_threads
from marginshot.batch.task import average as average_compiled
from marginshot.batch.task import find_nearest, smooth
from marginshot.model import neighbour_search
from marginshot.model.neighbour_search import compare_all, nearest_in_gram, nearest_of_each, nearest_stored
from marginshot.model.neighbours import NeighbourSmoothing, neighbours_among, smooth_gram
from marginshot.model.primitives import average
from marginshot.model.transforms import l2_normalize


def unit_rows(n_rows, n_features, seed=0):
    return l2_normalize(np.random.default_rng(seed).normal(size=(n_rows, n_features)))


def clusters(n_rows, seed=0):
    """Unit rows (n_rows, 64) of 20 classes, each of which varies in 10 directions of its own, and their classes."""
    rng = np.random.default_rng(0)
    centres, directions = rng.normal(size=(20, 64)), rng.normal(size=(20, 10, 64))
    rng = np.random.default_rng(seed)
    classes = rng.integers(20, size=n_rows)
    within = np.einsum("nk,nkd->nd", rng.normal(size=(n_rows, 10)), directions[classes])
    return l2_normalize(centres[classes] + 0.3 * within + 0.1 * rng.normal(size=(n_rows, 64))), classes


def share_found(exact, found):
    return np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(exact, found, strict=True)])


@pytest.fixture
def rows_are_many(monkeypatch):
    monkeypatch.setattr(neighbour_search, "LARGEST_EXACT", 3)


# Fewer groups of columns than neighbours, just more, columns left over, more than one strip and block of rows.
@pytest.mark.parametrize(
    ("n_rows", "n_features", "k"), [(5, 3, 4), (60, 4, 1), (300, 5, 8), (333, 6, 3), (1_000, 1_100, 8)]
)
def test_neighbours_within_and_of_later_rows(n_rows, n_features, k):
    stored, later = unit_rows(n_rows, n_features), unit_rows(20, n_features, seed=1)
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(stored)
    assert_array_equal(nearest_of_each(stored, k), search.kneighbors(return_distance=False))
    assert_array_equal(nearest_stored(stored, k, later), search.kneighbors(later, return_distance=False))


def test_a_row_is_not_its_own_neighbour_but_its_copy_is():
    stored = unit_rows(400, 5)
    stored[7] = stored[3]
    nearest = nearest_of_each(stored, 2)
    assert nearest[3, 0] == 7
    assert nearest[7, 0] == 3
    assert not (nearest == np.arange(400)[:, None]).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearly_all_neighbours_of_many_rows_are_found(rows_are_many, dtype):
    stored = clusters(6_000)[0].astype(dtype)
    nearest = nearest_of_each(stored, 8)
    assert nearest.dtype == np.int64
    assert share_found(compare_all(stored, 8, np.arange(6_000)), nearest) >= 0.97
    assert not (nearest == np.arange(6_000)[:, None]).any()
    cosines = np.einsum("nd,nkd->nk", stored, stored[nearest])
    assert (np.diff(cosines, axis=1) <= 1e-5).all()  # nearest first


@pytest.mark.parametrize(("most", "share"), [(4_000, 0.2), (60, 0.02)])
def test_rows_are_compared_with_few_others(rows_are_many, monkeypatch, most, share):
    monkeypatch.setattr(neighbour_search, "_COMPARED", most)
    compared = []
    add = neighbour_search._Found.add

    def count(self, rows, begin, cosines):
        compared.append(cosines.size)
        add(self, rows, begin, cosines)

    monkeypatch.setattr(neighbour_search._Found, "add", count)
    nearest_of_each(clusters(6_000)[0], 8)
    assert sum(compared) < share * 6_000**2


def test_neighbours_of_many_rows_do_not_depend_on_the_order_of_the_rows_or_the_threads(rows_are_many):
    stored = clusters(3_000)[0].astype(np.float32)
    nearest = nearest_of_each(stored, 8)
    with limit_threads(1):
        assert_array_equal(nearest_of_each(stored, 8), nearest)
    order = np.random.default_rng(3).permutation(3_000)
    moved = nearest_of_each(stored[order], 8)
    assert np.mean(order[moved] == nearest[order]) >= 0.999  # but for cosines that are equal up to rounding


@pytest.mark.parametrize("n_copies", [500, 1_400])
def test_many_rows_with_many_copies(rows_are_many, monkeypatch, n_copies):
    monkeypatch.setattr(neighbour_search, "_LARGE", 2)
    monkeypatch.setattr(neighbour_search, "_PART", 300)
    stored = clusters(1_500)[0]
    stored[:n_copies] = stored[0]
    nearest = nearest_of_each(stored, 8)
    assert not (nearest == np.arange(1_500)[:, None]).any()
    assert (nearest[:n_copies] < n_copies).all()
    assert all(len(set(row)) == 8 for row in nearest.tolist())
    exact = compare_all(stored, 8, np.arange(n_copies, 1_500))
    np.testing.assert_allclose(  # among copies, others may be chosen
        np.einsum("nd,nkd->nk", stored[n_copies:], stored[nearest[n_copies:]]).mean(),
        np.einsum("nd,nkd->nk", stored[n_copies:], stored[exact]).mean(),
        rtol=0.01,
    )


@pytest.mark.parametrize("n_rows", [5, 8, 20])
def test_few_rows_are_neighbours_however_far(rows_are_many, n_rows):
    stored = unit_rows(n_rows, 3)
    assert_array_equal(nearest_of_each(stored, 4), compare_all(stored, 4, np.arange(n_rows)))


def test_rows_whose_cells_hold_too_few_are_compared_with_all(rows_are_many, monkeypatch):
    stored = unit_rows(60, 4)
    monkeypatch.setattr(neighbour_search, "_cells_needed", lambda *_: 1)
    assert_array_equal(nearest_of_each(stored, 30), compare_all(stored, 30, np.arange(60)))


def test_a_search_among_many_rows_can_be_ended(rows_are_many):
    with pytest.raises(KeyboardInterrupt), giving_way(Mock(side_effect=[None] * 40 + [KeyboardInterrupt()])):
        nearest_of_each(clusters(3_000)[0], 8)


def smoothed(smoothing, rows):
    return smoothing.transform(rows, smoothing.look_around(rows))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_smoothing_of_many_rows(rows_are_many, monkeypatch, dtype):
    stored, later = clusters(2_000)[0].astype(dtype), clusters(300, seed=1)[0].astype(dtype)
    stored[[3, 1_200]] = 0.0
    later[7] = 0.0
    smoothing = NeighbourSmoothing(8, 0.5)
    smooth_rows = smoothing.fit_transform(stored)
    assert_allclose(smoothed(smoothing, stored), smooth_rows, atol=1e-6)  # each is recognised as itself
    assert not smooth_rows[[3, 1_200]].any()

    monkeypatch.setattr(neighbour_search, "LARGEST_EXACT", 2_000)
    exactly = NeighbourSmoothing(8, 0.5)
    assert np.mean(np.linalg.norm(exactly.fit_transform(stored) - smooth_rows, axis=1) < 0.1) >= 0.98
    assert share_found(exactly.neighbours, smoothing.neighbours) >= 0.97
    assert_allclose(smoothed(smoothing, later), smoothed(exactly, later), atol=1e-3)


@pytest.mark.parametrize(("n_rows", "n_neighbors"), [(2, 8), (9, 8), (40, 1), (120, 8)])
def test_the_compiled_twin_smooths_alike(n_rows, n_neighbors):
    rows = np.stack([unit_rows(n_rows, 6, seed=seed) for seed in range(3)]).astype(np.float32)
    rows -= rows.mean(axis=1, keepdims=True)
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    if n_rows > 9:
        rows[1, 4] = 0.0  # without direction
    inner = rows @ rows.transpose(0, 2, 1)
    nearest = find_nearest(inner, n_neighbors)
    compiled = smooth(inner, nearest, 0.3)
    for task, gram in enumerate(inner.astype(np.float64)):
        assert_array_equal(nearest_in_gram(gram, neighbours_among(n_neighbors, n_rows)), nearest[task])
        assert_allclose(compiled[task], smooth_gram(gram, nearest[task], 0.3), atol=1e-5)


def test_rows_of_their_own_lengths_are_averaged_alike_one_by_one_and_compiled():
    rng = np.random.default_rng(0)
    centred = rng.normal(size=(60, 8)) * rng.uniform(0.1, 3.0, size=(60, 1))
    centred[7] = 0.0
    lengths = np.linalg.norm(centred, axis=1)
    rows = l2_normalize(centred)
    smoothing = NeighbourSmoothing(5, 0.3)
    smoothing.fit_transform(rows)
    chosen = np.array([3, 7, 59, 20])
    one_by_one = smoothing.average(chosen, lengths)
    assert_array_equal(one_by_one[1], 0.0)
    nearest = np.argsort(-(rows[3] @ rows.T))[1:6]
    assert_allclose(one_by_one[0], 0.7 * centred[3] + 0.3 * centred[nearest].mean(axis=0))
    inner = (rows @ rows.T)[None].astype(np.float32)
    averaged = average_compiled(inner, lengths[None].astype(np.float32), find_nearest(inner, 5), 0.3)
    assert_allclose(averaged[0][np.ix_(chosen, chosen)], one_by_one @ one_by_one.T, atol=1e-5)


@pytest.mark.parametrize("n_filled", [0, 1, 2])
def test_smoothing_of_hardly_any_rows(n_filled):
    rows = np.zeros((4, 3))
    rows[:n_filled] = unit_rows(4, 3)[:n_filled]
    smoothing = NeighbourSmoothing(8, 0.5)
    smooth_rows = smoothing.fit_transform(rows)
    assert_allclose(smoothed(smoothing, rows), smooth_rows, atol=1e-12)


def test_a_classifier_of_many_rows_predicts_as_it_labelled_loaded_or_not(rows_are_many, tmp_path):
    X, truth = clusters(2_000)
    y = np.full(len(X), -1)
    for c in range(20):
        y[np.flatnonzero(truth == c)[:2]] = c
    clf = TransductiveMaxMarginClassifier.from_preset("auto").fit(X, y)
    assert_array_equal(clf.predict(X[y < 0]), clf.transduction_[y < 0])
    clf.save(tmp_path / "model.npz")
    loaded = TransductiveMaxMarginClassifier.load(tmp_path / "model.npz")
    later, _ = clusters(100, seed=1)
    for rows in (X[:100], later):
        assert_array_equal(loaded.predict_proba(rows), clf.predict_proba(rows))


def test_averaging_with_all_weight_is_the_mean_of_the_neighbours():
    stored = unit_rows(30, 4)
    chosen = np.random.default_rng(0).integers(30, size=(12, 3))
    assert_allclose(average(stored[:12], stored, chosen, 1.0), stored[chosen].mean(axis=1), rtol=1e-12)
