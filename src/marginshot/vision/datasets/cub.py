"""The CUB_200_2011 folder as its authors publish it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from marginshot._lib.reading import reading
from marginshot.vision.datasets.images import FileImages, ImageSet
from marginshot.vision.datasets.splits import DatasetMismatchError

_TABLES = ("images.txt", "image_class_labels.txt", "classes.txt")


def find_cub(root: Path) -> Path | None:
    """The folder that holds images.txt, image_class_labels.txt and classes.txt: ``root`` or root/CUB_200_2011."""
    for folder in (root, root / "CUB_200_2011"):
        if all((folder / table).is_file() for table in _TABLES):
            return folder
    return None


def open_cub(root: Path, classes: tuple[str, ...]) -> ImageSet:
    """The pictures of ``classes`` as listed in the dataset's own tables."""
    paths, class_ids, names = (_table(root / table) for table in _TABLES)
    unknown = sorted(set(paths) - set(class_ids))
    if unknown:
        raise DatasetMismatchError(
            f"{root / _TABLES[1]} has no line for picture {unknown[0]}; extract the archive again."
        )
    class_of = {key: names.get(class_ids[key], "") for key in paths}
    keys = [key for key in paths if class_of[key] in set(classes)]
    items = tuple(paths[key] for key in keys)
    folder = root / "images"
    missing = [item for item in items if not (folder / item).is_file()]
    if missing:
        raise DatasetMismatchError(
            f"{root / _TABLES[0]} lists {len(missing)} pictures that are not in {folder}, first {missing[0]}; "
            "extract the archive again."
        )
    present = tuple(name for name in classes if name in set(class_of.values()))
    position = {name: index for index, name in enumerate(present)}
    return ImageSet(
        name=str(root),
        classes=present,
        labels=np.array([position[class_of[key]] for key in keys], dtype=np.int64),
        items=items,
        source=FileImages(folder, items),
    )


def _table(path: Path) -> dict[str, str]:
    """``number value`` on each line, as a mapping."""
    with reading(path, "a table of numbers and values", "Extract the archive again.", DatasetMismatchError):
        pairs = (line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
        return {number: value.strip() for number, value in pairs}
