"""Linear heads of scikit-learn: the coordinates they are trained in, and their scores of each class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def support_coordinates(support: NDArray[Any], query: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows in an orthonormal basis of the support's span: inner products with support rows are kept.

    A linear head with a penalty on its norm has its weights in that span, so n_support coordinates replace D features.

    Parameters
    ----------
    support : ndarray of shape (T, n_support, D)
    query : ndarray of shape (T, n_query, D)

    Returns
    -------
    support : ndarray of float64 of shape (T, n_support, min(n_support, D))
    query : ndarray of float64 of shape (T, n_query, min(n_support, D))
    """
    if support.shape[1] >= support.shape[2]:
        return support.astype(np.float64), query.astype(np.float64)
    basis, coordinates = np.linalg.qr(support.swapaxes(1, 2).astype(np.float64))
    return np.ascontiguousarray(coordinates.swapaxes(1, 2)), np.matmul(query.astype(np.float64), basis)


def class_scores(decisions: NDArray[Any]) -> NDArray[Any]:
    """Scores (m, N) from scikit-learn's decisions: (m, N), or (m,) with two classes, the second's less the first's."""
    return decisions if decisions.ndim == 2 else np.stack([-decisions / 2, decisions / 2], axis=1)
