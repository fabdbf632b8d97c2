"""Feature banks: one embedding per example, with its class, on disk and in memory."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.extras import need
from marginshot._lib.files import atomic_path
from marginshot._lib.names import first_twice
from marginshot._lib.reading import DamagedFileError, npz_member, open_npz, read_npy, reading
from marginshot._lib.validation import check_table
from marginshot.data.feature_arrays import check_embeddings, check_names, check_prior, scaled
from marginshot.data.parquet_files import PARQUET_CLASSES, read_parquet
from marginshot.data.table import FeatureTable
from marginshot.data.torch_files import read_torch

PARQUET_SUFFIXES = (".parquet", ".pq")
PICKLE_SUFFIXES = (".pkl", ".pickle", ".plk")

TORCH_SUFFIXES = (".pt", ".pth")

# Names that embeddings and labels go by in the files of others, ours first; the last are NumPy's for unnamed arrays.
_NAMES = {
    "X": ("X", "features", "embeddings", "embedding", "feats", "feature", "data", "x", "arr_0"),
    "y": ("y", "labels", "label", "targets", "target", "arr_1"),
    "classes": ("classes", "class_names"),
    "items": ("items",),
    "scale": ("scale",),
    "names": ("names", "text_features", "class_embeddings"),
    "prior": ("prior",),
}
_OPTIONAL = ("classes", "items", "names", "prior")


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
    names : ndarray of float32 of shape (n_classes, n_features), optional
        Class names embedded by the network of the rows: the support of tasks without shots.
    prior : ndarray of float32 of shape (n_rows, n_classes), optional
        Beliefs about the class of each row, at least 0, from names, a language model, an older model or a noisy column.
        Methods that take a prior are given its columns for the classes of a task.
    """

    X: NDArray[np.floating]
    y: NDArray[np.int64]
    classes: tuple[str, ...]
    source: str
    items: tuple[str, ...] | None = None
    names: NDArray[np.float32] | None = None
    prior: NDArray[np.float32] | None = None

    @cached_property
    def table(self) -> FeatureTable:
        """The embeddings in single precision, as tasks are drawn from them, and after them those of class names."""
        rows = np.asarray(self.X, dtype=np.float32)
        rows = rows if self.names is None else np.concatenate([rows, self.names])
        return FeatureTable(check_table(rows), token=uuid.uuid4().hex)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file that `load_features` reads; the suffix chooses between ``.npz`` and ``.parquet``.

        The ``.npz`` holds arrays ``X``, ``y``, ``classes`` and, where known, ``items``, no pickle inside. The Parquet
        file has columns ``embedding``, ``label`` (the class name) and, where known, ``item``.
        """
        suffix = Path(path).suffix.lower()
        if suffix not in (".npz", *PARQUET_SUFFIXES):
            raise ValueError(f"Features are saved as .npz or .parquet; got {os.fspath(path)!r}.")
        with atomic_path(path, private=True) as temporary:
            if suffix == ".npz":
                self._save_npz(temporary)
            else:
                self._save_parquet(temporary)

    def _save_npz(self, path: Path) -> None:
        arrays: dict[str, NDArray[np.generic]] = {
            "X": self.X,
            "y": self.y,
            "classes": np.array(self.classes, dtype=str),
        }
        if self.items is not None:
            arrays["items"] = np.array(self.items, dtype=str)
        arrays |= {name: array for name, array in (("names", self.names), ("prior", self.prior)) if array is not None}
        np.savez(path, allow_pickle=False, **arrays)

    def _save_parquet(self, path: Path) -> None:
        if self.names is not None or self.prior is not None:
            raise ValueError("A .parquet file has no room for embedded class names or a prior: save an .npz.")
        need("pyarrow")
        import pyarrow as pa
        import pyarrow.parquet as pq

        flat = pa.array(np.ascontiguousarray(self.X).reshape(-1))
        columns = {
            "embedding": pa.FixedSizeListArray.from_arrays(flat, self.X.shape[1]),
            "label": pa.array(np.array(self.classes, dtype=object)[self.y], type=pa.string()),
        }
        if self.items is not None:
            columns["item"] = pa.array(self.items, type=pa.string())
        table = pa.table(columns).replace_schema_metadata({PARQUET_CLASSES: json.dumps(self.classes).encode()})
        pq.write_table(table, path)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of all that tasks are made of: the same for the same features in any file format."""
        digest = hashlib.sha256()
        digest.update(json.dumps([*self.X.shape, *self.classes]).encode())
        digest.update(np.ascontiguousarray(self.X, dtype="<f4").data.cast("B"))
        digest.update(np.ascontiguousarray(self.y, dtype="<i8").data.cast("B"))
        for mark, array in ((b"names", self.names), (b"prior", self.prior)):
            if array is not None:
                digest.update(mark)
                digest.update(np.ascontiguousarray(array, dtype="<f4").data.cast("B"))
        return digest.hexdigest()


def load_features(spec: str | os.PathLike[str], *, allow_pickle: bool = False) -> FeatureBank:
    """Read features from a file, a folder, or by the name of a built-in set.

    Parameters
    ----------
    spec : str or path
        One of

        - ``"digits"``: scikit-learn's handwritten digits, pixels as features, nothing to download;
        - ``.npz`` with ``X`` (n_rows, n_features), ``y`` (n_rows,) and optionally ``classes`` and ``items``;
          with ``classes``, ``y`` holds indices into it, otherwise ``y`` holds the names or numbers of the classes.
          ``features``, ``embeddings``, ``feats`` or ``data`` will do for ``X``, ``labels`` or ``targets`` for ``y``.
          Integers in ``X`` with a number ``scale`` beside them stand for ``X * scale``.
          ``names`` (n_classes, n_features) are embedded class names, ``prior`` (n_rows, n_classes) beliefs about rows;
        - ``.parquet`` with columns ``embedding`` and ``label`` (or ``class_name``), and optionally ``item``;
        - a folder with one ``.npy`` of shape (n_rows, n_features) per class, named after the class;
        - ``.pt`` or ``.pth`` of ``torch.save``: tensors under these names, a pair of them, or a mapping from class to
          rows. torch need not be installed, and no code of the file is run;
        - a pickle (``.pkl``, ``.pickle``, ``.plk``) that holds one of these, only with ``allow_pickle=True``.
    allow_pickle : bool, default=False
        Read pickles. A pickle can run any code: allow it for files you trust.

    Returns
    -------
    FeatureBank
        With float32 embeddings whatever the file holds.
    """
    if os.fspath(spec) == "digits":
        return _read_digits()
    path = Path(spec)
    if not path.exists():
        raise FileNotFoundError(
            f"No features at {os.fspath(spec)!r}. Give a file, a folder of .npy files, or 'digits'."
        )
    path = path if path.name else path.resolve()  # "." has no name
    _as_texts([path.name], repr(path.name))
    if path.is_dir():
        return _read_folder(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(_READERS)
        raise ValueError(f"The format of {path.name!r} is unknown: the suffix must be one of {known}.")
    return reader(path, allow_pickle)


def make_bank(
    X: Any,
    labels: Any,
    source: str,
    *,
    classes: Sequence[str] | None = None,
    items: Sequence[str] | None = None,
    names: Any = None,
    prior: Any = None,
) -> FeatureBank:
    """Check embeddings and labels and put them into a `FeatureBank`.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Embeddings; stored as float32.
    labels : array-like of shape (n_rows,)
        Class of each row: an index into ``classes`` when those are given, else the class itself.
    source : str
        Named in error messages and in results.
    classes : sequence of str, optional
        Class names; by default the sorted distinct labels.
    items : sequence of str, optional
        Name of each row.
    names, prior : array-like of shape (n_classes, n_features) and (n_rows, n_classes), optional
        As in `FeatureBank`, classes in the order of the bank's.
    """
    X = check_embeddings(X, source)
    labels = np.asarray(labels)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind == "f":
        wide = labels.astype(np.float64)  # the bound does not fit in half precision
        labels = wide.astype(np.int64) if np.all((wide == np.floor(wide)) & (np.abs(wide) < 2**53)) else labels
    if labels.ndim != 1 or len(labels) != len(X):
        raise ValueError(
            f"{source}: {len(X)} rows of features need as many labels; got labels of shape {labels.shape}."
        )
    if classes is None:
        y, class_names = _index_labels(labels, source)
    else:
        class_names = _as_texts(classes, source)
        y = _check_indices(labels, class_names, source)
    if items is not None:
        items = _as_texts(items, source)
        if len(items) != len(X):
            raise ValueError(f"{source}: {len(X)} rows of features need as many items; got {len(items)}.")
    names = check_names(names, len(class_names), X.shape[1], source)
    prior = check_prior(prior, len(X), len(class_names), source)
    return FeatureBank(X, y, class_names, source, items, names, prior)


def _as_texts(names: Iterable[Any], source: str) -> tuple[str, ...]:
    try:
        values = names.reshape(-1).tolist() if isinstance(names, np.ndarray) else names  # an array may hold one name
        texts = tuple(name.decode() if isinstance(name, bytes) else str(name) for name in values)
        "".join(texts).encode()  # fails now for an unpaired surrogate, not when the result is written
        return texts
    except ValueError as error:
        raise ValueError(f"{source}: names must be UTF-8 text ({error}). Save them as such.") from error


def _index_labels(labels: NDArray[Any], source: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels that are names or numbers -> index of each in the sorted names."""
    if labels.dtype.kind not in "iubUS":
        raise ValueError(f"{source}: labels must be integers or text; got dtype {labels.dtype}.")
    values, y = np.unique(labels, return_inverse=True)
    return y.astype(np.int64), _as_texts(values, source)


def check_names_differ(classes: Sequence[str], source: str) -> None:
    """Raise ValueError if two classes have one name."""
    if (twice := first_twice(classes)) is not None:
        raise ValueError(f"{source}: class names must differ; {twice!r} occurs twice.")


def _check_indices(labels: NDArray[Any], classes: tuple[str, ...], source: str) -> NDArray[np.int64]:
    check_names_differ(classes, source)
    if labels.dtype.kind not in "iub":
        raise ValueError(
            f"{source}: with class names given, labels must be indices into them; got dtype {labels.dtype}."
        )
    y = labels.astype(np.int64)
    if y.min() < 0 or y.max() >= len(classes):
        raise ValueError(f"{source}: labels must lie in 0..{len(classes) - 1}; got {y.min()}..{y.max()}.")
    return y


def _read_digits() -> FeatureBank:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return make_bank(digits.data, digits.target, "digits", classes=[str(name) for name in digits.target_names])


def _read_npz(path: Path, allow_pickle: bool) -> FeatureBank:
    with (
        reading(path, "a readable .npz file"),
        path.open("rb") as file,
        open_npz(file, allow_pickle=allow_pickle) as archive,
    ):
        found = _find_arrays(archive.files)
        missing = [name for name in ("X", "y") if name not in found]
        if missing:
            held = ", ".join(archive.files) or "nothing"
            raise DamagedFileError(
                f"{path.name}: array {missing[0]!r} is missing; the file holds {held}. Other names for it are "
                f"{', '.join(_NAMES[missing[0]][1:])}."
            )
        arrays = {ours: _read_member(archive, theirs, path) for ours, theirs in found.items()}
        arrays["y"] = _plain(arrays["y"])
    if "scale" in arrays:
        arrays["X"] = scaled(arrays["X"], arrays["scale"], path.name)
    return make_bank(arrays["X"], arrays["y"], path.name, **{name: arrays.get(name) for name in _OPTIONAL})


def _find_arrays(held: Iterable[Any]) -> dict[str, str]:
    """Our name of each array -> the name it has among those ``held``."""
    names = set(held)
    found = {ours: next((name for name in known if name in names), None) for ours, known in _NAMES.items()}
    return {ours: theirs for ours, theirs in found.items() if theirs is not None}


def _read_member(archive: Any, name: str, path: Path) -> Any:
    with reading(path, f"features: array {name!r} cannot be read"):
        try:
            return npz_member(archive, name)
        except ValueError as error:
            if "allow_pickle" not in str(error):
                raise
            raise DamagedFileError(
                f"{path.name}: array {name!r} holds Python objects. Save numbers or text, or allow pickle if you trust "
                "it."
            ) from error


def _plain(labels: NDArray[Any]) -> NDArray[Any]:
    """An object array of text or integers, converted to an array of that type."""
    return np.array(labels.tolist()) if labels.dtype == object else labels


def _read_parquet(path: Path, allow_pickle: bool) -> FeatureBank:
    return make_bank(**read_parquet(path), source=path.name)


def _read_torch(path: Path, allow_pickle: bool) -> FeatureBank:
    return _bank_from_content(read_torch(path), path.name)


def _read_folder(path: Path) -> FeatureBank:
    files = sorted(path.glob("*.npy"))
    if not files:
        raise ValueError(f"{path.name}: a folder of features needs one .npy per class; it holds none.")
    return _bank_from_classes({file.stem: read_npy(file, "a readable .npy array") for file in files}, path.name)


def _bank_from_classes(rows: Mapping[Any, Any], source: str) -> FeatureBank:
    """One array of shape (n_rows, n_features) per class."""
    arrays = {str(name): np.asarray(value) for name, value in rows.items()}
    if len(arrays) < len(rows):
        names = [str(name) for name in rows]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{source}: two classes are called {twice!r}, a number and a string. Rename one.")
    widths = {}
    for name, array in arrays.items():
        if array.ndim != 2 or 0 in array.shape:
            raise ValueError(f"{source}: class {name!r} must have shape (rows, features); got {array.shape}.")
        widths[array.shape[1]] = name
    if len(widths) != 1:
        (one, first), (other, second) = list(widths.items())[:2]
        raise ValueError(
            f"{source}: all classes need equal n_features; class {first!r} has {one}, class {second!r} has {other}."
        )
    y = np.repeat(np.arange(len(arrays)), [len(array) for array in arrays.values()])
    return make_bank(np.concatenate(list(arrays.values())), y, source, classes=list(arrays))


def _read_pickle(path: Path, allow_pickle: bool) -> FeatureBank:
    if not allow_pickle:
        raise ValueError(
            f"{path.name} is a pickle, which can run any code when it is read. If you trust it, allow pickle "
            "(--allow-pickle, or allow_pickle=True)."
        )
    with reading(path, "a readable pickle"), path.open("rb") as file:
        content = pickle.load(file)
    return _bank_from_content(content, path.name)


def _bank_from_content(content: Any, source: str) -> FeatureBank:
    """What a program saved: arrays by name, embeddings and labels as a pair, or rows by class."""
    if isinstance(content, tuple | list) and len(content) == 2:
        return make_bank(content[0], _plain(np.asarray(content[1])), source)
    if not isinstance(content, Mapping) or not content:
        raise ValueError(
            f"{source} must hold embeddings and labels (X and y), or a mapping from class to rows; it holds "
            f"{type(content).__name__}."
        )
    found = {ours: content[theirs] for ours, theirs in _find_arrays(content).items()}
    if {"X", "y"} <= set(found):
        labels = _plain(np.asarray(found["y"]))
        return make_bank(found["X"], labels, source, **{name: found.get(name) for name in _OPTIONAL})
    return _bank_from_classes(content, source)


_READERS: dict[str, Callable[[Path, bool], FeatureBank]] = {
    ".npz": _read_npz,
    **dict.fromkeys(PARQUET_SUFFIXES, _read_parquet),
    **dict.fromkeys(TORCH_SUFFIXES, _read_torch),
    **dict.fromkeys(PICKLE_SUFFIXES, _read_pickle),
}
