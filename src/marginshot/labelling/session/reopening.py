"""What a source says that its session has not heard: labels given there since."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.collection import UNKNOWN, as_read
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
    somebody labelled the item in the session; answers accepted in bulk give way. A name that reads like that of a class
    is that class.

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
    heard = _heard(events)
    names = {known.id: known.name for known in state.classes}
    now = names_now(state, events, (*found.values(), *heard.values()))
    origin = _origins(state, int(slots.max(initial=-1)) + 1)
    news = News({}, [])
    for (key, source_name), slot in zip(found.items(), slots.tolist(), strict=True):
        name, is_known = now[source_name], slot < len(state.slot_given)
        given = int(state.slot_given[slot]) if is_known else UNKNOWN
        if (key in heard and now[heard[key]] == name) or names.get(given) == name:
            continue
        if not (is_known and state.slot_checked[slot]) or origin[slot] == "examples":
            news.labels.setdefault(name, []).append(key)
        else:
            news.overruled.append(key)
    return news


def names_now(state: State, events: Sequence[Event], names: Iterable[str]) -> dict[str, str]:
    """What classes of the source are called in the session, by their ``names`` there; no two read the same."""
    there = {as_read(known.name): known.name for known in state.classes}
    spelled = dict(there)
    holding = {change.version for change in state.done}
    acts = [event for event in events if event.kind in ("rename", "merge") and event.version in holding]
    now = {}
    for name in dict.fromkeys(names):
        end = _name_now(name, acts, there)
        now[name] = spelled.setdefault(as_read(end), end)
    return now


def _heard(events: Iterable[Event]) -> dict[str, str]:
    """The label that the source was last heard to give, by the key that the item has now."""
    heard: dict[str, str] = {}
    for event in events:
        if event.kind == "examples":
            heard |= {key: name for name, keys in event.payload["labels"].items() for key in keys}
        elif event.kind == "renamed":
            moves = event.payload["items"]
            moved = {new: heard[old] for old, new in moves.items() if old in heard}
            heard = {key: name for key, name in heard.items() if key not in {*moves, *moves.values()}} | moved
    return heard


def _origins(state: State, n_slots: int) -> NDArray[np.object_]:
    """Kind of the act that gave each slot its label, (at least n_slots,); a merge moves labels and gives none."""
    origin = np.full(max(len(state.slot_given), n_slots), "", dtype=object)
    for change in state.done:
        if change.kind != "merge":
            origin[change.slots] = change.kind
    return origin


def _name_now(name: str, acts: Iterable[Event], classes: Container[str]) -> str:
    """What a class of the source is called after these renames and merges; ``classes`` as they read."""
    for event in acts:
        if as_read(name) in classes:
            break
        if as_read(event.payload["old"]) == as_read(name):
            name = event.payload["new" if event.kind == "rename" else "into"]
    return name
