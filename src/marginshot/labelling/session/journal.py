"""What was said about the items of a source: the state of a session, and every act that changes it.

Acts may come from any thread. Each is one event, in the log when the call returns; others who write to the same log are
heard first.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.classes import Classes
from marginshot.labelling.collection import (
    FOREIGN,
    NONE,
    UNKNOWN,
    Collection,
    Kind,
    as_read,
    describe_labels,
    means_none,
)
from marginshot.labelling.contents import Changes, Files, words
from marginshot.labelling.errors import RefusedError
from marginshot.labelling.session import acts
from marginshot.labelling.session.events import EventLog
from marginshot.labelling.session.opening import KeyTable, item_keys
from marginshot.labelling.session.reopening import find_news, names_now
from marginshot.labelling.session.replay import apply, follow
from marginshot.labelling.session.state import Change, Event, State

#: Row numbers or names of items.
Items = Sequence[int | str] | NDArray[np.integer]


@dataclass(frozen=True)
class HistoryEntry:
    """An event about one item: its number, seconds since 1970, and words for people."""

    version: int
    time: float
    words: str


class Journal:
    """Items, and what was said about them.

    Parameters
    ----------
    collection : Collection
        The items of the source.
    log : EventLog
        What was said so far, and where more goes.
    """

    def __init__(self, collection: Collection, log: EventLog) -> None:
        self.kind: Kind = collection.kind
        self.items, self.contents, self.n_items = collection.items, collection.contents, len(collection)
        self._log, self._keys = log, KeyTable(item_keys(collection))
        self._named: dict[str, list[int]] = {}
        for row, item in enumerate(self.items):
            self._named.setdefault(item, []).append(row)
        self._lock = threading.RLock()
        self._state = State.empty(self.n_items)
        self._events: list[tuple[Event, Change]] = []
        self._files = Files({}, {})
        #: Sentences on what changed in the source since it was last opened.
        self.notes: list[str] = []
        self.refresh()

    def __repr__(self) -> str:
        names = {known.id: known.name for known in self.state.classes} | {NONE: FOREIGN}
        said = describe_labels(names[code] for code in self.state.given.tolist() if code != UNKNOWN)
        return f"{type(self).__name__}({self.n_items:,} {self.kind}s; said: {said})"

    @property
    def state(self) -> State:
        """Classes and labels after the last act; never waits."""
        return self._state

    @property
    def missing(self) -> tuple[str, ...]:
        """Items with a label that are no longer in the source; their labels are kept."""
        gone = np.flatnonzero(self._state.slot_given[self.n_items :] != UNKNOWN) + self.n_items
        return tuple(self._shown(self._keys.keys[slot]) for slot in gone.tolist())

    def refresh(self) -> State:
        """The state with what other processes have said since; every act asks for it."""
        with self._lock:
            for event in self._log.after(self._state.version):
                with self._log.sound(f"event {event.version} ({event.kind})"):
                    self._take(event)
            return self._state

    def rows(self, items: Items) -> list[int]:
        """Row numbers of items given by number or by name, each once."""
        if isinstance(items, str | bytes) or not hasattr(items, "__iter__"):
            raise ValueError(f"Give a list of items; got {items!r}.")
        return list(dict.fromkeys(self._row(item) for item in items))

    def label(self, items: Mapping[Any, str] | Items, name: str | None = None) -> int:
        """Label items, by name or row number: ``{item: class}``, or several items and one class; returns the version.

        A class that is new is created.
        """
        if isinstance(items, Mapping):
            if name is not None:
                raise ValueError("Give either a mapping of items to classes, or items and one class.")
            said = {self._row(item): own for item, own in items.items()}
        elif name is None:
            raise ValueError("Give the class of the items, or a mapping of items to classes.")
        else:
            said = dict.fromkeys(self.rows(items), name)
        return self._say(acts.label(self._by_class(said)))

    def none_of_these(self, items: Items) -> int:
        """Say that items belong to none of the classes."""
        return self._say(acts.about_items("none", self._keys_of(items)))

    def clear(self, items: Items) -> int:
        """Take the labels of items away."""
        return self._say(acts.about_items("clear", self._keys_of(items)))

    def add_class(self, name: str, description: str | Sequence[str] = ()) -> int:
        """Create a class that has no example yet."""
        return self._say(acts.add_classes({name: description}))

    def rename(self, old: str, new: str) -> int:
        """Give a class another name."""
        return self._say(acts.rename(old, new))

    def merge(self, old: str, into: str) -> int:
        """Give all items of the class ``old`` to another."""
        return self._say(acts.merge(old, into))

    def delete_class(self, name: str) -> int:
        """Take a class away, and its labels with it."""
        return self._say(acts.delete_class(name))

    def undo(self) -> int:
        """Take back the last act that still holds."""
        return self._say(acts.undo)

    def redo(self) -> int:
        """Bring back what was undone last."""
        return self._say(acts.redo)

    def history(self, row: int | str) -> list[HistoryEntry]:
        """What was said about an item, oldest first."""
        slot = self._row(row)
        with self._lock:
            events = list(self._events)
        return [HistoryEntry(e.version, e.time, change.words) for e, change in events if (change.slots == slot).any()]

    def save(self) -> str | None:
        """Bring the whole log into one file, for copying it, and return its path. Acts are kept without it, too."""
        self._log.flush()
        return None if self._log.path is None else str(self._log.path)

    def _say(self, saying: acts.Saying) -> int:
        """Say something of the newest state; returns the version once it is in the log."""
        with self._lock:
            event = self._log.add(lambda: saying(self.refresh()))
            self._take(event)
            return event.version

    def _take(self, event: Event) -> None:
        self._state, change = apply(self._state, event, self._keys.slots_of)
        if change.moves is not None:
            self._events = [(earlier, follow(old, change)) for earlier, old in self._events]
        self._events.append((event, change))

    def _begin(self, labels: Sequence[str], classes: Classes, *, folders: bool) -> None:
        """Hear what the source and the caller know and was not said before; nobody else writes meanwhile.

        Parameters
        ----------
        labels : sequence of str
            Label of each item in the source, empty where it has none.
        classes : mapping of str to sequence of str
            Classes that may have no example yet.
        folders : bool
            Whether the labels are the names of folders.
        """
        labelled = {key: name for key, name in zip(self._keys.keys, labels, strict=False) if name}
        found = {key: name for key, name in labelled.items() if not means_none(name)}
        with self._lock:
            # Pictures are read before the log is locked, and again only where somebody wrote meanwhile.
            version, changes = self._state.version, self._changes()
            with self._log.transaction():
                is_new = not self.refresh().version
                self._follow(changes if self._state.version == version else self._changes(), found)
                there = {known.name for known in self._state.classes}
                if folders and there:
                    # A folder that was there before and is not a class may stand for a date or a camera.
                    found = {key: name for key, name in found.items() if name in there or not self._files.knows(key)}
                events = [event for event, _ in self._events]
                news = find_news(self._state, events, found, self._keys.slots_of(list(found)))
                if news.labels:
                    self._say(acts.label(news.labels, "examples"))
                if none := self._never_said([key for key in labelled if key not in found]):
                    self._say(acts.about_items("none", none))
                read = {as_read(known.name) for known in self._state.classes}
                new = {name: texts for name, texts in classes.items() if as_read(name) not in read}
                if new:
                    self._say(acts.add_classes(new))
        self._note("taken", [key for keys in news.labels.values() for key in keys if not is_new])
        self._note("overruled", news.overruled)
        self.notes += words("missing", self.missing)

    def _never_said(self, keys: Sequence[str]) -> list[str]:
        """Those of the items, by key, that no event is about."""
        said = {slot for _, change in self._events for slot in change.slots.tolist()}
        return [key for key, slot in zip(keys, self._keys.slots_of(keys).tolist(), strict=True) if slot not in said]

    def _changes(self) -> Changes:
        """Which pictures that the log has heard of were renamed or replaced since they were last seen."""
        paths = zip(self._keys.keys, self.contents, strict=False) if self.kind == "picture" else ()
        self._files = Files(dict(paths), self._log.contents())
        heard = [change.slots for _, change in self._events] + [audit.slots for audit in self._state.audits]
        return self._files.changes({self._keys.keys[slot] for slots in heard for slot in slots.tolist()})

    def _follow(self, changes: Changes, found: Mapping[str, str]) -> None:
        """Let what was said go with renamed pictures, and set the labels of replaced ones aside."""
        state, keys = self._state, self._keys.keys
        names = {known.id: known.name for known in state.classes}
        given = np.flatnonzero(state.slot_given != UNKNOWN).tolist()
        labelled = {keys[slot]: names.get(int(state.slot_given[slot]), "") for slot in given}
        # A class folder says of whatever is in it what its class is.
        now = names_now(state, [event for event, _ in self._events], found.values())
        said = {key: now[name] for key, name in found.items()}
        replaced = [key for key in changes.replaced if key in labelled and said.get(key) != labelled[key]]
        if replaced:
            self._say(lambda _: ("replaced", {"items": replaced}))
        if changes.renamed:
            self._say(lambda _: ("renamed", {"items": changes.renamed}))
        here = {*changes.replaced, *changes.renamed.values()}
        self._log.keep_contents({**dict.fromkeys(changes.renamed), **{key: self._files.content(key) for key in here}})
        self._note("renamed", [new for old, new in changes.renamed.items() if old in labelled])
        self._note("replaced", replaced)

    def _note_contents(self, digests: Mapping[int, str]) -> None:
        """Keep the digests of pictures, by row, by which they are known when they are renamed or replaced."""
        if self.kind != "picture":
            return
        try:
            self._log.keep_contents(self._files.seen({self._keys.keys[row]: own for row, own in digests.items()}))
        except RefusedError as error:
            self.notes.append(f"Pictures that are renamed now may be taken for new ones when opened again. {error}")

    def _note(self, what: str, keys: Sequence[str]) -> None:
        """Put what happened to items into words."""
        self.notes += words(what, [self._shown(key) for key in keys])

    def _shown(self, key: str) -> str:
        """An item as people know it: the beginning of a text, or its name; the key where the source has it no more."""
        if self.kind == "text":
            return key.partition(" ")[2]
        slot = int(self._keys.slots_of([key])[0])
        return self.items[slot] if slot < self.n_items else key

    def _row(self, item: Any) -> int:
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

    def _keys_of(self, items: Items) -> list[str]:
        return [self._keys.keys[row] for row in self.rows(items)]

    def _by_class(self, said: Mapping[int, str]) -> dict[str, list[str]]:
        """Keys of the rows by the class said of them."""
        named: dict[str, list[str]] = {}
        for row, name in said.items():
            if not isinstance(name, str):
                raise ValueError(f"The name of a class is text; got {name!r} for {self.items[row]!r}.")
            named.setdefault(name, []).append(self._keys.keys[row])
        return named
