"""What every registered method promises, whatever it does inside."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from marginshot.methods import METHODS, get_method
from tasks_for_tests import blobs

every_method = pytest.mark.parametrize("name", sorted(METHODS))


@pytest.fixture
def batch():
    """Six tasks of three overlapping classes with unequal shots: support, labels, query."""
    support, labels, query, _ = blobs(np.random.default_rng(7), n_tasks=6, n_shot=3, spread=3.0)
    keep = [0, 1, 2, 3, 6]  # shots 3, 1, 1
    return support[:, keep], labels[:, keep], query


def scores_of(name, support, labels, query):
    return get_method(name).predict_scores(support, labels, query)


def assert_same_scores(actual, expected):
    """Equal up to what an iterative solver leaves open, far below what decides a label."""
    assert_allclose(actual, expected, rtol=0, atol=2e-3 * max(np.ptp(expected), 1e-12))


@every_method
def test_describes_itself(name):
    method = METHODS[name]
    assert method.name == name
    assert method.title
    assert len(method.reference) > 20
    assert isinstance(method.transductive, bool)
    assert ("Transductive." if method.transductive else "Inductive.") in method.__doc__


@every_method
def test_settings_are_frozen_and_keyword_only(name):
    method = get_method(name)
    for field in dataclasses.fields(method):
        assert field.kw_only
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(method, field.name, None)


@every_method
def test_shape_dtype_finite(name, batch):
    scores = scores_of(name, *batch)
    assert scores.shape == (6, 18, 3)
    assert scores.dtype == np.float64
    assert np.isfinite(scores).all()


@every_method
def test_separated_classes_are_told_apart(name):
    support, labels, query, truth = blobs(np.random.default_rng(3), n_way=4, spread=0.05)
    assert_array_equal(scores_of(name, support, labels, query).argmax(axis=2), truth)


@every_method
def test_same_answer_twice(name, batch):
    method = get_method(name)
    assert_array_equal(method.predict_scores(*batch), method.predict_scores(*batch))


@every_method
def test_task_alone_equals_task_in_batch(name, batch):
    scores = scores_of(name, *batch)
    for t in (0, 2, 5):
        assert_array_equal(scores_of(name, *(a[t : t + 1] for a in batch)), scores[t : t + 1])


@every_method
def test_task_alone_equals_task_in_batch_in_single_precision_and_large(name):
    rng = np.random.default_rng(11)
    support, labels, query, _ = blobs(rng, n_tasks=5, n_way=5, n_features=640, n_query_per_class=15)
    support, query = support.astype(np.float32), query.astype(np.float32)
    scores = scores_of(name, support, labels, query)
    assert_array_equal(scores_of(name, support[3:4], labels[3:4], query[3:4]), scores[3:4])


@every_method
def test_permuted_queries(name, batch):
    support, labels, query = batch
    order = np.random.default_rng(0).permutation(query.shape[1])
    assert_same_scores(scores_of(name, support, labels, query[:, order]), scores_of(name, *batch)[:, order])


@every_method
def test_permuted_support(name, batch):
    support, labels, query = batch
    order = np.array([4, 2, 0, 3, 1])
    assert_same_scores(scores_of(name, support[:, order], labels[:, order], query), scores_of(name, *batch))


@every_method
def test_permuted_classes(name, batch):
    support, labels, query = batch
    renamed = np.array([2, 0, 1])
    assert_same_scores(scores_of(name, support, renamed[labels], query)[:, :, renamed], scores_of(name, *batch))


@every_method
def test_read_only_inputs_stay_as_they_were(name, batch):
    copies = [a.copy() for a in batch]
    for a in batch:
        a.flags.writeable = False
    scores_of(name, *batch)
    for a, copy in zip(batch, copies, strict=True):
        assert_array_equal(a, copy)


@every_method
def test_inputs_need_not_be_contiguous(name, batch):
    support, labels, query = batch
    strided = np.repeat(support, 2, axis=2)[:, :, ::2], labels.astype(np.int32), np.asfortranarray(query)
    assert_same_scores(scores_of(name, *strided), scores_of(name, *batch))


@every_method
def test_half_precision_is_computed_in_single(name, batch):
    support, labels, query = batch
    half = support.astype(np.float16), labels, query.astype(np.float16)
    single = half[0].astype(np.float32), labels, half[2].astype(np.float32)
    assert_array_equal(scores_of(name, *half), scores_of(name, *single))


@every_method
@pytest.mark.parametrize("n_query", [0, 1, 2])
def test_fewer_queries_than_classes(name, batch, n_query):
    support, labels, query = batch
    scores = scores_of(name, support, labels, query[:, :n_query])
    assert scores.shape == (6, n_query, 3)
    assert np.isfinite(scores).all()
    if n_query:
        assert np.ptp(scores, axis=2).min() > 0  # an answer, not a row of zeros


@every_method
def test_one_shot_two_ways(name):
    support, labels, query, truth = blobs(np.random.default_rng(5), n_way=2, n_shot=1, spread=0.1)
    assert_array_equal(scores_of(name, support, labels, query).argmax(axis=2), truth)


def _zero_rows(support, query):
    support[:, 0] = 0.0
    query[:, :2] = 0.0


def _duplicates(support, query):
    query[:, 1:5] = query[:, :1]
    query[:, 5] = support[:, 1]
    support[:, 1] = support[:, 0]


def _all_equal(support, query):
    support[:] = 1.0
    query[:] = 1.0


def _all_zero(support, query):
    support[:] = 0.0
    query[:] = 0.0


def _constant_feature(support, query):
    support[:, :, 0] = 1e4
    query[:, :, 0] = 1e4


def _same_point_in_every_class(support, query):
    support[:] = support[:, :1]


@every_method
@pytest.mark.parametrize(
    "spoil",
    [_zero_rows, _duplicates, _all_equal, _all_zero, _constant_feature, _same_point_in_every_class],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nasty_rows_give_finite_scores(name, batch, spoil, dtype):
    support, labels, query = batch
    support, query = support.astype(dtype), query.astype(dtype)
    spoil(support, query)
    assert np.isfinite(scores_of(name, support, labels, query)).all()


@every_method
def test_more_rows_than_features(name):
    support, labels, query, _ = blobs(np.random.default_rng(2), n_shot=4, n_features=8)
    assert np.isfinite(scores_of(name, support, labels, query)).all()


@every_method
def test_probabilities_are_probabilities(name, batch):
    method = get_method(name)
    scores = method.predict_scores(*batch)
    before = scores.copy()
    probabilities = method.probabilities(scores)
    assert_array_equal(scores, before)
    if probabilities is None:
        return
    assert probabilities.shape == scores.shape
    assert probabilities.min() >= 0
    assert_allclose(probabilities.sum(axis=2), 1.0, rtol=1e-6)
    assert_array_equal(probabilities.argmax(axis=2), scores.argmax(axis=2))


@every_method
def test_transductive_means_what_it_says(name, batch):
    """One query alone against the same query among others, with nothing of the task's mean subtracted."""
    support, labels, query = batch
    fields = {field.name for field in dataclasses.fields(METHODS[name])}
    if not METHODS[name].transductive and name.startswith("fs-"):
        pytest.skip("FS-MMC centres on support and queries, as the paper does, and has no setting for it")
    method = get_method(name, centre="support") if "centre" in fields else get_method(name)
    alone = method.predict_scores(support, labels, query[:, :1])
    among = method.predict_scores(support, labels, query)[:, :1]
    if METHODS[name].transductive:
        assert np.abs(alone - among).max() > 1e-6
    else:
        assert_same_scores(alone, among)


@every_method
def test_mismatched_features_are_named(name, batch):
    support, labels, query = batch
    with pytest.raises(ValueError, match="equal n_features; got 16 and 15"):
        scores_of(name, support, labels, query[:, :, :-1])


@every_method
def test_nan_is_named_with_its_task(name, batch):
    support, labels, query = batch
    query[4, 2, 1] = np.nan
    with pytest.raises(ValueError, match="query must be finite; task 4 holds NaN or infinity"):
        scores_of(name, support, labels, query)


@every_method
def test_missing_class_is_named(name, batch):
    support, labels, query = batch
    labels[3] = [0, 0, 0, 2, 2]
    with pytest.raises(ValueError, match=r"task 3 has no example of class 1"):
        scores_of(name, support, labels, query)
