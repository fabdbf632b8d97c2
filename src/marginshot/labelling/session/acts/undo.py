"""Undo and redo: the last change goes from one pile to the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from marginshot.labelling.session.acts.act import Act, SlotsOf
from marginshot.labelling.session.changes import Draft, put
from marginshot.labelling.session.state import Change, Event, State


@dataclass(frozen=True)
class _Return(Act):
    """Common parts of undo and redo."""

    returns = True
    back: ClassVar[bool]
    done: ClassVar[str]

    def told(self, before: State, after: State) -> str | None:
        """Message for the user: what was taken back, or brought back."""
        return f"{self.done}: {before.can_undo if self.back else before.can_redo}"

    def check(self, state: State) -> None:
        """Raise ValueError where there is nothing to take back, or to bring back."""
        if not (state.done if self.back else state.undone):
            raise ValueError(f"There is nothing to {self.kind}.")

    def apply(self, draft: Draft) -> None:
        """Change nothing here: `after` swaps the two sides of a change."""

    @property
    def words(self) -> str:
        """The act alone; its change names what it took back."""
        return self.kind

    def after(self, state: State, event: Event, slots_of: SlotsOf) -> tuple[State, Change]:
        """The state on the other side of its last change, and that change as one of this act."""
        self.check(state)
        change = (state.done if self.back else state.undone)[-1]
        if self.back:
            done, undone = state.done[:-1], (*state.undone, change)
        else:
            done, undone = (*state.done, change), state.undone[:-1]
        after = replace(put(state, change, 0 if self.back else 1), version=event.version, done=done, undone=undone)
        return after, replace(change, act=self, words=f"{self.kind}: {change.words}")


@dataclass(frozen=True)
class Undo(_Return, kind="undo", asked="undo"):
    """Take the last act back."""

    back = True
    done = "Undone"


@dataclass(frozen=True)
class Redo(_Return, kind="redo", asked="redo"):
    """Bring back the act that was undone last."""

    back = False
    done = "Redone"
