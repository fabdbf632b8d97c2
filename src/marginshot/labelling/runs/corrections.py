"""Labels that a person changed in tables written by a run: these are examples, the guesses around them are not."""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from marginshot._lib.reading import DamagedFileError
from marginshot.labelling.errors import RefusedError
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.contents import words
from marginshot.labelling.items.folders import Example, find_files, find_item, kind_of_folder
from marginshot.labelling.items.kind import FileKind
from marginshot.labelling.items.sources import Source
from marginshot.labelling.items.store import Store
from marginshot.labelling.items.tables import (
    TABLE_SUFFIXES,
    Table,
    given_labels,
    read_table,
    warn_of_missing,
)
from marginshot.labelling.outputs.moved import place_of
from marginshot.labelling.outputs.outputs import Outputs, table_path
from marginshot.labelling.outputs.records import (
    Corrections,
    Record,
    is_own,
    load_record,
    name_beside,
    record_path,
    row_keys,
)
from marginshot.labelling.outputs.result import GIVEN
from marginshot.labelling.runs.memory import Memory, News


@dataclass
class Said:
    """Labels that a person gave in tables that a run wrote, and in the session of the source.

    Parameters
    ----------
    examples : list of Path
        The other examples.
    labels : dict of str to str
        Label by the key of the item (`Collection.keys`); by the path for pictures elsewhere.
    news : News
        What the session may not know yet.
    taken : set of Path
        Outputs of which nothing is lost when they are written anew.
    overruled : mapping of str to str
        Labels that the session has imported from the source, by key: corrections of these are no conflict.
    notes : list of str
        Sentences about what was found.
    record : Record or None
        What the last run into the same place left.
    """

    examples: list[Path] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    news: News = field(default_factory=News)
    taken: set[Path] = field(default_factory=set)
    overruled: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    record: Record | None = None

    def files(self, folder: Path, table: Path, kind: FileKind | None) -> list[Example]:
        """The items of ``folder``, or beside the ``table``, that were labelled; those gone since are left out.

        Examples that were in class folders of ``folder`` may have been moved to the ``table`` by earlier runs.
        """
        kind = kind or kind_of_folder(folder, [table.parent])
        found = {key: kind.find(folder, key) for key in self.labels}
        labelled = [Example(contents[0], self.labels[key]) for key, contents in found.items() if contents]
        if self.record is None or self.examples:
            return labelled
        last = self.record.written[0]
        marked = [row for row, mark in enumerate(last.review) if mark == GIVEN and last.keys[row] in last.moved]
        moved = [row for row in marked if name_beside(table, last.keys[row]) not in self.labels]
        examples = [(last.label[row], kind.find(table.parent, last.keys[row])) for row in moved]
        return labelled + [Example(content, label) for label, contents in examples for content in contents]

    def hear(self, memory: Memory) -> None:
        """Take the labels in the session of the source, overridden by those found in tables now, which are newer."""
        heard = memory.hear(self.news)
        self.labels, self.overruled = heard.labels, heard.of_source
        known = {heard.renamed.get(key, key): label for key, label in self.news.written.items()} | self.news.labels
        n_new = sum(key not in heard.gone and known.get(key) != label for key, label in heard.labels.items())
        gone = [key for key in heard.gone if key in known]
        shown = [repr(heard.labels[key]) for key in gone] if memory.source.table is not None else gone
        self.notes += [*(note for note in heard.notes if note not in self.notes), *words("gone", shown)]
        if n_new:
            given = "1 label given" if n_new == 1 else f"{n_new:,} labels given"
            self.notes.append(
                f"{given} in the session of this source, as in the studio: used as examples (--no-session leaves them "
                "out)."
            )

    def check_not_moved(self, folder: Path, out: Path) -> None:
        """Raise RefusedError where the last run moved all pictures of ``folder`` into ``out``."""
        if self.record is not None and self.record.written[0].moved and not any(find_files(folder, [out])):
            raise RefusedError(
                f"The last run moved the pictures of {folder} into {out}, and there are no new ones. Put new pictures "
                f"into {folder}, or move back those that are to be labelled again."
            )

    def fill(self, collection: Collection, source: Source) -> Collection:
        """The rows of a table, with labels given elsewhere filled in; raises where one contradicts the table."""
        labels = list(collection.labels)
        for row, key in enumerate(collection.keys if self.labels else ()):
            new = self.labels.get(key, labels[row])
            if labels[row] and new != labels[row] and self.overruled.get(key) != labels[row]:
                raise ValueError(
                    f"{collection.items[row]} is {labels[row]!r} in {source.path} and was corrected to {new!r} in a "
                    "table of answers. Put the right label into both."
                )
            labels[row] = new
        return replace(collection, labels=tuple(labels))


class _Keys:
    """Keys in the session of the items that the record of a run calls otherwise.

    Parameters
    ----------
    record : Record
    table : Path
        What it is the record of.
    memory : Memory
    """

    def __init__(self, record: Record, table: Path, memory: Memory) -> None:
        self._of, self.moved = dict[str, str](), dict[str, tuple[str, str]]()
        if memory.source.table is not None:
            self._find_rows(record, memory.items, memory.source)
        elif memory.source.boxes is None:
            self._find_pictures(record, table)

    def _find_rows(self, record: Record, items: Collection, source: Source) -> None:
        columns = source.own_columns(items.items)
        if set(record.named_by) <= set(columns):
            self._of = dict(zip(row_keys(columns, record.named_by), items.keys, strict=True))
            self.moved = {row: (key, "") for row, key in self._of.items()}  # a row may have been gone, and be back

    def _find_pictures(self, record: Record, table: Path) -> None:
        digests = record.digests
        for written in reversed(record.written):
            for row, (key, old) in enumerate(zip(written.keys, written.before or written.keys, strict=True)):
                place = place_of(written, row, table.parent)
                self._of[key] = old if place is None else name_beside(table, place)
                if place is not None and key in digests:
                    self.moved[old] = name_beside(table, place), digests[key]

    def __call__(self, labels: Mapping[str, str]) -> dict[str, str]:
        """The ``labels`` by the keys of the session."""
        return {self._of.get(key, key): label for key, label in labels.items()}


def gather(
    memory: Memory, outputs: Outputs, examples: Sequence[Path], store: Store | None, classes: Names[str] = ()
) -> Said:
    """Labels given in the session, where ``outputs`` go, and in tables that a run wrote among the ``examples``.

    Without other examples, those of the run that wrote the tables are used. The ``classes`` are labels there, whatever
    they look like.
    """
    source = memory.source
    said = Said(record=_record_of(outputs.table, source.path))
    here = {outputs.table.resolve(), outputs.beside("suggestions.csv").resolve()} if said.record else set()
    used = [said.record] if said.record else []
    if said.record is not None:
        keys = _Keys(said.record, outputs.table, memory)
        said.news = News({}, keys(said.record.given), keys.moved, keys(said.record.digests))
        said.news.labels |= keys(_take_here(said, said.record, outputs, source, classes))
    for path in examples:
        if path.resolve() in here:
            continue
        table = read_table(path) if path.is_file() and path.suffix.lower() in TABLE_SUFFIXES else None
        if table is None or not is_own(table.columns):
            said.examples.append(path)
            continue
        others = [outputs.table, *([] if store is None else store.outputs())]
        home, record, changed = _find(path, table, others, classes)
        warn_of_missing(table.columns[record.column], record.classes | set(classes))
        used.append(record)
        said.notes += [_sentence(path, changed, said.news.written), *_ignored(path, changed.n_ignored)]
        said.news.labels |= _as_here({**changed.given, **changed.labels}, home, record, memory)
    said.hear(memory)
    if not said.examples:
        said.examples = [Path(path) for record in used[:1] for path in record.options.get("examples") or ()]
        if examples:
            said.notes += [f"As in that run: --examples {path}" for path in said.examples]
    return said


def remembered_options(out: Path, source: Path) -> dict[str, Any]:
    """Options of the last run that labelled ``source`` into ``out``; none where there was none."""
    record = _record_of(table_path(out, pictures=source.is_dir()), source)
    return {} if record is None else dict(record.options)


def _record_of(table: Path, source: Path) -> Record | None:
    """What the last run left beside ``table``, if it labelled this ``source``."""
    record = load_record(record_path(table))
    return record if record is not None and record.is_of(source) else None


def _take_here(said: Said, record: Record, outputs: Outputs, source: Source, classes: Names[str]) -> dict[str, str]:
    """Labels by the key of the row, from the table that is about to be replaced and the suggestions filled in."""
    known, found = record.classes | set(classes), dict[str, str]()
    if outputs.table.is_file():
        columns = read_table(outputs.table).columns
        changed = record.corrections(columns, classes, in_place=True)
        if changed is not None:
            warn_of_missing(columns[record.column], known)
            said.taken |= {outputs.table} if changed.whole else set()
            said.notes += [_sentence(outputs.table, changed, record.given)] if changed.labels else []
            said.notes += _ignored(outputs.table, changed.n_ignored)
            found |= changed.labels
    suggestions = outputs.beside("suggestions.csv")
    if suggestions.is_file():
        filled = _filled(read_table(suggestions), record, source, known)
        if filled is not None:
            said.taken.add(suggestions)
            said.notes += [f"{suggestions}: {len(filled):,} filled in: used as examples."] if filled else []
            found |= filled
    return found


def _filled(table: Table, record: Record, source: Source, classes: Names[str]) -> dict[str, str] | None:
    """Labels in a table of suggestions, by key; None where it is not as we wrote it, labels aside."""
    names = next((name for name in ("path", "item") if name in table.columns), "")
    if set(table.columns) != {names, "label", "guess"}:
        return None
    keys = record.written[0].keys
    known = {name: name for name in keys} if source.table is None else {f"row {n}": k for n, k in enumerate(keys, 1)}
    items = [str(name) for name in table.columns[names]]
    if not all(name in known for name in items):
        return None
    labels = given_labels(table.columns["label"], classes)
    return {known[name]: label for name, label in zip(items, labels, strict=True) if label}


def _find(path: Path, table: Table, others: Sequence[Path], classes: Names[str]) -> tuple[Path, Record, Corrections]:
    """The written table that ``table`` is, or is a copy of, with its record, and what was changed since."""
    found = []
    for home, record in _records([path, *others]):
        changed = record.corrections(table.columns, classes)
        if changed is not None:
            found.append((home, record, changed))
    if not found:
        raise RefusedError(
            "{path} holds labels that marginshot guessed, and which of them you changed is not known. Keep those you "
            "corrected and drop its column 'review'.",
            path=path,
        )
    return min(found, key=lambda one: len(one[-1].labels))


def _records(tables: Sequence[Path]) -> Iterator[tuple[Path, Record]]:
    for table in dict.fromkeys(path.resolve() for path in tables if path.suffix.lower() in TABLE_SUFFIXES):
        with suppress(DamagedFileError):  # another may be the one that is looked for
            record = load_record(record_path(table))
            if record is not None:
                yield table, record


def _as_here(labels: Mapping[str, str], table: Path, record: Record, memory: Memory) -> dict[str, str]:
    """Labels of a record's rows by the keys that the items have in the session of another source."""
    source = memory.source
    if source.table is not None or source.boxes is not None:
        return _Keys(record, table, memory)(labels)
    kind, here = kind_of_folder(source.path), {}
    for key, label in labels.items():
        content = find_item(kind, key, table, Path(record.source))[0]
        path, folder = Path(content).resolve(), source.path.resolve()
        file = path.relative_to(folder).as_posix() if path.is_relative_to(folder) else str(path)
        here[f"{file}{kind.ending(content)}"] = label
    return here


def _sentence(table: Path, changed: Corrections, said: Container[str]) -> str:
    """A sentence on corrections in a ``table`` of ours; keys in ``said`` had corrections before."""
    emptied = [key for key, label in changed.labels.items() if not label]
    n_used, n_back = len(changed.labels) - len(emptied), sum(key in said for key in emptied)
    rows = "1 row differs" if n_used == 1 else f"{n_used:,} rows differ"
    parts = [f"{rows} from what was written here: used as examples"] if n_used or not emptied else []
    if n_anew := len(emptied) - n_back:
        parts.append(f"{n_anew:,} emptied: labelled anew")
    if n_back:
        parts.append(f"{n_back:,} emptied: no longer {'an example' if n_back == 1 else 'examples'}")
    guesses = "1 guess" if changed.n_guesses == 1 else f"{changed.n_guesses:,} guesses"
    return f"{table}: {'; '.join(parts)}; {guesses} ignored."


def _ignored(table: Path, n_cells: int) -> list[str]:
    cells = "1 changed cell" if n_cells == 1 else f"{n_cells:,} changed cells"
    told = (
        f"{table}: {cells} beside the labels ignored; only {GIVEN!r} in the column review says that a label is right."
    )
    return [told] if n_cells else []
