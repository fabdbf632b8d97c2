"""Checks of a saved model that may be damaged, or made by somebody else: its header, its planes, its rule.

A number that is not finite would give every item the first class. An index out of range would name no row.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.reading import read_npz
from marginshot.labelling.answers.rejection import Rejection
from marginshot.labelling.items.kinds import KINDS

_MOST_FEATURES = 2**20


def check_header(header: Mapping[str, Any]) -> None:
    """Raise ValueError unless the kind is known, and encoder and identity are texts."""
    if not isinstance(header["kind"], str) or header["kind"] not in KINDS:
        raise ValueError(f"its kind is {header['kind']!r:.60}")
    for name in ("encoder", "identity"):
        if not isinstance(header[name], str):
            raise ValueError(f"its {name} is {header[name]!r:.60}")


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member of the archive as it was stored; one that would unpack to more than the file holds is not read."""
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{name} is compressed, which no model of ours is")
    return archive.read(name)


def check_planes(path: Path) -> None:
    """Raise ValueError unless the arrays of a classifier are stored plainly, finite and within range."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{name} is compressed, which no model of ours is")
    arrays = read_npz(path, "a classifier saved by marginshot")
    for name, array in arrays.items():
        _check_finite(name, array)
    classes = arrays["classes"]
    if classes.ndim != 1 or classes.dtype.kind != "U" or len(set(classes.tolist())) != len(classes) or len(classes) < 2:
        raise ValueError("its classes are not different names")
    if "neighbours" in arrays:
        neighbours, n_rows = arrays["neighbours"], len(arrays["neighbour_rows"])
        if neighbours.dtype.kind not in "iu" or len(neighbours) != n_rows:
            raise ValueError("its neighbours are not row numbers")
        if neighbours.size and not 0 <= int(neighbours.min()) <= int(neighbours.max()) < n_rows:
            raise ValueError(f"its neighbours are not among its {n_rows:,} rows")


def check_features(n_features: object) -> int:
    """The number of features of a classifier; raises ValueError where it is not valid."""
    if type(n_features) is not int or not 1 <= n_features <= _MOST_FEATURES:
        raise ValueError(f"its number of features is {n_features!r:.60}")
    return n_features


def make_rejection(rule: Mapping[str, NDArray[Any]], n_classes: int, n_features: int) -> Rejection:
    """The rule for foreign items; raises ValueError unless it fits a classifier of these numbers."""
    shapes = {"mean": (n_features,), "centres": (n_classes, n_features), "none": (len(rule["none"]), n_features)}
    for name, shape in shapes.items():
        if rule[name].shape != shape or rule[name].dtype.kind != "f":
            raise ValueError(f"{name} of its rule for foreign items has the shape {rule[name].shape}, not {shape}")
        _check_finite(name, rule[name])
    threshold = rule["threshold"].astype(np.float64)
    if threshold.shape not in ((), (n_classes,)) or np.isnan(threshold).any():  # models before 0.3 have one for all
        raise ValueError("the threshold of its rule for foreign items is not a number for each class")
    return Rejection(rule["mean"], rule["centres"], rule["none"], np.broadcast_to(threshold, n_classes))


def _check_finite(name: str, array: NDArray[Any]) -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} holds numbers that are not finite")
