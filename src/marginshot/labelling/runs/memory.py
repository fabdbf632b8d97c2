"""The session of a source, which labelling runs read and extend, so that they share labels with the studio."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from marginshot.labelling.errors import RefusedError
from marginshot.labelling.items.boxes import open_boxes
from marginshot.labelling.items.collection import Collection, as_read, means_none
from marginshot.labelling.items.embed import printable
from marginshot.labelling.items.folders import collect_unlabelled, find_files, kind_of_folder
from marginshot.labelling.items.kind import FileKind
from marginshot.labelling.items.sources import Source, collect_rows
from marginshot.labelling.outputs.outputs import Outputs
from marginshot.labelling.session.acts.act import Act
from marginshot.labelling.session.acts.items import Clear, NoneOfThese, Renamed
from marginshot.labelling.session.acts.label import Label
from marginshot.labelling.session.events import EventLog, default_folder
from marginshot.labelling.session.journal import Journal
from marginshot.labelling.session.opening import log_of
from marginshot.labelling.session.reopening import names_now


@dataclass
class News:
    """What a session may not know yet. Items are given by their `Collection.keys`; pictures elsewhere by their paths.

    Parameters
    ----------
    labels : dict of str to str
        Labels given in tables since the last run, by key; empty where one was taken away.
    written : dict of str to str
        Labels that a person had given when the last table was written. They count where the session never had one.
    moved : dict of str to (str, str)
        New keys of items, and the hashes of pictures, by the keys that the session may have for them.
    digests : dict of str to str
        Hash of each picture in the last table.
    """

    labels: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    moved: dict[str, tuple[str, str]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Heard:
    """What a session holds, its `News` included; classes are called as in the source.

    Parameters
    ----------
    labels : dict of str to str
        Labels given by hand, by key, those of gone items included.
    of_source : dict of str to str
        Labels last imported from the source, by key.
    gone : list of str
        Keys of labelled items that are not in the source, nor elsewhere.
    renamed : dict of str to str
        New keys of items that were renamed since, by the old ones.
    notes : list of str
        Sentences on what was found.
    """

    labels: dict[str, str]
    of_source: dict[str, str]
    gone: list[str]
    renamed: dict[str, str]
    notes: list[str]


class Memory:
    """Labels given by hand to the items of a source, in the studio or by way of earlier runs.

    Parameters
    ----------
    source : Source
    text : str or None
        Column of texts.
    outputs : Outputs
        Where the labels of a run go: pictures there are not items of the source.
    shared : bool
        Whether to read and write the session that the studio opens. Else, or where that cannot be written, a session
        is kept beside the outputs.
    kind : FileKind, optional
        What is looked for in a folder; by default what most of its files are.
    """

    def __init__(
        self, source: Source, text: str | None, outputs: Outputs, *, shared: bool, kind: FileKind | None = None
    ) -> None:
        self.source, self._text, self._leave_out, self._kind = source, text, outputs.path, kind
        self._beside = outputs.table.with_name(f".{outputs.table.name}-session.sqlite")
        self._path = log_of(source, text, default_folder()) if shared else self._beside

    def hear(self, news: News) -> Heard:
        """The labels there are once the session has taken in the ``news``; nothing is written."""
        path = self._path if self._path.exists() else self._beside
        if not path.exists() and not (news.labels or news.written):
            return Heard({}, {}, [], {}, [])
        with closing(Journal(self.items, EventLog(path, copy=True))) as journal:
            n_acts = len(journal.acts)
            _take_in(journal, news)
            journal.begin((), {}, folders=False)
            return _heard(journal, n_acts)

    def tell(
        self, collection: Collection, news: News, said: Mapping[str, str], digests: Mapping[str, str]
    ) -> list[str]:
        """Write the ``news`` into the session, with the labels and classes of the source; returns notes.

        Parameters
        ----------
        collection : Collection
            The items of the run with their labels.
        news : News
        said : mapping of str to str
            All labels given by hand, by key: these are no labels of the source.
        digests : mapping of str to str
            Hash of each picture, by key.
        """
        items = collection.select(np.flatnonzero(collection.listed).tolist())
        log, notes = self._open()
        with closing(Journal(items, log)) as journal:
            # A new session knows nothing of the one that was heard, which may be another.
            _take_in(journal, news if journal.acts else News(dict(said), digests=news.digests))
            theirs = [
                "" if key in said or key in news.labels else label
                for key, label in zip(items.keys, items.labels, strict=True)
            ]
            named = dict.fromkeys(sorted({name for name in collection.labels if name and not means_none(name)}), ())
            journal.begin(theirs, named, folders=False)
            journal.note_contents({row: digests[key] for row, key in enumerate(items.keys) if digests.get(key)})
        return notes

    def _open(self) -> tuple[EventLog, list[str]]:
        """The log to write to, and a note where that is not the one of the session."""
        about = {"source": printable(str(self.source.path.resolve())), "text": printable(self._text or "")}
        notes = []
        if self._path != self._beside:
            try:
                return EventLog(self._path, about), []
            except RefusedError as error:
                notes.append(
                    f"Labels given by hand are kept beside the outputs, but not in the session of the studio. {error}"
                )
        self._beside.parent.mkdir(parents=True, exist_ok=True)  # a folder of outputs, which others may read
        return EventLog(self._beside, about), notes

    @cached_property
    def items(self) -> Collection:
        """The items of the source, without labels; none where a run has moved all pictures of a folder."""
        source = self.source
        if source.boxes is not None:
            return open_boxes(source.path, source.boxes, ())
        if source.table is not None:
            return collect_rows(source.table, self._text, None)
        kind = self._kind or kind_of_folder(source.path, [self._leave_out])
        if any(find_files(source.path, [self._leave_out], [kind])):
            return collect_unlabelled(source.path, [self._leave_out], kind)
        return Collection(kind, (), (), (), np.zeros(0, dtype=bool))


def _take_in(journal: Journal, news: News) -> None:
    """Do the acts that give a session the ``news``."""
    journal.remember_contents(news.digests)
    journal.follow_moved(news.moved)
    known = journal.by_hand()
    said = {key: name for key, name in news.written.items() if key not in known} | news.labels
    now = names_now(journal.state, said.values())
    by_class: dict[str, list[str]] = {}
    none: list[str] = []
    away: list[str] = []
    for key, name in said.items():
        name = now[name] if as_read(now[name]) != as_read(name) else name  # two spellings are for a person to decide
        if name != (known.get(key, "") if name else journal.label_of(key)):
            target = none if means_none(name) else by_class.setdefault(name, []) if name else away
            target.append(key)
    acts: list[Act] = [Label(by_class)] if by_class else []
    for act in acts + ([NoneOfThese(none)] if none else []) + ([Clear(away)] if away else []):
        journal.do(act)


def _heard(journal: Journal, n_acts: int) -> Heard:
    """What a ``journal`` holds, whose first ``n_acts`` are older than this run."""
    acts, labels, imported = journal.acts, journal.by_hand(), dict[str, str]()
    for act in acts:
        imported = act.heard(imported)
    # Classes that were renamed in the session get back the names that they have in the source.
    now = names_now(journal.state, imported.values())
    spelled = {new: old for old, new in now.items() if new not in now}
    said = {key: spelled.get(name, name) for key, name in labels.items() if name}
    renamed: dict[str, str] = {}
    for act in acts[n_acts:]:
        if isinstance(act, Renamed):
            renamed = {old: act.items.get(new, new) for old, new in renamed.items()} | dict(act.items)
    there = {*journal.keys.keys[: journal.n_items], *journal.elsewhere(said)}
    return Heard(said, imported, sorted(set(said) - there), renamed, journal.notes)
