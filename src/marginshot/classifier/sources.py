"""Inputs of `fit` and `predict` as tables of row blocks: arrays, memory maps, Parquet files, Dask arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from marginshot._lib.validation import check_beliefs, refuse_masked
from marginshot.classifier.large import LEAST_ROWS
from marginshot.data.labels import Labelled, encode_labels, is_missing
from marginshot.data.rows import ArrayRows, ParquetRows, Table
from marginshot.model.beliefs import log_beliefs

# Range of weights whose sums and squares neither overflow nor underflow.
_LEAST_WEIGHT, _MOST_WEIGHT = 1e-9, 1e9


def open_table(estimator: Any, X: Any, *, reset: bool) -> Table:
    """X as a table: a large one unchanged, a small one checked and converted.

    Values of a large table are checked later, in the first pass over its blocks.
    """
    refuse_masked(X, "X")
    if getattr(getattr(X, "dtype", None), "kind", "") in ("m", "M"):
        raise ValueError(f"X must be an array of real numbers; got dtype {X.dtype}. Turn times into numbers first.")
    source = _as_blocks(X)
    if source is None:
        # float16 is widened because its sums overflow. Sums in scikit-learn's check of float32 may too, without harm.
        with np.errstate(over="ignore", invalid="ignore"):
            return ArrayRows(validate_data(estimator, X, reset=reset, dtype=[np.float64, np.float32]))
    validate_data(estimator, X, reset=reset, skip_check_array=True)
    return source


def _as_blocks(X: Any) -> Table | None:
    """X as a table to be read in blocks, or None if X is small or must be converted first."""
    if isinstance(X, ParquetRows):
        return X
    if is_dask(X):
        from marginshot.classifier.distributed import DaskRows

        return DaskRows(X)
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype in (np.float16, np.float32, np.float64):
        return ArrayRows(X) if len(X) >= LEAST_ROWS and X.shape[1] else None
    return None


def is_dask(X: Any) -> bool:
    """Whether X is a Dask array; does not import Dask."""
    return type(X).__module__.startswith("dask.array") and hasattr(X, "to_delayed")


def read_labels(source: Table, y: Any) -> Labelled:
    """The labelled rows of ``y`` (n_rows,); with Dask blocks, ``y`` is read on the workers."""
    if hasattr(source, "read_labels"):
        known: Labelled = source.read_labels(y)
        return known
    refuse_masked(y, "y")
    return Labelled.from_codes(*encode_labels(y, n_rows=source.shape[0]))


def weigh_labels(sample_weight: ArrayLike | None, known: Labelled, n_rows: int) -> tuple[Labelled, NDArray[np.float64]]:
    """The labelled rows that count, and their weights (n,), from one for each of ``n_rows`` rows; 1 by default.

    A labelled row of weight zero is an unlabelled one.
    """
    if sample_weight is None:
        return known, np.ones(len(known.index))
    weights = _as_weights(sample_weight)
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight must have shape ({n_rows},), a number for each row of X; got {weights.shape}.")
    weights = weights[known.index]
    if (wrong := weights[~((weights == 0.0) | (weights >= _LEAST_WEIGHT) & (weights <= _MOST_WEIGHT))]).size:
        raise ValueError(
            f"sample_weight of labelled rows must be finite and not negative: 0, or {_LEAST_WEIGHT:g} to "
            f"{_MOST_WEIGHT:g}; got {wrong[0]:g}."
        )
    if not weights.any():
        raise ValueError("sample_weight is zero for every labelled row; give at least one row of two classes a weight.")
    if weights.all():
        return known, weights
    counts = weights > 0
    present, labels = np.unique(known.labels[counts], return_inverse=True)
    if len(present) < 2:
        raise ValueError(f"Only class {known.classes[present[0]]} has labelled rows whose sample_weight is above zero.")
    return Labelled(known.classes[present], known.index[counts], labels), weights[counts]


def _as_weights(sample_weight: ArrayLike) -> NDArray[np.float64]:
    """Weights as floating-point numbers; raises ValueError where they are not real numbers."""
    refuse_masked(sample_weight, "sample_weight")
    given = np.asarray(sample_weight)
    try:
        return given.astype(np.float64, casting="unsafe" if given.dtype == object else "same_kind")
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be real numbers; got dtype {given.dtype}.") from error


def read_numbers(values: ArrayLike | None, n_rows: int, kind: str) -> NDArray[np.int64] | None:
    """Number (n_rows,) of the ``kind`` of each row, "group" or "domain"; None where none are given."""
    if values is None:
        return None
    refuse_masked(values, f"{kind}s")
    given = np.asarray(values)
    if given.shape != (n_rows,):
        raise ValueError(f"{kind}s must have shape ({n_rows},), a {kind} for each row of X; got {given.shape}.")
    if given.dtype.kind not in "iub" and (none := np.flatnonzero([is_missing(value) for value in given])).size:
        raise ValueError(
            f"{kind}s must name a {kind} for each row of X; row {none[0]} has none. Give it one of its own."
        )
    try:
        return np.unique(given, return_inverse=True)[1].astype(np.int64)
    except TypeError as error:
        raise ValueError(f"{kind}s must be numbers, or texts, that can be sorted ({error}).") from error


def read_picked(picked: ArrayLike | None, n_rows: int) -> NDArray[np.bool_]:
    """Mask (n_rows,) of the rows that somebody picked; all False where ``picked`` is None."""
    given = np.zeros(n_rows, dtype=bool) if picked is None else np.asarray(picked)
    if given.shape != (n_rows,) or given.dtype != bool:
        raise ValueError(
            f"picked must be True or False for each of the {n_rows} rows of X; got {given.dtype}, shape {given.shape}."
        )
    return given


def read_beliefs(source: Table, class_prior: ArrayLike | None, n_classes: int) -> NDArray[np.float64] | None:
    """Logarithms (n_rows, n_classes) of the beliefs about the class of each row; None where none are given."""
    if class_prior is None:
        return None
    if hasattr(source, "label"):
        raise ValueError("class_prior is held in memory, and X is a Dask array; pass X as an array or ParquetRows.")
    refuse_masked(class_prior, "class_prior")
    beliefs = check_beliefs("class_prior", class_prior, (source.shape[0], n_classes))
    return log_beliefs(cast(NDArray[np.float64], beliefs))


def share_weights(
    weights: NDArray[np.float64], known: Labelled, groups: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    """Weights (n,) of the labelled rows, those of one class and group divided by how many they are."""
    if groups is None:
        return weights
    _, places, counts = np.unique(
        np.stack((groups[known.index], known.labels)), axis=1, return_inverse=True, return_counts=True
    )
    return np.asarray(weights / counts[places.ravel()])


def lazy_on_dask(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method of the classifier return a lazy Dask array for a Dask array, computed on the workers."""

    @wraps(method)
    def wrapper(estimator: Any, X: Any) -> Any:
        check_is_fitted(estimator)
        if not is_dask(X):
            return method(estimator, X)
        from marginshot.classifier.distributed import map_rows

        return map_rows(estimator, method.__name__, X)

    return wrapper
