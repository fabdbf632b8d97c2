"""What is to be labelled, in a file or a folder: read by its kind, and written back with its labels filled in."""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from marginshot._lib.names import listed
from marginshot.labelling.errors import MissingInputError, Option, RefusedError
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.detections import Detections, read_detections
from marginshot.labelling.items.kinds import row_names
from marginshot.labelling.items.tables import (
    EMBEDDING_COLUMN,
    Table,
    collect_embeddings,
    collect_texts,
    read_npz,
    read_table,
)

#: Columns that a filled table has after those of the user.
REVIEW_COLUMNS = ("probability", "runner_up", "review")

# What these columns hold in a row without a text.
_NOT_LABELLED = {"probability": None, "runner_up": "", "review": "no text"}


@dataclass(frozen=True)
class Source:
    """A folder of pictures, or a table whose column ``label`` is to be filled.

    Parameters
    ----------
    path : Path
        Where it is.
    table : Table, optional
        What it holds; None for a folder.
    label : str, default=""
        Name of the column of labels.
    boxes : Detections, optional
        What a detector found in the pictures of a folder: its boxes are to be labelled, not the pictures.
    deployments : Path, optional
        Table of where and when the cameras of a folder stood.
    """

    path: Path
    table: Table | None = None
    label: str = ""
    boxes: Detections | None = None
    deployments: Path | None = None

    @property
    def others(self) -> dict[str, tuple[Path, ...]]:
        """Files that are read beside it, by option: no output may replace them."""
        files = {"boxes": self.boxes.path if self.boxes else None, "deployments": self.deployments}
        return {name: (path,) for name, path in files.items() if path is not None}

    def rows(self) -> Table:
        """The table; a folder is an error."""
        if self.table is None:
            raise ValueError(f"{self.path} is a folder of pictures, not a table.")
        return self.table

    def column_of_labels(self, *, needed: bool) -> str | None:
        """Name of the column to read labels from; None where there is none and none is ``needed``."""
        return self.label if needed or self.label in self.rows().columns else None

    def filled(self, answers: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        """What is written: the user's columns with the labels filled in and ours after them, embeddings left out.

        Parameters
        ----------
        answers : mapping of str to list
            `Labelling.columns`, which is also what is written for a folder.
        """
        if self.table is None:
            return dict(answers)
        columns = self.own_columns(answers["item"])
        if len(answers["item"]) < self.table.n_rows:
            answers = self._with_rows_left_out(answers)
        columns[self.label] = answers["label"]
        return columns | {name: answers[name] for name in REVIEW_COLUMNS}

    def _with_rows_left_out(self, answers: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        """The answers, (n_rows,) each, where rows without a text have only the label that they came with."""
        own = self.rows().columns.get(self.label, [""] * self.rows().n_rows)
        without = {"label": own} | {name: [value] * len(own) for name, value in _NOT_LABELLED.items()}
        return {name: self.in_rows(answers["item"], answers[name], empty) for name, empty in without.items()}

    def in_rows(self, items: Sequence[str], values: Sequence[Any], empty: Sequence[Any] = ()) -> list[Any]:
        """The ``values`` (n,) of ``items`` (n,) for every row that is written; rows left out have those of ``empty``.

        ``empty`` has one for every row of the table; by default, all are "".
        """
        if self.table is None or len(items) == self.table.n_rows:
            return list(values)
        found, names = dict(zip(items, values, strict=True)), row_names(self.table.n_rows)
        return [found.get(name, empty[row] if empty else "") for row, name in enumerate(names)]

    def own_columns(self, items: Sequence[str]) -> dict[str, list[Any]]:
        """The user's columns, embeddings left out; the names of the ``items`` where there is no other."""
        columns = {name: list(values) for name, values in self.rows().columns.items() if name != EMBEDDING_COLUMN}
        return columns if set(columns) - {self.label} else {"item": list(items), **columns}


def open_source(path: Path, label: str | None) -> Source:
    """A folder, a table, or an ``.npz`` as one, with the few known labels in column ``label``."""
    if path.is_dir():
        if label is not None:
            raise RefusedError(f"{path} is a folder of pictures and has no columns.", at_fault=Option.LABEL)
        return Source(path)
    if not path.exists():
        raise MissingInputError(f"{path} does not exist. Give a folder of pictures, a table or a file of embeddings.")
    npz = path.suffix.lower() == ".npz"
    table = read_npz(path, label) if npz else read_table(path)
    taken = [name for name in REVIEW_COLUMNS if name in table.columns]
    if taken:
        raise ValueError(f"{table.source} has a column {taken[0]!r} already, where ours would go. Rename or drop it.")
    return Source(path, table, label or ("y" if npz else "label"))


def with_boxes(source: Source, boxes: Path, least: float) -> Source:
    """A folder of pictures with what a detector found in them; boxes of at least this confidence are items."""
    if source.table is not None:
        raise RefusedError(
            f"{source.path} is a table; a detector's boxes are in a folder of pictures.", at_fault=Option.BOXES
        )
    return replace(source, boxes=read_detections(boxes, source.path, least))


def open_unlabelled(path: Path, column: str | None) -> Source:
    """A folder, table or ``.npz`` for a model to label into a new ``column``; labels there are not ours to replace."""
    opened = open_source(path, None)
    if opened.table is None:
        return opened
    wanted = column or "label"
    if wanted in ("item", *REVIEW_COLUMNS):
        raise RefusedError(f"{wanted!r} is a column that we write; name the labels otherwise.", at_fault=Option.LABEL)
    if wanted in opened.table.columns:
        raise RefusedError(
            "{source} has a column {column!r} already. Name the new column with {label}.",
            source=opened.table.source,
            column=wanted,
            label=Option.LABEL,
        )
    return Source(opened.path, opened.table, wanted)


def collect_rows(table: Table, text: str | None, label: str | None, classes: Names[str] = ()) -> Collection:
    """The rows of a table as texts, or as embeddings where no column of texts is named: see `tables.given_labels`."""
    if text is not None and table.source.lower().endswith(".npz"):
        raise RefusedError(f"{table.source} holds embeddings in X, and no texts; leave it out.", at_fault=Option.TEXT)
    if text is not None and text == label:
        raise RefusedError(f"{text!r} is the column of labels; name the column of texts.", at_fault=Option.TEXT)
    if text is not None:
        return collect_texts(table, text, label, classes)
    if EMBEDDING_COLUMN not in table.columns:
        raise RefusedError(
            f"{table.source} has no column {EMBEDDING_COLUMN!r}; name the column of texts (one of "
            f"{listed(table.columns)}).",
            at_fault=Option.TEXT,
        )
    return collect_embeddings(table, label, classes)
