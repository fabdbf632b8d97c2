"""Softmax regression in the kernel's space: the inductive expert, which sees the labelled rows alone.

One-versus-rest planes are fitted class by class. From some ten labels a class on, planes fitted together under a
softmax are better. The logits of row x are Σ_i k(x, x_i) A_ic, and A minimises

    Σ_i w_i · cross-entropy_i + 1/(2C) tr(AᵀKA)

There is no intercept, and each class has the same total weight: the number of labels of a class shows what a person
looked at, not how large the class is.

The bound of Böhning (1992) on the Hessian of a softmax, one half, turns each step into a linear system that stays the
same: it is inverted once. Every task takes the same number of steps, so that its answer does not depend on its batch.

Arrays of a batch have a leading axis of tasks, written (...); those of one task have none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

Array = NDArray[np.float64]

# C of scikit-learn's `LogisticRegression`; the same as that of the logistic regression in benchmarks/folders.py.
C = 10.0
_STEPS = 15  # after these the mean largest probability is within 0.02 of its limit; more steps gain no accuracy


def fit_regression(gram: NDArray[np.floating], labels: NDArray[np.int64], weights: Array, n_classes: int) -> Array:
    """Coefficients A (..., n, N) over the labelled rows.

    Parameters
    ----------
    gram : ndarray of shape (..., n, n)
        Kernel matrix of the labelled rows.
    labels : ndarray of int of shape (..., n)
        Each class occurs.
    weights : ndarray of shape (..., n)
        Weight of each row among those of its class.
    n_classes : int

    Examples
    --------
    >>> rows = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> coef = fit_regression(rows @ rows.T, np.array([0, 1]), np.ones(2), 2)
    >>> softmax(rows @ rows.T @ coef, axis=1).round(2)
    array([[0.89, 0.11],
           [0.11, 0.89]])
    """
    members = (labels[..., None] == np.arange(n_classes)).astype(np.float64)
    of_class = np.einsum("...nc,...n->...c", members, weights)
    shots = labels.shape[-1] / n_classes
    strength = C * shots * weights[..., None] / np.take_along_axis(of_class, labels, axis=-1)[..., None]
    kernel = np.asarray(gram, dtype=np.float64)
    inverse = np.linalg.inv(np.eye(kernel.shape[-1]) + 0.5 * strength * kernel)
    coef = np.zeros_like(members)
    for _ in range(_STEPS):
        logits = kernel @ coef
        coef = inverse @ (strength * (members - softmax(logits, axis=-1) + 0.5 * logits))
    return coef
