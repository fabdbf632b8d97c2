"""What items can be filtered by: folder, time, camera and light of pictures, columns of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from marginshot._lib.reading import UnreadableError
from marginshot.data.labels import is_missing
from marginshot.data.pictures import read_picture
from marginshot.labelling.items.shots import in_colour, read_shot
from marginshot.labelling.items.tables import as_text

if TYPE_CHECKING:
    from marginshot.labelling import Session

_MOST_VALUES = 60  # of a field in a list that a person reads
_RANGES = 5  # of a column of numbers with more values than that

_GLANCE = 64  # pixels a side that tell colour from infrared

_EMPTY = "(empty)"
_TIMES = ("%Y-%m-%d", "%Y-%m", "%Y")  # days, else months, else years


def fields(session: Session) -> list[dict[str, Any]]:
    """Name, values with the number of their items, and the value of every row as its place among the values."""
    found = _of_pictures(session) if session.kind.in_folder else _of_table(session)
    return [field for field in found if len(field["values"]) > 1]


def _of_pictures(session: Session) -> list[dict[str, Any]]:
    folders = [str(PurePosixPath(name).parent) for name in session.items]
    files = [session.kind.file(content) for content in session.contents]
    shots = {file: read_shot(file) for file in dict.fromkeys(files)}
    times = [shots[file].time or _changed(file) for file in files]
    for form in _TIMES:
        moments = ["" if time is None else time.strftime(form) for time in times]
        if len(set(moments)) <= _MOST_VALUES:
            break
    found = [_field("Folder", ["(top)" if folder == "." else folder for folder in folders]), _field("Time", moments)]
    if session.kind.has_sound and len(set(files)) < len(files):
        found.insert(0, _field("Recording", [file.name for file in files]))
    if any(shot.serial for shot in shots.values()):
        found.append(_field("Camera", [shots[file].serial for file in files]))
    if session.item_events is not None:  # of camera traps; to look at every picture takes a while
        lights = {file: _light(file) for file in shots}
        found.append(_field("Light", [lights[file] for file in files]))
    return found


def _light(path: Path) -> str:
    """Whether a picture was taken by day, in colour, or by infrared."""
    try:
        return "colour" if in_colour(read_picture(path, enough=_GLANCE)) else "infrared"
    except UnreadableError:
        return ""


def _changed(path: Path) -> datetime | None:
    """When a picture was last changed; None where it is gone."""
    try:
        return datetime.fromtimestamp(Path(path).stat().st_mtime)
    except OSError:
        return None


def _of_table(session: Session) -> list[dict[str, Any]]:
    found = []
    for name, values in session.columns.items():
        if len(values) != session.n_items:
            continue  # rows without a text are left out
        texts = [as_text(value).strip() for value in values]
        if len(set(texts)) > _MOST_VALUES:
            ranges = _ranges(values)
            texts = [] if ranges is None else ranges
        if texts:
            found.append(_field(name, texts))
    return found


def _ranges(values: Sequence[Any]) -> list[str] | None:
    """The range that each number lies in, all of about as many rows; None where some are no numbers."""
    try:
        numbers = np.array([np.nan if is_missing(value) or value == "" else float(value) for value in values])
    except (TypeError, ValueError):
        return None
    known = numbers[np.isfinite(numbers)]
    if not len(known):
        return None
    ends = np.unique(np.quantile(known, np.linspace(0.0, 1.0, _RANGES + 1), method="nearest"))
    if len(ends) < 2:
        return None
    places = np.clip(np.searchsorted(ends, numbers, side="right"), 1, len(ends) - 1)
    names = [f"{low:g} to {high:g}" for low, high in pairwise(ends.tolist())]
    return ["" if np.isnan(number) else names[place - 1] for number, place in zip(numbers, places, strict=True)]


def _field(name: str, texts: Sequence[str]) -> dict[str, Any]:
    """A field of at most `_MOST_VALUES` values, the most frequent ones; others are one value."""
    counts = Counter(text or _EMPTY for text in texts)
    frequent = sorted(value for value, _ in counts.most_common(_MOST_VALUES))
    place = {value: number for number, value in enumerate(frequent)}
    rest = len(frequent)
    codes = [place.get(text or _EMPTY, rest) for text in texts]
    values: list[tuple[str, int]] = [(value, counts[value]) for value in frequent]
    if rest < len(counts):
        values.append(("(others)", counts.total() - sum(n for _, n in values)))
    return {"name": name, "values": values, "codes": codes}
