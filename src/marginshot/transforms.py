"""Transformations of features before a classifier sees them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone

Array = NDArray[np.floating]


class CentreAndNormalise(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """CL2N: subtract the mean of the rows seen by `fit`, then scale each row to unit length (paper, section 4.4).

    A row that equals the mean has no direction and stays zero.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)

    Examples
    --------
    >>> CentreAndNormalise().fit_transform(np.array([[0.0, 0.0], [2.0, 0.0]]))
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    def fit(self, X: Array, y: object = None) -> Self:
        """Store the mean of ``X`` (n_rows, n_features)."""
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        return self

    def transform(self, X: Array) -> Array:
        """Centred rows of unit length, (n_rows, n_features)."""
        centred = X - self.mean_.astype(X.dtype)
        length = np.sqrt(np.einsum("ij,ij->i", centred, centred))[:, None]
        out: Array = np.zeros_like(centred)
        np.divide(centred, length, out=out, where=length > rounding_length(self.mean_.astype(X.dtype)))
        return out


def rounding_length(mean: Array) -> Array:
    """Length that rounding alone can give to a row equal to ``mean`` (..., D); its direction means nothing."""
    size = np.abs(mean).max(axis=-1, initial=0.0) * np.sqrt(mean.shape[-1])
    return np.asarray(4.0 * np.finfo(mean.dtype).eps * size)


def make_transform(transform: Any) -> Any:
    """The transformer meant by ``feature_transform``: "cl2n", None, or an unfitted transformer, which is cloned."""
    if transform is None:
        return None
    if isinstance(transform, str) and transform == "cl2n":
        return CentreAndNormalise()
    if hasattr(transform, "fit") and hasattr(transform, "transform"):
        return clone(transform)
    raise ValueError(
        f'feature_transform must be "cl2n", None or a transformer with fit and transform; got {transform!r}.'
    )
