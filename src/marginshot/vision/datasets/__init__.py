"""Datasets of pictures by name, in the layouts people have them in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from marginshot.vision.datasets.array_pickles import UnsafePickleError
from marginshot.vision.datasets.csv_lists import find_csv_list, open_csv_list
from marginshot.vision.datasets.cub import find_cub, open_cub
from marginshot.vision.datasets.folders import find_named_folders, images_in_folders, open_folder
from marginshot.vision.datasets.glyphs import draw_glyphs
from marginshot.vision.datasets.images import CorruptImageError, ImageSet, drop_corrupt
from marginshot.vision.datasets.json_lists import find_json_list, open_json_list
from marginshot.vision.datasets.pickles import (
    find_category_split,
    find_mini_cache,
    find_tiered_archives,
    find_tiered_pickles,
    open_category_split,
    open_mini_cache,
    open_tiered_archives,
    open_tiered_pickles,
)
from marginshot.vision.datasets.splits import (
    PUBLISHED_MAXIMUM,
    SPLITS,
    DatasetMismatchError,
    match_published,
    published_classes,
)

__all__ = [
    "DATASETS",
    "SPLITS",
    "CorruptImageError",
    "DatasetMismatchError",
    "ImageSet",
    "UnsafePickleError",
    "check_dataset",
    "drop_corrupt",
    "open_dataset",
]

DATASETS = ("miniimagenet", "tieredimagenet", "cub", "glyphs", "folder")


_ARCHIVES: dict[str, tuple[tuple[Callable[..., Any], Callable[..., ImageSet]], ...]] = {
    "miniimagenet": ((find_mini_cache, open_mini_cache), (find_category_split, open_category_split)),
    "tieredimagenet": ((find_tiered_pickles, open_tiered_pickles), (find_tiered_archives, open_tiered_archives)),
}


def open_dataset(name: str, data: Path | None, split: str, *, subset: bool = False, seed: int = 0) -> ImageSet:
    """One split of a dataset.

    Parameters
    ----------
    name : {"miniimagenet", "tieredimagenet", "cub", "glyphs", "folder"}
        The dataset; ``folder`` is any folder of class folders.
    data : Path or None
        Where its files are; ``glyphs`` has none.
    split : {"base", "validation", "test", "all"}
        Which classes; ``all`` for ``folder`` only.
    subset : bool, default=False
        Accept missing classes and classes with fewer pictures than published.
    seed : int, default=0
        Seed of the glyphs, and of a folder's validation classes.
    """
    folder = check_dataset(name, data, split)
    if folder is None:
        return draw_glyphs(published_classes("glyphs")[split], f"glyphs ({split})", seed)
    if name == "folder":
        return _open_folder(folder, split, seed)
    images = match_published(_open_published(name, folder, split), name, split, subset=subset)
    return replace(images, name=f"{name} ({split})")


def check_dataset(name: str, data: Path | None, split: str) -> Path | None:
    """The folder of a dataset's files, None where it has none; raises ValueError for what `open_dataset` cannot open.

    Neither torch nor the pictures are needed for this.
    """
    if name not in DATASETS:
        raise ValueError(f"There is no dataset {name!r}; choose one of {', '.join(DATASETS)}.")
    allowed = (*SPLITS, "all") if name == "folder" else SPLITS
    if split not in allowed:
        raise ValueError(f"{name} has no split {split!r}; choose one of {', '.join(allowed)}.")
    if name == "glyphs":
        return None
    if data is None:
        raise ValueError(f"The dataset {name} needs the folder of its files: pass --data DIR.")
    if not data.is_dir():
        raise ValueError(f"{data} is not a folder; pass the folder that holds the dataset {name}.")
    return data


def _open_folder(data: Path, split: str, seed: int) -> ImageSet:
    """Class folders, with splits from JSON lists if there are any; for an unpacked CUB, the folders below images."""
    listed = find_json_list(data, split) if split != "all" else None
    if listed is not None:
        return open_json_list(data, listed)
    cub = find_cub(data)
    return open_folder(data if cub is None else cub / "images", split, seed)


def _open_published(name: str, data: Path, split: str) -> ImageSet:
    """The first layout that is there: published archives, the dataset's own tables, lists, class folders."""
    for find, open_found in _ARCHIVES.get(name, ()):
        found = find(data, split)
        if found is not None:
            return open_found(*found) if isinstance(found, tuple) else open_found(found)
    classes = published_classes(name)[split]
    cub = find_cub(data) if name == "cub" else None
    if cub is not None:
        return open_cub(cub, classes)
    for find_list, open_list in ((find_csv_list, open_csv_list), (find_json_list, open_json_list)):
        listed = find_list(data, split)
        if listed is not None:
            return open_list(data, listed)
    folders = find_named_folders(data, classes, PUBLISHED_MAXIMUM[name])
    if folders:
        return images_in_folders(data, {cls: folders[cls] for cls in classes if cls in folders}, str(data))
    raise DatasetMismatchError(
        f"{data} holds no layout of {name} for the {split} split: no class folders like {classes[0]}, no CSV or JSON "
        "lists, no published archive; docs/guides/datasets.md lists the layouts."
    )
