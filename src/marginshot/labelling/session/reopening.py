"""What a source says that its session has not heard: labels given there since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marginshot.labelling.collection import UNKNOWN
from marginshot.labelling.session.state import Event, Slots, State


@dataclass(frozen=True)
class News:
    """Labels in a source.

    Parameters
    ----------
    labels : dict of str to list of str
        Keys, by class, of items that the source says something new of.
    overruled : list of str
        Keys of items of which somebody said something else in the session.
    """

    labels: dict[str, list[str]]
    overruled: list[str]


def find_news(state: State, events: Sequence[Event], found: Mapping[str, str], slots: Slots) -> News:
    """What the labels ``found`` in a source, by key, add to a session.

    A label that was taken from the source before says nothing new, whatever became of it. One that is new holds unless
    somebody labelled the item in the session.

    Parameters
    ----------
    state : State
    events : sequence of Event
        All events so far.
    found : mapping of str to str
        Label by key.
    slots : ndarray of int64 of shape (n,)
        Slots of its keys.
    """
    heard = {
        key: name
        for event in events
        if event.kind == "examples"
        for name, keys in event.payload["labels"].items()
        for key in keys
    }
    names = {known.id: known.name for known in state.classes}
    origin = np.full(max(len(state.slot_given), int(slots.max(initial=-1)) + 1), "", dtype=object)
    for change in state.done:
        origin[change.slots] = change.kind
    now = {name: _name_now(name, events, names.values()) for name in set(found.values())}
    news = News({}, [])
    for (key, source_name), slot in zip(found.items(), slots.tolist(), strict=True):
        given = int(state.slot_given[slot]) if slot < len(state.slot_given) else UNKNOWN
        name = now[source_name]
        if heard.get(key) == source_name or names.get(given) == name:
            continue
        if given == UNKNOWN or origin[slot] == "examples":
            news.labels.setdefault(name, []).append(key)
        else:
            news.overruled.append(key)
    return news


def _name_now(name: str, events: Iterable[Event], classes: Iterable[str]) -> str:
    """What a class of the source is called in the session, where it may have been renamed or merged."""
    there = set(classes)
    for event in events:
        if name in there:
            break
        if event.kind in ("rename", "merge") and event.payload["old"] == name:
            name = event.payload["new" if event.kind == "rename" else "into"]
    return name
