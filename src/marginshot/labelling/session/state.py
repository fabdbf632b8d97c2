"""State of a labelling session: a pure function of its events, undo and redo among them.

Items are counted by slots: 0 … n_items − 1 are the rows of the source, larger ones belong to items that were labelled
before and are no longer there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.collection import NONE, UNKNOWN

Codes = NDArray[np.int32]
Slots = NDArray[np.int64]

#: Class id and probability of the answer that an item had when somebody checked it, and a checksum of the ids of all
#: classes that could be answered.
SEEN = np.dtype([("answer", np.int32), ("confidence", np.float32), ("among", np.uint32)])
_UNSEEN = np.array((UNKNOWN, 0.0, 0), dtype=SEEN)

#: Number of checked labels and the accuracy expected with them.
Point = tuple[int, float]


@dataclass(frozen=True)
class Event:
    """One act as it stands in the log.

    Parameters
    ----------
    version : int
        Number of the event, from 1 on.
    time : float
        Seconds since 1970.
    kind : str
        One of `KINDS`.
    payload : mapping of str to object
        Items by key, classes by the name they had at the time. ``seen`` holds what was answered before the act: the
        checksum ``among`` and, by key, class id and probability; ``expected`` the point of the curve before the act.
    """

    version: int
    time: float
    kind: str
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class Class:
    """A class; its id is never given to another, even after it is deleted."""

    id: int
    name: str
    description: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Audit:
    """A random sample to check by hand: slots (n,), and the class ids (n,) answered when it was drawn."""

    slots: Slots
    answered: Codes


@dataclass(frozen=True, eq=False)
class Change:
    """What one act changed, as it was before and is after it.

    Parameters
    ----------
    words : str
        The act for people, such as ``label 12 items "gull"``.
    slots : ndarray of int64 of shape (n,)
        Items whose label it sets.
    given, checked, seen : pair of ndarray of shape (n,)
        Their labels, whether somebody looked at them, and the answers they had then.
    classes : pair of tuple of Class
    audits : pair of tuple of Audit
    curve : pair of tuple of Point
    """

    words: str
    slots: Slots
    given: tuple[Codes, Codes]
    checked: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    seen: tuple[NDArray[np.void], NDArray[np.void]]
    classes: tuple[tuple[Class, ...], tuple[Class, ...]]
    audits: tuple[tuple[Audit, ...], tuple[Audit, ...]]
    curve: tuple[tuple[Point, ...], tuple[Point, ...]]


@dataclass(frozen=True, eq=False)
class State:
    """Classes and labels after an event; never changed, so that any thread may keep it.

    Parameters
    ----------
    n_items : int
        Rows of the source.
    version : int
        Number of the last event.
    classes : tuple of Class
        In the order of their creation.
    audits : tuple of Audit
        In the order they were drawn.
    curve : tuple of Point
        Accuracy expected before each act that holds, the number of checked labels increasing.
    """

    n_items: int
    version: int
    classes: tuple[Class, ...]
    audits: tuple[Audit, ...]
    curve: tuple[Point, ...]
    slot_given: Codes = field(repr=False)
    slot_checked: NDArray[np.bool_] = field(repr=False)
    slot_seen: NDArray[np.void] = field(repr=False)
    next_id: int
    done: tuple[Change, ...] = field(repr=False)
    undone: tuple[Change, ...] = field(repr=False)

    @classmethod
    def empty(cls, n_items: int) -> State:
        """Before the first event."""
        given, seen = np.full(n_items, UNKNOWN, dtype=np.int32), np.full(n_items, _UNSEEN, dtype=SEEN)
        return cls(n_items, 0, (), (), (), given, np.zeros(n_items, dtype=bool), seen, 0, (), ())

    @property
    def given(self) -> Codes:
        """Class id said of each row, (n_items,); UNKNOWN, or NONE where it is none of the classes."""
        return self.slot_given[: self.n_items]

    @property
    def checked(self) -> NDArray[np.bool_]:
        """Rows, (n_items,), whose label somebody gave while looking at them; not those accepted in bulk."""
        return self.slot_checked[: self.n_items]

    @property
    def seen(self) -> NDArray[np.void]:
        """What each row was answered when it was checked, (n_items,) of `SEEN`; UNKNOWN for those not checked."""
        return self.slot_seen[: self.n_items]

    @property
    def can_undo(self) -> str | None:
        """Words for the act that undo would take back."""
        return self.done[-1].words if self.done else None

    @property
    def can_redo(self) -> str | None:
        """Words for the act that redo would bring back."""
        return self.undone[-1].words if self.undone else None

    def find_class(self, name: str) -> Class | None:
        """The class of that name."""
        return next((known for known in self.classes if known.name == name), None)

    def class_id(self, name: str) -> int:
        """Id of a class that is known to exist."""
        found = self.find_class(name)
        if found is None:
            raise ValueError(f"There is no class {name!r}.")
        return found.id


def apply(state: State, event: Event, slots_of: Callable[[Sequence[str]], Slots]) -> tuple[State, Change]:
    """The state after ``event``, and what it changed.

    Parameters
    ----------
    state : State
    event : Event
    slots_of : callable
        Slots (n,) of n keys.
    """
    if event.kind == "undo":
        return _undo(state, event)
    if event.kind == "redo":
        return _redo(state, event)
    if event.kind not in KINDS:
        raise ValueError(f"Event {event.version} is of the kind {event.kind!r}, which this version does not know.")
    draft = _Draft(state, slots_of)
    words = KINDS[event.kind](draft, event.payload)
    change = draft.change(words, event.payload)
    after = replace(_with(state, change, 1), next_id=draft.next_id)
    return replace(after, version=event.version, done=(*state.done, change), undone=()), change


def _undo(state: State, event: Event) -> tuple[State, Change]:
    if not state.done:
        raise ValueError("There is nothing to undo.")
    change = state.done[-1]
    after = _with(state, change, 0)
    told = replace(change, words=f"undo: {change.words}")
    return replace(after, version=event.version, done=state.done[:-1], undone=(*state.undone, change)), told


def _redo(state: State, event: Event) -> tuple[State, Change]:
    if not state.undone:
        raise ValueError("There is nothing to redo.")
    change = state.undone[-1]
    after = _with(state, change, 1)
    told = replace(change, words=f"redo: {change.words}")
    return replace(after, version=event.version, done=(*state.done, change), undone=state.undone[:-1]), told


def _with(state: State, change: Change, side: int) -> State:
    """The state with one side of a change, 0 what was before and 1 what is after."""
    n_slots = max(len(state.slot_given), int(change.slots.max(initial=-1)) + 1)
    room = n_slots - len(state.slot_given)
    given = np.append(state.slot_given, np.full(room, UNKNOWN, dtype=np.int32))
    checked = np.append(state.slot_checked, np.zeros(room, dtype=bool))
    seen = np.append(state.slot_seen, np.full(room, _UNSEEN, dtype=SEEN))
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
        self.state, self.slots_of = state, slots_of
        self.classes, self.audits, self.next_id = list(state.classes), list(state.audits), state.next_id
        self.set: list[tuple[Slots, int, bool]] = []

    def add_class(self, name: str, description: Sequence[str] = ()) -> int:
        self.classes.append(Class(self.next_id, name, tuple(description)))
        self.next_id += 1
        return self.next_id - 1

    def label(self, slots: Slots, code: int, checked: bool) -> None:
        self.set.append((slots, code, checked))

    def change(self, words: str, payload: Mapping[str, Any]) -> Change:
        """What was gathered, beside what was there."""
        state = self.state
        slots = np.concatenate([slots for slots, _, _ in self.set] or [np.empty(0, dtype=np.int64)])
        given = np.concatenate([np.full(len(own), code) for own, code, _ in self.set] or [slots]).astype(np.int32)
        checked = np.concatenate([np.full(len(own), said) for own, _, said in self.set] or [slots]).astype(bool)
        known = slots < len(state.slot_given)
        given_before = np.full(len(slots), UNKNOWN, dtype=np.int32)
        checked_before = np.zeros(len(slots), dtype=bool)
        seen_before = np.full(len(slots), _UNSEEN, dtype=SEEN)
        given_before[known] = state.slot_given[slots[known]]
        checked_before[known] = state.slot_checked[slots[known]]
        seen_before[known] = state.slot_seen[slots[known]]
        seen = self._seen(slots, payload.get("seen", {}))
        seen[~checked] = _UNSEEN
        seen[checked & checked_before] = seen_before[checked & checked_before]
        return Change(
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
        places = dict(zip(self.slots_of(list(answers)).tolist(), answers.values(), strict=True))
        rows = [(*places[slot], payload["among"]) if slot in places else _UNSEEN.item() for slot in slots.tolist()]
        return np.array(rows, dtype=SEEN)


def with_point(curve: tuple[Point, ...], point: Point | None) -> tuple[Point, ...]:
    """The curve with one more point, in place of those with as many labels or more."""
    if point is None:
        return curve
    return *(each for each in curve if each[0] < point[0]), (int(point[0]), float(point[1]))


def _label(draft: _Draft, payload: Mapping[str, Any], verb: str = "label", checked: bool = True) -> str:
    n_items = 0
    for name, keys in payload["labels"].items():
        known = draft.state.find_class(name)
        code = draft.add_class(name) if known is None else known.id
        slots = draft.slots_of(keys)
        draft.label(slots, code, checked)
        n_items += len(slots)
    names = ", ".join(f'"{name}"' for name in list(payload["labels"])[:3])
    more = f" and {len(payload['labels']) - 3} more" if len(payload["labels"]) > 3 else ""
    return f"{verb} {count(n_items)} {names}{more}"


def _examples(draft: _Draft, payload: Mapping[str, Any]) -> str:
    return _label(draft, payload, "take from the source")


def _confirm(draft: _Draft, payload: Mapping[str, Any]) -> str:
    return _label(draft, payload, "confirm")


def _accept(draft: _Draft, payload: Mapping[str, Any]) -> str:
    return _label(draft, payload, "accept", checked=False)


def _none(draft: _Draft, payload: Mapping[str, Any]) -> str:
    draft.label(draft.slots_of(payload["items"]), NONE, True)
    return f"say {count(len(payload['items']))} to be none of the classes"


def _clear(draft: _Draft, payload: Mapping[str, Any]) -> str:
    draft.label(draft.slots_of(payload["items"]), UNKNOWN, False)
    return f"clear {count(len(payload['items']))}"


def _add_class(draft: _Draft, payload: Mapping[str, Any]) -> str:
    names = [name for name, _ in payload["classes"]]
    for name, description in payload["classes"]:
        draft.add_class(name, description)
    return "add " + ", ".join(f'"{name}"' for name in names[:3]) + (", …" if len(names) > 3 else "")


def _rename(draft: _Draft, payload: Mapping[str, Any]) -> str:
    old, new = payload["old"], payload["new"]
    draft.classes = [replace(known, name=new) if known.name == old else known for known in draft.classes]
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
    draft.audits.append(Audit(draft.slots_of(payload["items"]), np.array(answered, dtype=np.int32)))
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
    "add_class": _add_class,
    "rename": _rename,
    "merge": _merge,
    "delete_class": _delete_class,
    "audit": _audit,
}
