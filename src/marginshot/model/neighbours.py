"""Neighbours inside the kernel: each row is averaged with its nearest neighbours before the planes are fitted.

    x ← (1 − a) x + a · mean of the n_neighbors rows nearest to x,     a = 1/2 / sqrt(shots a class)

and the rows are centred and scaled to unit length again. On inner products this is K ← P K Pᵀ with P = (1 − a) I + a W,
W the averaging matrix. It is not in the paper. With one shot the few labelled rows are poor representatives of their
classes, and their neighbourhoods better ones; with more shots that matters less, so a falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginshot.classifier.settings import Settings
from marginshot.data.labels import Labelled
from marginshot.model.neighbour_search import nearest_of_each, nearest_stored
from marginshot.model.transforms import CentreAndNormalise, scale_inner_products

Array = NDArray[np.floating]
Grams = NDArray[np.float32]

_SAME = 1e-6  # rows of unit length nearer than this are one row
LEAST_LENGTH = 1e-5  # of a row, after averaging, that still has a direction


def check_neighbours(settings: Settings, transformer: Any) -> None:
    """Neighbours are searched among rows of unit length, which only "cl2n", "power" and "discriminant" promise."""
    if settings.n_neighbors and not isinstance(transformer, CentreAndNormalise):
        raise ValueError(
            f'n_neighbors={settings.n_neighbors} needs feature_transform="cl2n", "power" or "discriminant"; set one.'
        )


def neighbour_weight(n_support: int, n_classes: int) -> float:
    """Weight a of the neighbours, 1/2 at one shot a class.

    Examples
    --------
    >>> neighbour_weight(5, 5), neighbour_weight(20, 5)
    (0.5, 0.25)
    """
    return float(0.5 / np.sqrt(shots_a_class(n_support, n_classes)))


def neighbours_in_task(n_neighbors: int, n_support: int, n_rows: int, n_classes: int) -> int:
    """Neighbours of a row in a task of few rows: as many others as a class has, or a quarter of the queries has.

    Those farther away are of other classes. Instead of one there are none: rows averaged with each other are one row.

    Examples
    --------
    >>> neighbours_in_task(8, 10, 20, 10), neighbours_in_task(8, 10, 30, 10), neighbours_in_task(8, 5, 80, 5)
    (0, 4, 8)
    """
    near = max(n_rows // n_classes, (n_rows - n_support) // 4) - 1
    return min(n_neighbors, near) if near > 1 else 0


def neighbours_among(n_neighbors: int, n_rows: int) -> int:
    """Neighbours of a row among so few: at most half of the others.

    Two rows averaged with each other would be one.

    Examples
    --------
    >>> neighbours_among(8, 2), neighbours_among(8, 11), neighbours_among(8, 100)
    (0, 5, 8)
    """
    return max(min(n_neighbors, (n_rows - 1) // 2), 0)


def shots_a_class(n_support: int, n_classes: int) -> float:
    """Labelled rows a class, on average and at least 1."""
    return max(n_support / n_classes, 1.0)


class TaskNeighbours(NamedTuple):
    """Neighbours of the rows of small tasks, found once for all who ask.

    A row without direction (zero) has none, and is nobody's.

    Attributes
    ----------
    nearest : ndarray of int of shape (T, M, k)
        Their places, the nearest first.
    products : ndarray of shape (T, M, k)
        Their inner products with the row.
    counts : ndarray of int of shape (T, M)
        How many there are: what lies beyond is not set.
    """

    nearest: NDArray[np.int64]
    products: Grams
    counts: NDArray[np.int64]

    @classmethod
    def find(cls, inner: Grams, n_neighbors: int) -> TaskNeighbours:
        """Of unit rows with inner products (T, M, M)."""
        from marginshot.batch.neighbours_compiled import find_neighbours  # imports numba

        shape = (*inner.shape[:2], neighbours_among(n_neighbors, inner.shape[1]))
        found = cls(np.empty(shape, np.int64), np.empty(shape, np.float32), np.empty(shape[:2], np.int64))
        find_neighbours(inner, *found)
        return found


def smooth_grams(inner: Grams, n_neighbors: int, weight: float) -> Grams:
    """Inner products (T, M, M) of unit rows, after averaging with neighbours, centring and scaling to unit length.

    A row without direction (zero) has no neighbours and stays zero.
    """
    inner = inner.astype(np.float32, copy=False)
    n_rows = inner.shape[1]
    k = neighbours_among(n_neighbors, n_rows)
    if not k:
        return inner
    diagonal = np.arange(n_rows)
    empty = inner[:, diagonal, diagonal] == 0
    others = inner.copy()
    others[:, diagonal, diagonal] = -np.inf
    others = np.where(empty[:, None, :], np.float32(-np.inf), others)
    threshold = np.partition(others, n_rows - k, axis=2)[:, :, n_rows - k, None]
    near = ((others >= threshold) & np.isfinite(others)).astype(np.float32)
    count = near.sum(axis=2, keepdims=True)
    alone = (count == 0) | empty[:, :, None]
    averaging = np.where(alone, np.float32(0.0), near * (np.float32(weight) / np.maximum(count, 1)))
    averaging[:, diagonal, diagonal] += np.where(alone[:, :, 0], 1.0, 1.0 - weight).astype(np.float32)
    return _centre_and_scale(averaging @ inner @ averaging.transpose(0, 2, 1), ~empty)


def unit_grams(grams: NDArray[np.floating]) -> NDArray[np.floating]:
    """Kernel matrices (T, M, M) of any kernel, as if of rows centred and scaled to unit length."""
    return _centre_and_scale(grams.copy(), np.einsum("tii->ti", grams) > 0)


def _centre_and_scale(grams: Any, filled: NDArray[np.bool_]) -> Any:
    """The same in place; rows that are not ``filled`` (T, M) become zero."""
    mean = grams.mean(axis=2, keepdims=True)
    grams += grams.mean(axis=(1, 2), keepdims=True) - mean - mean.transpose(0, 2, 1)
    lengths = np.sqrt(np.maximum(np.einsum("tii->ti", grams), 0.0))
    scale_inner_products(grams, lengths, (lengths > LEAST_LENGTH) & filled)
    return grams


def mean_of_rows(stored: Array, chosen: NDArray[np.int64]) -> Array:
    """Mean (n, D) of the rows ``chosen`` (n, k), one after the other: k tables at once would not fit a cache."""
    total = stored[chosen[:, 0]]
    for place in range(1, chosen.shape[1]):
        total += stored[chosen[:, place]]
    return total / chosen.shape[1]


@dataclass(frozen=True)
class Neighbourhood:
    """Where later rows lie among the rows of `fit`.

    Attributes
    ----------
    filled : ndarray of bool of shape (n,)
        Rows that have a direction; the other attributes speak of these alone.
    nearest : ndarray of int of shape (f, k)
        Places of their neighbours among the rows stored, the nearest first.
    same : ndarray of int of shape (f,)
        Place of the stored row that a row equals, −1 where there is none. Its neighbours are those found by `fit`.
    """

    filled: NDArray[np.bool_]
    nearest: NDArray[np.int64]
    same: NDArray[np.int64]


class NeighbourSmoothing:
    """Averaging with neighbours on the rows themselves, for one task, and for rows that come later.

    Parameters
    ----------
    n_neighbors : int
    weight : float
        Weight a of the neighbours.
    """

    def __init__(self, n_neighbors: int, weight: float) -> None:
        self.n_neighbors = n_neighbors
        self.weight = weight
        self.finish = CentreAndNormalise()

    @classmethod
    def of_task(cls, n_neighbors: int, n_rows: int, known: Labelled) -> NeighbourSmoothing | None:
        """For a task of ``n_rows``, of which some are ``known``; None without neighbours."""
        n_support, n_classes = len(known.index), len(known.classes)
        few = neighbours_in_task(n_neighbors, n_support, n_rows, n_classes)
        return cls(few, neighbour_weight(n_support, n_classes)) if few else None

    def fit_transform(self, rows: Array) -> Array:
        """Remember unit rows (M, D) and their neighbours; return them smoothed, centred and of unit length."""
        self.filled = filled = np.asarray(rows.any(axis=1))
        self.rows = rows if filled.all() else rows[filled]
        self.neighbours = nearest_of_each(self.rows, neighbours_among(self.n_neighbors, len(self.rows)))
        smooth = rows.copy()
        smooth[filled] = self._mix(self.rows, self.neighbours)
        self.finish.learn(smooth)
        return self._finished(smooth, filled)

    def average(self, chosen: NDArray[np.int64], lengths: Array) -> Array:
        """Rows ``chosen`` (c,) of `fit`, averaged with the neighbours found, of their own lengths.

        ``lengths`` (M,) are those the rows of `fit` had before they were scaled to unit length.
        """
        own = lengths[self.filled][:, None]
        averaged = np.zeros((len(chosen), self.rows.shape[1]), dtype=self.rows.dtype)
        filled = self.filled[chosen]
        places = (np.cumsum(self.filled) - 1)[chosen[filled]]
        averaged[filled] = own[places] * self.rows[places]
        k = self.neighbours.shape[1]
        if k:
            near = self.neighbours[places]
            mean = sum(own[near[:, place]] * self.rows[near[:, place]] for place in range(k)) / k
            averaged[filled] = (1.0 - self.weight) * averaged[filled] + self.weight * mean
        return averaged

    def look_around(self, rows: Array) -> Neighbourhood:
        """Neighbours of later unit rows (n, D) among those of `fit`."""
        filled = np.asarray(rows.any(axis=1))
        k = self.neighbours.shape[1]
        found = rows[filled]
        nearest = nearest_stored(self.rows, k, found)
        same = np.full(len(found), -1)
        if k:
            own = nearest[:, 0]
            known = np.linalg.norm(self.rows[own] - found, axis=1) <= _SAME
            nearest[known], same[known] = self.neighbours[own[known]], own[known]
        return Neighbourhood(filled, nearest, same)

    def transform(self, rows: Array, around: Neighbourhood) -> Array:
        """Unit rows (n, D) smoothed by their neighbours, which `look_around` found."""
        smooth = rows.copy()
        smooth[around.filled] = self._mix(rows[around.filled], around.nearest)
        return self._finished(smooth, around.filled)

    def _mix(self, rows: Array, neighbours: NDArray[np.int64]) -> Array:
        if not neighbours.shape[1]:
            return rows
        return (1.0 - self.weight) * rows + self.weight * mean_of_rows(self.rows, neighbours)

    def _finished(self, smooth: Array, filled: Any) -> Array:
        finished = self.finish.unit_rows(smooth)[0]
        finished[~filled] = 0.0
        return finished


def restore_smoothing(
    n_neighbors: int, weight: float, rows: Array, neighbours: NDArray[np.int64], mean: NDArray[np.float64]
) -> NeighbourSmoothing:
    """A fitted `NeighbourSmoothing` from what was saved of it."""
    smoothing = NeighbourSmoothing(n_neighbors, weight)
    smoothing.rows, smoothing.neighbours, smoothing.finish.mean_ = rows, neighbours, mean
    return smoothing
