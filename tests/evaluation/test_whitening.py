"""Whitening by base statistics: what it does to a scatter, and what it refuses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from marginshot.data.features import FeatureBank
from marginshot.evaluation.whitening import WithinClassWhitening, whiten


def bank(classes, *, source="novel.npz", width=3, seed=0):
    """Ten rows a class that vary much along the first feature within a class."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(classes)), 10)
    X = rng.normal(size=(len(classes), width))[y] + rng.normal(size=(len(y), width)) * [5.0, *[0.5] * (width - 1)]
    return FeatureBank(X=X.astype(np.float32), y=y, classes=tuple(classes), source=source)


def test_little_shrinkage_makes_the_scatter_within_classes_round():
    base = bank("abcd")
    X = WithinClassWhitening(shrinkage=1e-9).fit(base.X, base.y).transform(base.X.astype(np.float64))
    within = X - np.stack([X[base.y == c].mean(axis=0) for c in range(4)])[base.y]
    assert_allclose(within.T @ within / len(X), np.eye(3), atol=1e-5)


def test_much_shrinkage_leaves_directions_alone():
    base = bank("abcd")
    whitening = WithinClassWhitening(shrinkage=1e9).fit(base.X, base.y)
    assert_allclose(whitening.components_ / whitening.components_[0, 0], np.eye(3), atol=1e-6)


def test_classes_of_different_size_count_alike_for_the_mean():
    X = np.array([[0.0], [0.2], [0.1], [0.1], [4.0], [6.0]])
    assert_allclose(WithinClassWhitening().fit(X, np.array([0, 0, 0, 0, 1, 1])).mean_, [2.55])


def test_a_bank_keeps_all_but_its_features():
    novel, base = bank("xy", seed=1), bank("abcd", source="base.npz")
    (whitened,) = whiten([novel], base)
    assert whitened.source == "novel.npz, whitened by base.npz"
    assert whitened.classes == novel.classes
    assert whitened.X.dtype == np.float32
    before, after = (rows.X[rows.y == 0].std(axis=0) for rows in (novel, whitened))
    assert after[0] / after[1] < 0.95 * before[0] / before[1]
    assert_allclose(whitened.X, WithinClassWhitening().fit(base.X, base.y).transform(novel.X))
    more = WithinClassWhitening(shrinkage=2.0).fit(base.X, base.y).transform(novel.X)[novel.y == 0].std(axis=0)
    assert more[0] / more[1] < 0.7 * before[0] / before[1]


@pytest.mark.parametrize(
    ("base", "sentence"),
    [
        (bank("abcd", width=4, source="base.npz"), "base.npz has 4 features a row, novel.npz has 3"),
        (bank("abx", source="base.npz"), "1 of base.npz are also in novel.npz, for example 'x'"),
    ],
)
def test_refusals(base, sentence):
    with pytest.raises(ValueError, match=sentence):
        whiten([bank("xy")], base)


def test_one_example_a_class_says_nothing():
    with pytest.raises(ValueError, match="Nothing varies within the 3 base classes"):
        WithinClassWhitening().fit(np.eye(3), np.arange(3))
    with pytest.raises(ValueError, match="shrinkage must be above 0; got -1"):
        WithinClassWhitening(shrinkage=-1.0).fit(np.eye(3), np.arange(3))
