"""Events become a state: what each kind of event does, undo and redo among them.

The state is a pure function of the events and of the keys of the source.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.collection import NONE, UNKNOWN
from marginshot.labelling.session.state import (
    SEEN,
    UNSEEN,
    Audit,
    Change,
    Class,
    Codes,
    Event,
    Slots,
    State,
    with_point,
)


def apply(state: State, event: Event, slots_of: Callable[[Sequence[str]], Slots]) -> tuple[State, Change]:
    """The state after ``event``, and what it changed.

    Parameters
    ----------
    state : State
    event : Event
    slots_of : callable
        Slots (n,) of n keys.
    """
    if event.kind in ("undo", "redo"):
        return _undo_or_redo(state, event)
    draft = _Draft(state, slots_of)
    if event.kind == "renamed":
        return _renamed(state, event, draft)
    if event.kind not in KINDS:
        raise ValueError(f"Event {event.version} is of the kind {event.kind!r}, which this version does not know.")
    change = draft.change(event, KINDS[event.kind](draft, event.payload))
    after = replace(_with(state, change, 1), next_id=draft.next_id)
    return replace(after, version=event.version, done=(*state.done, change), undone=()), change


def _undo_or_redo(state: State, event: Event) -> tuple[State, Change]:
    """Take the last change from one pile to the other, and its other side into the state."""
    back = event.kind == "undo"
    pile = state.done if back else state.undone
    if not pile:
        raise ValueError(f"There is nothing to {event.kind}.")
    change, rest = pile[-1], pile[:-1]
    done, undone = (rest, (*state.undone, change)) if back else ((*state.done, change), rest)
    after = replace(_with(state, change, 0 if back else 1), version=event.version, done=done, undone=undone)
    return after, replace(change, words=f"{event.kind}: {change.words}")


def _renamed(state: State, event: Event, draft: _Draft) -> tuple[State, Change]:
    """Items have other keys now: what was said of them, undo and redo included, goes with them."""
    items = event.payload["items"]
    old, new = draft.slots(list(items)), draft.slots(list(items.values()))
    moves = dict(zip(old.tolist(), new.tolist(), strict=True))
    before = {end: start for start, end in moves.items()}
    for end in sorted(set(before) - set(moves)):
        start = end
        while start in before:
            start = before[start]
        moves[end] = start  # what was at the last place goes to the first, so that each place has one item
    change = replace(draft.change(event, f"follow {count(len(old))} to other names"), slots=old)
    slots = np.array(sorted(moves), dtype=np.int64)
    places = np.array([moves[slot] for slot in slots.tolist()], dtype=np.int64)
    given, checked, seen = _with_room(state, int(slots.max(initial=-1)) + 1)
    arrays: tuple[NDArray[Any], ...] = (given, checked, seen)
    for array in arrays:
        array[places] = array[slots]
        array.setflags(write=False)
    moved = replace(change, moves=(slots, places))
    after = replace(
        state,
        version=event.version,
        slot_given=given,
        slot_checked=checked,
        slot_seen=seen,
        audits=_follow_audits(state.audits, moved),
        done=tuple(follow(earlier, moved) for earlier in state.done),
        undone=tuple(follow(earlier, moved) for earlier in state.undone),
    )
    return after, follow(moved, moved)


def follow(change: Change, renamed: Change) -> Change:
    """An earlier change with its items where ``renamed`` moved them; the change itself where it moved none."""
    if renamed.moves is None:
        return change
    before, after = change.audits
    audits = _follow_audits(before, renamed), _follow_audits(after, renamed)
    return replace(change, slots=_moved(change.slots, *renamed.moves), audits=audits)


def _follow_audits(audits: tuple[Audit, ...], renamed: Change) -> tuple[Audit, ...]:
    return tuple(replace(audit, slots=_moved(audit.slots, *(renamed.moves or ()))) for audit in audits)


def _moved(own: Slots, slots: Slots, places: Slots) -> Slots:
    """Where what is at the slots ``own`` (n,) is moved to, (n,); sorted ``slots`` go to ``places``."""
    nearest = np.searchsorted(slots, own).clip(max=len(slots) - 1)
    return np.where(slots[nearest] == own, places[nearest], own)


def _with_room(state: State, n_slots: int) -> tuple[Codes, NDArray[np.bool_], NDArray[np.void]]:
    """Labels, whether they were checked, and the answers seen, with room for ``n_slots`` at least."""
    room = max(n_slots - len(state.slot_given), 0)
    return (
        np.append(state.slot_given, np.full(room, UNKNOWN, dtype=np.int32)),
        np.append(state.slot_checked, np.zeros(room, dtype=bool)),
        np.append(state.slot_seen, np.full(room, UNSEEN, dtype=SEEN)),
    )


def _with(state: State, change: Change, side: int) -> State:
    """The state with one side of a change, 0 what was before and 1 what is after."""
    given, checked, seen = _with_room(state, int(change.slots.max(initial=-1)) + 1)
    for array, values in ((given, change.given), (checked, change.checked), (seen, change.seen)):
        array[change.slots] = values[side]
        array.setflags(write=False)
    return replace(
        state,
        slot_given=given,
        slot_checked=checked,
        slot_seen=seen,
        classes=change.classes[side],
        audits=change.audits[side],
        curve=change.curve[side],
    )


class _Draft:
    """The changes of one act while they are gathered."""

    def __init__(self, state: State, slots_of: Callable[[Sequence[str]], Slots]) -> None:
        self.state, self._slots_of = state, slots_of
        self.classes, self.audits, self.next_id = list(state.classes), list(state.audits), state.next_id
        self.set: list[tuple[Slots, int, bool]] = []

    def add_class(self, name: str, description: Sequence[str] = ()) -> int:
        self.classes.append(Class(self.next_id, name, tuple(description)))
        self.next_id += 1
        return self.next_id - 1

    def slots(self, keys: Sequence[str]) -> Slots:
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise TypeError(f"{reprlib.repr(keys)} is not a list of items")
        return self._slots_of(keys)

    def label(self, slots: Slots, code: int, checked: bool) -> None:
        self.set.append((slots, code, checked))

    def change(self, event: Event, words: str) -> Change:
        """What was gathered, beside what was there."""
        state, payload = self.state, event.payload
        slots = np.concatenate([slots for slots, _, _ in self.set] or [np.empty(0, dtype=np.int64)])
        given = np.concatenate([np.full(len(own), code) for own, code, _ in self.set] or [slots]).astype(np.int32)
        checked = np.concatenate([np.full(len(own), said) for own, _, said in self.set] or [slots]).astype(bool)
        known = slots < len(state.slot_given)
        given_before = np.full(len(slots), UNKNOWN, dtype=np.int32)
        checked_before = np.zeros(len(slots), dtype=bool)
        seen_before = np.full(len(slots), UNSEEN, dtype=SEEN)
        given_before[known] = state.slot_given[slots[known]]
        checked_before[known] = state.slot_checked[slots[known]]
        seen_before[known] = state.slot_seen[slots[known]]
        seen = self._seen(slots, payload.get("seen", {}))
        seen[~checked] = UNSEEN
        seen[checked & checked_before] = seen_before[checked & checked_before]
        return Change(
            event.version,
            event.kind,
            words,
            slots,
            (given_before, given),
            (checked_before, checked),
            (seen_before, seen),
            (state.classes, tuple(self.classes)),
            (state.audits, tuple(self.audits)),
            (state.curve, with_point(state.curve, payload.get("expected"))),
        )

    def _seen(self, slots: Slots, payload: Mapping[str, Any]) -> NDArray[np.void]:
        """What was answered for the items at ``slots`` (n,), in the words of an event, (n,) of `SEEN`."""
        answers = payload.get("answers", {})
        places = dict(zip(self.slots(list(answers)).tolist(), answers.values(), strict=True))
        rows = [(*places[slot], payload["among"]) if slot in places else UNSEEN.item() for slot in slots.tolist()]
        return np.array(rows, dtype=SEEN)


def _label(draft: _Draft, payload: Mapping[str, Any], said: str = "label {}", checked: bool = True) -> str:
    n_items = 0
    for name, keys in payload["labels"].items():
        known = draft.state.find_class(name)
        code = draft.add_class(name) if known is None else known.id
        slots = draft.slots(keys)
        draft.label(slots, code, checked)
        n_items += len(slots)
    names = ", ".join(f'"{name}"' for name in list(payload["labels"])[:3])
    more = f" and {len(payload['labels']) - 3} more" if len(payload["labels"]) > 3 else ""
    return f"{said.format(count(n_items))} {names}{more}"


def _examples(draft: _Draft, payload: Mapping[str, Any]) -> str:
    return _label(draft, payload, "take {} of the source as examples:")


def _confirm(draft: _Draft, payload: Mapping[str, Any]) -> str:
    return _label(draft, payload, "confirm {}")


def _accept(draft: _Draft, payload: Mapping[str, Any]) -> str:
    return _label(draft, payload, "accept {}", checked=False)


def _none(draft: _Draft, payload: Mapping[str, Any]) -> str:
    draft.label(draft.slots(payload["items"]), NONE, True)
    return f"say {count(len(payload['items']))} to be none of the classes"


def _clear(draft: _Draft, payload: Mapping[str, Any]) -> str:
    draft.label(draft.slots(payload["items"]), UNKNOWN, False)
    return f"clear {count(len(payload['items']))}"


def _replaced(draft: _Draft, payload: Mapping[str, Any]) -> str:
    draft.label(draft.slots(payload["items"]), UNKNOWN, False)
    return f"set the labels of {count(len(payload['items']))} aside, which were replaced"


def _add_class(draft: _Draft, payload: Mapping[str, Any]) -> str:
    names = [name for name, _ in payload["classes"]]
    for name, description in payload["classes"]:
        draft.add_class(name, description)
    return "add " + ", ".join(f'"{name}"' for name in names[:3]) + (", …" if len(names) > 3 else "")


def _rename(draft: _Draft, payload: Mapping[str, Any]) -> str:
    old, new = payload["old"], payload["new"]
    renamed = draft.state.class_id(old)
    draft.classes = [replace(known, name=new) if known.id == renamed else known for known in draft.classes]
    return f'rename "{old}" to "{new}"'


def _merge(draft: _Draft, payload: Mapping[str, Any]) -> str:
    old, into = payload["old"], payload["into"]
    gone, stays = draft.state.class_id(old), draft.state.class_id(into)
    _move_labels(draft, gone, stays)
    draft.audits = [
        replace(audit, answered=np.where(audit.answered == gone, np.int32(stays), audit.answered))
        for audit in draft.audits
    ]
    return f'merge "{old}" into "{into}"'


def _delete_class(draft: _Draft, payload: Mapping[str, Any]) -> str:
    _move_labels(draft, draft.state.class_id(payload["name"]), UNKNOWN)
    return f'delete "{payload["name"]}"'


def _move_labels(draft: _Draft, gone: int, code: int) -> None:
    """Give the items of a class to another, or to none, and drop the class."""
    draft.classes = [known for known in draft.classes if known.id != gone]
    own = np.flatnonzero(draft.state.slot_given == gone)
    for said in (False, True):
        draft.label(own[draft.state.slot_checked[own] == said], code, said and code != UNKNOWN)


def _audit(draft: _Draft, payload: Mapping[str, Any]) -> str:
    answered = [draft.state.class_id(name) for name in payload["answered"]]
    slots = draft.slots(payload["items"])
    if len(slots) != len(answered):
        raise ValueError(f"{count(len(slots))} were drawn with {len(answered)} answers")
    draft.audits.append(Audit(slots, np.array(answered, dtype=np.int32)))
    return f"draw {count(len(payload['items']))} to check"


def count(n_items: int) -> str:
    """``1 item``, ``12 items``, ``5,000 items``."""
    return "1 item" if n_items == 1 else f"{n_items:,} items"


#: What each kind of event does to a draft; all return words for people.
KINDS: Mapping[str, Callable[[_Draft, Mapping[str, Any]], str]] = {
    "examples": _examples,
    "label": _label,
    "confirm": _confirm,
    "accept": _accept,
    "none": _none,
    "clear": _clear,
    "replaced": _replaced,
    "add_class": _add_class,
    "rename": _rename,
    "merge": _merge,
    "delete_class": _delete_class,
    "audit": _audit,
}
