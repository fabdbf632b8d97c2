"""New labels in a source: those that its session has not imported yet."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.items.collection import UNKNOWN, as_read
from marginshot.labelling.session.acts.act import Act
from marginshot.labelling.session.acts.label import Examples
from marginshot.labelling.session.state import Slots, State


@dataclass(frozen=True)
class News:
    """Labels in a source that the session has not imported yet.

    Parameters
    ----------
    labels : dict of str to list of str
        Keys of the items to label, by class.
    overruled : list of str
        Keys of items that keep another label, which a person gave them in the session.
    """

    labels: dict[str, list[str]]
    overruled: list[str]


def find_news(state: State, said: Sequence[Act], found: Mapping[str, str], slots: Slots) -> News:
    """What the labels ``found`` in a source, by key, add to a session.

    Labels already imported from the source are skipped, even if changed in the session since. A new one holds unless
    somebody labelled the item in the session; answers accepted in bulk give way. Names that read alike (`as_read`) are
    one class.

    Parameters
    ----------
    state : State
    said : sequence of Act
        All acts so far.
    found : mapping of str to str
        Label by key.
    slots : ndarray of int64 of shape (n,)
        Slots of its keys.
    """
    heard = _heard(said)
    names = {known.id: known.name for known in state.classes}
    now = names_now(state, (*found.values(), *heard.values()))
    origin = origins_of(state, int(slots.max(initial=-1)) + 1)
    news = News({}, [])
    for (key, source_name), slot in zip(found.items(), slots.tolist(), strict=True):
        name, is_known = now[source_name], slot < len(state.slot_given)
        given = int(state.slot_given[slot]) if is_known else UNKNOWN
        if (key in heard and now[heard[key]] == name) or names.get(given) == name:
            continue
        if not (is_known and state.slot_checked[slot]) or isinstance(origin[slot], Examples):
            news.labels.setdefault(name, []).append(key)
        else:
            news.overruled.append(key)
    return news


def names_now(state: State, names: Iterable[str]) -> dict[str, str]:
    """Present names in the session of classes of the source, by their ``names`` there."""
    there = {as_read(known.name): known.name for known in state.classes}
    spelled = dict(there)
    given = [change.act.new_name for change in state.done if change.act.new_name is not None]
    now = {}
    for name in dict.fromkeys(names):
        end = _name_now(name, given, there)
        now[name] = spelled.setdefault(as_read(end), end)
    return now


def _heard(said: Iterable[Act]) -> dict[str, str]:
    """The labels last imported from the source, by the present keys of the items."""
    heard: dict[str, str] = {}
    for act in said:
        heard = act.heard(heard)
    return heard


def origins_of(state: State, n_slots: int) -> NDArray[np.object_]:
    """The act that gave each slot its label, (at least n_slots,)."""
    origin = np.full(max(len(state.slot_given), n_slots), None, dtype=object)
    for change in state.done:
        if not change.act.moves_labels:
            origin[change.slots] = change.act
    return origin


def _name_now(name: str, given: Iterable[tuple[str, str]], classes: Container[str]) -> str:
    """Present name of a class of the source after the renamings ``given``; ``classes`` are those there, `as_read`."""
    for old, new in given:
        if as_read(name) in classes:
            break
        if as_read(old) == as_read(name):
            name = new
    return name
