"""Class folders: one folder per class, pictures inside."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from marginshot._lib.reading import reading
from marginshot.data.pictures import is_picture
from marginshot.vision.datasets.images import FileImages, ImageSet
from marginshot.vision.datasets.splits import SPLITS, DatasetMismatchError, read_class_list, require_images

SPLIT_FOLDERS = {
    "base": ("base", "train", "training"),
    "validation": ("validation", "val", "valid"),
    "test": ("test", "novel"),
}
_VALIDATION_SHARE = 0.2
_VALIDATION_WAY = 5


def find_named_folders(root: Path, names: tuple[str, ...], most: int) -> dict[str, tuple[Path, ...]]:
    """Folders called like a class, anywhere under ``root``.

    A class may lie in several folders, such as ``train/`` and ``val/`` that each hold a part of every class. Folders
    that share a file name, or hold more than ``most`` pictures together, are no parts of one class: an error.
    """
    wanted = set(names)
    found: dict[str, tuple[Path, ...]] = {}
    for folder, children, _ in os.walk(root):
        for child in sorted(wanted.intersection(children)):
            found[child] = (*found.get(child, ()), Path(folder) / child)
        children[:] = sorted(child for child in children if child not in wanted and not child.startswith("."))
    for name, parts in found.items():
        if len(parts) > 1:
            _require_parts(name, parts, most)
    return found


def _require_parts(name: str, parts: tuple[Path, ...], most: int) -> None:
    """Raise unless the folders ``parts`` can be parts of the class ``name``."""
    counts = Counter(path.name for part in parts for path in _pictures_below(part))
    there = " and ".join(map(str, parts))
    twice = min((file for file, count in counts.items() if count > 1), default=None)
    if twice is not None:
        raise DatasetMismatchError(f"Class {name} is there twice, in {there}, both with {twice}; keep one.")
    if len(counts) > most:
        raise DatasetMismatchError(
            f"Class {name} is there twice, in {there}, with {len(counts)} pictures together; published are at most "
            f"{most}. Keep one."
        )


def images_in_folders(root: Path, folders: Mapping[str, tuple[Path, ...]], name: str) -> ImageSet:
    """All pictures below the folders of each class, sorted by path below them."""
    items: list[str] = []
    labels: list[int] = []
    for label, parts in enumerate(folders.values()):
        paths = [(path.relative_to(part), path) for part in parts for path in _pictures_below(part)]
        items.extend(path.relative_to(root).as_posix() for _, path in sorted(paths))
        labels.extend([label] * len(paths))
    images = ImageSet(
        name=name,
        classes=tuple(folders),
        labels=np.array(labels, dtype=np.int64),
        items=tuple(items),
        source=FileImages(root, tuple(items)),
    )
    require_images(images, 1)
    return images


def _pictures_below(folder: Path) -> list[Path]:
    """Pictures at any depth; hidden folders aside, where programs keep thumbnails."""
    return [path for path in folder.rglob("*") if is_picture(path) and not _is_hidden(path, folder)]


def _is_hidden(path: Path, root: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(root).parts)


def open_folder(root: Path, split: str, seed: int = 0) -> ImageSet:
    """Any folder of class folders as a dataset.

    A class is a folder without sub-folders; its name is its path below ``root`` (or below the split's folder), so
    alphabets of characters work too. The splits come from the first of these that is there: a file ``splits.csv``
    with the columns class,split; folders train, val, test (or base, validation, novel); for training, a fifth of the
    classes drawn from ``seed`` becomes the validation split and the rest the base split.

    Parameters
    ----------
    root : Path
        The folder.
    split : {"base", "validation", "test", "all"}
        Which classes.
    seed : int, default=0
        Seed of the drawn validation classes.
    """
    title = f"{root} ({split})"
    if split == "all":
        return images_in_folders(root, _class_folders(root), title)
    if (root / "splits.csv").is_file():
        listed = root / "splits.csv"
        with reading(listed, "a list of classes and splits", "Save it as UTF-8.", DatasetMismatchError):
            classes = read_class_list(listed.read_text(encoding="utf-8"), str(listed))[split]
        return _chosen(root, classes, title)
    parts = [root / name for name in SPLIT_FOLDERS[split] if (root / name).is_dir()]
    if parts:
        return images_in_folders(root, _class_folders(parts[0]), title)
    if split == "test":
        raise DatasetMismatchError(
            f"{root} has no test split: neither splits.csv nor a folder test; ask for the split all to use every class."
        )
    return _chosen(root, _drawn(tuple(_class_folders(root)), split, seed), title)


def _chosen(root: Path, classes: tuple[str, ...], title: str) -> ImageSet:
    folders = _class_folders(root)
    missing = [name for name in classes if name not in folders]
    if missing:
        raise DatasetMismatchError(f"{title} misses the classes {', '.join(missing)}; add their folders.")
    return images_in_folders(root, {name: folders[name] for name in classes}, title)


def _drawn(classes: tuple[str, ...], split: str, seed: int) -> tuple[str, ...]:
    # Few classes give up to half of them: validation tasks are of five classes where there are so many.
    n_validation = max(min(_VALIDATION_WAY, len(classes) // 2), round(_VALIDATION_SHARE * len(classes)), 1)
    drawn = set(np.random.default_rng(seed).permutation(len(classes))[:n_validation].tolist())
    return tuple(name for index, name in enumerate(classes) if (index in drawn) == (split == SPLITS[1]))


def _class_folders(root: Path) -> dict[str, tuple[Path, ...]]:
    """Every folder below ``root`` that has no sub-folder, by its path, sorted."""
    folders: dict[str, tuple[Path, ...]] = {}
    for folder, children, _ in os.walk(root):
        children[:] = sorted(child for child in children if not child.startswith("."))
        path = Path(folder)
        if not children and path != root:
            folders[path.relative_to(root).as_posix()] = (path,)
    if not folders:
        raise DatasetMismatchError(
            f"{root} has no class folders; put the pictures of each class in a folder of its own."
        )
    return dict(sorted(folders.items()))
