"""The objective: by hand, by finite differences, compiled against NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime

from marginshot.objectives.margin import MarginLoss, one_vs_rest
from marginshot.objectives.margin_compiled import decay, log1p, margin_loss
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


@pytest.mark.parametrize("scale", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("n_query", [0, 1, 30])
def test_compiled_equals_numpy(scale, n_query):
    loss = make_loss()
    scores = scale * np.random.default_rng(2).normal(size=(5 + n_query, 3))
    expected, expected_slope = loss(scores)
    for c in range(3):
        slope = np.empty(5 + n_query)
        params = (loss.signs[:, c].copy(), loss.weights[:, c].copy(), 20.0, 2.0, 0.7)
        assert_allclose(margin_loss(scores[:, c].copy(), params, slope), expected[c], rtol=1e-12)
        assert_allclose(slope, expected_slope[:, c], rtol=1e-10, atol=1e-15)


def test_compiled_exponential_and_logarithm():
    x = np.linspace(-39.9, 0, 2000)
    assert_allclose([decay(v) for v in x], np.exp(x), rtol=0, atol=1e-14)
    assert decay(-1e300) == decay(-40.0) < 5e-18
    u = np.linspace(0, 1, 1000)
    assert_allclose([log1p(v) for v in u], np.log1p(u), rtol=1e-14)
