"""Rows that stand for all rows of a large task."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from marginshot.model.subsets import evenly


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
