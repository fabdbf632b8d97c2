"""Ravi and Larochelle's layout: train.csv, val.csv and test.csv over one folder of pictures."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from marginshot._lib.reading import reading
from marginshot.vision.datasets.images import FileImages, ImageSet
from marginshot.vision.datasets.splits import DatasetMismatchError

_FILE = {"base": "train.csv", "validation": "val.csv", "test": "test.csv"}


def find_csv_list(root: Path, split: str) -> Path | None:
    """The list of ``split``, beside the pictures or in a folder split or splits."""
    for folder in (root, root / "split", root / "splits"):
        path = folder / _FILE[split]
        if path.is_file():
            return path
    return None


def open_csv_list(root: Path, path: Path) -> ImageSet:
    """Pictures named in ``path`` (file name, class; with or without a heading), kept in ``root/images`` or ``root``.

    They may also be in folders below, such as those of the classes, where each name is found once.
    """
    with (
        reading(path, "a list of pictures", "Download it again.", DatasetMismatchError),
        path.open(newline="", encoding="utf-8") as file,
    ):
        rows = [row for row in csv.reader(file) if row]
    if rows and [cell.strip().lower() for cell in rows[0][:2]] == ["filename", "label"]:
        rows = rows[1:]
    if not rows or any(len(row) < 2 for row in rows):
        raise DatasetMismatchError(f"{path} needs lines of a file name and a class separated by a comma.")
    folder = root / "images" if (root / "images").is_dir() else root
    names = tuple(row[0].strip() for row in rows)
    items = names if (folder / names[0]).is_file() else _found_below(folder, names, path)
    _require_files(folder, items, path)
    classes = tuple(sorted({row[1].strip() for row in rows}))
    position = {name: index for index, name in enumerate(classes)}
    return ImageSet(
        name=str(path),
        classes=classes,
        labels=np.array([position[row[1].strip()] for row in rows], dtype=np.int64),
        items=items,
        source=FileImages(folder, items),
    )


def _found_below(folder: Path, names: tuple[str, ...], listed_in: Path) -> tuple[str, ...]:
    """The path below ``folder`` of each file in ``names``; of a file that is not there, its name."""
    wanted = set(names)
    found: dict[str, str] = {}
    for path in sorted(path for path in folder.rglob("*") if path.name in wanted):
        item = path.relative_to(folder).as_posix()
        if found.setdefault(path.name, item) != item:
            raise DatasetMismatchError(f"{listed_in} lists {path.name}, which is both {found[path.name]} and {item}.")
    return tuple(found.get(name, name) for name in names)


def _require_files(folder: Path, names: tuple[str, ...], listed_in: Path) -> None:
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise DatasetMismatchError(
            f"{listed_in} lists {len(missing)} pictures that are not in {folder}: {', '.join(missing[:3])}{more}; "
            "complete the download."
        )
