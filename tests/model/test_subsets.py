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


@given(n_rows=st.integers(20, 9000), n_support=st.integers(2, 19), row=st.integers(0, 10**6))
def test_one_more_label_moves_no_other_row_of_the_sample(n_rows, n_support, row):
    support = evenly(n_rows, n_support)
    _, before = sample_rows(support, np.arange(n_support) % 2, n_rows)
    more = np.union1d(support, row % n_rows)
    _, after = sample_rows(more, np.arange(len(more)) % 2, n_rows)
    assert len(before) >= min(SAMPLED_QUERIES * 0.97, n_rows - n_support)
    assert not np.isin(before, support).any()
    if n_rows - len(more) <= SAMPLED_QUERIES < n_rows - n_support:
        return  # from here on all queries are taken
    assert_array_equal(np.setdiff1d(before, more), after)
