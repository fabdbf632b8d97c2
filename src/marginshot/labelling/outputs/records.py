"""The record of a run, hidden beside its table: the rows as they were written, and the options.

With it the next run into the same place finds the labels that the user changed, and the options to use again. What a
person said is kept by the session of the source (`marginshot.labelling.session`).
"""

from __future__ import annotations

import hashlib
import json
import reprlib
from collections import Counter
from collections.abc import Collection as Names
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import NoneType
from typing import Any

from marginshot._lib.files import atomic_path
from marginshot._lib.reading import read_json, reading
from marginshot.labelling.items.collection import FOREIGN
from marginshot.labelling.items.sources import REVIEW_COLUMNS
from marginshot.labelling.items.tables import as_text, read_labels
from marginshot.labelling.outputs.requests import Request
from marginshot.labelling.outputs.result import GIVEN

FORMAT = "marginshot-run-2"

# Records of this format kept all labels that a person gave; they are in `Record.said`, until a session has taken them.
_FORMAT_WITH_LABELS = "marginshot-run-1"

#: What a user may write into the column review, in any case, to say that the label is right.
CONFIRMED = frozenset({GIVEN, "ok"})

# Probabilities that a user may put beside a label of their own.
_OF_EXAMPLES = frozenset({"", "1", "1.0"})

_OURS = ("label", *REVIEW_COLUMNS)

#: Options that the next run into the same place recalls, and the types of their values. A record lies beside outputs,
#: where others may have put it: none of these removes, moves or replaces a file, or names one to be written.
REMEMBERED: Mapping[str, tuple[type, ...]] = {
    "examples": (list,),
    "boxes": (str, NoneType),
    "box_confidence": (float, int),
    "deployments": (str, NoneType),
    "event_gap": (float, int, NoneType),
    "like": (str, NoneType),
    "text": (str, NoneType),
    "label": (str, NoneType),
    "classes": (str, NoneType),
    "names": (bool,),
    "encoder": (str, NoneType),
    "reject": (bool,),
    "lose": (float, int),
    "suggest": (int,),
    "export": (list, NoneType),
    "gallery": (bool,),
    "session": (bool,),
}


def record_path(table: Path) -> Path:
    """Where the record of ``table`` is."""
    return table.with_name(f".{table.name}-run.json")


def name_beside(table: Path, key: str) -> str:
    """The name by which a session knows a picture in the folder of ``table``, whose rows call it ``key``."""
    return f"{table.parent.resolve().as_posix()}/{key}"


def row_keys(columns: Mapping[str, Sequence[Any]], named_by: Sequence[str]) -> list[str]:
    """Key of each row, (n_rows,), made of the columns ``named_by``, so that it stays when rows are sorted."""
    rows = [[as_text(value) for value in row] for row in zip(*(columns[name] for name in named_by), strict=True)]
    names = [row[0] if len(row) == 1 else hashlib.sha256(json.dumps(row).encode()).hexdigest() for row in rows]
    seen: Counter[str] = Counter()
    keys = []
    for name in names:
        keys.append(f"{name}\n{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return keys


@dataclass(frozen=True)
class WrittenTable:
    """A table as it was written.

    Parameters
    ----------
    keys : list of str
        Name of each row: see `row_keys`.
    label, probability, runner_up, review : list of str
        What the columns hold, as text.
    before : list of str
        Where each picture was before it was moved; empty unless pictures were.
    digests : list of str
        Hash of each picture; empty for tables.
    kept : list of str
        Keys of pictures that were moved by earlier runs.
    by_hand : list of str
        Keys of rows whose label a person had given in a table or a session; labels of examples are none of these.
    """

    keys: list[str]
    label: list[str]
    probability: list[str]
    runner_up: list[str]
    review: list[str]
    before: list[str] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    by_hand: list[str] = field(default_factory=list)

    @property
    def moved(self) -> set[str]:
        """Keys of pictures that this run, or one before it, moved into class folders."""
        return {*self.kept, *(key for key, old in zip(self.keys, self.before, strict=False) if key != old)}


@dataclass(frozen=True)
class Corrections:
    """What a user changed in a table that a run wrote.

    Parameters
    ----------
    labels : mapping of str to str
        New label by key; empty where the user took it away.
    given : mapping of str to str
        Labels that were examples when the table was written, by key.
    n_guesses : int
        Labels that the user left as a run wrote them, without examples.
    n_ignored : int
        Changed cells of our columns beside the labels that do not confirm a label; they are ignored.
    whole : bool, default=True
        Whether the table has no column that we did not write, so that nothing is lost when it is written anew.
    """

    labels: Mapping[str, str]
    given: Mapping[str, str]
    n_guesses: int
    n_ignored: int
    whole: bool = True


@dataclass(frozen=True)
class Record:
    """What a run leaves for the next.

    Parameters
    ----------
    source : str
        What was labelled: an absolute path.
    column : str
        Name of the column of labels.
    named_by : tuple of str
        Columns that name a row: see `row_keys`.
    written : tuple of WrittenTable
        The table, and the one before it: a run may be killed before the new one has taken the place of the old.
    said : mapping of str to str
        Labels that a person gave, by key, which the run that wrote the table was not asked to read.
    said_of : mapping of str to str
        Hash of the picture that each of these labels was given to, by key, where it is known.
    options : mapping of str to object
        Options of the command, by parameter.
    """

    source: str
    column: str
    named_by: tuple[str, ...]
    written: tuple[WrittenTable, ...]
    said: Mapping[str, str] = field(default_factory=dict)
    said_of: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def given(self) -> dict[str, str]:
        """Labels that a person had given, by key, as far as the record knows them."""
        last, by_hand = self.written[0], set(self.written[0].by_hand)
        rows = zip(last.keys, last.label, strict=True)
        return {**self.said, **{key: label or FOREIGN for key, label in rows if key in by_hand}}

    @property
    def digests(self) -> dict[str, str]:
        """Hash of each picture, by key, as it was when the table was written, or its label was given."""
        return {
            key: own
            for table in reversed(self.written)
            for key, own in zip(table.keys, table.digests, strict=False)
            if own
        } | dict(self.said_of)

    def is_of(self, source: Path) -> bool:
        """Whether the run labelled this ``source``."""
        return self.source == str(source.resolve())

    def save(self, path: Path) -> None:
        """Write the record to ``path``."""
        with atomic_path(path, private=True) as temporary:
            temporary.write_text(json.dumps({"format": FORMAT, **asdict(self)}), encoding="utf-8")

    @property
    def classes(self) -> set[str]:
        """Names known to be classes: those answered, and those that the user gave as labels."""
        answered = {name for table in self.written for name in (*table.label, *table.runner_up)}
        return (answered | set(self.said.values())) - {FOREIGN}

    def corrections(
        self, columns: Mapping[str, Sequence[Any]], classes: Names[str] = (), *, in_place: bool = False
    ) -> Corrections | None:
        """What the user changed in a table with these ``columns``; None where it is not one that this run wrote.

        The ``classes`` and those known before are labels, whatever they look like. ``in_place`` means that the table
        is where the run wrote it: then the user may have edited probabilities.
        """
        if not {self.column, *self.named_by} <= set(columns):
            return None
        keys = row_keys(columns, self.named_by)
        labels = read_labels(columns[self.column], self.classes | set(classes))
        found = [_compare(written, columns, labels, keys) for written in self.written]
        if in_place and not any(found):
            found = [_compare(self.written[0], columns, labels, keys, edited=True)]
        if set(columns) - {self.column, *self.named_by, *REVIEW_COLUMNS}:
            found = [None if one is None else replace(one, whole=False) for one in found]
        return next((corrections for corrections in found if corrections is not None), None)

    def n_changed(self, table: Path) -> int:
        """Number of rows of ``table``, as its record has it now, that had another label when this was written."""
        now = load_record(record_path(table))
        if now is None:
            return 0
        old = dict(zip(self.written[0].keys, self.written[0].label, strict=True))
        new = now.written[0]
        return sum(old.get(key, label) != label for key, label in zip(new.before or new.keys, new.label, strict=True))


def load_record(path: Path) -> Record | None:
    """The record at ``path``, or None if the file does not exist."""
    if not path.is_file():
        return None
    what, advice = "the record of an earlier run", "Remove it; the examples and options are then to be given again."
    content = read_json(path, what, advice)
    with reading(path, what, advice):
        if content.pop("format") not in (FORMAT, _FORMAT_WITH_LABELS):
            raise ValueError(f"its format is not {FORMAT}")
        written = tuple(_checked_table(WrittenTable(**table)) for table in content["written"])
        if not written:
            raise ValueError("it has no table")
        for name in ("source", "column"):
            if not isinstance(content[name], str) or "\0" in content[name]:
                raise ValueError(f"its {name} is {content[name]!r:.60}")
        texts = (*content["said"].values(), *content.get("said_of", {}).values(), *content["named_by"])
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("its labels are not text")
        options = _checked_options(dict(content["options"]))
        return Record(**content | {"written": written, "named_by": tuple(content["named_by"]), "options": options})


def _checked_table(table: WrittenTable) -> WrittenTable:
    """A table of a record; raises ValueError unless its columns are texts of one length."""
    for name, column in vars(table).items():
        if not isinstance(column, list) or not all(isinstance(text, str) for text in column):
            raise ValueError(f"its column {name} is not a list of texts")
    whole = [*_columns(table).values(), *filter(None, (table.before, table.digests))]
    if any(len(column) != len(table.keys) for column in whole):
        raise ValueError("its columns differ in length")
    return table


def _checked_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a record; raises ValueError where one is not `REMEMBERED`, or not of its type."""
    for name, value in options.items():
        if name not in REMEMBERED:
            raise ValueError(f"it sets the option {name!r}, which no run remembers")
        texts = value if isinstance(value, list) else []
        if type(value) not in REMEMBERED[name] or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"its option {name!r} is {reprlib.repr(value)}")
    return options


@dataclass(frozen=True)
class Rows:
    """What a record keeps of the rows of a table, besides their cells.

    Parameters
    ----------
    names : sequence of str
        Name of each item in its session.
    before : sequence of str
        Where each picture was before it was moved; empty unless pictures were.
    digests : sequence of str
        Hash of each picture; empty for tables.
    kept : sequence of str
        Keys of pictures that earlier runs moved.
    """

    names: Sequence[str]
    before: Sequence[str] = ()
    digests: Sequence[str] = ()
    kept: Sequence[str] = ()


def remember(table: Path, columns: Mapping[str, Sequence[Any]], request: Request, rows: Rows) -> None:
    """Write the record of a ``table`` just before the table itself; an earlier record of the same source is continued.

    Parameters
    ----------
    table : Path
        Where it goes.
    columns : mapping of str to sequence
        What it holds.
    request : Request
        What was asked for; the record is of its source.
    rows : Rows
        What else to keep.
    """
    if request.source is None:
        return
    path, column = record_path(table), request.source.label or "label"
    named_by = tuple(name for name in columns if name not in (column, *REVIEW_COLUMNS))
    ours = [[as_text(value) for value in columns[name]] for name in (column, *REVIEW_COLUMNS)]
    keys, said = row_keys(columns, named_by), request.said or {}
    more = (list(rows.before), list(rows.digests), list(rows.kept))
    by_hand = [key for key, name in zip(keys, rows.names, strict=True) if name in said]
    new = WrittenTable(keys, ours[0], ours[1], ours[2], ours[3], *more, by_hand)
    record = Record(str(request.source.path.resolve()), column, named_by, (new,), options=request.options or {})
    earlier = load_record(path)
    if earlier is not None and earlier.source == record.source:
        record = replace(
            record,
            written=(new, *[written for written in earlier.written if written != new][:1]),
            options=earlier.options if request.options is None else request.options,
        )
        if request.said is None:
            now = dict(zip(rows.before, keys, strict=True)) if rows.before else {}
            given = {now.get(key, key): label for key, label in earlier.given.items()}
            digests = {now.get(key, key): own for key, own in earlier.digests.items()}
            record = replace(record, said=given, said_of={key: digests[key] for key in given if key in digests})
    record.save(path)


def moved_before(table: Path) -> dict[str, str]:
    """Where pictures that ``table`` lists were before they were moved."""
    record = load_record(record_path(table))
    written = () if record is None else record.written
    return {new: old for one in written if one.before for new, old in zip(one.keys, one.before, strict=True)}


def is_own(columns: Mapping[str, Sequence[Any]]) -> bool:
    """Whether a table has the columns that only runs write."""
    return set(REVIEW_COLUMNS) <= set(columns)


def _columns(written: WrittenTable) -> dict[str, list[str]]:
    return {name: getattr(written, name) for name in _OURS}


def _compare(
    written: WrittenTable,
    columns: Mapping[str, Sequence[Any]],
    now: Sequence[str],
    keys: Sequence[str],
    *,
    edited: bool = False,
) -> Corrections | None:
    """Corrections in a table with ``columns`` and the labels ``now``, compared with the table as ``written``.

    None if it is the table of another run: it has a row that was not written, or a probability differs. If the user may
    have ``edited`` probabilities, they may differ; but beside a changed label only an empty one or 1 is an edit.
    """
    place = {key: row for row, key in enumerate(written.keys)}
    if not all(key in place for key in keys):
        return None
    rows, own = [place[key] for key in keys], _columns(written)
    cells = {name: [as_text(value).strip() for value in columns[name]] for name in REVIEW_COLUMNS if name in columns}
    differs = {name: _differing(values, [own[name][row] for row in rows]) for name, values in cells.items()}
    changed = {at for at, row in enumerate(rows) if now[at] != written.label[row]}
    odd = differs.get("probability", set())
    if odd and not (edited and all(cells["probability"][at] in _OF_EXAMPLES for at in odd & changed)):
        return None
    confirmed = {at for at in differs.get("review", ()) if now[at] and cells["review"][at].casefold() in CONFIRMED}
    said = changed | confirmed
    given = {at for at, row in enumerate(rows) if written.review[row] == GIVEN} - said
    return Corrections(
        {keys[at]: now[at] for at in sorted(said)},
        {keys[at]: now[at] for at in sorted(given)},
        sum(bool(label) for at, label in enumerate(now) if at not in said | given),
        sum(map(len, differs.values())) - len(confirmed),
    )


def _differing(values: Sequence[str], written: Sequence[str]) -> set[int]:
    """Places of the cells that are not as ``written``; a spreadsheet may have saved 1.0 as 1."""
    pairs = enumerate(zip(values, written, strict=True))
    return {at for at, (new, old) in pairs if new != old.strip() and _number(new) != _number(old)}


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
