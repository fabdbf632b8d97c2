"""The light of camera-trap pictures, colour or infrared: it shifts embeddings as another camera does."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from marginshot._lib.reading import UnreadableError
from marginshot.data.pictures import read_picture
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.embed import Progress, silent
from marginshot.labelling.items.shots import in_colour
from marginshot.labelling.items.store import Store

#: Fewest items of each light for lights to be domains: the mean of fewer is too noisy an origin.
LEAST_ITEMS = 50

_IN_COLOUR, _INFRARED, _UNREAD = 0, 1, -1
_GLANCE = 64  # pixels a side that tell colour from infrared
_BATCH = 256  # pictures between two reports of the progress


def find_lights(
    collection: Collection, store: Store | None, on_progress: Progress = silent
) -> NDArray[np.int64] | None:
    """Light (n_items,) of each item, 0 in colour and 1 by infrared; None where one of them has too few.

    None as well where the pictures have no events: only those of camera traps are by day or by infrared, and it takes
    a while to look at all of them. The cache keeps what was seen. The items of an earlier source and the new ones are
    counted apart.

    Parameters
    ----------
    collection : Collection
    store : Store or None
        The cache.
    on_progress : callable, optional
        Called with a phase, the number of pictures looked at, and of all of them.
    """
    if collection.events is None or not collection.kind.are_pictures:
        return None
    files = [collection.kind.file(content) for content in collection.contents]
    with collection.kind.reading():
        seen = _look(list(dict.fromkeys(files)), store, on_progress)
    lights = np.array([seen[file] for file in files], dtype=np.int64)
    old = np.zeros(len(files), dtype=bool) if collection.old is None else collection.old
    for part in (old, ~old):
        if min((lights[part] == light).sum() for light in (_IN_COLOUR, _INFRARED)) < LEAST_ITEMS:
            lights[part] = _IN_COLOUR
    return np.maximum(lights, _IN_COLOUR) if (lights == _INFRARED).any() else None


def describe_lights(lights: NDArray[np.int64]) -> str:
    """A sentence on ``lights`` (n_items,) that are taken for domains."""
    counts = Counter(lights.tolist())
    return (
        f"{counts[_IN_COLOUR]:,} items are in colour and {counts[_INFRARED]:,} by infrared: each light is centred "
        "on its own mean, so that it does not pass for a difference between classes."
    )


def _look(files: Sequence[Path], store: Store | None, on_progress: Progress) -> dict[Path, int]:
    """The light of each file."""
    keys = {file: _key(file) for file in files}
    known = {} if store is None else store.load([key for key in keys.values() if key])
    seen = {file: int(known[key][0]) for file, key in keys.items() if key in known}
    missing = [file for file in files if file not in seen]
    with ThreadPoolExecutor(max(2, effective_n_jobs(-1))) as threads:
        for start in range(0, len(missing), _BATCH):
            on_progress("looking for infrared", start, len(missing))
            batch = missing[start : start + _BATCH]
            found = dict(zip(batch, threads.map(_light, batch), strict=True))
            seen |= found
            kept = {keys[file]: light for file, light in found.items() if keys[file] and light != _UNREAD}
            if store is not None and kept:
                store.keep(list(kept), np.array([*kept.values()], dtype=np.float32)[:, None])
    return seen


def _key(file: Path) -> str:
    """Cache key for the light of a file in its present version; empty for a file that cannot be opened.

    The key is made of path, time and size: to hash the content would take as long as to look at the picture.
    """
    try:
        now = file.stat()
    except OSError:
        return ""
    name = os.fsencode(file.resolve()) + f"\0{now.st_mtime_ns}\0{now.st_size}".encode()
    return f"{hashlib.sha256(name).hexdigest()} light"


def _light(file: Path) -> int:
    try:
        return _IN_COLOUR if in_colour(read_picture(file, enough=_GLANCE)) else _INFRARED
    except UnreadableError:
        return _UNREAD  # reported where it is encoded
