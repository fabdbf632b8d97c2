"""Feature banks: one embedding per example, with its class, on disk and in memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._files import atomic_path


@dataclass(frozen=True)
class FeatureBank:
    """Embeddings of many examples and the class of each.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Floating-point embeddings.
    y : ndarray of int64 of shape (n_rows,)
        Index of each row's class in ``classes``.
    classes : tuple of str
        Class names.
    source : str
        Where the features come from: a file name, or the name of a built-in set.
    items : tuple of str, optional
        Name of each row, usually the file it was extracted from.
    """

    X: NDArray[np.floating]
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    source: str
    items: tuple[str, ...] | None = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write ``.npz`` with arrays ``X``, ``y``, ``classes`` and, where known, ``items``; no pickle inside."""
        arrays: dict[str, Any] = {
            "X": self.X,
            "y": self.y,
            "classes": np.array(self.classes, dtype=str),
        }
        if self.items is not None:
            arrays["items"] = np.array(self.items, dtype=str)
        with atomic_path(path) as temporary:
            np.savez(temporary, **arrays)
