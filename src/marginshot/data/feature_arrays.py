"""Checks on the arrays of features, and the prior that embedded class names give."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.reading import DamagedFileError


def check_embeddings(X: Any, source: str) -> NDArray[np.float32]:
    """Finite float32 of shape (n_rows, n_features), or an error that names what is wrong with ``source``."""
    given = np.asarray(X)
    if given.ndim != 2 or 0 in given.shape:
        raise ValueError(f"{source}: features must have shape (rows, features), neither of them 0; got {given.shape}.")
    if given.dtype.kind not in "fiub":
        raise ValueError(f"{source}: features must be numbers; got dtype {given.dtype}.")
    with np.errstate(over="ignore"):  # numbers too large for float32 become infinity and are refused below
        embeddings = np.ascontiguousarray(given, dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
    if len(bad):
        what = "numbers too large for float32" if np.isfinite(given[bad[0]]).all() else "NaN or infinity"
        raise ValueError(
            f"{source}: {len(bad)} of {len(embeddings)} rows hold {what}, the first is row {bad[0]}. "
            "Drop them or extract them again."
        )
    return embeddings


def scaled(X: NDArray[Any], scale: NDArray[Any], source: str) -> NDArray[Any]:
    """Features that were rounded to integers, in their own unit again; features that are no integers are unchanged."""
    if X.dtype.kind not in "iu":
        return X
    if scale.shape != () or scale.dtype.kind not in "fiu" or not (np.isfinite(scale) and scale > 0):
        raise DamagedFileError(f"{source}: scale must be one number above 0; the file holds {scale!r}.")
    return X * np.float32(scale)


def check_names(names: Any, n_classes: int, n_features: int, source: str) -> NDArray[np.float32] | None:
    """Embedded class names (n_classes, n_features), or None where there are none; raises where they do not fit.

    Files of others hold texts, too, under this name: they are no embeddings, and left alone.
    """
    array = np.asarray(names)
    if array.ndim != 2 or array.dtype.kind in "USO":
        return None
    if array.shape != (n_classes, n_features) or array.dtype.kind not in "fiu":
        raise ValueError(
            f"{source}: embedded class names are numbers of shape (classes, features), {(n_classes, n_features)} here; "
            f"got {array.dtype} of shape {array.shape}."
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{source}: embedded class names hold NaN or infinity. Embed them again.")
    return np.ascontiguousarray(array, dtype=np.float32)


def check_prior(prior: Any, n_rows: int, n_classes: int, source: str) -> NDArray[np.float32] | None:
    """Beliefs about the class of every row (n_rows, n_classes), or None; raises where they do not fit.

    Files of others hold class shares, too, under this name: they say nothing of a row, and are left alone.
    """
    array = np.asarray(prior)
    if array.ndim != 2:
        return None
    if array.shape != (n_rows, n_classes) or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{source}: a prior has a number for every row and class, shape {(n_rows, n_classes)}; "
            f"got {array.dtype} of shape {array.shape}."
        )
    if not np.isfinite(array).all() or array.min() < 0:
        raise ValueError(f"{source}: a prior holds probabilities, finite and at least 0; a row of zeros says nothing.")
    return np.ascontiguousarray(array, dtype=np.float32)


def prior_of_names(rows: NDArray[Any], names: NDArray[Any], sharpness: float) -> NDArray[np.float32]:
    """Softmax of ``sharpness`` times the cosines between rows (n, D) and class names (N, D); -> (n, N)."""
    logits = sharpness * (_unit(rows) @ _unit(names).T)
    beliefs = np.exp(logits - logits.max(axis=1, keepdims=True))
    return (beliefs / beliefs.sum(axis=1, keepdims=True)).astype(np.float32)


def _unit(rows: NDArray[Any]) -> NDArray[np.float64]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True).astype(np.float64)
    return rows / np.where(lengths > 0, lengths, 1.0)
