"""Neighbours inside the kernel: each row is averaged with its nearest neighbours before the planes are fitted.

    x ← (1 − a) x + a · mean of the n_neighbors rows nearest to x,     a = 1/2 / sqrt(shots a class)

and the rows are centred and scaled to unit length again. On inner products this is K ← P K Pᵀ with P = (1 − a) I + a W,
W the averaging matrix. It is not in the paper. With one shot the few labelled rows are poor representatives of their
classes, and their neighbourhoods better ones; with more shots that matters less, so a falls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.model.neighbour_search import nearest_of_each, nearest_stored
from marginshot.model.primitives import average, centre_and_scale
from marginshot.model.transforms import CentreAndNormalise

Array = NDArray[np.floating]
Grams = NDArray[np.floating]

_SAME = 1e-6  # rows of unit length nearer than this are equal
LEAST_LENGTH = 1e-5  # of a row, after averaging, that still has a direction


def neighbour_weight(n_support: int, n_classes: int) -> float:
    """Weight a of the neighbours, 1/2 at one shot a class. On validation features ¾ costs 0.35 points, ⅓ 0.15.

    Examples
    --------
    >>> neighbour_weight(5, 5), neighbour_weight(20, 5)
    (0.5, 0.25)
    """
    return float(0.5 / np.sqrt(shots_a_class(n_support, n_classes)))


def neighbours_in_task(n_neighbors: int, n_support: int, n_rows: int, n_classes: int) -> int:
    """Number of neighbours in a small task: at most the other rows of an average class, or of a quarter of the queries.

    Neighbours beyond these are mostly of other classes. Where only one would be left, none is used, because two rows
    averaged with each other become one.

    Examples
    --------
    >>> neighbours_in_task(8, 10, 20, 10), neighbours_in_task(8, 10, 30, 10), neighbours_in_task(8, 5, 80, 5)
    (0, 4, 8)
    """
    near = max(n_rows // n_classes, (n_rows - n_support) // 4) - 1
    return min(n_neighbors, near) if near > 1 else 0


def neighbours_among(n_neighbors: int, n_rows: int) -> int:
    """Number of neighbours of a row among ``n_rows``: ``n_neighbors``, but at most half of the other rows.

    None among two rows, because two rows averaged with each other become one.

    Examples
    --------
    >>> neighbours_among(8, 2), neighbours_among(8, 11), neighbours_among(8, 100)
    (0, 5, 8)
    """
    return max(min(n_neighbors, (n_rows - 1) // 2), 0)


def shots_a_class(n_support: int, n_classes: int) -> float:
    """Labelled rows a class, on average and at least 1."""
    return max(n_support / n_classes, 1.0)


def average_gram(gram: Grams, nearest: NDArray[np.int64], weight: float) -> Grams:
    """Inner products (M, M) of rows averaged with those at ``nearest`` (M, k): P K Pᵀ, P = (1 − a) I + a W.

    That is P (P K)ᵀ because K is symmetric: rows are added up, never columns. A row without neighbours has itself for
    neighbours, and does not change.
    """
    once = average(gram, gram, nearest, weight)
    turned = np.ascontiguousarray(once.T)
    return average(turned, turned, nearest, weight)


def smooth_gram(gram: Grams, nearest: NDArray[np.int64], weight: float) -> Grams:
    """`average_gram` of unit rows, then centred and scaled to unit length; a row without direction stays zero."""
    smooth = average_gram(gram, nearest, weight)
    centre_and_scale(smooth, LEAST_LENGTH)
    for i in range(len(gram)):
        if gram[i, i] <= 0.0:
            smooth[i, :] = 0.0
            smooth[:, i] = 0.0
    return smooth


@dataclass(frozen=True)
class Neighbourhood:
    """Where later rows lie among the rows of `fit`.

    Attributes
    ----------
    filled : ndarray of bool of shape (n,)
        Rows that have a direction; the other attributes are of these rows alone.
    nearest : ndarray of int of shape (f, k)
        Places of their neighbours among the rows stored, the nearest first.
    same : ndarray of int of shape (f,)
        Place of the stored row that a row equals, or −1. Its neighbours are those found by `fit`.
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

    def fit_transform(self, rows: Array) -> Array:
        """Remember unit rows (M, D) and their neighbours; return them smoothed, centred and of unit length."""
        self.filled = filled = np.asarray(rows.any(axis=1))
        self.rows = rows if filled.all() else rows[filled]
        self.neighbours = nearest_of_each(self.rows, neighbours_among(self.n_neighbors, len(self.rows)))
        smooth = rows.copy()
        smooth[filled] = average(self.rows, self.rows, self.neighbours, self.weight)
        self.finish.learn(smooth)
        return self._finished(smooth, filled)

    def average(self, chosen: NDArray[np.int64], lengths: Array) -> Array:
        """Rows ``chosen`` (c,) of `fit`, averaged with the neighbours found, of their own lengths.

        ``lengths`` (M,) are those the rows of `fit` had before they were scaled to unit length.
        """
        own = lengths[self.filled][:, None]
        averaged = np.zeros((len(chosen), self.rows.shape[1]), dtype=self.rows.dtype)
        filled, places = self._places(chosen)
        long = own.astype(self.rows.dtype) * self.rows
        averaged[filled] = average(long[places], long, self.neighbours[places], self.weight)
        return averaged

    def stored(self, chosen: NDArray[np.int64]) -> Array:
        """Rows ``chosen`` (c,) of `fit`, as they were before they were averaged."""
        rows = np.zeros((len(chosen), self.rows.shape[1]), dtype=self.rows.dtype)
        filled, places = self._places(chosen)
        rows[filled] = self.rows[places]
        return rows

    def _places(self, chosen: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Which rows ``chosen`` (c,) have a direction, and the places of these among the rows stored."""
        filled = self.filled[chosen]
        return filled, (np.cumsum(self.filled) - 1)[chosen[filled]]

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
        smooth[around.filled] = average(rows[around.filled], self.rows, around.nearest, self.weight)
        return self._finished(smooth, around.filled)

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
