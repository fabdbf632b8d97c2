"""Acts: each is one object that checks itself against the state of a session, changes it, and describes itself.

The fields of an act are what the log keeps of it, and what a page sends to ask for it.
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
#: The name of an existing class.
KnownClass = Annotated[str, "known class"]

#: Slots (n,) of n keys.
SlotsOf = Callable[[Sequence[str]], Slots]

#: Acts by their kind in the log.
KINDS: dict[str, type[Act]] = {}
#: Acts that a page may ask for, by their name there.
ASKED: dict[str, type[Saying]] = {}


@dataclass(frozen=True)
class Now:
    """Context of an act under the write lock: the newest state, and the keys and names of items.

    Parameters
    ----------
    state : State
        The newest state.
    keys, items : sequence of str of length n_items
        Key and name of every row.
    """

    state: State
    keys: Sequence[str]
    items: Sequence[str]


class Saying(ABC):
    """An act, or a request that `on` turns into one for the newest state; ``asked`` is its name on the page."""

    def __init_subclass__(cls, *, asked: str = "") -> None:
        if asked:
            ASKED[asked] = cls

    @abstractmethod
    def on(self, now: Now) -> Act | None:
        """The act that goes into the log, or None where nothing is to be done; raises ValueError if it is not valid."""

    def told(self, before: State, after: State) -> str | None:
        """Message for the user after the act changed ``before`` to ``after``; by default, the last act in words."""
        return after.can_undo


class Act(Saying):
    """An act as one event of the log; subclasses are frozen dataclasses with the ``kind`` that the log gives them."""

    kind: ClassVar[str]
    #: Whether a person looked at the answers of the items that it labels; the log then keeps these answers.
    checks: ClassVar[bool] = False
    #: Whether it only takes back or repeats another act, as undo and redo do.
    returns: ClassVar[bool] = False

    def __init_subclass__(cls, *, kind: str = "", asked: str = "") -> None:
        super().__init_subclass__(asked=asked)
        if kind:
            cls.kind = kind
            KINDS[kind] = cls

    def on(self, now: Now) -> Act:
        """The act itself, after `check`."""
        self.check(now.state)
        return self

    def check(self, state: State) -> None:
        """Raise ValueError unless the act is valid for ``state``."""

    @abstractmethod
    def apply(self, draft: Draft) -> None:
        """Put the changes that the act makes into ``draft``."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The act for people, such as ``label 12 items "gull"``."""

    @property
    def keys(self) -> Sequence[str]:
        """Keys of the items whose labels the act sets."""
        return ()

    @property
    def new_name(self) -> tuple[str, str] | None:
        """Old and new name of a class that is renamed, or merged into the other; None where no name changes."""
        return None

    @property
    def moves_labels(self) -> bool:
        """Whether the act only moves labels to another class, as a merge does."""
        return False

    def is_by_hand(self) -> bool:
        """Whether a person labelled each item: not so for labels of the source, and answers accepted in bulk."""
        return True

    def heard(self, labels: dict[str, str]) -> dict[str, str]:
        """The ``labels`` last read from the source, by key, updated by this act."""
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
        """The fields of the act, which the log keeps."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def apply(state: State, event: Event, slots_of: SlotsOf) -> tuple[State, Change]:
    """The state after ``event``, and what it changed: a pure function of both and of the keys of the source."""
    if event.kind not in KINDS:
        raise ValueError(f"Event {event.version} is of the kind {event.kind!r}, which this version does not know.")
    act = KINDS[event.kind]
    said = act(**{field.name: event.payload[field.name] for field in fields(act)})  # type: ignore[arg-type]
    return said.after(state, event, slots_of)


def count(n_items: int) -> str:
    """A number of items in words: ``1 item``, ``12 items``, ``5,000 items``."""
    return "1 item" if n_items == 1 else f"{n_items:,} items"


@dataclass(frozen=True)
class Lost(Act, kind=LOST):
    """Stands for a damaged event and changes nothing; a later undo of that event then takes back nothing else."""

    words = "an event that was damaged"

    def is_by_hand(self) -> bool:
        """False: it is not known whether a person labelled each item."""
        return False

    def apply(self, draft: Draft) -> None:
        """Change nothing: it is not known what the damaged event did."""
