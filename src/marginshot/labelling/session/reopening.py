"""What a source says that its session has not heard: labels given there since, and words for all that changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marginshot.labelling.collection import UNKNOWN
from marginshot.labelling.session.state import Event, Slots, State

_NAMED = 5  # items named in a sentence


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
    news = News({}, [])
    for (key, source_name), slot in zip(found.items(), slots.tolist(), strict=True):
        given = int(state.slot_given[slot]) if slot < len(state.slot_given) else UNKNOWN
        name = _name_now(source_name, events, names.values())
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


def words(what: str, items: Sequence[str]) -> list[str]:
    """A sentence on what happened to items, which names the first few; none where there are none.

    Examples
    --------
    >>> words("renamed", ["a.jpg", "b.jpg"])
    ['2 items were renamed, and their labels went with them: a.jpg, b.jpg.']
    """
    if not items:
        return []
    one, several = _WORDS[what]
    named = ", ".join(items[:_NAMED]) + (", …" if len(items) > _NAMED else "")
    return [f"{f'1 {one}' if len(items) == 1 else f'{len(items):,} {several}'}: {named}."]


_WORDS = {
    "renamed": ("item was renamed, and its label went with it", "items were renamed, and their labels went with them"),
    "replaced": (
        "picture was replaced by another, and its label is set aside (undo brings it back)",
        "pictures were replaced by others, and their labels are set aside (undo brings them back)",
    ),
    "taken": ("label is new in the source and was taken", "labels are new in the source and were taken"),
    "overruled": (
        "label in the source differs from what was said here, which holds",
        "labels in the source differ from what was said here, which holds",
    ),
    "missing": (
        "item with a label is gone from the source; the label is kept",
        "items with labels are gone from the source; the labels are kept",
    ),
}
