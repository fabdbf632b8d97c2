"""JSON lists of classes or pictures, as EasyFSL and CloserLookFewShot keep them.

Their paths are those of the machine they were written on. Leading folders are dropped until the rest exists below the
user's folder; nothing outside of it is read.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from marginshot._lib.reading import read_json, reading
from marginshot.vision.datasets.folders import images_in_folders
from marginshot.vision.datasets.images import FileImages, ImageSet
from marginshot.vision.datasets.splits import DatasetMismatchError

_FILES = {
    "base": ("base.json", "train.json"),
    "validation": ("val.json", "validation.json"),
    "test": ("novel.json", "test.json"),
}


def find_json_list(root: Path, split: str) -> Path | None:
    """The list of ``split``, beside the pictures or in a folder split, splits, specs or filelists."""
    for folder in (root, *(root / name for name in ("split", "splits", "specs", "filelists"))):
        for name in _FILES[split]:
            if (folder / name).is_file():
                return folder / name
    return None


def open_json_list(root: Path, path: Path) -> ImageSet:
    """Pictures below ``root`` that ``path`` lists.

    EasyFSL's lists have ``class_names`` and ``class_roots``, the folder of each class; CloserLookFewShot's have
    ``label_names``, ``image_names``, the path of each picture, and ``image_labels``, its class.
    """
    content = read_json(path, "a list of classes", "Download it again.", DatasetMismatchError)
    with reading(path, "a list of classes", "Download it again.", DatasetMismatchError):
        if {"class_names", "class_roots"} <= set(content):
            return _open_class_roots(root, path, content)
        if {"label_names", "image_names", "image_labels"} <= set(content):
            return _open_image_names(root, path, content)
    raise DatasetMismatchError(
        f"{path} has neither class_names and class_roots (EasyFSL) nor label_names, image_names and image_labels "
        "(CloserLookFewShot); use one of these forms."
    )


def _open_class_roots(root: Path, path: Path, content: dict[str, Any]) -> ImageSet:
    names, roots = [str(name) for name in content["class_names"]], content["class_roots"]
    if len(set(names)) != len(names) or len(names) != len(roots):
        raise DatasetMismatchError(f"{path} needs one folder for each of its classes; correct it.")
    folders = {name: (root / _below(root, str(folder), path),) for name, folder in zip(names, roots, strict=True)}
    return images_in_folders(root, folders, str(path))


def _open_image_names(root: Path, path: Path, content: dict[str, Any]) -> ImageSet:
    pictures, names = [str(name) for name in content["image_names"]], [str(name) for name in content["label_names"]]
    used, labels = np.unique(np.asarray(content["image_labels"], dtype=np.int64), return_inverse=True)
    if not pictures or len(pictures) != len(labels):
        raise DatasetMismatchError(f"{path} lists {len(pictures)} pictures, {len(labels)} labels; download it again.")
    # Labels of a split may count over the classes of the whole dataset, which are then all named.
    if not 0 <= used[0] <= used[-1] < len(names):
        raise DatasetMismatchError(f"{path} has labels up to {used[-1]} but names {len(names)} classes.")
    n_before = len(PurePosixPath(pictures[0]).parts) - len(_below(root, pictures[0], path).parts)
    items = tuple(PurePosixPath(*PurePosixPath(picture).parts[n_before:]).as_posix() for picture in pictures)
    missing = [item for item in items if ".." in item.split("/") or not (root / item).is_file()]
    if missing:
        raise DatasetMismatchError(
            f"{path} lists {len(missing)} pictures that are not in {root}, first {missing[0]}; complete the download."
        )
    return ImageSet(
        name=str(path),
        classes=tuple(names[label] for label in used),
        labels=labels.astype(np.int64),
        items=items,
        source=FileImages(root, items),
    )


def _below(root: Path, listed: str, path: Path) -> PurePosixPath:
    """The longest end of a ``listed`` path that exists below ``root``."""
    parts = PurePosixPath(listed).parts
    for first in range(len(parts)):
        rest = PurePosixPath(*parts[first:])
        if not rest.is_absolute() and ".." not in rest.parts and (root / rest).exists():
            return rest
    raise DatasetMismatchError(f"{path} lists {listed}, of which nothing is in {root}; pass the pictures' folder.")
