"""The objective: by hand, by finite differences, compiled against NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime

from marginshot.model.margin import MarginLoss, one_vs_rest
from marginshot.solvers.exponentials_compiled import decay, log1p
from marginshot.solvers.margin_compiled import margin_loss
from reference.scipy_fs_tmmc import ClassProblem


def make_loss(lambda2=0.7, labels=(0, 0, 1, 2, 1)):
    signs, weights = one_vs_rest(np.array(labels), 3)
    return MarginLoss(signs, weights, gamma1=20.0, gamma2=2.0, lambda2=lambda2)


def test_value_worked_by_hand():
    # Two support points on the margin: w_i / n = 1/2 each, log(2)/γ1 apiece; one query at 0 and one at 1.
    signs, weights = one_vs_rest(np.array([1, 0]), 2)
    loss, _ = MarginLoss(signs, weights, gamma1=20.0, gamma2=2.0, lambda2=3.0)(
        np.array([[-1.0, 1.0], [1.0, -1.0], [0.0, 0.0], [1.0, 1.0]])
    )
    assert_allclose(loss, np.full(2, np.log(2) / 20 + 3 * (1 + np.exp(-2)) / 2))


def test_both_sides_of_a_problem_weigh_the_same():
    signs, weights = one_vs_rest(np.array([0, 0, 0, 1, 2]), 3)
    for c in range(3):
        assert_allclose(weights[signs[:, c] > 0, c].sum(), 0.5)
        assert_allclose(weights[signs[:, c] < 0, c].sum(), 0.5)


def test_slope_against_finite_differences():
    loss = make_loss()
    scores = np.random.default_rng(0).normal(size=(12, 3))
    _, slope = loss(scores)
    for c in range(3):

        def of_column(column, c=c):
            changed = scores.copy()
            changed[:, c] = column
            return loss(changed)[0][c]

        assert_allclose(slope[:, c], approx_fprime(scores[:, c], of_column, 1e-7), atol=1e-6)


def test_gradient_of_the_whole_objective_against_finite_differences():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(9, 4))
    problem = ClassProblem(rows @ rows.T, np.array([0, 1, 0]), 1, offset=-0.4)
    alpha = 0.1 * rng.normal(size=9)
    assert_allclose(
        problem.gradient(alpha, 0.5), approx_fprime(alpha, lambda a: problem.value(a, 0.5), 1e-7), atol=1e-5
    )
    # Ours, in function space, is the same gradient before the product with K.
    signs, weights = one_vs_rest(np.array([0, 1, 0]), 2)
    _, slope = MarginLoss(signs, weights, 20.0, 2.0, 0.5)(np.tile(problem.scores(alpha)[:, None], 2))
    assert_allclose(problem.gram @ (0.04 * alpha + slope[:, 1]), problem.gradient(alpha, 0.5), rtol=1e-10)


@pytest.mark.parametrize(("precision", "rtol"), [(np.float64, 1e-12), (np.float32, 1e-5)])
@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("n_query", [0, 1, 30])
def test_compiled_equals_numpy(scale, n_query, precision, rtol):
    loss = make_loss()
    scores = scale * np.random.default_rng(2).normal(size=(5 + n_query, 3))
    expected, expected_slope = loss(scores)
    query_weights = np.repeat([0.0, 1 / max(n_query, 1)], [5, n_query]).astype(precision)
    for c in range(3):
        signs, weights = loss.signs[:, c].astype(precision), loss.weights[:, c].astype(precision)
        params = (signs, weights, query_weights, 20.0, 2.0, 0.7)
        slope, room = np.empty((2, 5 + n_query), dtype=precision)
        value = margin_loss(scores[:, c].astype(precision), params, slope, room)
        assert_allclose(value, expected[c], rtol=rtol)
        assert_allclose(slope, expected_slope[:, c], rtol=100 * rtol, atol=rtol / 10)


def test_rows_of_weight_zero_add_nothing():
    rng = np.random.default_rng(3)
    scores, signs, weights = rng.normal(size=8), np.sign(rng.normal(size=8)), np.array([0.5, 0.5, 0, 0, 0, 0, 0, 0])
    query_weights, slope, room = np.repeat([0.0, 0.25, 0.0], [2, 4, 2]), np.empty(8), np.empty(8)
    value = margin_loss(scores, (signs, weights, query_weights, 20.0, 2.0, 0.7), slope, room)
    short = (signs[:2], weights[:2], query_weights[:6], 20.0, 2.0, 0.7)
    assert_allclose(value, margin_loss(scores[:6], short, np.empty(6), room[:6]), rtol=1e-12)
    assert not slope[6:].any()


@pytest.mark.parametrize(("precision", "atol", "rtol"), [(np.float64, 1e-14, 1e-14), (np.float32, 5e-6, 5e-7)])
def test_compiled_exponential_and_logarithm(precision, atol, rtol):
    x = np.linspace(-39.9, 0, 2000, dtype=precision)
    assert_allclose([decay(v, precision) for v in x], np.exp(x, dtype=np.float64), rtol=0, atol=atol)
    assert decay(precision(-1e30), precision) == decay(precision(-40.0), precision) < 5e-18
    u = np.linspace(0, 1, 1000, dtype=precision)
    assert_allclose([log1p(v, precision) for v in u], np.log1p(u, dtype=np.float64), rtol=rtol)
