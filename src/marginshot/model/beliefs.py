"""Beliefs about the class of each row that come from elsewhere: class names, a language model, an old model, a column.

Logarithms ℓ of the beliefs are one more term of the answers, and of the mixture's assignments. How far their source is
to be trusted is shown by the labelled rows, which it did not see: the factor a maximises

    Σ_labelled w log softmax(a ℓ)[label] − s/2 (log a)²

A source that is too sure of itself gets a < 1. Without beliefs about labelled rows a = 1: the beliefs as they are.
Labels that are hidden in turn then weigh them beside the experts (`marginshot.model.stacking`).

Arrays of a batch have a leading axis of tasks, written (...); those of one task have none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from marginshot.model.stacking import STRENGTH

Array = NDArray[np.float64]

# No source is surer than this that a row is not of a class: one that gives zeros may still be wrong.
_LEAST_BELIEF = 1e-6
_FACTORS = np.exp(np.linspace(-3.0, 3.0, 61))


def log_beliefs(beliefs: Array) -> Array:
    """Logarithms of ``beliefs`` (..., M, N), rows of sum 1, with mean 0 over the classes.

    Examples
    --------
    >>> log_beliefs(np.array([[0.5, 0.5], [1.0, 0.0]])).round(1)
    array([[ 0. ,  0. ],
           [ 6.9, -6.9]])
    """
    logs = np.log(np.maximum(beliefs, _LEAST_BELIEF))
    return np.asarray(logs - logs.mean(axis=-1, keepdims=True))


def trust_of(logs: Array, labels: NDArray[np.integer], weights: Array) -> Array:
    """Factor a (...) of the ``logs`` (..., n, N) of beliefs about rows with ``labels`` and ``weights`` (..., n).

    Examples
    --------
    >>> right, wrong = log_beliefs(np.eye(2)[[0, 1] * 20]), log_beliefs(np.eye(2)[[1, 0] * 20])
    >>> trust_of(np.stack((right, wrong)), np.array([[0, 1] * 20] * 2), np.ones((2, 40))).round(2)
    array([1.  , 0.05])
    """
    likely = np.stack([_log_likelihood(factor * logs, labels, weights) for factor in _FACTORS])
    penalty = STRENGTH / 2.0 * np.log(_FACTORS) ** 2
    return np.asarray(_FACTORS[np.argmax(likely - penalty.reshape(-1, *(1,) * (likely.ndim - 1)), axis=0)])


def _log_likelihood(logits: Array, labels: NDArray[np.integer], weights: Array) -> Array:
    own = np.take_along_axis(log_softmax(logits, axis=-1), labels[..., None], axis=-1)[..., 0]
    return np.asarray((weights * own).sum(axis=-1))
