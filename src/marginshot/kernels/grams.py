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


def task_grams(support: Array, query: Array, transformer: Any, settings: Settings, n_classes: int) -> Grams:
    """Kernel matrices (T, M, M) of tasks with ``support`` (T, n, D) and ``query`` (T, m, D), support rows first."""
    if callable(settings.kernel):
        rows = _transformed_rows(support, query, transformer)
        return np.stack([settings.kernel(task, task) for task in rows]).astype(np.float32)
    if isinstance(transformer, CentreAndNormalise):
        inner = _unit_inner_products(support, query)
        if settings.n_neighbors:
            inner = smooth_grams(inner, settings.n_neighbors, neighbour_weight(support.shape[1], n_classes))
    else:
        single = _transformed_rows(support, query, transformer).astype(np.float32)
        inner = single @ single.transpose(0, 2, 1)
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
