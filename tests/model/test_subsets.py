"""Rows that stand for all rows of a large task."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from marginshot.model.subsets import SAMPLED_QUERIES, evenly, sample_rows


@given(size=st.integers(0, 5000), count=st.integers(1, 300))
def test_one_row_is_drawn_from_each_equal_part(size, count):
    chosen = evenly(size, count)
    assert len(chosen) == min(size, count)
    if size > count:
        edges = np.arange(count + 1) * size // count
        assert_array_equal(np.searchsorted(edges, chosen, side="right") - 1, np.arange(count))


def test_classes_that_take_turns_are_all_met():
    classes = np.arange(1000) % 10
    assert_array_equal(np.unique(classes[evenly(1000, 100)]), np.arange(10))


def sample(support, n_rows, groups=None, order=None):
    groups, order = (np.arange(n_rows) if given is None else given for given in (groups, order))
    return sample_rows(support, np.arange(len(support)) % 2, groups, order)


@given(n_rows=st.integers(20, 9000), n_support=st.integers(2, 19))
def test_queries_stand_for_all_unlabelled_rows(n_rows, n_support):
    support = evenly(n_rows, n_support)
    positions, queries = sample(support, n_rows)
    assert_array_equal(positions, np.arange(n_support))
    assert len(queries) >= min(SAMPLED_QUERIES * 0.97, n_rows - n_support)
    assert not np.isin(queries, support).any()


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(0)
    numbers, shuffle = rng.standard_normal(5000), rng.permutation(5000)
    support = np.array([3, 70, 700])
    _, queries = sample(support, 5000, order=np.argsort(numbers))
    moved = np.argsort(shuffle)[support]
    by_place = np.argsort(moved)
    labels = (np.arange(3) % 2)[by_place]
    _, again = sample_rows(moved[by_place], labels, np.arange(5000), np.argsort(numbers[shuffle]))
    assert_array_equal(np.sort(shuffle[again]), queries)


def test_a_group_is_one_query_and_none_where_it_has_a_label():
    groups = np.arange(60) // 6
    _, queries = sample(np.array([0, 7]), 60, groups=groups)
    assert_array_equal(groups[queries], np.arange(2, 10))
