"""Tables with a text or an embedding in each row and a half-empty column of labels; and writing them back filled."""

from __future__ import annotations

import codecs
import csv
import io
import re
import reprlib
from collections import Counter
from collections.abc import Collection as Names
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.extras import need
from marginshot._lib.files import atomic_path
from marginshot._lib.names import first_twice, listed, original_cell, safe_cell
from marginshot._lib.reading import read_npz as read_archive
from marginshot._lib.reading import reading
from marginshot._lib.validation import refuse_masked
from marginshot._lib.warn import warn_user
from marginshot.data.features import PARQUET_SUFFIXES, check_names_differ
from marginshot.data.labels import is_missing
from marginshot.labelling.errors import MissingInputError
from marginshot.labelling.items.collection import FOREIGN, MEAN_MISSING, MEAN_UNKNOWN, Collection, means_none
from marginshot.labelling.items.kind import Kind
from marginshot.labelling.items.kinds import EMBEDDING, TEXT, row_names
from marginshot.labelling.items.label_studio import TASK_SUFFIX, read_tasks

CSV_SUFFIXES = (".csv", ".tsv")
TABLE_SUFFIXES = (*CSV_SUFFIXES, *PARQUET_SUFFIXES)

_DECIMAL = re.compile(r"[-+]?[0-9]+(,[0-9]+)?([eE][-+]?[0-9]+)?")

# Of a Parquet file. One of 160 kB may hold 50 million rows of one text, which become objects of 100 bytes and more.
_MOST_ROWS = 10_000_000

EMBEDDING_COLUMN = "embedding"
ITEM_COLUMN = "item"  # the names of embeddings


@dataclass(frozen=True)
class Table:
    """A table as it was read.

    Parameters
    ----------
    columns : mapping of str to sequence
        Values of each column, in the order of the file.
    source : str
        Named in messages.
    """

    columns: Mapping[str, Sequence[Any]]
    source: str

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values()), ()))

    def column(self, name: str) -> Sequence[Any]:
        """One column; an unknown name is an error that lists those there are."""
        if name not in self.columns:
            raise ValueError(f"{self.source} has no column {name!r}; it has {listed(self.columns)}.")
        return self.columns[name]


def read_table(path: Path) -> Table:
    """A CSV, TSV or Parquet file, or the tasks of a JSON export of Label Studio."""
    check_ends(path)
    if path.suffix.lower() == TASK_SUFFIX:
        return Table(read_tasks(path), path.name)
    if path.suffix.lower() in CSV_SUFFIXES:
        return _read_csv(path)
    if path.suffix.lower() in PARQUET_SUFFIXES:
        return _read_parquet(path)
    raise ValueError(
        f"Cannot tell what {path.name} is; tables are {', '.join(TABLE_SUFFIXES)}, and {TASK_SUFFIX} of Label Studio."
    )


def check_ends(path: Path) -> None:
    """Raise MissingInputError for what is no file, and may never end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise MissingInputError(f"{path} is a device or a pipe, which may never end. Write it to a file first.")


def write_table(columns: Mapping[str, Sequence[Any]], path: Path) -> None:
    """Write columns to a CSV, TSV or Parquet file, by its suffix; nothing is half-written."""
    if path.suffix.lower() in PARQUET_SUFFIXES:
        need("pyarrow")
        import pyarrow as pa
        import pyarrow.parquet as pq

        with atomic_path(path) as temporary:
            pq.write_table(pa.table({name: pa.array(list(values)) for name, values in columns.items()}), temporary)
        return
    if path.suffix.lower() not in CSV_SUFFIXES:
        raise ValueError(f"Tables are written as {', '.join(TABLE_SUFFIXES)}; got {path.name!r}.")
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
        rows = [[safe_cell(value) for value in row] for row in (columns, *zip(*columns.values(), strict=True))]
        # Python leaves a carriage return without quotes, and then takes it for the end of a line.
        returns = any(isinstance(value, str) and "\r" in value for row in rows for value in row)
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        csv.writer(
            file, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL if returns else csv.QUOTE_MINIMAL
        ).writerows(rows)


def collect_texts(table: Table, text: str, label: str | None, classes: Names[str] = ()) -> Collection:
    """Rows with a text in column ``text`` and, where known, a label in column ``label``: see `given_labels`."""
    _check_single(table.column(text), "text")
    if not table.n_rows:
        raise ValueError(f"{table.source} has no rows.")
    return text_rows(table.column(text), None if label is None else table.column(label), classes)


def collect_embeddings(table: Table, label: str | None, classes: Names[str] = ()) -> Collection:
    """Rows with an embedding in the column of that name and, where known, a label: see `given_labels`."""
    X = stack_embeddings(table.column(EMBEDDING_COLUMN), table.source)
    items = [as_text(item) for item in table.columns[ITEM_COLUMN]] if ITEM_COLUMN in table.columns else None
    labels = None if label is None else table.column(label)
    return embedding_rows(X, labels, items if items and all(items) else None, classes)


def text_rows(texts: Sequence[Any], labels: Sequence[Any] | None, classes: Names[str] = ()) -> Collection:
    """Texts, with labels where known."""
    return _rows(TEXT, [as_text(text) for text in texts], labels, None, classes)


def embedding_rows(
    X: NDArray[np.float32],
    labels: Sequence[Any] | None,
    items: Sequence[str] | None = None,
    classes: Names[str] = (),
) -> Collection:
    """Embeddings (n_rows, n_features), with labels where known, and names."""
    if items is not None and len(items) != len(X):
        raise ValueError(f"X and items need equal lengths; got {len(X)} and {len(items)}.")
    return _rows(EMBEDDING, X, labels, items, classes)


def _rows(
    kind: Kind, contents: Any, labels: Sequence[Any] | None, items: Sequence[str] | None, classes: Names[str]
) -> Collection:
    n_rows = len(contents)
    known = ("",) * n_rows if labels is None else given_labels(list(labels), classes)
    names = row_names(n_rows) if items is None else tuple(str(item) for item in items)
    return Collection(kind, names, contents, known, np.ones(n_rows, dtype=bool))


def read_npz(path: Path, label: str | None) -> Table:
    """An ``.npz`` with ``X`` and labels (``y`` unless named otherwise) as a table.

    With ``classes`` in the file, labels are indices into it, -1 where unknown; otherwise they are names, empty (or -1)
    where unknown. ``items``, if there, name the rows.
    """
    check_ends(path)
    wanted = label or "y"
    held = read_archive(path, "a readable .npz of numbers and text")
    for name in ("X", *((wanted,) if label else ())):
        if name not in held:
            raise ValueError(f"{path.name} has no array {name!r}; it has {listed(held) or 'none'}.")
    if held["X"].ndim != 2:
        raise ValueError(f"{path.name}: X must have shape (rows, features); got {held['X'].shape}.")
    columns: dict[str, Sequence[Any]] = {EMBEDDING_COLUMN: held["X"]}
    if "items" in held:
        columns[ITEM_COLUMN] = _flat(held["items"], f"{path.name}: items", "name a row")
    if wanted in held:
        values = _flat(held[wanted], f"{path.name}: {wanted}", "label a row")
        if "classes" in held:
            classes = _flat(held["classes"], f"{path.name}: classes", "name a class")
            values = _name_classes(values, [str(name) for name in classes], path.name)
        columns[wanted] = values
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"{path.name}: all arrays need one length; got {found}.")
    return Table(columns, path.name)


def stack_embeddings(values: Any, source: str) -> NDArray[np.float32]:
    """Equally long lists of numbers -> finite float32 of shape (n_rows, n_features)."""
    if hasattr(values, "toarray"):
        raise ValueError(f"{source}: a sparse matrix cannot be labelled; pass {source}.toarray(), or reduce it first.")
    refuse_masked(values, source)
    kind = getattr(values, "dtype", np.dtype(float)).kind
    if kind in "mMc":
        held = "complex numbers" if kind == "c" else "dates or times"
        raise ValueError(f"{source}: embeddings must be real numbers; got {held} ({values.dtype}).")
    try:
        with np.errstate(over="ignore"):  # too large a number becomes infinity, and is refused with it
            X = np.asarray(values, dtype=np.float32)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{source}: embeddings must be lists of numbers of one length; {_odd_row(values)}.") from error
    if X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{source}: embeddings must have shape (rows, features), neither of them 0; got {X.shape}.")
    bad = np.flatnonzero(~np.isfinite(X).all(axis=1))
    if len(bad):
        raise ValueError(f"{source}: {len(bad)} rows hold NaN or infinity, the first is row {bad[0] + 1}. Drop them.")
    return X


def _odd_row(values: Sequence[Any]) -> str:
    """What is wrong with the first row that is not like the first one."""
    lengths = [len(value) if hasattr(value, "__len__") and not isinstance(value, str) else None for value in values]
    for place, length in enumerate(lengths, start=1):
        if length is None:
            return f"row {place} is {reprlib.repr(values[place - 1])}"
        if length != lengths[0]:
            return f"row {place} has {length}, the first has {lengths[0]}"
    return "some are not numbers"


def given_labels(values: Sequence[Any], classes: Names[str] = ()) -> tuple[str, ...]:
    """Labels as `read_labels` reads them, and a warning where words were taken as no label."""
    labels = read_labels(values, classes)
    warn_of_missing(values, classes)
    return labels


def warn_of_missing(values: Sequence[Any], classes: Names[str] = ()) -> None:
    """Warn where `read_labels` takes words as no label."""
    words = Counter(text for text in map(_cell, values) if text in MEAN_MISSING and text not in classes)
    if words:
        told = " and ".join(f"{n:,} {'cell' if n == 1 else 'cells'} {word!r}" for word, n in words.most_common())
        verb = "is" if words.total() == 1 else "are"
        warn_user(f"{told} {verb} taken as no label. If a class is called so, name it among the classes.")


def read_labels(values: Sequence[Any], classes: Names[str] = ()) -> tuple[str, ...]:
    """Labels as text, stripped; empty for None, NaN, "", -1, and what other programs write for a missing value.

    Of these words, those in ``classes`` are labels. The words for none of the classes, in any case, become `FOREIGN`.
    """
    _check_single(values, "label")
    missing = MEAN_UNKNOWN | (MEAN_MISSING - set(classes))
    labels = ("" if (text := _cell(value)) in missing else text for value in values)
    return tuple(FOREIGN if means_none(label) else label for label in labels)


def _check_single(values: Sequence[Any], what: str) -> None:
    """Raise ValueError where a row holds a list."""
    for place, value in enumerate(values, start=1):
        if isinstance(value, list | tuple | dict | np.ndarray):
            held = reprlib.repr(value.tolist() if isinstance(value, np.ndarray) else value)
            raise ValueError(f"Every row needs one {what}; row {place} holds {held}. Give another column.")


def _cell(value: Any) -> str:
    """A label as it stands in a cell, without spaces around it."""
    return as_text(_whole(value)).strip()


def as_text(value: Any) -> str:
    """The value as text; empty where it is missing."""
    return "" if is_missing(value) else str(value)


def _whole(value: Any) -> Any:
    """A whole number as such: a column with gaps holds 3 as 3.0."""
    return int(value) if isinstance(value, float | np.floating) and float(value).is_integer() else value


def _flat(values: NDArray[Any], source: str, each: str) -> list[Any]:
    """Values of an array as a column of a table has them: text as text, numbers that are whole as such."""
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"{source} needs one {each}; got shape {values.shape}.")
    if values.dtype.kind == "S":
        try:
            values = np.char.decode(values, "utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"{source} is not UTF-8 text ({error.reason}). Save it as such.") from error
    return [_whole(value) for value in values.tolist()]


def _name_classes(indices: Sequence[Any], classes: Sequence[str], source: str) -> list[str]:
    check_names_differ(classes, source)
    wrong = [index for index in indices if not isinstance(index, int) or not -1 <= index < len(classes)]
    if wrong:
        raise ValueError(f"{source}: labels must be -1 or indices of the {len(classes)} classes; got {wrong[0]!r}.")
    return ["" if index == -1 else classes[index] for index in indices]


def _read_csv(path: Path) -> Table:
    held = path.read_bytes()
    if held.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{path.name} is in UTF-16. Save it as UTF-8; spreadsheets call this CSV UTF-8.")
    with reading(path, "a table in UTF-8", "Save it as UTF-8."):
        content = held.decode("utf-8-sig")
    first = content.partition("\n")[0]
    if path.suffix.lower() == ".csv" and "\t" in first and "," not in first and ";" not in first:
        raise ValueError(f"{path.name} is separated by tabs. Rename it to {path.stem}.tsv.")
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ";" if first.count(";") > first.count(",") else ","
    rows = [[original_cell(cell) for cell in row] for row in _csv_rows(content, delimiter, path) if row]
    if not rows:
        raise ValueError(f"{path.name} is empty.")
    header = rows[0]
    if (twice := first_twice(header)) is not None:
        raise ValueError(f"{path.name}: two columns are called {twice!r}.")
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            raise ValueError(f"{path.name}: row {number} has {len(row)} fields, the header has {len(header)}.")
    columns = {name: [row[place] for row in rows[1:]] for place, name in enumerate(header)}
    if delimiter == ";":
        columns = {name: _with_points(values) for name, values in columns.items()}
    return Table(columns, path.name)


def _with_points(values: list[str]) -> list[str]:
    """A column of numbers with decimal points, where it has decimal commas as European spreadsheets write them."""
    held = [value.strip() for value in values if value.strip()]
    if not all(map(_DECIMAL.fullmatch, held)) or not any("," in value for value in held):
        return values
    return [value.replace(",", ".") for value in values]


def _csv_rows(content: str, delimiter: str, path: Path) -> list[list[str]]:
    # Texts may be longer than the 131,072 characters the module allows a field unless told otherwise.
    usual = csv.field_size_limit(len(content) + 1)
    try:
        with reading(path, "a readable table"):
            return list(csv.reader(io.StringIO(content, newline=""), delimiter=delimiter))
    finally:
        csv.field_size_limit(usual)


def _read_parquet(path: Path) -> Table:
    need("pyarrow")
    import pyarrow.parquet as pq

    with reading(path, "a readable Parquet file"), path.open("rb") as file:
        n_rows = pq.read_metadata(file).num_rows
        if n_rows > _MOST_ROWS:
            raise ValueError(f"it has {n_rows:,} rows, and {_MOST_ROWS:,} are labelled at most")
        table = pq.read_table(file)
        return Table({name: _values(table.column(name)) for name in table.column_names}, path.name)


def _values(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    lists = (
        pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type)
    )
    lengths = pc.unique(pc.list_value_length(column)).to_pylist() if lists and len(column) else []
    if lists and len(lengths) == 1 and lengths[0]:
        # The quick way for embeddings: no Python object per number.
        return np.asarray(pc.list_flatten(column).to_numpy().reshape(len(column), lengths[0]))
    return column.to_pylist()
