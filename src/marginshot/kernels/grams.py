"""Kernel matrices of many small tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from marginshot.kernels.functions import KernelFunction
from marginshot.neighbours import neighbour_weight, smooth_grams
from marginshot.settings import Settings
from marginshot.transforms import CentreAndNormalise, rounding_length

Array = NDArray[np.floating]
Grams = NDArray[np.float32]
Rows = NDArray[np.int64]

SHARED_ROWS = 4096  # rows of a table whose inner products are kept: 64 MB


def task_grams(support: Array, query: Array, transformer: Any, settings: Settings, n_classes: int) -> Grams:
    """Kernel matrices (T, M, M) of tasks with ``support`` (T, n, D) and ``query`` (T, m, D), support rows first."""
    if callable(settings.kernel):
        rows = _transformed_rows(support, query, transformer)
        return np.stack([settings.kernel(task, task) for task in rows]).astype(np.float32)
    if isinstance(transformer, CentreAndNormalise):
        inner = _unit_inner_products(transformer.prepare(support), transformer.prepare(query))
    else:
        single = _transformed_rows(support, query, transformer).astype(np.float32)
        inner = single @ single.transpose(0, 2, 1)
    return _kernel_of(inner, support.shape[1], settings, n_classes)


class ArrayTasks:
    """Tasks whose features are given: ``support`` (T, n, D) and ``query`` (T, m, D)."""

    def __init__(self, support: Array, query: Array) -> None:
        self.support, self.query = support, query

    def grams(self, tasks: slice, transformer: Any, settings: Settings, n_classes: int) -> Grams:
        """Kernel matrices (T, M, M) of some of the tasks."""
        return task_grams(self.support[tasks], self.query[tasks], transformer, settings, n_classes)


class TableTasks:
    """Tasks over one table of features (n_rows, D): ``support`` (T, n) and ``query`` (T, m) are row numbers.

    Tasks over a table share its inner products. Up to `SHARED_ROWS` rows they are computed once and looked up.
    """

    def __init__(self, table: Array, support: Rows, query: Rows) -> None:
        self.table, self.support, self.query = table, support, query
        self._inner: Grams | None = None

    def share_inner_products(self, transformer: Any) -> None:
        """Compute the inner products of the table's rows, centred on its mean so that single precision suffices."""
        if len(self.table) <= SHARED_ROWS and isinstance(transformer, CentreAndNormalise):
            table = transformer.prepare(self.table)
            centred = (table - table.mean(axis=0, dtype=np.float64)).astype(np.float32)
            self._inner = centred @ centred.T

    def grams(self, tasks: slice, transformer: Any, settings: Settings, n_classes: int) -> Grams:
        """Kernel matrices (T, M, M) of some of the tasks."""
        support, query = self.support[tasks], self.query[tasks]
        if self._inner is None or callable(settings.kernel):
            return task_grams(self.table[support], self.table[query], transformer, settings, n_classes)
        from marginshot.kernels.grams_compiled import look_up_grams  # imports numba

        rows = np.concatenate((support, query), axis=1)
        inner = np.empty((*rows.shape, rows.shape[1]), dtype=np.float32)
        look_up_grams(self._inner, rows, inner)
        return _kernel_of(inner, support.shape[1], settings, n_classes)


def _kernel_of(inner: Grams, n_support: int, settings: Settings, n_classes: int) -> Grams:
    """Kernel matrices of tasks whose rows have these inner products, neighbours averaged in where asked for."""
    if settings.n_neighbors:
        inner = smooth_grams(inner, settings.n_neighbors, neighbour_weight(n_support, n_classes))
    squares = np.einsum("tii->ti", inner)
    return KernelFunction.fitted(settings, inner)(inner, squares, squares).astype(np.float32, copy=False)


def _transformed_rows(support: Array, query: Array, transformer: Any) -> Array:
    rows = np.concatenate((support, query), axis=1)
    if transformer is None:
        return rows
    return np.stack([clone(transformer).fit_transform(task) for task in rows])


def _unit_inner_products(support: Array, query: Array) -> Grams:
    """Inner products of rows centred on the mean of their task and scaled to unit length.

    Rows are centred in their own precision and multiplied in single precision; the lengths are divided out of the
    M x M products, never out of the M x D features.
    """
    n_support, n_rows = support.shape[1], support.shape[1] + query.shape[1]
    if support.dtype == np.float16:
        support, query = support.astype(np.float32), query.astype(np.float32)
    mean = (support.sum(axis=1, keepdims=True) + query.sum(axis=1, keepdims=True)) / n_rows
    rows = np.empty((len(support), n_rows, support.shape[2]), dtype=np.float32)
    np.subtract(support, mean, out=rows[:, :n_support], casting="same_kind")
    np.subtract(query, mean, out=rows[:, n_support:], casting="same_kind")
    inner = rows @ rows.transpose(0, 2, 1)
    lengths = np.sqrt(np.einsum("tii->ti", inner))
    scale = np.zeros_like(lengths)
    np.divide(1.0, lengths, out=scale, where=lengths > rounding_length(mean))
    inner *= scale[:, :, None]
    inner *= scale[:, None, :]
    return inner
