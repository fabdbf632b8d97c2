"""Events: pictures that one camera took shortly after each other, labelled together unless their labels differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.shots import place_of, read_shot
from marginshot.labelling.items.sources import Source

#: Seconds between two pictures of an event, the usual gap of camera traps.
EVENT_GAP = 60.0

# A camera's clock is taken to have stopped where this many of its pictures have the same time.
_STUCK = 20


def usual_gap(source: Source, gap: float | None) -> float:
    """The ``gap`` that was asked for; else `EVENT_GAP` where boxes of a detector suggest camera traps, and 0 elsewhere.

    Of a folder of other photographs, two within a minute need not show the same thing.
    """
    return gap if gap is not None else EVENT_GAP if source.boxes is not None else 0.0


def with_events(collection: Collection, gap: float) -> Collection:
    """The collection with its events, and labels lent within each where they agree; unchanged where ``gap`` is 0.

    Parameters
    ----------
    collection : Collection
        Items of a folder.
    gap : float
        Seconds between two pictures of one camera up to which they are one event.
    """
    if not 0 <= gap < float("inf"):
        raise RefusedError(
            f"the gap between pictures of an event is 0 or more seconds; got {gap:g}.", at_fault=Option.GAP
        )
    if not gap:
        return collection
    if collection.kind.has_sound or not collection.kind.in_folder:
        raise RefusedError("only pictures have events, by the time at which they were taken.", at_fault=Option.GAP)
    files = [collection.kind.file(content) for content in collection.contents]
    names = {file: item for file, item, own in zip(files, collection.items, collection.listed, strict=True) if own}
    moments = _moments(names)
    of_file = _number(moments, gap)
    numbers = np.array([of_file.get(file, len(of_file) + row) for row, file in enumerate(files)], dtype=np.int64)
    labels, lent = lend(collection.labels, numbers)
    note = _words(moments, of_file, gap)
    return replace(collection, labels=labels, events=numbers, lent=lent, notes=(*collection.notes, note))


def _moments(names: dict[Path, str]) -> dict[Path, tuple[str, datetime | None]]:
    """Camera and time of each file; no time where its clock stood still."""
    found = {}
    for file, item in names.items():
        shot = read_shot(file)
        found[file] = shot.serial or place_of(item), shot.time
    n_pictures = Counter(found.values())
    return {
        file: (camera, None if n_pictures[camera, time] > _STUCK else time) for file, (camera, time) in found.items()
    }


def _number(moments: dict[Path, tuple[str, datetime | None]], gap: float) -> dict[Path, int]:
    """Number of the event of each file; one without a time is an event by itself."""
    cameras: dict[str, list[tuple[datetime, Path]]] = defaultdict(list)
    for file, (camera, time) in moments.items():
        if time is not None:
            cameras[camera].append((time, file))
    numbers: dict[Path, int] = {}
    n_events = 0
    for taken in cameras.values():
        last = None
        for time, file in sorted(taken):
            n_events += last is None or time - last > timedelta(seconds=gap)
            numbers[file], last = n_events - 1, time
    alone = (file for file in moments if file not in numbers)
    return numbers | {file: n_events + place for place, file in enumerate(alone)}


def lend(labels: Sequence[str], events: NDArray[np.int64]) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    """Give unlabelled items the label of their event; an event with two labels is split, and lends none.

    Returns the labels (n_items,), and a mask (n_items,) of the items that got theirs in this way.

    Examples
    --------
    >>> labels, lent = lend(["fox", "", "hare", "", "fox", ""], np.array([0, 0, 1, 2, 1, 1]))
    >>> labels, lent.nonzero()[0].tolist()
    (('fox', 'fox', 'hare', '', 'fox', ''), [1])
    """
    of_event: dict[int, set[str]] = defaultdict(set)
    for label, event in zip(labels, events.tolist(), strict=True):
        if label:
            of_event[event].add(label)
    agreed = {event: next(iter(own)) for event, own in of_event.items() if len(own) == 1}
    filled = tuple(label or agreed.get(event, "") for label, event in zip(labels, events.tolist(), strict=True))
    return filled, np.array([new != old for new, old in zip(filled, labels, strict=True)], dtype=bool)


def _words(moments: dict[Path, tuple[str, datetime | None]], numbers: dict[Path, int], gap: float) -> str:
    sizes = Counter(numbers.values())
    n_alone = sum(time is None for _, time in moments.values())
    without = f" {n_alone:,} of them have no usable time, and each is an event by itself." if n_alone else ""
    return (
        f"{len(numbers):,} pictures are {len(sizes):,} events: one camera, at most {gap:g} s from picture to picture; "
        f"the longest has {max(sizes.values(), default=0):,}. Those of an event are labelled together.{without}"
    )
