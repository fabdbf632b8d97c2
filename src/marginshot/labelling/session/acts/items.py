"""Items lose their labels, belong to none of the classes, or have other names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from marginshot.labelling.items.collection import NONE, UNKNOWN
from marginshot.labelling.session.acts.act import Act, Keys, SlotsOf, count
from marginshot.labelling.session.changes import Draft, rename_items
from marginshot.labelling.session.state import Change, Event, State


@dataclass(frozen=True)
class Clear(Act, kind="clear", asked="clear"):
    """Take the labels of items away."""

    items: Keys

    code: ClassVar[int] = UNKNOWN
    phrase: ClassVar[str] = "clear {}"

    def check(self, state: State) -> None:
        """Raise ValueError where no items are given."""
        if not self.items:
            raise ValueError("No items were given.")

    def apply(self, draft: Draft) -> None:
        """Set the label of all items to ``code``."""
        draft.label(draft.slots(self.items), self.code, self.code != UNKNOWN)

    @property
    def words(self) -> str:
        """What is done to how many items, in words."""
        return self.phrase.format(count(len(self.items)))

    @property
    def keys(self) -> Sequence[str]:
        """Keys of the items."""
        return self.items


@dataclass(frozen=True)
class NoneOfThese(Clear, kind="none", asked="none"):
    """Label items as none of the classes."""

    checks = True
    code = NONE
    phrase = "label {} as none of the classes"


@dataclass(frozen=True)
class Replaced(Clear, kind="replaced"):
    """Pictures were replaced by others: their labels are set aside."""

    phrase = "set aside the labels of {} that changed content"

    def is_by_hand(self) -> bool:
        """False: the change was found in the files."""
        return False


@dataclass(frozen=True)
class Renamed(Act, kind="renamed"):
    """Items have other keys now: their labels go with them, as do undo and redo."""

    items: Mapping[str, str]

    def is_by_hand(self) -> bool:
        """False: the change was found in the files."""
        return False

    def apply(self, draft: Draft) -> None:
        """Change nothing here: `after` moves the items."""

    @property
    def words(self) -> str:
        """The number of renamed items, in words."""
        return f"keep the labels of {count(len(self.items))} under new names"

    def heard(self, labels: dict[str, str]) -> dict[str, str]:
        """The ``labels`` read from the source, by the new keys of the items."""
        moved = {new: labels[old] for old, new in self.items.items() if old in labels}
        return {key: name for key, name in labels.items() if key not in {*self.items, *self.items.values()}} | moved

    def after(self, state: State, event: Event, slots_of: SlotsOf) -> tuple[State, Change]:
        """The state with every change, audit and label moved to the slots of the new keys."""
        draft = Draft(state, slots_of)
        old, new = draft.slots(list(self.items)), draft.slots(list(self.items.values()))
        return rename_items(state, old, new, draft.change(event, self, self.words))
