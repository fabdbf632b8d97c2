"""Whitening by base classes: directions that vary within the classes an encoder was trained on count less."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from marginshot.data.features import FeatureBank
from marginshot.model.transforms import class_means

Array = NDArray[np.floating]

_FLOATS = [np.float64, np.float32, np.float16]  # kept as they are; all sums are taken in float64


class WithinClassWhitening(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """x ← (S + s λ̄ I)^(−½) (x − mean), S the scatter within the base classes and λ̄ the mean of its eigenvalues.

    Not in the paper. Directions in which examples of one class differ count less. It is fitted once, on base classes,
    and applied to the features of novel ones before tasks are drawn from them.

    Parameters
    ----------
    shrinkage : float, default=10
        s. Towards infinity all directions count alike, as without whitening.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
    components_ : ndarray of shape (n_features, n_features)
        Symmetric.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where the rows of `fit` had names of strings.

    Examples
    --------
    >>> X = np.array([[9.0, 0.0], [-9.0, 0.0], [9.0, 3.0], [-9.0, 3.0], [0.0, 0.5], [0.0, 1.5]])
    >>> whitening = WithinClassWhitening(shrinkage=0.1).fit(X, np.array([0, 0, 1, 1, 2, 2]))
    >>> whitening.components_.round(1)
    array([[0.1, 0. ],
           [0. , 0.6]])
    """

    def __init__(self, shrinkage: float = 10.0) -> None:
        self.shrinkage = shrinkage

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """``X`` (n_rows, n_features) and labels ``y`` (n_rows,) of base classes."""
        if not self.shrinkage > 0:
            raise ValueError(f"shrinkage must be above 0; got {self.shrinkage:g}.")
        rows, labels = validate_data(self, X, y, dtype=_FLOATS, ensure_min_samples=2)
        check_classification_targets(labels)
        _, classes = np.unique(labels, return_inverse=True)
        means = class_means(rows, classes)
        within = rows - means[classes]
        values, vectors = np.linalg.eigh(within.T @ within / len(rows))
        values = np.maximum(values, 0.0)
        if not values.max() > 0:
            raise ValueError(f"Nothing varies within the {len(means)} base classes: give several examples of each.")
        self.mean_ = means.mean(axis=0)
        self.components_ = (vectors / np.sqrt(values + self.shrinkage * values.mean())) @ vectors.T
        return self

    def transform(self, X: ArrayLike) -> Array:
        """The whitened rows (n_rows, n_features), in the precision of ``X``."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False, dtype=_FLOATS)
        return np.asarray(((rows - self.mean_) @ self.components_).astype(rows.dtype))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def whiten(banks: Sequence[FeatureBank], base: FeatureBank) -> list[FeatureBank]:
    """``banks`` of novel classes, whitened by the statistics of ``base`` ones of the same encoder."""
    for bank in banks:
        _check_pair(bank, base)
    whitening = WithinClassWhitening().fit(base.X, base.y)
    return [
        replace(
            bank,
            X=np.asarray(whitening.transform(bank.X)),
            names=None if bank.names is None else np.asarray(whitening.transform(bank.names), dtype=np.float32),
            source=f"{bank.source}, whitened by {base.source}",
        )
        for bank in banks
    ]


def _check_pair(bank: FeatureBank, base: FeatureBank) -> None:
    if bank.X.shape[1] != base.X.shape[1]:
        raise ValueError(
            f"{base.source} has {base.X.shape[1]} features a row, {bank.source} has {bank.X.shape[1]}: "
            "extract both with one encoder."
        )
    shared = sorted(set(bank.classes) & set(base.classes))
    if shared:
        raise ValueError(
            f"Base classes must not occur among the novel ones; {len(shared)} of {base.source} are also in "
            f"{bank.source}, for example {shared[0]!r}. If they are others, name them: an array `classes` in each file."
        )
