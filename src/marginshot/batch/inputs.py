"""Inner products of many small tasks, of features given task by task or of the rows of one table."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from marginshot._lib.threads import map_in_threads
from marginshot.data.table import FeatureTable
from marginshot.model.discriminant import LEAST_LENGTH
from marginshot.model.kernels import Kernel
from marginshot.model.transforms import (
    BY_ROOTS,
    CentreAndNormalise,
    is_extreme,
    rounding_length,
    scale_inner_products,
    widened,
)

Array = NDArray[np.floating]
Grams = NDArray[np.float32]
Rows = NDArray[np.int64]

SHARED_ROWS = 4096  # rows of a table whose inner products are kept: 64 MB
_BLOCK = 256  # rows whose inner products a thread computes at once
_KEPT = 4  # tables, as a transform prepared them, kept between calls: a copy of each, small ones with their products


def inner_products(
    support: Array, query: Array, labels: NDArray[np.int64], transformer: Any, kernel: Kernel
) -> tuple[Grams, Grams]:
    """Inner products (T, M, M) of the transformed rows of tasks, ``support`` (T, n, D) first, then ``query`` (T, m, D).

    What a transformer learns from the ``labels`` (T, n) of the support is left to `learn_from_labels` where inner
    products suffice for it. A user's kernel takes the place of the products. Beside them the lengths (T, M) of the
    centred rows before they became unit rows, 1 where nothing scales them.
    """
    support, query = widened(support), widened(query)
    if _works_on_grams(transformer, kernel):
        return _unit_inner_products(support, query, transformer)
    rows = _transformed_rows(support, query, labels, transformer)
    if not kernel.is_named:
        return _with_lengths(np.stack([kernel.matrix(task, task) for task in rows]).astype(np.float32))
    single = rows.astype(np.float32)
    return _with_lengths(single @ single.transpose(0, 2, 1))


def learn_from_labels(
    inner: Grams, lengths: Grams, labels: NDArray[np.int64], transformer: Any, kernel: Kernel
) -> tuple[Grams, Grams]:
    """The products (T, M, M) and lengths (T, M) of `inner_products` after what the labels (T, n) change."""
    return transformer.adapt_grams(inner, lengths, labels) if _works_on_grams(transformer, kernel) else (inner, lengths)


def _works_on_grams(transformer: Any, kernel: Kernel) -> bool:
    return kernel.is_named and isinstance(transformer, CentreAndNormalise)


def _with_lengths(inner: Grams) -> tuple[Grams, Grams]:
    return inner, np.ones(inner.shape[:2], dtype=np.float32)


class ArrayTasks:
    """Tasks whose features are given: ``support`` (T, n, D) with ``labels`` (T, n), and ``query`` (T, m, D)."""

    def __init__(self, support: Array, query: Array, labels: NDArray[np.int64]) -> None:
        self.support, self.query, self.labels = support, query, labels
        self.precision = _precision(support, query)

    def support_sums(self, tasks: slice) -> NDArray[np.float64]:
        """Sum of the features of each labelled row of some tasks, (T, n)."""
        return np.asarray(self.support[tasks].sum(axis=2, dtype=np.float64))

    def inner(self, tasks: slice, transformer: Any, kernel: Kernel) -> tuple[Grams, Grams]:
        """Inner products (T, M, M) of some tasks, as from `inner_products`."""
        return inner_products(self.support[tasks], self.query[tasks], self.labels[tasks], transformer, kernel)


class SharedRows:
    """The part that tasks over one ``table`` (n_rows, D) share: its rows and, up to `SHARED_ROWS`, their products."""

    def __init__(self, table: Array, transformer: CentreAndNormalise, n_jobs: int) -> None:
        self._prepared = transformer.prepare(table)
        size = _size(self._prepared[None])[0]
        if size > 0 and is_extreme(size):
            self._prepared = self._prepared / size
        # Any point amid the rows will do, so some thousands of them: seen from there, single precision suffices.
        self._origin = self._prepared[:: len(table) // 4096 + 1].mean(axis=0, dtype=np.float64)
        self._inner = self._multiply(n_jobs) if len(table) <= SHARED_ROWS else None

    def _multiply(self, n_jobs: int) -> Grams:
        """Inner products (n_rows, n_rows) about the origin, by ``n_jobs`` threads."""
        centred = self._seen_from_origin(self._prepared.copy())
        inner = np.empty((len(centred), len(centred)), dtype=np.float32)

        def fill(first: int) -> None:
            block = slice(first, first + _BLOCK)
            np.matmul(centred[block], centred[: block.stop].T, out=inner[block, : block.stop])
            inner[:first, block] = inner[block, :first].T

        map_in_threads(fill, range(0, len(centred), _BLOCK)[::-1], n_jobs)  # the longest first
        return inner

    def unit_inner_products(self, rows: Rows) -> tuple[Grams, Grams]:
        """Inner products of each task's ``rows`` (T, M), centred on their mean, of unit length; and their lengths."""
        from marginshot.batch.compiled import centre_grams, look_up_grams  # imports numba

        lengths = np.empty(rows.shape, dtype=np.float32)
        if self._inner is not None:
            inner = np.empty((*rows.shape, rows.shape[1]), dtype=np.float32)
            look_up_grams(self._inner, rows, inner, lengths, LEAST_LENGTH)
            return inner, lengths
        features = self._seen_from_origin(self._prepared[rows])
        inner = features @ features.transpose(0, 2, 1)
        centre_grams(inner, lengths, LEAST_LENGTH)
        return inner, lengths

    def _seen_from_origin(self, rows: Array) -> Grams:
        """``rows`` (..., D) of the table less the origin, in single precision; may overwrite them."""
        rows = rows.astype(np.result_type(rows.dtype, np.float32), copy=False)
        rows -= self._origin.astype(rows.dtype)
        return rows.astype(np.float32, copy=False)


_kept: OrderedDict[tuple[str, str], SharedRows] = OrderedDict()
_kept_lock = Lock()


def _share(table: FeatureTable, transformer: CentreAndNormalise, n_jobs: int) -> SharedRows:
    """`SharedRows` of a table; of one with a token, those of an earlier call where they are still kept."""
    if table.token is None:
        return SharedRows(table.rows, transformer, n_jobs)
    key = (table.token, repr(transformer))
    with _kept_lock:
        shared = _kept.pop(key, None) or SharedRows(table.rows, transformer, n_jobs)
        _kept[key] = shared
        if len(_kept) > _KEPT:
            _kept.popitem(last=False)
    return shared


class TableTasks:
    """Tasks over one table of features (n_rows, D): ``support`` (T, n) and ``query`` (T, m) are row numbers."""

    def __init__(self, table: FeatureTable, support: Rows, query: Rows, labels: NDArray[np.int64]) -> None:
        self.table, self.support, self.query, self.labels = table, support, query, labels

    def support_sums(self, tasks: slice) -> NDArray[np.float64]:
        """Sum of the features of each labelled row of some tasks, (T, n)."""
        return np.asarray(self.table.rows[self.support[tasks]].sum(axis=2, dtype=np.float64))

    def share(self, transformer: Any, n_jobs: int = 1) -> None:
        """Compute what all tasks share, once, in ``n_jobs`` threads."""
        if isinstance(transformer, CentreAndNormalise):
            self._shared = _share(self.table, transformer, n_jobs)

    def inner(self, tasks: slice, transformer: Any, kernel: Kernel) -> tuple[Grams, Grams]:
        """Inner products (T, M, M) of some tasks, as from `inner_products`."""
        support, query, labels = self.support[tasks], self.query[tasks], self.labels[tasks]
        if not _works_on_grams(transformer, kernel):
            return inner_products(self.table.rows[support], self.table.rows[query], labels, transformer, kernel)
        inner, lengths = self._shared.unit_inner_products(np.concatenate((support, query), axis=1))
        # A row much nearer to the task's mean than another: the shared products are too coarse for its direction.
        coarse = (np.einsum("tii->ti", inner) == 0).any(axis=1)
        if coarse.any():
            known, asked = (widened(self.table.rows[rows[coarse]]) for rows in (support, query))
            inner[coarse], lengths[coarse] = _unit_inner_products(known, asked, transformer)
        return inner, lengths


def _transformed_rows(support: Array, query: Array, labels: NDArray[np.int64], transformer: Any) -> Array:
    rows = np.concatenate((support, query), axis=1)
    if transformer is None:
        return rows
    codes = np.full(rows.shape[:2], -1)
    codes[:, : labels.shape[1]] = labels
    return np.stack([_fit_transform(clone(transformer), task, known) for task, known in zip(rows, codes, strict=True)])


def _fit_transform(transformer: Any, task: Array, codes: NDArray[np.int64]) -> Array:
    if isinstance(transformer, CentreAndNormalise):
        return transformer.fit_unit_rows(task, codes)[0]
    return np.asarray(transformer.fit_transform(task))


def _unit_inner_products(support: Array, query: Array, transformer: CentreAndNormalise) -> tuple[Grams, Grams]:
    """Inner products of prepared rows, centred on the mean of their task and of unit length, and the lengths before.

    Rows are centred in their own precision and multiplied in single precision; the lengths are divided out of the
    M x M products, never out of the M x D features.
    """
    rooted = transformer.power == BY_ROOTS
    if not rooted:
        support, query = transformer.prepare(support), transformer.prepare(query)
    rows, means, squares = _centred_rows(support, query, rooted)
    extreme = is_extreme(np.sqrt(squares))
    if extreme.any():
        size = np.maximum(_size(support[extreme]), _size(query[extreme]))
        size[size == 0] = 1
        scaled = _centred_rows(support[extreme] / size, query[extreme] / size, rooted)
        rows[extreme], means[extreme], _ = scaled
    inner = rows @ rows.transpose(0, 2, 1)
    lengths = np.sqrt(np.einsum("tii->ti", inner))
    scale_inner_products(inner, lengths, lengths > rounding_length(means)[:, None])
    return inner, lengths


def _centred_rows(support: Array, query: Array, rooted: bool) -> tuple[Grams, Array, Array]:
    """What `centre_rows` writes: rows (T, M, D), means (T, D) and squares (T,)."""
    from marginshot.batch.compiled import centre_rows  # imports numba

    (n_tasks, n, width), m = support.shape, query.shape[1]
    dtype = _precision(support, query)
    support, query = (np.require(x, dtype, ["C", "W"]) for x in (support, query))  # one signature to compile
    rows = np.empty((n_tasks, n + m, width), np.float32)
    means, squares = np.empty((n_tasks, width), dtype), np.empty(n_tasks, dtype)
    centre_rows(support, query, rooted, rows, means, squares)
    return rows, means, squares


def _precision(support: Array, query: Array) -> Any:
    """Precision in which rows are centred: double where either has more than single."""
    return np.float32 if np.result_type(support, query, np.float32) == np.float32 else np.float64


def _size(rows: Array) -> Array:
    """Largest number (T, 1, 1) of each task (T, n, D), 0 where there is none."""
    return np.maximum(rows.max(axis=(1, 2), keepdims=True, initial=0), -rows.min(axis=(1, 2), keepdims=True, initial=0))
