"""State of a labelling session: classes, labels, and what can be undone.

Items are counted by slots: 0 … n_items − 1 are the rows of the source, larger ones belong to items that were labelled
before and are no longer there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.collection import UNKNOWN

Codes = NDArray[np.int32]
Slots = NDArray[np.int64]

#: Class id and probability of the answer that an item had when somebody checked it, and a checksum of the ids of all
#: classes that could be answered.
SEEN = np.dtype([("answer", np.int32), ("confidence", np.float32), ("among", np.uint32)])
UNSEEN = np.array((UNKNOWN, 0.0, 0), dtype=SEEN)

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
        ``undo``, ``redo``, ``renamed``, or one of `replay.KINDS`.
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
    version : int
        Number of the event.
    kind : str
        That of the event.
    words : str
        The act for people, such as ``label 12 items "gull"``.
    slots : ndarray of int64 of shape (n,)
        Items whose label it sets.
    given, checked, seen : pair of ndarray of shape (n,)
        Their labels, whether somebody looked at them, and the answers they had then.
    classes : pair of tuple of Class
    audits : pair of tuple of Audit
    curve : pair of tuple of Point
    moves : pair of ndarray of int64 of shape (m,), optional
        Slots, sorted, and where what was said of their items is from now on: these were renamed.
    """

    version: int
    kind: str
    words: str
    slots: Slots
    given: tuple[Codes, Codes]
    checked: tuple[NDArray[np.bool_], NDArray[np.bool_]]
    seen: tuple[NDArray[np.void], NDArray[np.void]]
    classes: tuple[tuple[Class, ...], tuple[Class, ...]]
    audits: tuple[tuple[Audit, ...], tuple[Audit, ...]]
    curve: tuple[tuple[Point, ...], tuple[Point, ...]]
    moves: tuple[Slots, Slots] | None = None


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
        given, seen = np.full(n_items, UNKNOWN, dtype=np.int32), np.full(n_items, UNSEEN, dtype=SEEN)
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


def with_point(curve: tuple[Point, ...], point: Point | None) -> tuple[Point, ...]:
    """The curve with one more point, in place of those with as many labels or more."""
    if point is None:
        return curve
    return *(each for each in curve if each[0] < point[0]), (int(point[0]), float(point[1]))
