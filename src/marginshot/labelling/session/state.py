"""State of a labelling session: classes, labels, and what can be undone.

Items are counted by slots: 0 … n_items − 1 are the rows of the source, larger ones belong to items that were labelled
before and are no longer there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.items.collection import FOREIGN, NONE, UNKNOWN

if TYPE_CHECKING:
    from marginshot.labelling.session.acts.act import Act

Codes = NDArray[np.int32]
Slots = NDArray[np.int64]

#: Class id and probability of the answer that an item had when somebody checked it, and a checksum of the ids of all
#: classes that could be answered.
SEEN = np.dtype([("answer", np.int32), ("confidence", np.float32), ("among", np.uint32), ("picked", np.bool_)])
UNSEEN = np.array((UNKNOWN, 0.0, 0, False), dtype=SEEN)

#: Kind that stands for a damaged event. It keeps its place, so that a later undo of that event takes back nothing else.
LOST = "lost"

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
        That of an act.
    payload : mapping of str to object
        Items by key, classes by the name they had at the time. ``seen`` holds what was answered before the act: the
        checksum ``among`` and, by key, class id and probability; ``expected`` the point of the curve before the act.
    """

    version: int
    time: float
    kind: str
    payload: Mapping[str, Any]


#: Keys by which a page labels items with a class, in the order in which new classes get them: digits, and the letters
#: that stand for no command of the page (L label as, N none, R sort again, U undo).
CLASS_KEYS = "123456789abcdefghijkmopqstvwxyz"


@dataclass(frozen=True)
class Class:
    """A class; its id is never given to another, even after it is deleted.

    Parameters
    ----------
    id : int
    name : str
    description : tuple of str
        Texts that stand for it.
    key : str
        One of `CLASS_KEYS`, which it keeps when others are deleted; empty where all were taken.
    """

    id: int
    name: str
    description: tuple[str, ...] = ()
    key: str = ""

    def __post_init__(self) -> None:
        """Raise TypeError unless name and description are texts: those of a damaged log may be anything."""
        if not all(isinstance(text, str) for text in (self.name, *self.description)):
            raise TypeError(f"{self.name!r:.60} and its descriptions are not texts")


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
    act : Act
        The act that made it.
    words : str
        The act for people, with what it took back.
    slots : ndarray of int64 of shape (n,)
        Items whose label it sets.
    given, checked, seen : pair of ndarray of shape (n,)
        Their labels, whether somebody looked at them, and the answers they had then.
    classes : pair of tuple of Class
    audits : pair of tuple of Audit
    curve : pair of tuple of Point
    moves : pair of ndarray of int64 of shape (m,), optional
        Slots, sorted, of renamed items, and the slots that their labels are moved to.
    """

    version: int
    act: Act
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
        """The state before the first event."""
        given, seen = np.full(n_items, UNKNOWN, dtype=np.int32), np.full(n_items, UNSEEN, dtype=SEEN)
        return cls(n_items, 0, (), (), (), given, np.zeros(n_items, dtype=bool), seen, 0, (), ())

    @property
    def given(self) -> Codes:
        """Class id that each row is labelled with, (n_items,); UNKNOWN, or NONE where it is none of the classes."""
        return self.slot_given[: self.n_items]

    @property
    def checked(self) -> NDArray[np.bool_]:
        """Rows, (n_items,), whose label somebody gave while looking at them; not those accepted in bulk."""
        return self.slot_checked[: self.n_items]

    @property
    def seen(self) -> NDArray[np.void]:
        """Answer that each row had when it was checked, (n_items,) of `SEEN`; UNKNOWN for rows not checked."""
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

    def label_of(self, slot: int) -> str:
        """Name of the class that a person gave the item in a slot, having looked at it; empty without one."""
        names = {known.id: known.name for known in self.classes} | {NONE: FOREIGN}
        is_known = slot < len(self.slot_given) and self.slot_checked[slot]
        return names.get(int(self.slot_given[slot]), "") if is_known else ""

    def class_id(self, name: str) -> int:
        """Id of a class that is known to exist."""
        found = self.find_class(name)
        if found is None:
            raise ValueError(f"There is no class {name!r}.")
        return found.id


def with_point(curve: tuple[Point, ...], point: Point | None) -> tuple[Point, ...]:
    """The curve with one more point, in place of those with as many labels or more; one without a number is dropped."""
    if point is None or not math.isfinite(point[1]):
        return curve
    return *(each for each in curve if each[0] < point[0]), (int(point[0]), float(point[1]))
