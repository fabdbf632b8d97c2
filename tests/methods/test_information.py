"""The information objective and the heads it is trained through."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad

from marginshot.methods._heads import CosineHead, EuclideanHead
from marginshot.methods._information import InformationObjective

KINDS = [
    InformationObjective(cross_entropy=0.7, marginal=1.3, conditional=0.4),
    InformationObjective(cross_entropy=0.7, marginal=1.3, conditional=0.4, alpha=2.0),
    InformationObjective(cross_entropy=0.7, marginal=1.3, conditional=0.4, alpha=7.0),
    InformationObjective(cross_entropy=1.0, marginal=0.0, conditional=0.0),
]


@pytest.mark.parametrize("objective", KINDS)
@pytest.mark.parametrize("head", [CosineHead(10.0), EuclideanHead(15.0)])
def test_gradient_through_the_head(objective, head):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1, 9, 6))
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    targets = np.eye(3)[[0, 1, 2, 2]][None]

    def value(flat):
        logits = head.logits(rows, flat.reshape(1, 3, 6))
        return objective.value(logits[:, :4], targets, logits[:, 4:])[0]

    def gradient(flat):
        weights = flat.reshape(1, 3, 6)
        logits = head.logits(rows, weights)
        slopes = objective.gradient(logits[:, :4], targets, logits[:, 4:])
        return head.pull_back(rows, weights, np.concatenate(slopes, axis=1)).ravel()

    for _ in range(3):
        start = rng.standard_normal(18)
        assert check_grad(value, gradient, start) < 1e-5 * max(1.0, np.linalg.norm(gradient(start)))


def test_value_worked_by_hand():
    """Support certain to 3/4; one query certain, one undecided between two classes."""
    support = np.log([[[0.75, 0.25]]])
    query = np.log([[[0.5, 0.5], [1.0 - 1e-15, 1e-15]]])
    objective = InformationObjective(cross_entropy=1.0, marginal=2.0, conditional=4.0)
    mean = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25))
    assert_allclose(
        objective.value(support, np.array([[[1.0, 0.0]]]), query), [-np.log(0.75) - 2.0 * mean + 4.0 * np.log(2) / 2]
    )
    tsallis = InformationObjective(cross_entropy=0.0, marginal=2.0, conditional=4.0, alpha=2.0)
    assert_allclose(
        tsallis.value(support, np.array([[[1.0, 0.0]]]), query), [-2.0 * (1 - 0.75**2 - 0.25**2) + 4.0 * 0.5 / 2]
    )


def test_tsallis_tends_to_shannon():
    rng = np.random.default_rng(1)
    logits, targets = rng.standard_normal((1, 5, 4)), np.eye(4)[[0, 1]][None]
    shannon, almost = (
        InformationObjective(cross_entropy=1.0, marginal=1.0, conditional=1.0, alpha=a) for a in (1.0, 1.0 + 1e-6)
    )
    args = logits[:, :2], targets, logits[:, 2:]
    assert_allclose(almost.value(*args), shannon.value(*args), rtol=1e-5)
    assert_allclose(almost.gradient(*args)[1], shannon.gradient(*args)[1], rtol=1e-4, atol=1e-7)


def test_a_class_nobody_chose_stays_finite():
    """EasyFSL's unguarded logarithm of the mean prediction gives NaN here."""
    query = np.array([[[0.0, -2000.0, 1.0], [1.0, -2000.0, 0.0]]], dtype=np.float32)
    objective = InformationObjective(cross_entropy=1.0, marginal=1.0, conditional=0.1)
    support, targets = np.zeros((1, 3, 3), dtype=np.float32), np.eye(3, dtype=np.float32)[None]
    assert np.isfinite(objective.value(support, targets, query)).all()
    assert np.isfinite(objective.gradient(support, targets, query)[1]).all()
