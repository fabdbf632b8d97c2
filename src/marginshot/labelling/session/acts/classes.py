"""Classes are created, renamed, merged and deleted, and get keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self

import numpy as np

from marginshot.labelling.items.collection import FOREIGN, UNKNOWN, as_read, check_names
from marginshot.labelling.session.acts.act import Act, KnownClass, Now
from marginshot.labelling.session.changes import Draft
from marginshot.labelling.session.state import CLASS_KEYS, State

# What the page calls items of no class.
_NONE = "none of these"

#: Names of new classes, each with its descriptions.
NewClasses = Annotated[Sequence[tuple[str, Sequence[str]]], "new classes"]


@dataclass(frozen=True)
class AddClasses(Act, kind="add_class", asked="add_class"):
    """Create classes that have no example yet."""

    classes: NewClasses

    @classmethod
    def described(cls, classes: Mapping[str, str | Sequence[str]]) -> Self:
        """The act that creates these classes, each name with one description or several."""
        return cls([(_name(name), _phrases(description)) for name, description in classes.items()])

    def check(self, state: State) -> None:
        """Raise ValueError unless all names are new."""
        for name, _ in self.classes:
            if state.find_class(name) is not None:
                raise ValueError(f"There is a class {name!r} already.")
        check_new([name for name, _ in self.classes], state)

    def apply(self, draft: Draft) -> None:
        """Create the classes in the order in which they are given."""
        for name, description in self.classes:
            draft.add_class(name, description)

    @property
    def words(self) -> str:
        """Names of the first new classes, in words."""
        names = ", ".join(f'"{name}"' for name, _ in self.classes[:3])
        return f"add {names}{', …' if len(self.classes) > 3 else ''}"


def _name(given: str) -> str:
    """The name of a class without spaces around it."""
    if not isinstance(given, str):
        raise ValueError(f"The name of a class is a string; got {given!r}.")
    return given.strip()


def _phrases(description: str | Sequence[str]) -> list[str]:
    """Descriptions of a class as a list; one may be given by itself."""
    phrases = [description] if isinstance(description, str) else list(description)
    for phrase in phrases:
        if not isinstance(phrase, str):
            raise ValueError(f"A class is described in words; got {phrase!r}.")
    return phrases


@dataclass(frozen=True)
class Rename(Act, kind="rename", asked="rename"):
    """Give a class another name, which no other has."""

    old: KnownClass
    new: str

    def on(self, now: Now) -> Self:
        """The act without spaces around the new name, after `check`."""
        act = replace(self, new=_name(self.new))
        act.check(now.state)
        return act

    def check(self, state: State) -> None:
        """Raise ValueError unless the class is there, and its name is new."""
        _check_there(self.old, state)
        if self.new == self.old:
            raise ValueError(f"The class is called {self.old!r} already.")
        if state.find_class(self.new) is not None:
            raise ValueError(f"There is a class {self.new!r} already; merge {self.old!r} into it instead.")
        check_new([self.new], state, instead_of=self.old)

    def apply(self, draft: Draft) -> None:
        """Change the name; the id stays."""
        own = draft.state.class_id(self.old)
        draft.classes = [replace(known, name=self.new) if known.id == own else known for known in draft.classes]

    @property
    def words(self) -> str:
        """The old and the new name, in words."""
        return f'rename "{self.old}" to "{self.new}"'

    @property
    def new_name(self) -> tuple[str, str]:
        """The old and the new name of the class."""
        return self.old, self.new


@dataclass(frozen=True)
class SetKey(Act, kind="key", asked="key"):
    """Give a class the key by which a page labels items with it; the class that had it gets the key of this one."""

    name: KnownClass
    key: str

    def on(self, now: Now) -> Self:
        """The act with the key in lower case, after a check that it can be one."""
        if len(self.key) != 1 or self.key.lower() not in CLASS_KEYS:
            raise ValueError(f"A class can have one of the keys {' '.join(CLASS_KEYS.upper())}; got {self.key!r}.")
        _check_there(self.name, now.state)
        return replace(self, key=self.key.lower())

    def apply(self, draft: Draft) -> None:
        """Exchange the keys of the two classes."""
        chosen = draft.state.class_id(self.name)
        if self.key not in tuple(CLASS_KEYS):
            raise ValueError(f"{self.key!r} is not a key of classes")
        before = next(known.key for known in draft.classes if known.id == chosen)
        swapped = {self.key: before}
        draft.classes = [
            replace(known, key=self.key if known.id == chosen else swapped.get(known.key, known.key))
            for known in draft.classes
        ]

    @property
    def words(self) -> str:
        """The class and its new key, in words."""
        return f'give "{self.name}" the key {self.key.upper()}'


@dataclass(frozen=True)
class Merge(Act, kind="merge", asked="merge"):
    """Give all items of the class ``old`` to another."""

    old: KnownClass
    into: KnownClass

    def check(self, state: State) -> None:
        """Raise ValueError unless both classes exist and differ."""
        _check_there(self.old, state)
        _check_there(self.into, state)
        if self.old == self.into:
            raise ValueError(f"The class {self.old!r} cannot be merged into itself.")

    def apply(self, draft: Draft) -> None:
        """Give labels, and the answers of drawn samples, to the other class."""
        self.check(draft.state)  # of a damaged log, too
        gone, stays = draft.state.class_id(self.old), draft.state.class_id(self.into)
        _move_labels(draft, gone, stays)
        draft.audits = [
            replace(audit, answered=np.where(audit.answered == gone, np.int32(stays), audit.answered))
            for audit in draft.audits
        ]

    @property
    def words(self) -> str:
        """The names of both classes, in words."""
        return f'merge "{self.old}" into "{self.into}"'

    @property
    def new_name(self) -> tuple[str, str]:
        """Names of the class that is merged, and of the one that it goes into."""
        return self.old, self.into

    @property
    def moves_labels(self) -> bool:
        """True: a merge gives no new labels."""
        return True


@dataclass(frozen=True)
class DeleteClass(Act, kind="delete_class", asked="delete_class"):
    """Take a class away, and its labels with it."""

    name: KnownClass

    def check(self, state: State) -> None:
        """Raise ValueError where there is no such class."""
        _check_there(self.name, state)

    def apply(self, draft: Draft) -> None:
        """Drop the class; its items lose their labels."""
        _move_labels(draft, draft.state.class_id(self.name), UNKNOWN)

    @property
    def words(self) -> str:
        """The name of the deleted class, in words."""
        return f'delete "{self.name}"'


def _move_labels(draft: Draft, gone: int, code: int) -> None:
    """Give the items of a class to another, or to none, and drop the class."""
    draft.classes = [known for known in draft.classes if known.id != gone]
    own = np.flatnonzero(draft.state.slot_given == gone)
    for said in (False, True):
        draft.label(own[draft.state.slot_checked[own] == said], code, said and code != UNKNOWN)


def check_new(names: Sequence[str], state: State, instead_of: str | None = None) -> None:
    """Raise ValueError unless ``names`` can be new classes beside those there are."""
    if "" in names:
        raise ValueError("A class needs a name.")
    for name in names:
        if as_read(name) in (FOREIGN, _NONE):
            raise ValueError(
                f"A class cannot be called {name!r}: readers of the table would take it for no class. Label such "
                "items as none of the classes."
            )
    if names:
        there = [known.name for known in state.classes if known.name != instead_of]
        check_names([*there, *names], "Classes")


def _check_there(name: Any, state: State) -> None:
    if state.find_class(name) is None:
        known = ", ".join(repr(each.name) for each in state.classes[:10]) or "none yet"
        raise ValueError(f"There is no class {name!r}; the classes are {known}.")
