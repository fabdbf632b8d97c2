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

from marginshot._lib.files import atomic_path
from marginshot._lib.reading import DamagedFileError, npz_member, open_npz, read_npy, reading
from marginshot._lib.validation import check_table
from marginshot.data.table import FeatureTable

PARQUET_SUFFIXES = (".parquet", ".pq")
PICKLE_SUFFIXES = (".pkl", ".pickle", ".plk")

# Metadata key of our Parquet files that holds the order of the classes.
_PARQUET_CLASSES = b"marginshot.classes"

_NPZ_ARRAYS = ("X", "y", "classes", "items")

# A class column may be called either way: `label` in EasyFSL's benchmark files, `class_name` in its data frames.
_LABEL_COLUMNS = ("label", "class_name")


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

    @cached_property
    def table(self) -> FeatureTable:
        """The embeddings in single precision, as tasks are drawn from them."""
        return FeatureTable(check_table(np.asarray(self.X, dtype=np.float32)), token=uuid.uuid4().hex)

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
        np.savez(path, allow_pickle=False, **arrays)

    def _save_parquet(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        flat = pa.array(np.ascontiguousarray(self.X).reshape(-1))
        columns = {
            "embedding": pa.FixedSizeListArray.from_arrays(flat, self.X.shape[1]),
            "label": pa.array(np.array(self.classes, dtype=object)[self.y], type=pa.string()),
        }
        if self.items is not None:
            columns["item"] = pa.array(self.items, type=pa.string())
        table = pa.table(columns).replace_schema_metadata({_PARQUET_CLASSES: json.dumps(self.classes).encode()})
        pq.write_table(table, path)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of embeddings, labels and class names: the same for the same features in any file format."""
        digest = hashlib.sha256()
        digest.update(json.dumps([*self.X.shape, *self.classes]).encode())
        digest.update(np.ascontiguousarray(self.X, dtype="<f4").data.cast("B"))
        digest.update(np.ascontiguousarray(self.y, dtype="<i8").data.cast("B"))
        return digest.hexdigest()


def load_features(spec: str | os.PathLike[str], *, allow_pickle: bool = False) -> FeatureBank:
    """Read features from a file, a folder, or by the name of a built-in set.

    Parameters
    ----------
    spec : str or path
        One of

        - ``"digits"``: scikit-learn's handwritten digits, pixels as features, nothing to download;
        - ``.npz`` with ``X`` (n_rows, n_features), ``y`` (n_rows,) and optionally ``classes`` and ``items``;
          with ``classes``, ``y`` holds indices into it, otherwise ``y`` holds the names or numbers of the classes;
        - ``.parquet`` with columns ``embedding`` and ``label`` (or ``class_name``), and optionally ``item``;
        - a folder with one ``.npy`` of shape (n_rows, n_features) per class, named after the class;
        - a pickle (``.pkl``, ``.pickle``, ``.plk``), only with ``allow_pickle=True``: a mapping from class to rows, or
          one with entries ``X`` and ``y``.
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
    _as_texts([path.name], repr(path.name))
    if path.is_dir():
        return _read_folder(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(_READERS)
        raise ValueError(f"The format of {path.name!r} is unknown: the suffix must be one of {known}.")
    return reader(path, allow_pickle)


def make_bank(
    X: Any, labels: Any, source: str, *, classes: Sequence[str] | None = None, items: Sequence[str] | None = None
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
    """
    X = _check_embeddings(X, source)
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
        y, names = _index_labels(labels, source)
    else:
        names = _as_texts(classes, source)
        y = _check_indices(labels, names, source)
    if items is not None:
        items = _as_texts(items, source)
        if len(items) != len(X):
            raise ValueError(f"{source}: {len(X)} rows of features need as many items; got {len(items)}.")
    return FeatureBank(X, y, names, source, items)


def _as_texts(names: Iterable[Any], source: str) -> tuple[str, ...]:
    try:
        values = names.reshape(-1).tolist() if isinstance(names, np.ndarray) else names  # an array may hold one name
        texts = tuple(name.decode() if isinstance(name, bytes) else str(name) for name in values)
        "".join(texts).encode()  # fails now for an unpaired surrogate, not when the result is written
        return texts
    except ValueError as error:
        raise ValueError(f"{source}: names must be UTF-8 text ({error}). Save them as such.") from error


def _check_embeddings(X: Any, source: str) -> NDArray[np.float32]:
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


def _index_labels(labels: NDArray[Any], source: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Labels that are names or numbers -> index of each in the sorted names."""
    if labels.dtype.kind not in "iubUS":
        raise ValueError(f"{source}: labels must be integers or text; got dtype {labels.dtype}.")
    values, y = np.unique(labels, return_inverse=True)
    return y.astype(np.int64), _as_texts(values, source)


def check_names_differ(classes: Sequence[str], source: str) -> None:
    """Raise ValueError if two classes have one name."""
    if len(set(classes)) != len(classes):
        twice = sorted(name for name in set(classes) if classes.count(name) > 1)[0]
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
        missing = [name for name in ("X", "y") if name not in archive.files]
        if missing:
            held = ", ".join(archive.files) or "nothing"
            raise DamagedFileError(f"{path.name}: array {missing[0]!r} is missing; the file holds {held}.")
        arrays = {name: _read_member(archive, name, path) for name in _NPZ_ARRAYS if name in archive.files}
        arrays["y"] = _plain(arrays["y"])
    return make_bank(arrays["X"], arrays["y"], path.name, classes=arrays.get("classes"), items=arrays.get("items"))


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
    import pyarrow.parquet as pq

    # Opened here, and not memory-mapped: the file may be replaced while we hold the table.
    with reading(path, "a readable Parquet file"), path.open("rb") as file:
        held = pq.read_schema(file)
        label = next((name for name in _LABEL_COLUMNS if name in held.names), None)
        if "embedding" not in held.names or label is None:
            missing = "embedding" if label else "label"
            raise DamagedFileError(f"{path.name}: column {missing!r} is missing; the file has {', '.join(held.names)}.")
        wanted = ["embedding", label] + (["item"] if "item" in held.names else [])
        table = pq.read_table(file, columns=wanted).combine_chunks()
        X = _stack_embeddings(table.column("embedding"), path.name)
        if table.column(label).null_count:
            raise DamagedFileError(f"{path.name}: {table.column(label).null_count} rows have no {label}. Drop them.")
        labels = np.array(table.column(label).to_pylist())
        items = table.column("item").to_pylist() if "item" in wanted else None
        if items and None in items:
            raise DamagedFileError(f"{path.name}: row {items.index(None)} has no item. Name it or drop it.")
        stored = (held.metadata or {}).get(_PARQUET_CLASSES)
        if stored is None:
            classes = None
        else:
            classes = json.loads(stored)
            labels = _index_in(classes, labels.tolist(), path.name)
    return make_bank(X, labels, path.name, classes=classes, items=items)


def _index_in(classes: Sequence[str], labels: Sequence[str], source: str) -> NDArray[np.int64]:
    """Labels by name -> index of each in the ``classes`` that a file of ours lists."""
    index = {name: position for position, name in enumerate(classes)}
    strange = sorted(set(labels) - set(index))
    if strange:
        raise DamagedFileError(f"{source}: label {strange[0]!r} is not among the classes the file lists.")
    return np.array([index[name] for name in labels], dtype=np.int64)


def _stack_embeddings(column: Any, source: str) -> NDArray[Any]:
    """A column of equally long lists -> (n_rows, n_features)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise DamagedFileError(f"{source}: column 'embedding' must hold lists of numbers; it holds {kind}.")
    lengths = set(pc.list_value_length(column).to_pylist())
    if len(lengths) != 1 or None in lengths:
        found = ", ".join(sorted("none" if length is None else str(length) for length in lengths)) or "no rows"
        raise DamagedFileError(f"{source}: all embeddings must have one length; got {found}.")
    values = pc.list_flatten(column).to_numpy()
    return values.reshape(len(column), lengths.pop())


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
    if not isinstance(content, Mapping) or not content:
        raise ValueError(
            f"{path.name}: the pickle must hold a mapping from class to rows; it holds {type(content).__name__}."
        )
    if {"X", "y"} <= set(content):
        return make_bank(
            content["X"], content["y"], path.name, classes=content.get("classes"), items=content.get("items")
        )
    return _bank_from_classes(content, path.name)


_READERS: dict[str, Callable[[Path, bool], FeatureBank]] = {
    ".npz": _read_npz,
    **dict.fromkeys(PARQUET_SUFFIXES, _read_parquet),
    **dict.fromkeys(PICKLE_SUFFIXES, _read_pickle),
}
