"""What one act changes: gathered in a draft, put into a state, taken back, and moved along with renamed items."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.items.collection import UNKNOWN
from marginshot.labelling.session.state import (
    CLASS_KEYS,
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

if TYPE_CHECKING:
    from marginshot.labelling.session.acts.act import Act


def rename_items(state: State, old: Slots, new: Slots, change: Change) -> tuple[State, Change]:
    """The state and the ``change``, empty so far, after items moved from slots ``old`` (n,) to ``new`` (n,)."""
    moves = dict(zip(old.tolist(), new.tolist(), strict=True))
    before = {end: start for start, end in moves.items()}
    for end in sorted(set(before) - set(moves)):
        start = end
        while start in before:
            start = before[start]
        moves[end] = start  # what was at the last place goes to the first, so that each place has one item
    slots = np.array(sorted(moves), dtype=np.int64)
    places = np.array([moves[slot] for slot in slots.tolist()], dtype=np.int64)
    given, checked, seen = _with_room(state, int(slots.max(initial=-1)) + 1)
    arrays: tuple[NDArray[Any], ...] = (given, checked, seen)
    for array in arrays:
        array[places] = array[slots]
        array.setflags(write=False)
    moved = replace(change, slots=old, moves=(slots, places))
    after = replace(
        state,
        version=change.version,
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
    """The slots ``own`` (n,) after a move of the sorted ``slots`` to ``places``, (n,)."""
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


def put(state: State, change: Change, side: int) -> State:
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


class Draft:
    """The changes of one act while they are gathered."""

    def __init__(self, state: State, slots_of: Callable[[Sequence[str]], Slots]) -> None:
        self.state, self._slots_of = state, slots_of
        self.classes, self.audits, self.next_id = list(state.classes), list(state.audits), state.next_id
        self.set: list[tuple[Slots, int, bool]] = []

    def add_class(self, name: str, description: Sequence[str] = ()) -> int:
        """A new class, with the first key that is free; returns its id."""
        taken = {known.key for known in self.classes}
        key = next((key for key in CLASS_KEYS if key not in taken), "")
        self.classes.append(Class(self.next_id, name, tuple(description), key))
        self.next_id += 1
        return self.next_id - 1

    def slots(self, keys: Sequence[str]) -> Slots:
        """Slots (n,) of n keys."""
        if not isinstance(keys, list | tuple) or not all(isinstance(key, str) for key in keys):
            raise TypeError(f"{reprlib.repr(keys)} is not a list of items")
        return self._slots_of(keys)

    def label(self, slots: Slots, code: int, checked: bool) -> None:
        """Give the items at ``slots`` (n,) a class, NONE, or UNKNOWN."""
        self.set.append((slots, code, checked))

    def change(self, event: Event, act: Act, words: str) -> Change:
        """The changes gathered, together with what was there before."""
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
            act,
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
        """Answers that the items at ``slots`` (n,) had, by the ``payload`` of an event, (n,) of `SEEN`."""
        answers = payload.get("answers", {})
        places = dict(zip(self.slots(list(answers)).tolist(), answers.values(), strict=True))
        # A third number marks items that the session had not proposed.
        rows = [
            (*places[slot][:2], payload["among"], len(places[slot]) > 2) if slot in places else UNSEEN.item()
            for slot in slots.tolist()
        ]
        seen = np.array(rows, dtype=SEEN)
        seen[~np.isfinite(seen["confidence"])] = UNSEEN  # cannot be used; logs of earlier versions may hold it
        return seen
