"""Rows of pictures that earlier runs moved into class folders: they stay in the table of the folder they are in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marginshot._lib.names import folder_name
from marginshot.labelling.errors import Option, OutputExistsError
from marginshot.labelling.items.collection import FOREIGN
from marginshot.labelling.outputs.records import Record, WrittenTable, load_record, name_beside, record_path
from marginshot.labelling.outputs.requests import Request
from marginshot.labelling.outputs.result import COLUMNS, GIVEN


@dataclass(frozen=True)
class MovedRows:
    """Rows of the last table whose pictures are in class folders beside it.

    Parameters
    ----------
    columns : mapping of str to list
        Their cells, by `COLUMNS`: as written, but with the labels that were given since.
    digests : list of str
        Hash of each picture, empty where it is not known.
    """

    columns: Mapping[str, list[Any]]
    digests: list[str]

    @property
    def items(self) -> list[str]:
        """Where the pictures are, as seen from the table."""
        return self.columns["item"]


def moved_rows(table: Path, request: Request, listed: Collection[str] = ()) -> MovedRows:
    """What a new ``table`` keeps of the last one of the same source, besides the items ``listed`` anew."""
    record = load_record(record_path(table))
    found: dict[str, tuple[Any, ...]] = {}
    if record is not None and request.source is not None and record.is_of(request.source.path):
        written, digests = record.written[0], record.digests
        for row, key in enumerate(written.keys):
            place = place_of(written, row, table.parent)
            if place and place not in listed:
                said = None if request.said is None else request.said.get(name_beside(table, place), "")
                found[place] = (*_answer(record, row, said), digests.get(key, ""))
    rows = [(place, *rest) for place, rest in found.items()]
    *columns, hashes = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in (*COLUMNS, "")]
    return MovedRows(dict(zip(COLUMNS, columns, strict=True)), hashes)


def check_moved(table: Path, request: Request) -> None:
    """Raise OutputExistsError where ``table`` lists pictures that were moved from another source."""
    record = load_record(record_path(table))
    if record is None or request.source is None or record.is_of(request.source.path):
        return
    written = record.written[0]
    n_moved = sum(place_of(written, row, table.parent) is not None for row in range(len(written.keys)))
    if n_moved:
        raise OutputExistsError(
            "{table} lists the pictures moved there from {source}, {n:,} in all; a new table would not have them. Give "
            "another {path}, or use {force} to replace it.",
            table=table,
            source=record.source,
            n=n_moved,
            path=Option.PATH,
            force=Option.FORCE,
        )


def place_of(written: WrittenTable, row: int, folder: Path) -> str | None:
    """Where in ``folder`` the picture of a row is; None where it was not moved, or is there no more."""
    key, label = written.keys[row], written.label[row]
    names = [key] if key in written.moved else []
    if written.before and label:
        names.append(f"{folder_name(label)}/{key}")  # moved later, once the file in its way was gone
    return next((name for name in names if (folder / name).is_file()), None)


def _answer(record: Record, row: int, label: str | None) -> tuple[Any, ...]:
    """Label, probability, runner-up and review of a row: as written, or by the ``label`` that a person gave it.

    That is empty where there is none, or none any more, and None where labels of persons were not read.
    """
    written = record.written[0]
    if label or (label is not None and written.keys[row] in record.given):
        return ("", "", "", label) if label in ("", FOREIGN) else (label, 1.0, "", GIVEN)
    return written.label[row], written.probability[row], written.runner_up[row], written.review[row]
