"""Compiled steps of the methods against plain or public versions of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.neighbors import NearestNeighbors

from marginshot._lib.jit import leaf
from marginshot.solvers.task_compiled import nearest_neighbours
from marginshot.solvers.transport_compiled import balanced_plan


def distances_between(rows):
    return ((rows[:, None] - rows[None]) ** 2).sum(axis=2)


@pytest.mark.parametrize("n_neighbors", [1, 3, 11])
def test_neighbours_are_scikit_learns(n_neighbors):
    rows = np.random.default_rng(0).standard_normal((12, 5))
    ours = np.empty((12, n_neighbors), dtype=np.int64)
    nearest_neighbours(-distances_between(rows), np.ones(len(rows), bool), ours)
    theirs = NearestNeighbors(n_neighbors=n_neighbors).fit(rows).kneighbors(return_distance=False)
    assert_array_equal(ours, theirs)


def test_a_point_is_not_its_own_neighbour_among_duplicates():
    rows = np.zeros((4, 2))
    ours = np.empty((4, 2), dtype=np.int64)
    nearest_neighbours(-distances_between(rows), np.ones(len(rows), bool), ours)
    assert_array_equal(ours, [[1, 2], [0, 2], [0, 1], [0, 1]])


@leaf
def plan_of(costs, sharpness, max_iter, tol):
    potentials, plan = np.zeros(costs.shape[1]), np.empty_like(costs)
    met = balanced_plan(costs, sharpness, potentials, plan, max_iter, tol)
    return met, plan


def sinkhorn(costs, sharpness, n_iter):
    """In the logarithm, as plainly as it goes."""
    n_points, n_way = costs.shape
    rows, columns = np.zeros(n_points), np.zeros(n_way)
    for _ in range(n_iter):
        columns = np.log(n_points / n_way) - logsumexp(rows[:, None] - sharpness * costs, axis=0)
        rows = -logsumexp(columns - sharpness * costs, axis=1)
    return np.exp(rows[:, None] + columns - sharpness * costs)


@pytest.mark.parametrize("sharpness", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("shape", [(12, 3), (7, 4), (2, 5)])
def test_plan_is_sinkhorns(sharpness, shape):
    costs = np.random.default_rng(1).uniform(0, 2, shape)
    met, plan = plan_of(costs, sharpness, 100, 1e-9)
    assert met
    assert_allclose(plan, sinkhorn(costs, sharpness, 1000), atol=1e-6)


def test_plan_is_found_where_sinkhorn_crawls():
    """Ten points beside class 0, two beside class 1: half of the mass must cross a barrier of e^-80."""
    costs = np.where(np.arange(12)[:, None] < 10, [0.0, 8.0], [8.0, 0.0]) + 1e-3 * np.arange(24).reshape(12, 2)
    met, plan = plan_of(costs, 10.0, 100, 1e-9)
    assert met
    assert_allclose(plan.sum(axis=0), 6.0, rtol=1e-8)
    assert_allclose(plan.sum(axis=1), 1.0)


def test_too_few_steps_are_reported():
    costs = np.random.default_rng(1).uniform(0, 2, (12, 3))
    met, _ = plan_of(costs, 10.0, 1, 1e-9)
    assert not met
