"""Items (pictures, texts, sounds or embeddings) with the few labels that are known."""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.names import is_plain
from marginshot.labelling.items.kind import Kind

_LONGEST_NAME = 1_000

#: Codes in place of the index of a class: label unknown, and labelled as none of the classes.
UNKNOWN, NONE = -1, -2

#: Label, in any case of letters, of items of none of the classes. Also the mark of items that look so.
FOREIGN = "none of the classes"

#: What stands for no label in a table, besides an empty cell, and can be no name of a class.
MEAN_UNKNOWN = frozenset({"-1", "nan", "NaN", "NULL", "<NA>"})

#: Words of other programs for a missing value. A class may be called so only if the user names it among the classes.
MEAN_MISSING = frozenset(
    {"-", "None", "NA", "N/A", "n/a", "null", "Null", "NAN", "-NaN", "-nan", "#N/A", "#N/A N/A", "#NA"}
    | {"1.#IND", "1.#QNAN", "-1.#IND", "-1.#QNAN"}
)


@dataclass(frozen=True)
class Collection:
    """Items with their contents, and their labels where known.

    Parameters
    ----------
    kind : Kind
        What the contents are.
    items : tuple of str
        Name of each item, as the user knows it.
    contents : sequence
        A path, a text or an embedding for each item.
    labels : tuple of str
        Given label of each item, empty where unknown.
    listed : ndarray of bool of shape (n_items,)
        Items that belong in the output; examples kept elsewhere do not.
    not_read : mapping of str to int
        Number of files beside the items that are of no kind we read, by suffix.
    skipped : mapping of str to str
        What was not looked into, such as a link to a folder, and why.
    digests : tuple of str
        Hash of each content, once all are read.
    events : ndarray of int64 of shape (n_items,), optional
        Number of the event that each item belongs to; None where every item is its own.
    lent : ndarray of bool of shape (n_items,), optional
        Items without a label of their own, which have that of another item of their event.
    old : ndarray of bool of shape (n_items,), optional
        Items of an earlier source, whose labels are examples for the new ones; None where there is no such source.
    notes : tuple of str
        Sentences on what else was found, for people.
    """

    kind: Kind
    items: tuple[str, ...]
    contents: Sequence[Any] | NDArray[Any]
    labels: tuple[str, ...]
    listed: NDArray[np.bool_]
    not_read: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    digests: tuple[str, ...] = ()
    events: NDArray[np.int64] | None = None
    lent: NDArray[np.bool_] | None = None
    old: NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """A key for each item, (n_items,), by which a session knows it, repeated ones counted.

        It is a picture's path, the hash of a text, the name of an embedding, or the hash of one without a name: the
        number of a row would be another item's after rows were added, removed or sorted.
        """
        names = self.kind.keys(self.items, self.contents)
        taken, numbers = set(names), dict.fromkeys(names, 0)
        keys = []
        for name in names:
            numbers[name] += 1
            key = name
            while numbers[name] > 1 and (key := f"{name} #{numbers[name]}") in taken:
                numbers[name] += 1
            taken.add(key)
            keys.append(key)
        return tuple(keys)

    def first_part(self) -> str | None:
        """The first listed item that is only a part of a file; None where all are whole."""
        rows = np.flatnonzero(self.listed).tolist()
        return next((self.items[row] for row in rows if not self.kind.is_whole(self.contents[row])), None)

    def select(self, rows: Sequence[int]) -> Collection:
        """Only ``rows``, in that order."""
        contents = self.contents[rows] if isinstance(self.contents, np.ndarray) else [self.contents[i] for i in rows]
        return replace(
            self,
            items=tuple(self.items[i] for i in rows),
            contents=contents,
            labels=tuple(self.labels[i] for i in rows),
            listed=self.listed[list(rows)],
            digests=tuple(self.digests[i] for i in rows) if self.digests else (),
            events=None if self.events is None else self.events[list(rows)],
            lent=None if self.lent is None else self.lent[list(rows)],
            old=None if self.old is None else self.old[list(rows)],
        )


def describe_labels(labels: Iterable[str], most: int = 5) -> str:
    """The labels counted, in a line: the ``most`` frequent ones, the other classes together, items without a label.

    Examples
    --------
    >>> describe_labels(["gull", "tern", "gull", ""])
    '2 gull, 1 tern, 1 without a label'
    """
    counts = Counter(labels)
    without = counts.pop("", 0)
    shown = counts.most_common(most)
    parts = [f"{count:,} {name}" for name, count in shown]
    if rest := counts.total() - sum(count for _, count in shown):
        parts.append(f"{rest:,} of {len(counts) - most:,} other classes")
    if without:
        parts.append(f"{without:,} without a label")
    return ", ".join(parts) or "nothing"


def check_classes(names: Iterable[str], where: str) -> tuple[str, ...]:
    """The sorted class names; raises where there are fewer than two, where two look alike, or one is not valid.

    The words for none of the classes are left out.
    """
    classes = check_names((name for name in names if not means_none(name)), where)
    if len(classes) < 2:
        found = f"only {classes[0]!r}" if classes else "none"
        raise ValueError(f"{where}: labelling needs examples of at least two classes; there is {found}.")
    return classes


def check_names(names: Iterable[str], where: str) -> tuple[str, ...]:
    """The sorted class names, any number of them; raises where two look alike, or one is not valid."""
    classes = tuple(sorted(set(names)))
    for name in classes:
        if len(name) > _LONGEST_NAME:
            raise ValueError(
                f"{where}: {name[:30]!r}…, of {len(name):,} characters, is not the name of a class. Is this the column "
                "of labels?"
            )
        if not is_plain(name):
            raise ValueError(f"{where}: the class {name!a} holds control characters or is not UTF-8; rename it.")
        if all(_is_invisible(letter) for letter in name):
            raise ValueError(f"{where}: the class {name!a} has no visible character; rename it.")
        if name in MEAN_UNKNOWN:
            raise ValueError(f"{where}: a class cannot be called {name!r}, which stands for no label; rename it.")
    alike = defaultdict(list)
    for name in classes:
        alike[as_read(name)].append(name)
    for group in alike.values():
        if len(group) > 1:
            # Accents coded in two ways look the same unless escaped.
            shown = repr if len(set(map(_composed, group))) == len(group) else ascii
            raise ValueError(
                f"{where}: the classes {' and '.join(map(shown, group))} differ only in case, spaces or the "
                "coding of accents. Give both the same spelling, or different names."
            )
    return classes


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def as_read(name: str) -> str:
    """A form of the name that is equal for names that look alike, whatever their case, spaces and coding of accents."""
    seen = "".join(letter for letter in name if letter.isspace() or not _is_invisible(letter))
    return " ".join(_composed(_composed(seen).casefold()).split())


def _is_invisible(letter: str) -> bool:
    return letter.isspace() or unicodedata.category(letter) == "Cf"


def means_none(label: str) -> bool:
    """Whether a label stands for none of the classes."""
    return label.casefold() == FOREIGN


def encode_given(labels: Sequence[str], classes: Sequence[str]) -> NDArray[np.int64]:
    """Index of each label in ``classes``, UNKNOWN where it is empty, NONE for none of the classes, (n_items,)."""
    index = {name: place for place, name in enumerate(classes)} | {"": UNKNOWN}
    return np.array([NONE if means_none(label) else index[label] for label in labels], dtype=np.int64)
