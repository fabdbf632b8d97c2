"""Passes over the row blocks of one big task: checks, sums for the transform, loss and gradient.

Every pass is a small picklable object: it runs in a thread beside the array, or on a worker that holds the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.classifier.predictor import FittedScores
from marginshot.data.rows import Rows, strips
from marginshot.model.counts import divide_scores
from marginshot.model.margin import MarginLoss
from marginshot.model.transforms import transform_rows, widened

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RowMap:
    """From raw rows to the features of the planes: the feature transform, then the kernel's approximation.

    Parameters
    ----------
    transformer : fitted transformer or None
    nystroem : fitted sklearn.kernel_approximation.Nystroem or None
    """

    transformer: Any = None
    nystroem: Any = None

    def __call__(self, block: Rows) -> NDArray[np.floating]:
        """(b, n_features) -> (b, P), float64 for float64, else float32."""
        rows = widened(block)
        if self.transformer is not None:
            rows = transform_rows(self.transformer, rows)
        if self.nystroem is not None:
            # In double precision: the approximation divides by the roots of tiny eigenvalues.
            rows = self.nystroem.transform(rows.astype(np.float64)).astype(rows.dtype)
        return rows


def column_sums(start: int, block: Rows, prepare: Callable[[Rows], Rows] | None = None) -> tuple[Array]:
    """Sum of each feature (n_features,) over a block of prepared rows; raises at the first value that is not finite."""
    total = np.zeros(block.shape[1])
    for first, strip in strips(block):
        prepared = strip if prepare is None else prepare(strip)
        part = prepared.sum(axis=0, dtype=np.float64)
        if not np.isfinite(part).all():
            _raise_not_finite(start + first, strip)
        total += part
    return (total,)


def _raise_not_finite(start: int, strip: Rows) -> None:
    bad = np.argwhere(~np.isfinite(strip))
    if not len(bad):
        raise ValueError(f"X is too large for sums: rows {start} to {start + len(strip) - 1} overflow; scale it down.")
    row, column = bad[0]
    raise ValueError(
        f"X must be finite; row {start + row}, feature {column} is {strip[row, column]}. "
        "Drop such rows or fill them in (rows and features count from 0)."
    )


@dataclass(frozen=True)
class VariancePass:
    """Sum of the mapped rows (P,) and of their squared lengths (1,), which scale a kernel's width."""

    row_map: RowMap

    def __call__(self, start: int, block: Rows) -> tuple[Array, ...]:
        """Evaluate one block of rows."""
        parts = [self.row_map(strip).astype(np.float64) for _, strip in strips(block)]
        return sum(rows.sum(axis=0) for rows in parts), np.array([sum((rows**2).sum() for rows in parts)])


@dataclass(frozen=True)
class SupportPass:
    """Value (C,) and gradient (P, C) of the hinge on a block of the table of support rows.

    Parameters
    ----------
    row_map : RowMap
    planes : ndarray of shape (P, C)
    offsets : ndarray of shape (C,)
    loss : MarginLoss
        Of all support rows, signs and weights (n_support, C), without a query term.
    """

    row_map: RowMap
    planes: Array
    offsets: Array
    loss: MarginLoss

    def __call__(self, start: int, block: Rows) -> tuple[Array, ...]:
        """Evaluate one block of rows."""
        value, gradient = np.zeros(len(self.offsets)), np.zeros_like(self.planes)
        for first, strip in strips(block):
            rows = self.row_map(strip)
            part = slice(start + first, start + first + len(strip))
            loss = replace(self.loss, signs=self.loss.signs[part], weights=self.loss.weights[part])
            strip_value, slope = loss(rows @ self.planes + self.offsets)
            value += strip_value
            gradient += rows.T @ slope
        return value, gradient


@dataclass(frozen=True)
class QueryPass:
    """Value (C,) and gradient (P, C) of the query term on a block of the whole table.

    Parameters
    ----------
    row_map : RowMap
    planes : ndarray of shape (P, C)
    offsets : ndarray of shape (C,)
    loss : MarginLoss
        With no support rows: signs and weights of shape (0, C).
    support : ndarray of int of shape (n_support,)
        Numbers of the labelled rows, which are not queries, sorted.
    n_query : int
    """

    row_map: RowMap
    planes: Array
    offsets: Array
    loss: MarginLoss
    support: NDArray[np.int64]
    n_query: int

    def __call__(self, start: int, block: Rows) -> tuple[Array, ...]:
        """Evaluate one block of rows."""
        value, gradient = np.zeros(len(self.offsets)), np.zeros_like(self.planes)
        for rows in query_rows(self.row_map, self.support, start, block):
            scores = rows @ self.planes.astype(rows.dtype)
            scores += self.offsets.astype(rows.dtype)
            # The loss is a mean over these rows; weight it by their share of all queries.
            loss = replace(self.loss, lambda2=self.loss.lambda2 * len(rows) / self.n_query)
            strip_value, slope = loss(scores)
            value += strip_value
            gradient += (slope.T @ rows).T
        return value, gradient


@dataclass(frozen=True)
class DividePass:
    """Counts (N,) of the unlabelled rows of a block, and their derivatives (N, N): see `marginshot.model.counts`.

    Parameters
    ----------
    scores : FittedScores
    biases : ndarray of shape (N,)
    support : ndarray of int of shape (n_support,)
        Numbers of the labelled rows, sorted.
    """

    scores: FittedScores
    biases: Array
    support: NDArray[np.int64]

    def __call__(self, start: int, block: Rows) -> tuple[Array, ...]:
        """Evaluate one block of rows."""
        counts, derivatives = np.zeros(len(self.biases)), np.zeros((len(self.biases),) * 2)
        for first, strip in strips(block):
            part = slice(start + first, start + first + len(strip))
            low, high = np.searchsorted(self.support, (part.start, part.stop))
            scores = np.delete(self.scores(widened(strip), part), self.support[low:high] - part.start, axis=0)
            strip_counts, strip_derivatives = divide_scores(scores, self.biases)
            counts += strip_counts
            derivatives += strip_derivatives
        return counts, derivatives


def query_rows(row_map: RowMap, support: NDArray[np.int64], start: int, block: Rows) -> Iterator[Rows]:
    """The mapped rows of a block, strip by strip, without those of the support."""
    for first, strip in strips(block):
        low, high = np.searchsorted(support, (start + first, start + first + len(strip)))
        rows = row_map(strip)
        if high > low:
            rows = np.delete(rows, support[low:high] - start - first, axis=0)
        if len(rows):
            yield rows
