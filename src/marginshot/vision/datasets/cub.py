"""The CUB_200_2011 folder as its authors publish it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from marginshot._lib.reading import reading
from marginshot.vision.datasets.images import FileImages, ImageSet
from marginshot.vision.datasets.splits import DatasetMismatchError

_LIST = "images.txt"


def find_cub(root: Path) -> Path | None:
    """The folder that holds images.txt and images/: ``root``, or one of that archive's name one or two folders down."""
    inner = Path("CUB_200_2011")
    for folder in (root, root / inner, root / inner / inner):
        if (folder / _LIST).is_file() and (folder / "images").is_dir():
            return folder
    return None


def open_cub(root: Path, classes: tuple[str, ...] | None = None) -> ImageSet:
    """The pictures of ``classes``, or of all, as listed in images.txt; a picture's class is the folder it is in."""
    paths = [path for path in _table(root / _LIST).values() if classes is None or _class_of(path) in set(classes)]
    folder = root / "images"
    missing = [path for path in paths if ".." in path.split("/") or not (folder / path).is_file()]
    if missing:
        raise DatasetMismatchError(
            f"{root / _LIST} lists {len(missing)} pictures that are not in {folder}, first {missing[0]}; "
            "extract the archive again."
        )
    found = {_class_of(path) for path in paths}
    present = tuple(name for name in (classes or sorted(found)) if name in found)
    position = {name: index for index, name in enumerate(present)}
    return ImageSet(
        name=str(root),
        classes=present,
        labels=np.array([position[_class_of(path)] for path in paths], dtype=np.int64),
        items=tuple(paths),
        source=FileImages(folder, tuple(paths)),
    )


def _class_of(path: str) -> str:
    return path.split("/")[0]


def _table(path: Path) -> dict[str, str]:
    """``number value`` on each line, as a mapping."""
    with reading(path, "a table of numbers and values", "Extract the archive again.", DatasetMismatchError):
        pairs = (line.split(maxsplit=1) for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
        return {number: value.strip() for number, value in pairs}
