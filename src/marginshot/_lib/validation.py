"""Checks on users' arrays, and the wording of their errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.floating]
Labels = NDArray[np.int64]


def check_task_batch(support: ArrayLike, support_labels: ArrayLike, query: ArrayLike) -> tuple[Array, Labels, Array]:
    """Support (T, n, D), labels (T, n) with every class 0 … N−1 in every task, and query (T, m, D)."""
    support, query = _check_rows("support", support), _check_rows("query", query)
    if query.shape[2] != support.shape[2]:
        raise ValueError(f"support and query need equal n_features; got {support.shape[2]} and {query.shape[2]}.")
    return support, _check_labels(support, support_labels, query), query


def check_table(table: ArrayLike) -> Array:
    """A table (n_rows, D) of finite floats."""
    refuse_masked(table, "table")
    array = np.asarray(table)
    if array.ndim != 2:
        raise ValueError(f"table must have shape (n_rows, n_features); got {array.shape}.")
    array = _check_numbers("table", array)
    bad = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(bad):
        raise ValueError(f"table must be finite; row {bad[0]} holds NaN or infinity.")
    return array


def check_beliefs(name: str, beliefs: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.float64] | None:
    """Beliefs about the class of each row: ``shape`` (…, n_classes), rows scaled to sum 1, a row of zeros uniform."""
    if beliefs is None:
        return None
    given = np.asarray(beliefs)
    if given.shape != shape:
        raise ValueError(f"{name} must have one belief for each row and class, shape {shape}; got {given.shape}.")
    array = _check_numbers(name, given).astype(np.float64)
    if not np.isfinite(array).all() or array.min(initial=0.0) < 0.0:
        raise ValueError(f"{name} must hold probabilities, finite and at least 0; a row of zeros says nothing.")
    total = array.sum(axis=-1, keepdims=True)
    silent = total == 0.0
    return np.where(silent, 1.0 / shape[-1], array / np.where(silent, 1.0, total))


def refuse_masked(values: Any, name: str) -> None:
    """Raise ValueError for a masked array, or a list of them, whose masks NumPy would drop without a word."""
    parts = values if isinstance(values, list | tuple) else [values]
    n_masked = sum(int(np.ma.getmaskarray(part).sum()) for part in parts if np.ma.is_masked(part))
    if n_masked:
        raise ValueError(f"{name} has {n_masked:,} masked values, which are no numbers. Fill them, or drop their rows.")


def check_row_numbers(
    n_rows: int, support: ArrayLike, support_labels: ArrayLike, query: ArrayLike
) -> tuple[Labels, Labels, Labels]:
    """Support rows (T, n) of a table of ``n_rows``, labels (T, n) and query rows (T, m)."""
    rows = {name: np.asarray(values) for name, values in (("support", support), ("query", query))}
    for name, numbers in rows.items():
        if numbers.dtype.kind not in "iu" or numbers.ndim != 2:
            raise ValueError(
                f"{name} must be row numbers (n_tasks, n_rows) of the table; got {numbers.dtype} "
                f"of shape {numbers.shape}."
            )
        if numbers.size and not 0 <= numbers.min() <= numbers.max() < n_rows:
            raise ValueError(f"{name} must be row numbers below {n_rows}; got {numbers.min()} to {numbers.max()}.")
    labels = _check_labels(rows["support"], support_labels, rows["query"])
    return rows["support"].astype(np.int64, order="C"), labels, rows["query"].astype(np.int64, order="C")


def _check_labels(support: NDArray[Any], support_labels: ArrayLike, query: NDArray[Any]) -> Labels:
    labels = np.asarray(support_labels)
    if not len(support):
        raise ValueError("support must hold at least one task; got none.")
    if len(query) != len(support):
        raise ValueError(f"support and query need equally many tasks; got {len(support)} and {len(query)}.")
    if labels.shape != support.shape[:2]:
        raise ValueError(f"support_labels must have shape {support.shape[:2]}, as support; got {labels.shape}.")
    if labels.dtype.kind not in "iu":
        raise ValueError(f"support_labels must be whole numbers 0 … N−1; got dtype {labels.dtype}.")
    return check_task_labels(labels.astype(np.int64, order="C"))


def check_task_labels(labels: Labels) -> Labels:
    """Labels (T, n) in which every class 0 … N−1 occurs in every task, and N is at least 2."""
    if labels.size == 0 or labels.min() < 0:
        raise ValueError(
            f"support_labels must be whole numbers 0 … N−1; got {labels.min() if labels.size else 'none at all'}."
        )
    n_classes = int(labels.max()) + 1
    if n_classes < 2:
        raise ValueError("support_labels must name at least two classes; got one class only.")
    for c in range(n_classes):
        missing = ~(labels == c).any(axis=1)
        if missing.any():
            raise ValueError(
                f"support_labels must hold every class 0 … {n_classes - 1} in every task; task "
                f"{int(np.flatnonzero(missing)[0])} has no example of class {c}."
            )
    return labels


def _check_numbers(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be an array of real numbers; got dtype {array.dtype}.")
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _check_rows(name: str, rows: ArrayLike) -> Array:
    array = _check_numbers(name, rows)
    if array.ndim != 3:
        raise ValueError(f"{name} must have shape (n_tasks, n_rows, n_features); got {array.shape}.")
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(np.einsum("tij->", array))  # one pass; finite numbers may sum to infinity
    for task in range(len(array) if suspicious else 0):
        if not np.isfinite(array[task]).all():
            raise ValueError(f"{name} must be finite; task {task} holds NaN or infinity.")
    return array
