"""An act is one object: it checks itself against the state, changes it, and has words for people.

Its fields are what the log keeps of it, and what a page asks for it with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.session.changes import Draft, put
from marginshot.labelling.session.state import LOST, Change, Event, Slots, State

#: Row numbers of items, (n,).
Rows = NDArray[np.int64]
#: Items by the keys under which the log knows them.
Keys = Annotated[Sequence[str], "items"]
#: Keys of items by the name of the class that they are given.
Labels = Annotated[Mapping[str, Sequence[str]], "items by class"]
#: The name of a class that there is.
KnownClass = Annotated[str, "known class"]

#: Slots (n,) of n keys.
SlotsOf = Callable[[Sequence[str]], Slots]

#: Acts by their kind in the log.
KINDS: dict[str, type[Act]] = {}
#: What a page may ask for, by name.
ASKED: dict[str, type[Saying]] = {}


@dataclass(frozen=True)
class Now:
    """What a saying is completed with while nobody else can write.

    Parameters
    ----------
    state : State
        The newest one.
    keys, items : sequence of str of length n_items
        Key and name of every row.
    """

    state: State
    keys: Sequence[str]
    items: Sequence[str]


class Saying(ABC):
    """Something to say: an act, or what becomes one on the newest state. ``asked`` is its name on the page."""

    def __init_subclass__(cls, *, asked: str = "") -> None:
        if asked:
            ASKED[asked] = cls

    @abstractmethod
    def on(self, now: Now) -> Act | None:
        """The act that goes into the log, None where there is nothing to say; raises ValueError where it may not."""

    def told(self, before: State, after: State) -> str | None:
        """What to tell people once it was said of ``before``."""
        return after.can_undo


class Act(Saying):
    """One event; frozen dataclasses derive from it, with the ``kind`` that the log gives them."""

    kind: ClassVar[str]
    #: Whether somebody looked at the answers of the items that it labels.
    checks: ClassVar[bool] = False
    #: Whether it goes back to what other acts said, and says nothing of its own.
    returns: ClassVar[bool] = False

    def __init_subclass__(cls, *, kind: str = "", asked: str = "") -> None:
        super().__init_subclass__(asked=asked)
        if kind:
            cls.kind = kind
            KINDS[kind] = cls

    def on(self, now: Now) -> Act:
        """The act itself, checked."""
        self.check(now.state)
        return self

    def check(self, state: State) -> None:
        """Raise ValueError unless it can be said of ``state``."""

    @abstractmethod
    def apply(self, draft: Draft) -> None:
        """Put what it changes into ``draft``."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The act for people, such as ``label 12 items "gull"``."""

    @property
    def keys(self) -> Sequence[str]:
        """Items whose labels it sets."""
        return ()

    @property
    def new_name(self) -> tuple[str, str] | None:
        """A class, and what it is called from now on, be it another class; None where no name changes."""
        return None

    @property
    def moves_labels(self) -> bool:
        """Whether the labels it sets were there before, and are of another class now."""
        return False

    def is_by_hand(self) -> bool:
        """Whether a person said it of each item: neither the source nor answers taken in bulk."""
        return True

    def heard(self, labels: dict[str, str]) -> dict[str, str]:
        """The labels that the source gives, by key, once ``labels`` were heard before this act."""
        return labels

    def after(self, state: State, event: Event, slots_of: SlotsOf) -> tuple[State, Change]:
        """The state after this act, which is ``event`` in the log, and what it changed."""
        draft = Draft(state, slots_of)
        self.apply(draft)
        change = draft.change(event, self, self.words)
        after = replace(put(state, change, 1), next_id=draft.next_id)
        return replace(after, version=event.version, done=(*state.done, change), undone=()), change

    @property
    def payload(self) -> dict[str, Any]:
        """What the log keeps of it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def apply(state: State, event: Event, slots_of: SlotsOf) -> tuple[State, Change]:
    """The state after ``event``, and what it changed: a pure function of both and of the keys of the source."""
    if event.kind not in KINDS:
        raise ValueError(f"Event {event.version} is of the kind {event.kind!r}, which this version does not know.")
    act = KINDS[event.kind]
    said = act(**{field.name: event.payload[field.name] for field in fields(act)})  # type: ignore[arg-type]
    return said.after(state, event, slots_of)


def count(n_items: int) -> str:
    """``1 item``, ``12 items``, ``5,000 items``."""
    return "1 item" if n_items == 1 else f"{n_items:,} items"


@dataclass(frozen=True)
class Lost(Act, kind=LOST):
    """An event that was damaged: it keeps its place, so that an undo after it takes back nothing else."""

    words = "an event that was damaged"

    def is_by_hand(self) -> bool:
        """Nobody knows."""
        return False

    def apply(self, draft: Draft) -> None:
        """Nothing."""
