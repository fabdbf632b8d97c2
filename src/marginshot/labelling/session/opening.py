"""Opening a source for a session: its items, their labels, and keys that stay the same when the source changes."""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.boxes import open_boxes
from marginshot.labelling.items.collection import Collection, check_names
from marginshot.labelling.items.folders import UNLABELLED_FOLDERS, collect_files, collect_unlabelled
from marginshot.labelling.items.sources import Source, collect_rows
from marginshot.labelling.session.events import log_path
from marginshot.labelling.session.state import Slots


def open_collection(
    source: Source, text: str | None, label: str | None, examples: Sequence[Path], classes: Names[str]
) -> Collection:
    """The items of a folder or table; unlike `label_images`, none of them needs to have a label yet."""
    path = source.path
    if source.table is None:
        if text is not None:
            raise RefusedError(f"{path} is a folder and has no columns.", at_fault=Option.TEXT)
        if source.boxes is not None:
            collection = open_boxes(path, source.boxes, examples, classes)
        elif examples:
            collection = collect_files(path, examples, classes=classes)
        else:
            collection = _with_class_folders(collect_unlabelled(path))
    else:
        if examples:
            raise RefusedError(f"{path} is a table; examples are in its column of labels.", at_fault=Option.EXAMPLES)
        there = source.label in source.table.columns
        if label is not None:
            source.table.column(label)  # raises where there is none
        collection = collect_rows(source.table, text, source.label if there else None, classes)
    check_names((name for name in collection.labels if name), "Labels")
    return collection


def log_of(source: Source, text: str | None, folder: Path) -> Path:
    """Where in ``folder`` the log of a source is: a folder has one of its pictures, and one of its boxes."""
    return log_path(folder, source.path, text if source.boxes is None else "\0boxes")


def _with_class_folders(collection: Collection) -> Collection:
    """Pictures in sub-folders are examples where others are not, and there are at least two such folders.

    Otherwise the folders may stand for dates or cameras.
    """
    folders = [item.partition("/")[0].strip() if "/" in item else "" for item in collection.items]
    labels = ["" if folder.lower() in UNLABELLED_FOLDERS else folder for folder in folders]
    if all(labels) or len(set(labels) - {""}) < 2:
        return collection
    return replace(collection, labels=tuple(labels))


class KeyTable:
    """Slots of keys: rows of the source first, then those of items the log alone knows.

    Parameters
    ----------
    keys : sequence of str
        Of the rows of the source, no two alike.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = list(keys)
        self._slots = {key: slot for slot, key in enumerate(keys)}

    def slots_of(self, keys: Sequence[str]) -> Slots:
        """Slots (n,) of n keys; one never seen gets the next."""
        for key in keys:
            if key not in self._slots:
                self._slots[key] = len(self.keys)
                self.keys.append(key)
        return np.array([self._slots[key] for key in keys], dtype=np.int64)
