"""Arrays that `fit` was not meant for: probabilities are finite, or one sentence says which argument is wrong."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from marginshot import TransductiveMaxMarginClassifier

N_ROWS = 60


@pytest.fixture
def rows():
    X = np.random.default_rng(0).normal(size=(N_ROWS, 8))
    X[:20] += 2.0
    X[20:40] -= 2.0
    y = np.full(N_ROWS, -1)
    y[[0, 1, 2, 20, 21, 22, 40, 41]] = [0, 0, 0, 1, 1, 1, 2, 2]
    return X, y


def fitted(X, y, preset="auto", **more):
    return TransductiveMaxMarginClassifier.from_preset(preset).fit(X, y, **more)


@pytest.mark.parametrize("preset", ["auto", "balanced", "printed"])
@pytest.mark.parametrize("n_groups", [1, 2])
def test_no_unlabelled_row_may_be_of_a_group_without_a_label(rows, preset, n_groups):
    """Every answer was NaN: no row was left to tell how sure the answers may be."""
    answers = fitted(*rows, preset, groups=np.arange(N_ROWS) % n_groups).predict_proba(rows[0])
    assert_allclose(answers.sum(axis=1), 1.0)


@pytest.mark.parametrize("name", ["X", "y", "sample_weight", "groups"])
def test_masks_are_not_dropped(rows, name):
    X, y = rows
    given = {"X": X, "y": y, "sample_weight": np.ones(N_ROWS), "groups": np.arange(N_ROWS)}
    given[name] = np.ma.masked_array(given[name], np.isin(np.arange(given[name].size), [3]).reshape(given[name].shape))
    with pytest.raises(ValueError, match=f"{name} has 1 masked values"):
        fitted(**given)


def test_new_rows_may_not_be_masked(rows):
    X, y = rows
    with pytest.raises(ValueError, match="X has 9 masked values"):
        fitted(X, y).predict(np.ma.masked_array(X, np.arange(X.size).reshape(X.shape) < 9))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.full(N_ROWS, 1e308), "got 1e\\+308"),
        (np.where(np.arange(N_ROWS) == 0, 1e200, 1e-200), "got 1e\\+200"),
        (np.where(np.arange(N_ROWS) == 1, np.inf, 1.0), "got inf"),
        (np.where(np.arange(N_ROWS) == 1, np.nan, 1.0), "got nan"),
        (np.ones(N_ROWS) * 1j, "sample_weight must be real numbers; got dtype complex128"),
        (["many"] * N_ROWS, "sample_weight must be real numbers; got dtype <U4"),
    ],
)
def test_weights_that_no_sum_can_hold_are_refused(rows, weights, words):
    with pytest.raises(ValueError, match=words):
        fitted(*rows, sample_weight=weights)


def test_the_largest_weights_beside_the_smallest_give_probabilities(rows):
    weights = np.where(np.arange(N_ROWS) % 2, 1e9, 1e-9)
    assert_allclose(fitted(*rows, sample_weight=weights).predict_proba(rows[0]).sum(axis=1), 1.0)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([np.nan] * N_ROWS, "row 0 has none"),
        (["a"] * 5 + [None] * (N_ROWS - 5), "row 5 has none"),
        ([1, "a"] * (N_ROWS // 2), None),
        (np.array([{}] * N_ROWS, dtype=object), "groups must be numbers, or texts, that can be sorted"),
    ],
)
def test_groups_are_named_for_every_row(rows, groups, words):
    if words is None:  # NumPy makes texts of them
        fitted(*rows, groups=groups)
        return
    with pytest.raises(ValueError, match=words):
        fitted(*rows, groups=groups)
