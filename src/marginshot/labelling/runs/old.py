"""An earlier source beside a new one: its labels are examples for items of another month, camera or light."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.collection import Collection, means_none

#: Number of new items to suggest for labelling while none of them has a label.
N_NARROWING = 12


@dataclass(frozen=True)
class Old:
    """What an earlier session or run knows.

    Parameters
    ----------
    given : Path
        What the user named: the source, or what a run wrote.
    source : Path
        The folder or table that was labelled.
    collection : Collection
        Its items, with the labels that a person gave.
    encoder : str, optional
        The one of that run; None where it was the usual one, or is not known.
    """

    given: Path
    source: Path
    collection: Collection
    encoder: str | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """What is read, and must not be written to."""
        return tuple(dict.fromkeys((self.given, self.source)))


def beside(new: Collection, old: Old) -> Collection:
    """The ``new`` items, and after them the old ones, which are in no output."""
    known = old.collection
    if new.kind != known.kind:
        raise RefusedError(
            f"{old.given} holds items of the kind '{known.kind}', and the new ones are of the kind "
            f"'{new.kind}'. Give what was labelled in the same way.",
            at_fault=Option.LIKE,
        )
    if isinstance(new.contents, np.ndarray) and new.contents.shape[1:] != known.contents.shape[1:]:  # type: ignore[union-attr]
        raise RefusedError(
            f"embeddings in {old.given} have {len(known.contents[0])} features, and the new ones "
            f"{len(new.contents[0])}. Both have to be of one encoder.",
            at_fault=Option.LIKE,
        )
    n_new, n_old = len(new), len(known)
    events = None
    if new.events is not None or known.events is not None:
        first = _numbers(new)
        events = np.concatenate((first, first.max(initial=-1) + 1 + _numbers(known)))
    names = (_name_of(item, old) if own else item for item, own in zip(known.items, known.listed.tolist(), strict=True))
    return replace(
        new,
        items=(*new.items, *names),
        contents=np.concatenate((new.contents, known.contents))
        if isinstance(new.contents, np.ndarray)
        else [*new.contents, *known.contents],
        labels=(*new.labels, *known.labels),
        listed=np.concatenate((new.listed, np.zeros(n_old, dtype=bool))),
        events=events,
        lent=None if events is None else np.concatenate((_lent(new), _lent(known))),
        old=np.arange(n_new + n_old) >= n_new,
        notes=(*new.notes, _words(old)),
    )


def _numbers(collection: Collection) -> NDArray[np.int64]:
    return np.arange(len(collection)) if collection.events is None else collection.events


def _lent(collection: Collection) -> NDArray[np.bool_]:
    return np.zeros(len(collection), dtype=bool) if collection.lent is None else collection.lent


def _name_of(item: str, old: Old) -> str:
    """A name for an old item that no new item has."""
    return f"{old.source.as_posix()}/{item}" if old.collection.kind.in_folder else f"{old.source.name}: {item}"


def _words(old: Old) -> str:
    collection = old.collection
    lent = _lent(collection).tolist()
    given = [label for label, is_lent in zip(collection.labels, lent, strict=True) if label and not is_lent]
    n_classes = len({label for label in given if not means_none(label)})
    labels, classes = ("label" if len(given) == 1 else "labels"), ("class" if n_classes == 1 else "classes")
    return (
        f"Like {old.given}: {len(given):,} {labels} of {n_classes:,} {classes} there are examples. Its "
        f"{len(collection):,} items and the new ones are each centred on their own mean."
    )
