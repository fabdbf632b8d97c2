"""Classes that are named beside the examples: a list of names, or a table with what describes each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from marginshot.labelling.answers.names import phrasings_of
from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.encoders import ItemEncoder, text_side
from marginshot.labelling.items.tables import TABLE_SUFFIXES, as_text, read_table

#: Texts that stand for each class; none where its name does.
Classes = Mapping[str, Sequence[str]]


def as_classes(named: Iterable[str] | Mapping[str, str | Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Names of classes, or texts by name, as `Classes`.

    Examples
    --------
    >>> as_classes(["billing", "bug"])
    {'billing': (), 'bug': ()}
    >>> as_classes({"billing": "an invoice or a refund", "bug": ["it crashes", "an error"]})
    {'billing': ('an invoice or a refund',), 'bug': ('it crashes', 'an error')}
    """
    texts = named if isinstance(named, Mapping) else dict.fromkeys(named, ())
    return {name: (value,) if isinstance(value, str) else tuple(value) for name, value in texts.items()}


def read_classes(text: str) -> dict[str, tuple[str, ...]]:
    """Names with commas between, or the name of a table with the columns ``class`` and, if you like, ``description``.

    Rows of one class are several descriptions of it.

    Examples
    --------
    >>> read_classes("billing, bug")
    {'billing': (), 'bug': ()}
    """
    if is_table_of_classes(text):
        return _from_table(Path(text))
    names = [name.strip() for name in text.split(",") if name.strip()]
    if text and not names:
        raise RefusedError(f"{text!r} names no class; give names with commas between.", at_fault=Option.CLASSES)
    return as_classes(names)


def is_table_of_classes(text: str) -> bool:
    """Whether the text is the name of a table, not a list of names."""
    return Path(text).suffix.lower() in TABLE_SUFFIXES


def check_named(classes: Classes, labels: Iterable[str], encoder: ItemEncoder | None) -> None:
    """Raise if a class has no example among the ``labels``, nor a name in words that the ``encoder`` reads."""
    has_example = set(labels)
    for name in sorted(set(classes) - has_example):
        if encoder is None or text_side(encoder) is None:
            raise RefusedError(
                f"the class {name!r} has no examples, and this encoder cannot read its name instead.",
                at_fault=Option.CLASSES,
            )
        if not phrasings_of(name, classes[name]):
            raise RefusedError(
                f"the class {name!r} has no examples, and its name is a code. Label an item of it, or describe it "
                "in a table with the columns class and description.",
                at_fault=Option.CLASSES,
            )


def _from_table(path: Path) -> dict[str, tuple[str, ...]]:
    if not path.is_file():
        raise RefusedError(f"there is no {path}.", at_fault=Option.CLASSES)
    table = read_table(path)
    names = [as_text(name).strip() for name in table.column("class")]
    texts = map(as_text, table.columns.get("description", [""] * len(names)))
    found: dict[str, tuple[str, ...]] = {}
    for name, text in zip(names, texts, strict=True):
        if name:
            found[name] = (*found.get(name, ()), *([text.strip()] if text.strip() else []))
    return found
