"""Classifier heads whose weights are trained on one task: logits, and their derivative by the weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import class_means, inner_products, one_hot, squared_norms
from marginshot.methods._information import InformationObjective
from marginshot.methods.base import Tasks
from marginshot.model.transforms import Centre, centre_and_normalize
from marginshot.solvers.adam import adam

Array = NDArray[Any]


class Head(Protocol):
    """A head: maps rows and weights (T, N, D), one row a class, to logits."""

    def logits(self, rows: Array, weights: Array) -> Array:
        """(T, M, D), (T, N, D) -> (T, M, N)."""
        ...

    def pull_back(self, rows: Array, weights: Array, slope: Array) -> Array:
        """Derivative by the logits (T, M, N) -> derivative by the weights (T, N, D)."""
        ...


@dataclass(frozen=True)
class CosineHead:
    """``scale · cos(x, w)`` for rows x of unit length; a class whose weights are all zero has logit 0."""

    scale: float

    def logits(self, rows: Array, weights: Array) -> Array:
        """(T, M, D), (T, N, D) -> (T, M, N)."""
        logits = inner_products(rows, weights)
        logits *= (self.scale / _norms(weights)).swapaxes(1, 2)
        return logits

    def pull_back(self, rows: Array, weights: Array, slope: Array) -> Array:
        """Derivative by the logits (T, M, N) -> derivative by the weights (T, N, D)."""
        norms = _norms(weights)
        gradient: Array = np.matmul(slope.swapaxes(1, 2), rows)
        radial = np.einsum("tnd,tnd->tn", gradient, weights)[:, :, None] / norms**2
        gradient -= radial * weights
        gradient *= self.scale / norms
        return gradient


@dataclass(frozen=True)
class OpenCosineHead(CosineHead):
    """A `CosineHead` with one more logit, for none of the classes: minus the mean of the others."""

    def logits(self, rows: Array, weights: Array) -> Array:
        """(T, M, D), (T, N, D) -> (T, M, N + 1)."""
        closed = super().logits(rows, weights)
        return np.concatenate((closed, -closed.mean(axis=2, keepdims=True)), axis=2)

    def pull_back(self, rows: Array, weights: Array, slope: Array) -> Array:
        """Derivative by the logits (T, M, N + 1) -> derivative by the weights (T, N, D)."""
        return super().pull_back(rows, weights, slope[:, :, :-1] - slope[:, :, -1:] / weights.shape[1])


@dataclass(frozen=True)
class EuclideanHead:
    """``−scale/2 · ‖x − w‖²``."""

    scale: float

    def logits(self, rows: Array, weights: Array) -> Array:
        """(T, M, D), (T, N, D) -> (T, M, N)."""
        logits = inner_products(rows, weights)
        logits -= 0.5 * squared_norms(rows)[:, :, None]
        logits -= 0.5 * squared_norms(weights)[:, None, :]
        logits *= self.scale
        return logits

    def pull_back(self, rows: Array, weights: Array, slope: Array) -> Array:
        """Derivative by the logits (T, M, N) -> derivative by the weights (T, N, D)."""
        gradient: Array = np.matmul(slope.swapaxes(1, 2), rows)
        gradient -= slope.sum(axis=1)[:, :, None] * weights
        gradient *= self.scale
        return gradient


def train_head(
    tasks: Tasks,
    head: Head,
    objective: InformationObjective,
    *,
    centre: Centre,
    learning_rate: float,
    n_steps: int,
    start: Array | None = None,
) -> Array:
    """Query logits (T, n_query, N) after training the head with Adam.

    Parameters
    ----------
    tasks : Tasks
    head : Head
    objective : InformationObjective
        Without query terms, training uses the support only.
    centre : {"task", "support", "none"} or array of shape (D,)
        Origin: the point subtracted from every row before it is scaled to unit length.
    learning_rate : float
    n_steps : int
    start : ndarray of shape (T, N, D), optional
        First weights, instead of the means of the classes' centred rows of unit length.
    """
    support, query = centre_and_normalize(tasks.support, tasks.query, centre)
    start = class_means(support, tasks.labels, tasks.n_way) if start is None else start
    n_support, n_logits = support.shape[1], head.logits(support[:, :1], start).shape[2]
    targets = one_hot(tasks.labels, n_logits, support.dtype)
    rows = np.concatenate([support, query], axis=1) if objective.uses_query else support

    def gradient(weights: Array) -> Array:
        logits = head.logits(rows, weights)
        slopes = objective.gradient(logits[:, :n_support], targets, logits[:, n_support:])
        return head.pull_back(rows, weights, np.concatenate(slopes, axis=1))

    weights = adam(gradient, start, learning_rate=learning_rate, n_steps=n_steps)
    return head.logits(query, weights)


def _norms(weights: Array) -> Array:
    """(T, N, D) -> (T, N, 1), with 1 in place of 0."""
    norms = np.sqrt(squared_norms(weights))[:, :, None]
    norms[norms == 0.0] = 1.0
    return norms
