"""Labels that the user changed in tables written by a run: these are examples, the guesses around them are not."""

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
from marginshot.labelling.items.contents import Content, Files, words
from marginshot.labelling.items.folders import Example, contents_below, find_files, find_item, kind_of_folder
from marginshot.labelling.items.kind import FileKind
from marginshot.labelling.items.kinds import row_names
from marginshot.labelling.items.sources import Source
from marginshot.labelling.items.store import Store
from marginshot.labelling.items.tables import (
    TABLE_SUFFIXES,
    Table,
    given_labels,
    read_table,
    warn_of_missing,
)
from marginshot.labelling.outputs.outputs import Outputs, table_path
from marginshot.labelling.outputs.records import Corrections, Record, is_own, load_record, record_path, row_keys
from marginshot.labelling.outputs.result import GIVEN
from marginshot.labelling.runs.memory import Memory


@dataclass
class Said:
    """Labels that the user gave in tables that a run wrote.

    Parameters
    ----------
    examples : list of Path
        The other examples.
    labels : dict of str to str
        Label by the key of the row.
    of : dict of str to str
        Hash of the picture that each label was given to, by key, where it is known.
    aside : set of str
        Keys of labels that are kept but not used: their pictures were replaced by others.
    taken : set of Path
        Outputs of which nothing is lost when they are written anew.
    new : set of str
        Keys of labels found now, and of those taken away now.
    overruled : mapping of str to str
        Labels that the session has imported from the source, by key: corrections of these are no conflict.
    notes : list of str
        Sentences about what was found.
    record : Record or None
        What the last run into the same place left.
    """

    examples: list[Path] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    of: dict[str, str] = field(default_factory=dict)
    aside: set[str] = field(default_factory=set)
    taken: set[Path] = field(default_factory=set)
    new: set[str] = field(default_factory=set)
    overruled: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    record: Record | None = None

    def add(self, labels: Mapping[str, str], of: Mapping[str, str]) -> None:
        """Add ``labels``, given to pictures with the hashes ``of``; an empty one takes back an earlier label."""
        self.labels.update(labels)
        self.new |= set(labels)
        self.of = {key: digest for key, digest in self.of.items() if key not in labels}
        self.of |= {key: of[key] for key in labels if key in of}
        self.labels = {key: label for key, label in self.labels.items() if label}

    def pictures(self, folder: Path, table: Path) -> list[Example]:
        """The pictures of ``folder``, or beside the ``table``, that were labelled; those gone since are left out.

        Examples that were in class folders of ``folder`` may have been moved to the ``table`` by earlier runs.
        """
        kind = kind_of_folder(folder, [table.parent])
        labelled = [Example(content, self.labels[key]) for key, content in self._places(kind, folder, table).items()]
        if self.record is None or self.examples:
            return labelled
        last = self.record.written[0]
        marked = [row for row, mark in enumerate(last.review) if mark == GIVEN and last.keys[row] not in self.labels]
        moved = [row for row in marked if last.keys[row] in last.moved]
        found = [(last.label[row], kind.find(table.parent, last.keys[row])) for row in moved]
        return labelled + [Example(content, label) for label, contents in found for content in contents]

    def _places(self, kind: FileKind, folder: Path, table: Path) -> dict[str, Any]:
        places = {key: [*kind.find(folder, key), *kind.find(table.parent, key)] for key in self.labels}
        return {key: found[0] for key, found in places.items() if found and key not in self.aside}

    def follow_pictures(self, folder: Path, outputs: Outputs) -> None:
        """Move labels along with renamed pictures, and set those of replaced pictures aside."""
        seen = {} if self.record is None else self.record.digests
        known = {key: Content(digest) for key, digest in {**seen, **self.of}.items()}
        kind = kind_of_folder(folder, [outputs.path])
        contents = contents_below(folder, [outputs.path]) | self._places(kind, folder, outputs.table)
        files = Files(kind, contents, known)
        changes = files.changes(self.labels)
        renamed = _free(changes.renamed, self.labels)
        self._rename(renamed)
        self.aside = {*changes.replaced, *(key for key in changes.renamed if key in contents and key not in renamed)}
        replaced = [key for key in sorted(self.aside) if (now := files.content(key)) and seen.get(key) != now.digest]
        self.notes += words("renamed", list(renamed.values())) + words("set aside", replaced)
        self.notes += words("gone", self._newly_gone(contents))

    def follow_rows(self, source: Source) -> None:
        """Move labels to the new keys of rows whose table has other columns now."""
        columns = source.own_columns(row_names(source.rows().n_rows))
        now = row_keys(columns, [name for name in columns if name != source.label])
        if self.record is not None and set(self.record.named_by) <= set(columns):
            self._rename(dict(zip(row_keys(columns, self.record.named_by), now, strict=True)))
        self.notes += words("gone", [f"{self.labels[key]!r}" for key in self._newly_gone(now)])

    def _newly_gone(self, there: Container[str]) -> list[str]:
        """Keys of labels that are not ``there``, but for those missing in the last table already."""
        told = set(self.record.said) - set(self.record.written[0].keys) if self.record is not None else set()
        # Pictures elsewhere are in no table.
        return sorted(key for key in self.labels if key not in there and (key not in told or Path(key).is_absolute()))

    def _rename(self, names: Mapping[str, str]) -> None:
        self.labels = {names.get(key, key): label for key, label in self.labels.items()}
        self.of = {names.get(key, key): digest for key, digest in self.of.items()}
        self.new = {names.get(key, key) for key in self.new}

    def hear(self, memory: Memory, *, follow: bool) -> None:
        """Add the labels in the session of the source, overridden by those found in tables now, which are newer."""
        heard = {key: label for key, label in memory.hear(follow=follow).items() if key not in self.new}
        n_new = sum(label not in ("", self.labels.get(key)) for key, label in heard.items())
        self.labels = {key: label for key, label in {**self.labels, **heard}.items() if label}
        self.of = {key: digest for key, digest in self.of.items() if key not in heard}
        self.aside -= set(heard)
        self.overruled = memory.of_source
        self.notes += [note for note in memory.notes if note not in self.notes]
        if n_new:
            given = "1 label given" if n_new == 1 else f"{n_new:,} labels given"
            self.notes.append(
                f"{given} in the session of this source, as in the studio: used as examples (--no-session leaves them "
                "out)."
            )

    def tell(self, memory: Memory, collection: Collection, digests: Mapping[str, str]) -> None:
        """Write all labels into the session of the source, with those of the ``collection`` itself."""
        used = {key: label for key, label in self.labels.items() if key not in self.aside}
        memory.tell(collection, used, {key: used.get(key, "") for key in self.new - self.aside}, digests)

    def check_not_moved(self, folder: Path, out: Path) -> None:
        """Raise RefusedError where the last run moved all pictures of ``folder`` into ``out``."""
        if self.record is not None and self.record.written[0].moved and not any(find_files(folder, [out])):
            raise RefusedError(
                f"The last run moved the pictures of {folder} into {out}, and there are no new ones. Put new pictures "
                f"into {folder}, or move back those that are to be labelled again."
            )

    def fill(self, collection: Collection, source: Source) -> Collection:
        """The rows of a table, with labels given elsewhere filled in; raises where one contradicts the table."""
        if not self.labels:
            return collection
        columns = source.own_columns(collection.items)
        labels = list(collection.labels)
        for row, key in enumerate(row_keys(columns, [name for name in columns if name != source.label])):
            new = self.labels.get(key, labels[row])
            if labels[row] and new != labels[row] and self.overruled.get(key) != labels[row]:
                raise ValueError(
                    f"{collection.items[row]} is {labels[row]!r} in {source.path} and was corrected to {new!r} in a "
                    "table of answers. Put the right label into both."
                )
            labels[row] = new
        return replace(collection, labels=tuple(labels))


def _free(renamed: Mapping[str, str], labels: Container[str]) -> dict[str, str]:
    """The ``renamed`` keys, new by old, except where the new key has a label of its own, which stays."""
    free = dict(renamed)
    while taken := [old for old, new in free.items() if new in labels and new not in free]:
        free = {old: new for old, new in free.items() if old not in taken}
    return free


def gather(
    outputs: Outputs, source: Source, examples: Sequence[Path], store: Store | None, classes: Names[str] = ()
) -> Said:
    """Labels given in the tables where ``outputs`` go, and in tables that a run wrote among the ``examples``.

    Without other examples, those of the run that wrote the tables are used. The ``classes`` are labels there, whatever
    they look like.
    """
    said = Said(record=_record_of(outputs.table, source.path))
    here = {outputs.table.resolve(), outputs.beside("suggestions.csv").resolve()} if said.record else set()
    used = [said.record] if said.record else []
    if said.record is not None:
        said.labels, said.of = dict(said.record.said), dict(said.record.said_of)
        _take_here(said, said.record, outputs, source, classes)
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
        said.notes += [_sentence(path, changed, said.labels), *_ignored(path, changed.n_ignored)]
        said.add(_as_here({**changed.given, **changed.labels}, home, record, source), {})
    if source.boxes is not None:
        pass  # boxes are named by what is in them: their picture, and where they are
    elif said.labels and source.table is None:
        said.follow_pictures(source.path, outputs)
    elif said.labels:
        said.follow_rows(source)
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


def _take_here(said: Said, record: Record, outputs: Outputs, source: Source, classes: Names[str]) -> None:
    """Corrections in the table that is about to be replaced, and suggestions that were filled in."""
    known = record.classes | set(classes)
    if outputs.table.is_file():
        columns = read_table(outputs.table).columns
        changed = record.corrections(columns, classes, in_place=True)
        if changed is not None:
            warn_of_missing(columns[record.column], known)
            said.taken |= {outputs.table} if changed.whole else set()
            said.notes += [_sentence(outputs.table, changed, said.labels)] if changed.labels else []
            said.notes += _ignored(outputs.table, changed.n_ignored)
            said.add(changed.labels, record.digests)
    suggestions = outputs.beside("suggestions.csv")
    if suggestions.is_file():
        filled = _filled(read_table(suggestions), record, source, known)
        if filled is not None:
            said.taken.add(suggestions)
            said.add(filled, record.digests)
            said.notes += [f"{suggestions}: {len(filled):,} filled in: used as examples."] if filled else []


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


def _as_here(labels: Mapping[str, str], table: Path, record: Record, source: Source) -> dict[str, str]:
    """Labels by the keys that rows have in ``source``."""
    if source.table is not None or source.boxes is not None:
        return dict(labels)
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
