"""The rows of the golden cases: generated ones, and those of the shared features.

A generated class is a bent, flattened cloud: a parabola in a plane of its own, with noise that is longer in some
directions than in others. Only the uniform and normal draws of NumPy's generator are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

N_LATER = 40


@dataclass(frozen=True)
class Rows:
    """Tasks over one table of rows; every row of a single task belongs to it.

    Parameters
    ----------
    table : ndarray of shape (n_rows, D)
    support, query : ndarray of int of shape (T, n_support) and (T, n_query)
        Rows of the table.
    labels : ndarray of int of shape (T, n_support)
    truth : ndarray of int of shape (T, n_query)
        For looking at accuracies; no answer is computed from it.
    later : ndarray of shape (N_LATER, D)
        Rows of the classes of the first task that `fit` does not see.
    """

    table: np.ndarray
    support: np.ndarray
    labels: np.ndarray
    query: np.ndarray
    truth: np.ndarray
    later: np.ndarray

    def with_noise(self, level: float) -> Rows:
        """The table with relative noise, in double precision: answers that move with it are no golden ones."""
        noise = np.random.default_rng(0).standard_normal(self.table.shape)
        table = self.table.astype(np.float64) * (1 + level * noise)
        return Rows(table, self.support, self.labels, self.query, self.truth, self.later)


@dataclass(frozen=True, kw_only=True)
class Generated:
    """Tasks of generated classes.

    Parameters
    ----------
    distance : float
        Length of the class centres, against noise of unit variance on average: larger is easier.
    unbalanced : bool
        Class shares from a Dirichlet distribution of parameter 2 instead of equal ones.
    odd : str
        "" for plain rows; "duplicates" repeats a third of the queries; "directionless" has rows at the mean of all,
        exactly: values are multiples of 1/64 and sum to zero.
    """

    n_classes: int
    n_shot: int
    n_query: int
    distance: float
    n_features: int = 32
    n_tasks: int = 1
    unbalanced: bool = False
    odd: str = ""
    dtype: str = "float64"
    seed: int = 0

    def rows(self) -> Rows:
        """The tasks, one after the other in the table."""
        rng = np.random.default_rng(self.seed)
        parts = [self._task(rng) for _ in range(self.n_tasks)]
        starts = len(parts[0][0]) * np.arange(self.n_tasks)[:, None]
        table, support, query, truth, later = (list(part) for part in zip(*parts, strict=True))
        labels = np.tile(np.repeat(np.arange(self.n_classes), self.n_shot), (self.n_tasks, 1))
        table = np.concatenate(table).astype(self.dtype)
        return Rows(table, support + starts, labels, query + starts, np.array(truth), later[0].astype(self.dtype))

    def _task(self, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Rows in random order, the places of support and queries in them, the queries' classes, and later rows."""
        shares = -np.log(rng.random((2, self.n_classes))).sum(axis=0) if self.unbalanced else np.ones(self.n_classes)
        bounds = np.round(np.cumsum(shares / shares.sum()) * self.n_query).astype(int)
        truth = np.searchsorted(bounds, np.arange(self.n_query), side="right")
        shots = np.repeat(np.arange(self.n_classes), self.n_shot)
        classes = np.concatenate([shots, truth, np.arange(N_LATER) % self.n_classes])
        drawn = _clouds(rng, classes, self.n_classes, self.n_features, self.distance)
        rows, later = drawn[:-N_LATER], drawn[-N_LATER:]
        if self.odd == "duplicates":
            rows[len(shots) + 2 :: 3] = rows[len(shots) + 1 : -1 : 3][: len(rows[len(shots) + 2 :: 3])]
        if self.odd == "directionless":
            rows = np.round((rows - rows.mean(axis=0)) * 64) / 64
            rows[len(shots) : len(shots) + 3] = 0
            rows[-1] -= rows.sum(axis=0)
        order = rng.permutation(len(rows))
        places = np.argsort(order)
        return rows[order], places[: len(shots)], places[len(shots) :], truth, later


def _clouds(
    rng: np.random.Generator, classes: np.ndarray, n_classes: int, n_features: int, distance: float
) -> np.ndarray:
    """A row of a bent cloud for each of ``classes`` (n,): (n, D)."""
    centres, along, bend = rng.standard_normal((3, n_classes, n_features)) / np.sqrt(n_features)
    scales = np.exp(0.7 * rng.standard_normal((n_classes, n_features)))
    scales /= np.sqrt((scales**2).mean(axis=1, keepdims=True))
    place = 4 * rng.random(len(classes))[:, None] - 2
    noise = scales[classes] * rng.standard_normal((len(classes), n_features))
    return distance * centres[classes] + 2 * place * along[classes] + place**2 * bend[classes] + noise


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Tasks drawn from a file of the shared features; ``n_query`` is per class."""

    file: str
    n_classes: int
    n_shot: int
    n_query: int
    n_tasks: int = 1
    seed: int = 0

    def rows(self, folder: Path) -> Rows:
        """The tasks; their table is the whole file for a batch, the rows of the task for one."""
        with np.load(folder / f"{self.file}.npz") as arrays:
            X, y = arrays["X"].astype(np.float32), arrays["y"]
        rng = np.random.default_rng(self.seed)
        n_picked = self.n_shot + self.n_query
        picks = np.array([self._picks(rng, y, n_picked + N_LATER // self.n_classes) for _ in range(self.n_tasks)])
        support = picks[:, :, : self.n_shot].reshape(self.n_tasks, -1)
        query = picks[:, :, self.n_shot : n_picked].reshape(self.n_tasks, -1)
        later = X[picks[0, :, n_picked:].ravel()]
        if self.n_tasks == 1:
            used = rng.permutation(np.concatenate([support[0], query[0]]))
            place = np.empty(len(X), dtype=int)
            place[used] = np.arange(len(used))
            X, support, query = X[used], place[support], place[query]
        labels, truth = (
            np.tile(np.repeat(np.arange(self.n_classes), n), (self.n_tasks, 1)) for n in (self.n_shot, self.n_query)
        )
        return Rows(X, support, labels, query, truth, later)

    def _picks(self, rng: np.random.Generator, y: np.ndarray, n_each: int) -> np.ndarray:
        """Different rows of the file for each of some classes, (n_classes, n_each)."""
        classes = rng.permutation(np.unique(y))[: self.n_classes]
        return np.array([rng.permutation(np.flatnonzero(y == c))[:n_each] for c in classes])
