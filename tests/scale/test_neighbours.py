"""The search for neighbours finds what scikit-learn's does."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.neighbors import NearestNeighbors

from marginshot.neighbours import mean_of_rows, nearest_rows
from marginshot.transforms import l2_normalize


def unit_rows(n_rows, n_features, seed=0):
    return l2_normalize(np.random.default_rng(seed).normal(size=(n_rows, n_features)))


# Fewer groups of columns than neighbours, just more, columns left over, more than one strip and block of rows.
@pytest.mark.parametrize(
    ("n_rows", "n_features", "k"), [(5, 3, 4), (60, 4, 1), (300, 5, 8), (333, 6, 3), (1_000, 1_100, 8)]
)
def test_neighbours_within_and_of_later_rows(n_rows, n_features, k):
    stored, later = unit_rows(n_rows, n_features), unit_rows(20, n_features, seed=1)
    search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(stored)
    assert_array_equal(nearest_rows(stored, k), search.kneighbors(return_distance=False))
    assert_array_equal(nearest_rows(stored, k, later), search.kneighbors(later, return_distance=False))


def test_a_row_is_not_its_own_neighbour_but_its_copy_is():
    stored = unit_rows(400, 5)
    stored[7] = stored[3]
    nearest = nearest_rows(stored, 2)
    assert nearest[3, 0] == 7
    assert nearest[7, 0] == 3
    assert not (nearest == np.arange(400)[:, None]).any()


def test_mean_of_chosen_rows():
    stored = unit_rows(30, 4)
    chosen = np.random.default_rng(0).integers(30, size=(12, 3))
    assert_allclose(mean_of_rows(stored, chosen), stored[chosen].mean(axis=1), rtol=1e-12)
