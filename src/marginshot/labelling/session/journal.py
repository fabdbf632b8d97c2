"""The labels of a source: the state of a session, and every act that changes it.

Acts may come from any thread. Each is one event, in the log when the call returns. Events that other processes have
written to the same log are read first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.interrupts import uninterrupted
from marginshot.labelling.answers.classes import Classes
from marginshot.labelling.errors import ChangedMeanwhileError, RefusedError
from marginshot.labelling.items.collection import (
    UNKNOWN,
    Collection,
    as_read,
    means_none,
)
from marginshot.labelling.items.contents import Changes, Content, Files, words
from marginshot.labelling.items.kind import FileKind, Kind
from marginshot.labelling.session.acts.act import Act, Now, Saying, apply
from marginshot.labelling.session.acts.classes import AddClasses
from marginshot.labelling.session.acts.items import NoneOfThese, Renamed, Replaced
from marginshot.labelling.session.acts.label import Examples
from marginshot.labelling.session.changes import follow
from marginshot.labelling.session.events import EventLog
from marginshot.labelling.session.opening import KeyTable
from marginshot.labelling.session.reopening import find_news, names_now, origins_of
from marginshot.labelling.session.state import Change, Event, State

#: Row numbers or names of items.
Items = Sequence[int | str] | NDArray[np.integer]
#: Returns what the log keeps with an act on a state.
Carried = Callable[[Act, State], Mapping[str, Any]]


@dataclass(frozen=True)
class HistoryEntry:
    """An event about one item: its number, seconds since 1970, and words for people."""

    version: int
    time: float
    words: str


class Journal:
    """Items of a source and the acts on them, which are events in a log.

    Parameters
    ----------
    collection : Collection
        The items of the source.
    log : EventLog
        Holds the acts so far, and takes new ones.
    """

    def __init__(self, collection: Collection, log: EventLog) -> None:
        self.kind: Kind = collection.kind
        self.items, self.contents, self.n_items = collection.items, collection.contents, len(collection)
        self._log, self.keys = log, KeyTable(collection.keys)
        self._named: dict[str, list[int]] = {}
        for row, item in enumerate(self.items):
            self._named.setdefault(item, []).append(row)
        self._lock = threading.RLock()
        self._state = State.empty(self.n_items)
        self._events: list[tuple[Event, Change]] = []
        self._files = Files(self.kind, {}, {})
        self._n_noted = 0
        #: Rows that were not in the source when it was last opened; only of pictures, and none in a new session.
        self.new_rows: list[int] = []
        #: Sentences on what changed in the source since it was last opened.
        self.notes: list[str] = []
        self.refresh()

    @property
    def state(self) -> State:
        """Classes and labels after the last act; never waits."""
        return self._state

    @property
    def missing(self) -> tuple[str, ...]:
        """Items with a label that are no longer in the source; their labels are kept."""
        gone = np.flatnonzero(self._state.slot_given[self.n_items :] != UNKNOWN) + self.n_items
        return tuple(self._shown(self.keys.keys[slot]) for slot in gone.tolist())

    @property
    def acts(self) -> list[Act]:
        """All acts in the log, oldest first."""
        return [change.act for _, change in self._events]

    def by_hand(self) -> dict[str, str]:
        """Labels that a person gave, by key, gone items included; empty where such a label holds no longer."""
        said = {slot for _, change in self._events if change.act.is_by_hand() for slot in change.slots.tolist()}
        acts, labels = origins_of(self._state, self.n_items), {}
        for slot in sorted(said):
            holds = acts[slot] is not None and acts[slot].is_by_hand()
            labels[self.keys.keys[slot]] = self._state.label_of(slot) if holds else ""
        return labels

    def refresh(self) -> State:
        """The newest state, with the acts of other processes; called before every act."""
        with self._lock:
            for event in self._log.after(self._state.version):
                try:
                    with self._log.sound(f"event {event.version} ({event.kind})"):
                        self._take(event)
                except RefusedError:
                    if not self._log.damage:
                        raise
                    self._take(self._log.lose(event.version, f"event {event.version} follows from a damaged one"))
            self._note_damage()
            return self._state

    def _note_damage(self) -> None:
        """Report damage of the log in `notes`, each once."""
        self.notes += [incident for incident in self._log.incidents if incident not in self.notes]
        new = self._log.damage[self._n_noted :]
        self._n_noted += len(new)
        if new:
            more = f" and {len(new) - 3:,} more" if len(new) > 3 else ""
            self.notes.append(
                f"The log {self._log.path} is damaged: {'; '.join(new[:3])}{more}. These are left out, the rest "
                "is used. Look over your labels, or bring back a copy of the log."
            )

    def rows(self, items: Items) -> list[int]:
        """Row numbers of items given by number or by name, each once."""
        if isinstance(items, str | bytes) or not hasattr(items, "__iter__"):
            raise ValueError(f"Give a list of items; got {items!r}.")
        return list(dict.fromkeys(self.row(item) for item in items))

    def history(self, row: int | str) -> list[HistoryEntry]:
        """Events about an item, oldest first."""
        slot = self.row(row)
        with self._lock:
            events = list(self._events)
        return [HistoryEntry(e.version, e.time, change.words) for e, change in events if (change.slots == slot).any()]

    def save(self) -> str | None:
        """Bring the whole log into one file, and return its path; None where it is in memory alone."""
        self._log.flush()
        return None if self._log.path is None else str(self._log.path)

    def close(self) -> None:
        """Let go of the log."""
        self._log.close()

    def do(self, saying: Saying, seen: int | None = None, carried: Carried = lambda act, state: {}) -> int:
        """Do an act on the newest state; returns the version once the act is in the log.

        Parameters
        ----------
        saying : Saying
        seen : int, optional
            Version of the state that the user saw. Where it is not the newest any more, `ChangedMeanwhileError` is
            raised and nothing is written.
        carried : callable
            Returns what the log keeps with the act.
        """

        def entry() -> tuple[str, Mapping[str, Any]] | None:
            state = self.refresh()
            if seen is not None and seen != state.version:
                raise ChangedMeanwhileError("Something else has changed in the meantime. Look again, then repeat it.")
            act = saying.on(Now(state, self.keys.keys, self.items))
            return None if act is None else (act.kind, {**act.payload, **carried(act, state)})

        with self._lock:
            event = self._log.add(entry, lambda new: apply(self._state, new, self.keys.slots_of))
            if event is not None:
                self._take(event)
            return self._state.version

    def _take(self, event: Event) -> None:
        with uninterrupted():  # slots, state and events belong together
            self._state, change = apply(self._state, event, self.keys.slots_of)
            if change.moves is not None:
                self._events = [(earlier, follow(old, change)) for earlier, old in self._events]
            self._events.append((event, change))

    def begin(self, labels: Sequence[str], classes: Classes, *, folders: bool) -> None:
        """Take in new labels of the source and new classes of the caller, while no other process can write.

        Parameters
        ----------
        labels : sequence of str
            Label of each item in the source, empty where it has none.
        classes : mapping of str to sequence of str
            Classes that may have no example yet.
        folders : bool
            Whether the labels are the names of folders.
        """
        labelled = {key: name for key, name in zip(self.keys.keys, labels, strict=False) if name}
        found = {key: name for key, name in labelled.items() if not means_none(name)}
        with self._lock:
            # Pictures are read before the log is locked, and again only where another process wrote meanwhile.
            version, changes = self._state.version, self._changes()
            with self._log.transaction():
                is_new = not self.refresh().version
                changes = changes if self._state.version == version else self._changes()
                self._follow(changes, found)
                self.new_rows[:] = self._files.unknown(self.keys.keys[: self.n_items], changes.renamed.values())
                there = {known.name for known in self._state.classes}
                if folders and there:
                    # A folder that was there before and is not a class may stand for a date or a camera.
                    found = {key: name for key, name in found.items() if name in there or not self._files.knows(key)}
                news = find_news(self._state, self.acts, found, self.keys.slots_of(list(found)))
                if news.labels:
                    self.do(Examples(news.labels))
                if none := self._never_said([key for key in labelled if key not in found]):
                    self.do(NoneOfThese(none))
                read = {as_read(known.name) for known in self._state.classes}
                new = {name: texts for name, texts in classes.items() if as_read(name) not in read}
                if new:
                    self.do(AddClasses.described(new))
        self._note("taken", [key for keys in news.labels.values() for key in keys if not is_new])
        self._note("overruled", news.overruled)

    def _never_said(self, keys: Sequence[str]) -> list[str]:
        """The ``keys`` of items that no event is about."""
        said = {slot for _, change in self._events for slot in change.slots.tolist()}
        return [key for key, slot in zip(keys, self.keys.slots_of(keys).tolist(), strict=True) if slot not in said]

    def _changes(self) -> Changes:
        """Which pictures with events in the log were renamed or replaced since they were last seen."""
        slots = [change.slots for _, change in self._events] + [audit.slots for audit in self._state.audits]
        heard = {self.keys.keys[slot] for each in slots for slot in each.tolist()}
        found: dict[str, Any] = {}
        if self.kind.in_files:
            found = dict(zip(self.keys.keys, self.contents, strict=False)) | self.elsewhere(heard)
        self._files = Files(self.kind, found, self._log.contents())
        return self._files.changes(heard)

    def label_of(self, key: str) -> str:
        """Name of the class that the item of this key is labelled with, unless nobody looked at it."""
        return self._state.label_of(int(self.keys.slots_of([key])[0]))

    def elsewhere(self, keys: Iterable[str]) -> dict[str, Any]:
        """The contents of those ``keys`` that are paths of files outside the source, such as those a run has moved."""
        if not isinstance(self.kind, FileKind):
            return {}
        found = {key: self.kind.find(Path(), key) for key in keys if Path(key).is_absolute()}
        return {key: contents[0] for key, contents in found.items() if contents}

    def remember_contents(self, digests: Mapping[str, str]) -> None:
        """Keep the digests of pictures, by key, of which the log knows no content."""
        known = self._log.contents()
        self._log.keep_contents({key: Content(own) for key, own in digests.items() if key not in known})

    def follow_moved(self, moved: Mapping[str, tuple[str, str]]) -> None:
        """Give labelled items that a run ``moved`` their new keys, unless others have taken their places since.

        The mapping has the new key and the digest of each item, by the old key. The digest is empty for rows of tables.
        """
        known, labelled, there = self._log.contents(), self.by_hand(), set(self.keys.keys[: self.n_items])
        renamed = {}
        for old, (new, digest) in moved.items():
            is_it = old in known and known[old].digest == digest if digest else old not in there
            if labelled.get(old) and new not in labelled and is_it:
                renamed[old] = new
        if renamed:
            self.do(Renamed(renamed))
            kept = {new: known.get(old) for old, new in renamed.items()}
            self._log.keep_contents({**dict.fromkeys(renamed), **kept})

    def _follow(self, changes: Changes, found: Mapping[str, str]) -> None:
        """Move labels along with renamed pictures, and set the labels of replaced pictures aside."""
        state, keys = self._state, self.keys.keys
        names = {known.id: known.name for known in state.classes}
        given = np.flatnonzero(state.slot_given != UNKNOWN).tolist()
        labelled = {keys[slot]: names.get(int(state.slot_given[slot]), "") for slot in given}
        # A class folder labels whatever picture is in it, a replaced one too.
        now = names_now(state, found.values())
        said = {key: now[name] for key, name in found.items()}
        replaced = [key for key in changes.replaced if key in labelled and said.get(key) != labelled[key]]
        if replaced:
            self.do(Replaced(replaced))
        if changes.renamed:
            self.do(Renamed(changes.renamed))
        here = {*changes.replaced, *changes.renamed.values()}
        self._log.keep_contents({**dict.fromkeys(changes.renamed), **{key: self._files.content(key) for key in here}})
        self._note("renamed", [new for old, new in changes.renamed.items() if old in labelled])
        self._note("replaced", replaced)

    def note_contents(self, digests: Mapping[int, str]) -> None:
        """Keep the digests of pictures, by row: they show later which pictures were renamed or replaced."""
        if not self.kind.in_files:
            return
        try:
            self._log.keep_contents(self._files.seen({self.keys.keys[row]: own for row, own in digests.items()}))
        except RefusedError as error:
            self.notes.append(f"Pictures that are renamed now may be taken for new ones when opened again. {error}")

    def _note(self, what: str, keys: Sequence[str]) -> None:
        """Add a sentence on what happened to items to `notes`."""
        self.notes += words(what, [self._shown(key) for key in keys])

    def _shown(self, key: str) -> str:
        """An item as people know it: the beginning of a text, or its name; the key where the source has it no more."""
        slot = int(self.keys.slots_of([key])[0])
        return self.kind.called(key, self.items[slot] if slot < self.n_items else None)

    def row(self, item: Any) -> int:
        """The row of an item given by number or by name."""
        if isinstance(item, int | np.integer) and not isinstance(item, bool):
            if not 0 <= item < self.n_items:
                raise ValueError(f"Rows count from 0 to {self.n_items - 1}; got {item}.")
            return int(item)
        if not isinstance(item, str):
            raise ValueError(f"An item is given by its name or its row number; got {item!r}.")
        found = self._named.get(item, [])
        if not found:
            raise ValueError(f"There is no item {item!r}; items have names such as {self.items[0]!r}.")
        if len(found) > 1:
            raise ValueError(f"{len(found)} items are called {item!r}; give their row numbers, such as {found[0]}.")
        return found[0]

    def keys_of(self, items: Items) -> list[str]:
        """Keys of items given by number or by name."""
        return [self.keys.keys[row] for row in self.rows(items)]

    def by_class(self, items: Mapping[Any, str] | Items, name: str | None) -> dict[str, list[str]]:
        """Keys by class, from a mapping of items to classes, or from items and one class."""
        if isinstance(items, Mapping):
            if name is not None:
                raise ValueError("Give either a mapping of items to classes, or items and one class.")
            said = {self.row(item): own for item, own in items.items()}
        elif name is None:
            raise ValueError("Give the class of the items, or a mapping of items to classes.")
        else:
            said = dict.fromkeys(self.rows(items), name)
        named: dict[str, list[str]] = {}
        for row, own in said.items():
            if not isinstance(own, str):
                raise ValueError(f"The name of a class is text; got {own!r} for {self.items[row]!r}.")
            named.setdefault(own, []).append(self.keys.keys[row])
        return named
