import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from marginshot.model.transforms import CentreAndNormalise, centre_and_normalize, l2_normalize, power_transform


@pytest.fixture
def task():
    rng = np.random.default_rng(0)
    return rng.standard_normal((2, 3, 5)) + 4.0, rng.standard_normal((2, 7, 5)) + 4.0


def test_rows_get_unit_length_and_zeros_stay(task):
    rows = task[0]
    rows[0, 1] = 0.0
    lengths = np.linalg.norm(l2_normalize(rows), axis=2)
    assert_allclose(lengths, [[1, 0, 1], [1, 1, 1]])


def test_task_centre_is_the_transformers(task):
    support, query = centre_and_normalize(*task, "task")
    for t in range(2):
        together = CentreAndNormalise().fit_transform(np.concatenate([task[0][t], task[1][t]]))
        assert_allclose(np.concatenate([support[t], query[t]]), together, atol=1e-12)


def test_support_centre_leaves_queries_out(task):
    support, query = task
    moved = query + 100.0
    assert_array_equal(
        centre_and_normalize(support, query, "support")[0], centre_and_normalize(support, moved, "support")[0]
    )
    assert_allclose(centre_and_normalize(support, support.mean(axis=1, keepdims=True), "support")[1], 0.0)


def test_row_equal_to_the_mean_has_no_direction():
    """In single precision the difference is rounding, which would otherwise be blown up to unit length."""
    rows = np.full((1, 6, 300), 0.1, dtype=np.float32)
    support, query = centre_and_normalize(rows[:, :3], rows[:, 3:], "task")
    assert not support.any()
    assert not query.any()


def test_power_transform_takes_negative_features():
    assert_allclose(power_transform(np.array([[[4.0, 0.0, -3.0]]]), 0.5), [[[2.0, 1e-3, 1e-3]]], rtol=1e-6)


def test_inputs_stay_as_they_were(task):
    copies = [a.copy() for a in task]
    centre_and_normalize(*task, "task")
    l2_normalize(task[0])
    power_transform(task[1], 0.5)
    for a, copy in zip(task, copies, strict=True):
        assert_array_equal(a, copy)
