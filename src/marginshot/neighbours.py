"""Neighbours inside the kernel: each row is averaged with its nearest neighbours before the planes are fitted.

    x ← (1 − a) x + a · mean of the n_neighbors rows nearest to x,     a = 1/2 / sqrt(shots a class)

and the rows are centred and scaled to unit length again. On inner products this is K ← P K Pᵀ with P = (1 − a) I + a W,
W the averaging matrix. It is not in the paper. With one shot the few labelled rows are poor representatives of their
classes, and their neighbourhoods better ones; with more shots that matters less, so a falls.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.rows import ArrayRows
from marginshot.settings import Settings
from marginshot.transforms import CentreAndNormalise

Array = NDArray[np.floating]
Grams = NDArray[np.float32]

_STRIP = 256  # rows compared with all others at a time: their cosines stay in the cache
_GROUP = 32  # columns among which only the largest value is looked for at first
_SAME = 1e-6  # rows of unit length nearer than this are one row


def check_neighbours(settings: Settings, transformer: Any) -> None:
    """Neighbours are searched among rows of unit length, which only "cl2n" and "power" promise."""
    if settings.n_neighbors and not isinstance(transformer, CentreAndNormalise):
        raise ValueError(
            f'n_neighbors={settings.n_neighbors} needs feature_transform="cl2n" or "power"; set one of the two.'
        )


def neighbour_weight(n_support: int, n_classes: int) -> float:
    """Weight a of the neighbours, 1/2 at one shot a class.

    Examples
    --------
    >>> neighbour_weight(5, 5), neighbour_weight(20, 5)
    (0.5, 0.25)
    """
    return float(0.5 / np.sqrt(max(n_support / n_classes, 1.0)))


def smooth_grams(inner: Grams, n_neighbors: int, weight: float) -> Grams:
    """Inner products (T, M, M) of unit rows, after averaging with neighbours, centring and scaling to unit length.

    A row without direction (zero) has no neighbours and stays zero.
    """
    inner = inner.astype(np.float32, copy=False)
    n_rows = inner.shape[1]
    k = min(n_neighbors, n_rows - 1)
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
    scale = np.zeros_like(lengths)
    np.divide(1.0, lengths, out=scale, where=(lengths > 1e-5) & filled)
    grams *= scale[:, :, None]
    grams *= scale[:, None, :]
    return grams


def nearest_rows(stored: Array, k: int, rows: Array | None = None) -> NDArray[np.int64]:
    """Indices (n, k) into unit rows ``stored`` (M, D) of those nearest to each of ``rows`` (n, D), nearest first.

    Without ``rows``, of each stored row, itself left out. The search is among all pairs, as products of blocks in their
    own precision; a strip of the matrix of cosines is held at a time.

    Examples
    --------
    >>> nearest_rows(np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), 1)
    array([[1],
           [0],
           [1]])
    """
    asking = stored if rows is None else rows
    nearest = np.empty((len(asking), k), dtype=np.int64)

    def work(start: int, block: Array) -> tuple[()]:
        for first in range(0, len(block), _STRIP):
            strip = block[first : first + _STRIP]
            places = start + first + np.arange(len(strip))
            cosines = strip @ stored.T
            if rows is None:
                cosines[np.arange(len(strip)), places] = -np.inf
            nearest[places] = _largest(cosines, k)
        return ()

    ArrayRows(asking).accumulate(work)
    return nearest


def _largest(values: Array, k: int) -> NDArray[np.int64]:
    """Columns (n, k) of the k largest values (n, M) of each row, the largest first.

    The columns are dealt into groups. No value outside the k groups with the largest maxima is among the k largest, and
    finding maxima is a tenth of the work of sorting out columns.
    """
    n_rows, n_columns = values.shape
    n_groups = n_columns // _GROUP
    if n_groups <= k:
        candidates = np.broadcast_to(np.arange(n_columns), values.shape)
    else:
        # Group g holds the columns g, g + n_groups, g + 2 n_groups...; those left over are candidates at once.
        dealt = values[:, : n_groups * _GROUP].reshape(n_rows, _GROUP, n_groups)
        groups = np.argpartition(dealt.max(axis=1), -k, axis=1)[:, -k:]
        members = (groups[:, :, None] + n_groups * np.arange(_GROUP)).reshape(n_rows, -1)
        left_over = np.arange(n_groups * _GROUP, n_columns)
        candidates = np.concatenate((members, np.broadcast_to(left_over, (n_rows, len(left_over)))), axis=1)
    held = np.take_along_axis(values, candidates, axis=1)
    best = np.argpartition(held, -k, axis=1)[:, -k:]
    order = np.argsort(-np.take_along_axis(held, best, axis=1), axis=1, kind="stable")
    return np.take_along_axis(candidates, np.take_along_axis(best, order, axis=1), axis=1)


def mean_of_rows(stored: Array, chosen: NDArray[np.int64]) -> Array:
    """Mean (n, D) of the rows ``chosen`` (n, k), one after the other: k tables at once would not fit a cache."""
    total = stored[chosen[:, 0]]
    for place in range(1, chosen.shape[1]):
        total += stored[chosen[:, place]]
    return total / chosen.shape[1]


class NeighbourSmoothing:
    """The same on the rows themselves, for one task, and for rows that come later.

    A later row looks for its neighbours among the rows of `fit`; one that equals a row of `fit` is that row.

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
        """Remember unit rows (M, D) and return them smoothed, centred and of unit length."""
        self.rows = rows
        filled = rows.any(axis=1)
        stored = rows[filled]
        smooth = rows.copy()
        k = min(self.n_neighbors, len(stored) - 1)
        if k > 0:
            smooth[filled] = self._mix(stored, stored, nearest_rows(stored, k))
        self.finish.fit(smooth)
        return self._finished(smooth, filled)

    def transform(self, rows: Array) -> Array:
        """Unit rows (n, D) smoothed by their neighbours among those of `fit`."""
        stored = self.rows[self.rows.any(axis=1)]
        filled = rows.any(axis=1)
        smooth = rows.copy()
        k = min(self.n_neighbors, len(stored) - 1)
        if k > 0 and filled.any():
            found = rows[filled]
            neighbours = nearest_rows(stored, k + 1, found)
            known = np.linalg.norm(stored[neighbours[:, 0]] - found, axis=1) <= _SAME
            kept = np.where(known[:, None], neighbours[:, 1:], neighbours[:, :-1])
            smooth[filled] = self._mix(found, stored, kept)
        return self._finished(smooth, filled)

    def _mix(self, rows: Array, stored: Array, neighbours: NDArray[np.int64]) -> Array:
        return (1.0 - self.weight) * rows + self.weight * mean_of_rows(stored, neighbours)

    def _finished(self, smooth: Array, filled: Any) -> Array:
        finished = self.finish.transform(smooth)
        finished[~filled] = 0.0
        return finished


def restore_smoothing(n_neighbors: int, weight: float, rows: Array, mean: NDArray[np.float64]) -> NeighbourSmoothing:
    """A fitted `NeighbourSmoothing` from what was saved of it."""
    smoothing = NeighbourSmoothing(n_neighbors, weight)
    smoothing.rows, smoothing.finish.mean_ = rows, mean
    return smoothing
