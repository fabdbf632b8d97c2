"""Labels with gaps: how unlabelled rows are marked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

UNLABELLED = -1


def unlabelled_rows(y: NDArray[Any]) -> NDArray[np.bool_]:
    """True where ``y`` (n_rows,) has no label: −1 in numbers; −1, None, NaN or "" among strings.

    Examples
    --------
    >>> unlabelled_rows(np.array(["cat", "", "dog"]))
    array([False,  True, False])
    """
    if y.dtype.kind in "iufb":
        return np.asarray(y == UNLABELLED)
    # A list such as ["cat", -1] becomes an array of strings, "-1" among them.
    return np.array([is_missing(label) or label in ("", "-1", UNLABELLED) for label in y], dtype=bool)


def is_missing(label: Any) -> bool:
    """None, NaN, or pandas' NA, which is neither equal nor unequal to itself."""
    return label is None or type(label).__name__ == "NAType" or bool(label != label)


def encode_labels(y: ArrayLike, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Classes (n_classes,), two at least, sorted, and the class index of each row (n_rows,), −1 where unlabelled."""
    if y is None:
        raise ValueError("This TransductiveMaxMarginClassifier requires y to be passed, but the target y is None.")
    classes, codes = label_codes(y, n_rows)
    if not len(classes):
        raise ValueError("y must label at least one row of each of two classes; every row is unlabelled.")
    if len(classes) < 2:
        raise ValueError(f"y must name at least two classes; got one class only: {classes[0]}.")
    return classes, codes


def label_codes(y: ArrayLike, n_rows: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Classes (n_classes,), none or more, sorted, and the class index of each row (n_rows,), −1 where unlabelled.

    Examples
    --------
    >>> label_codes(["dog", None, "cat", ""], 4)
    (array(['cat', 'dog'], dtype='<U3'), array([ 1, -1,  0, -1]))
    """
    labels = column_or_1d(_as_array(y), warn=True)
    if len(labels) != n_rows:
        raise ValueError(f"X and y need equally many rows; got {n_rows} and {len(labels)}.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y must be finite; it holds NaN or infinity. Mark unlabelled rows of a numeric y by −1.")
    unknown = unlabelled_rows(labels)
    known = labels[~unknown]
    if known.dtype.kind == "O":
        known = np.array([str(label) if isinstance(label, str) else label for label in known])
    if len(known):
        # Each label twice: scikit-learn takes many classes of one example for a regression problem and warns.
        check_classification_targets(np.repeat(known, 2))
    classes, codes = np.unique(known, return_inverse=True)
    encoded = np.full(n_rows, UNLABELLED, dtype=np.int64)
    encoded[~unknown] = codes
    return classes, encoded


@dataclass(frozen=True)
class Labelled:
    """Which rows carry a label: the classes (C,), the rows' numbers (n,), sorted, and their class indices (n,)."""

    classes: NDArray[Any]
    index: NDArray[np.int64]
    labels: NDArray[np.int64]

    @classmethod
    def from_codes(cls, classes: NDArray[Any], codes: NDArray[np.int64]) -> Labelled:
        """From the class index of every row, −1 where it has none."""
        index = np.flatnonzero(codes >= 0)
        return cls(classes, index, codes[index])

    def codes(self, n_rows: int) -> NDArray[np.int64]:
        """The class index of every row, −1 where it has none."""
        codes = np.full(n_rows, UNLABELLED, dtype=np.int64)
        codes[self.index] = self.labels
        return codes


def _as_array(y: ArrayLike) -> NDArray[Any]:
    """``y`` as an array, its missing values (a data frame's, or NaN beside strings) kept as they are."""
    if hasattr(y, "isna"):
        missing = np.asarray(y.isna())
        if missing.any():
            held = np.array(y, dtype=object)
            held[missing] = None
            return held
    labels = np.asarray(y)
    # NumPy makes "nan" of a NaN beside strings.
    return np.asarray(y, dtype=object) if labels.dtype.kind in "US" and not hasattr(y, "dtype") else labels
