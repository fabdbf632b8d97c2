"""What a person may say in a labelling session, checked against the state and put into the words of the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from marginshot.labelling.collection import check_names
from marginshot.labelling.session.events import Act
from marginshot.labelling.session.state import State

#: An act that waits for the newest state.
Saying = Callable[[State], Act]


def label(labels: Mapping[str, Sequence[str]], kind: str = "label") -> Saying:
    """Give the items of these keys their labels, by class name; a class that is new is created."""
    if not any(map(len, labels.values())):
        raise ValueError("No items were given.")
    named: dict[str, list[str]] = {}
    for name, keys in labels.items():
        named.setdefault(name.strip(), []).extend(keys)

    def say(state: State) -> Act:
        check_new([name for name in named if state.find_class(name) is None], state)
        return kind, {"labels": named}

    return say


def about_items(kind: str, keys: Sequence[str]) -> Saying:
    """Say of these items that they are none of the classes (``none``), or unknown (``clear``)."""
    if not keys:
        raise ValueError("No items were given.")
    return lambda state: (kind, {"items": list(keys)})


def add_classes(classes: Mapping[str, str | Sequence[str]]) -> Saying:
    """Create classes, by name, with their descriptions."""
    described = {_name(name): _phrases(description) for name, description in classes.items()}

    def say(state: State) -> Act:
        for name in described:
            if state.find_class(name) is not None:
                raise ValueError(f"There is a class {name!r} already.")
        check_new(list(described), state)
        return "add_class", {"classes": list(described.items())}

    return say


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


def rename(old: str, new: str) -> Saying:
    """Give the class ``old`` a ``new`` name, which no other class has."""
    name = _name(new)

    def say(state: State) -> Act:
        _check_there(old, state)
        if name == old:
            raise ValueError(f"The class is called {old!r} already.")
        if state.find_class(name) is not None:
            raise ValueError(f"There is a class {name!r} already; merge {old!r} into it instead.")
        check_new([name], state, instead_of=old)
        return "rename", {"old": old, "new": name}

    return say


def merge(old: str, into: str) -> Saying:
    """Give all items of the class ``old`` to another."""

    def say(state: State) -> Act:
        _check_there(old, state)
        _check_there(into, state)
        if old == into:
            raise ValueError(f"The class {old!r} cannot be merged into itself.")
        return "merge", {"old": old, "into": into}

    return say


def delete_class(name: str) -> Saying:
    """Take a class away, and its labels with it."""

    def say(state: State) -> Act:
        _check_there(name, state)
        return "delete_class", {"name": name}

    return say


def undo(state: State) -> Act:
    """Take the last act back."""
    if not state.done:
        raise ValueError("There is nothing to undo.")
    return "undo", {}


def redo(state: State) -> Act:
    """Bring back the act that was undone last."""
    if not state.undone:
        raise ValueError("There is nothing to redo.")
    return "redo", {}


def check_new(names: Sequence[str], state: State, instead_of: str | None = None) -> None:
    """Raise ValueError unless ``names`` can be new classes beside those there are."""
    if "" in names:
        raise ValueError("A class needs a name.")
    if names:
        there = [known.name for known in state.classes if known.name != instead_of]
        check_names([*there, *names], "Classes")


def _check_there(name: str, state: State) -> None:
    if state.find_class(name) is None:
        known = ", ".join(repr(each.name) for each in state.classes[:10]) or "none yet"
        raise ValueError(f"There is no class {name!r}; the classes are {known}.")
