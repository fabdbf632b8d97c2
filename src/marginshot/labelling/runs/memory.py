"""The session of a source, which labelling runs read and extend, so that they share labels with the studio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from marginshot.labelling.errors import RefusedError
from marginshot.labelling.items.boxes import open_boxes
from marginshot.labelling.items.collection import FOREIGN, NONE, Collection, means_none
from marginshot.labelling.items.embed import printable
from marginshot.labelling.items.folders import collect_unlabelled, find_files
from marginshot.labelling.items.sources import Source, collect_rows
from marginshot.labelling.outputs.records import row_keys
from marginshot.labelling.session.acts.act import Act
from marginshot.labelling.session.acts.items import Clear, NoneOfThese
from marginshot.labelling.session.acts.label import Label
from marginshot.labelling.session.events import EventLog, default_folder
from marginshot.labelling.session.journal import Journal
from marginshot.labelling.session.opening import log_of
from marginshot.labelling.session.reopening import names_now
from marginshot.labelling.session.state import State


class Memory:
    """Labels given by hand to the items of a source, in the studio or by way of earlier runs.

    Parameters
    ----------
    source : Source
    text : str or None
        Column of texts.
    leave_out : Path
        Folder of the outputs: pictures in it are not items of the source.
    """

    def __init__(self, source: Source, text: str | None, leave_out: Path) -> None:
        self._source, self._text, self._leave_out = source, text, leave_out
        self._path = log_of(source, text, default_folder())
        self._journal: Journal | None = None
        self._keys: Sequence[str] = ()
        #: Sentences on what was found.
        self.notes: list[str] = []
        #: Labels that the session last imported from the source, by key.
        self.of_source: dict[str, str] = {}

    def _open(self, items: Collection) -> Journal:
        """The journal of the source, whose ``items`` these are."""
        columns = {} if self._source.table is None else self._source.own_columns(items.items)
        named_by = [name for name in columns if name != self._source.label]
        self._keys = row_keys(columns, named_by) if columns else items.items
        about = {"source": printable(str(self._source.path.resolve())), "text": printable(self._text or "")}
        return Journal(items, EventLog(self._path, about))

    def _items(self) -> Collection:
        if self._source.boxes is not None:
            return open_boxes(self._source.path, self._source.boxes, ())
        if self._source.table is None:
            return collect_unlabelled(self._source.path, [self._leave_out])
        return collect_rows(self._source.table, self._text, None)

    def hear(self, *, follow: bool) -> dict[str, str]:
        """Labels given by hand, by the keys of `records.row_keys`; empty where the label was taken away again.

        With ``follow``, the log first follows pictures that were renamed or replaced since.
        """
        folder = self._source.path if self._source.table is None else None
        if not self._path.exists() or (folder and not any(find_files(folder, [self._leave_out]))):
            return {}
        journal = self._journal = self._open(self._items())
        if follow:
            journal.begin((), {}, folders=False)
        self.notes += journal.notes
        state, origins = journal.state, journal.origins()
        labels: dict[str, str] = {}
        for act in journal.acts:
            labels = act.heard(labels)
        now = names_now(state, labels.values())
        # Classes that were renamed in the session get back the names that they have in the source.
        spelled = {new: old for old, new in now.items() if new not in now}
        self.of_source = {
            own: labels[key] for own, key in zip(self._keys, journal.keys.keys, strict=False) if key in labels
        }
        heard = {}
        for row in journal.rows_said(Act.is_by_hand):
            act = origins[row]
            if act is None or act.is_by_hand():
                name = name_of(state, row)
                heard[self._keys[row]] = spelled.get(name, name)
        return heard

    def tell(
        self, collection: Collection, said: Mapping[str, str], new: Mapping[str, str], digests: Mapping[str, str]
    ) -> None:
        """Write the labels of a run into the session: those in the source, its classes, and those ``said`` by hand.

        Parameters
        ----------
        collection : Collection
            The items of the run with their labels.
        said : mapping of str to str
            Labels given by hand so far, by key; those that the session already has by hand stay.
        new : mapping of str to str
            Those given since the last run, empty where a label was taken away.
        digests : mapping of str to str
            Hash of each picture, by item.
        """
        journal = self._journal
        if journal is None:
            try:
                journal = self._journal = self._open(collection.select(np.flatnonzero(collection.listed).tolist()))
            except RefusedError as error:
                self.notes.append(
                    f"Labels given by hand are kept beside the outputs, but not in the session of the studio. {error}"
                )
                return
        labelled = dict(zip(collection.items, collection.labels, strict=True))
        rows = {key: row for row, key in enumerate(self._keys)}
        pairs = zip(self._keys, journal.items, strict=True)
        theirs = ["" if key in said or key in new else labelled.get(item, "") for key, item in pairs]
        named = dict.fromkeys(sorted({name for name in collection.labels if name and not means_none(name)}), ())
        journal.begin(theirs, named, folders=False)
        known = set(journal.rows_said(Act.is_by_hand))
        taken_over = {key: name for key, name in said.items() if key in rows and rows[key] not in known}
        by_row = {rows[key]: name for key, name in {**taken_over, **new}.items() if key in rows}
        for act in _acts(journal, by_row):
            journal.do(act)
        journal.note_contents({row: digests[item] for row, item in enumerate(journal.items) if digests.get(item)})

    def close(self) -> None:
        """Close the log."""
        if self._journal is not None:
            self._journal.close()


def _acts(journal: Journal, said: Mapping[int, str]) -> list[Act]:
    """Acts that give the session the labels ``said``, by row: labels, none of the classes, and labels taken away."""
    state = journal.state
    by_class: dict[str, list[str]] = {}
    none: list[str] = []
    away: list[str] = []
    for row, name in said.items():
        if name != name_of(state, row):
            target = none if means_none(name) else by_class.setdefault(name, []) if name else away
            target.append(journal.keys.keys[row])
    acts: list[Act] = [Label(by_class)] if by_class else []
    return acts + ([NoneOfThese(none)] if none else []) + ([Clear(away)] if away else [])


def name_of(state: State, row: int) -> str:
    """Name of the class that a person gave a row, having looked at it; empty without one."""
    names = {known.id: known.name for known in state.classes} | {NONE: FOREIGN}
    return names.get(int(state.given[row]), "") if state.checked[row] else ""
