"""The classes of each split, and the check that a folder holds them."""

from __future__ import annotations

import csv
from importlib.resources import files

from marginshot.vision.datasets.images import ImageSet

SPLITS = ("base", "validation", "test")

# Pictures of the smallest class as published; fewer means an incomplete download.
PUBLISHED_MINIMUM = {"miniimagenet": 600, "tieredimagenet": 732, "cub": 41}
# Pictures of the largest; more in two folders means that they are not parts of one class.
PUBLISHED_MAXIMUM = {"miniimagenet": 600, "tieredimagenet": 1300, "cub": 60}


class DatasetMismatchError(ValueError):
    """The pictures found are not the dataset that was asked for."""


def read_class_list(text: str, origin: str) -> dict[str, tuple[str, ...]]:
    """Classes of each split from CSV text with the columns ``class`` and ``split``."""
    rows = list(csv.DictReader(text.splitlines()))
    if not rows or set(rows[0]) != {"class", "split"}:
        raise DatasetMismatchError(f"{origin} needs the columns class,split and at least one row.")
    wrong = sorted({str(row["split"]) for row in rows} - set(SPLITS))
    if wrong:
        raise DatasetMismatchError(f"{origin} names the split {wrong[0]!r}; use {', '.join(SPLITS)}.")
    return {split: tuple(row["class"] for row in rows if row["split"] == split) for split in SPLITS}


def published_classes(dataset: str) -> dict[str, tuple[str, ...]]:
    """Classes of each split of a dataset whose class list is part of the package."""
    name = f"{dataset}.csv"
    text = (files("marginshot.vision.datasets") / "class_lists" / name).read_text(encoding="utf-8")
    return read_class_list(text, name)


def match_published(images: ImageSet, dataset: str, split: str, *, subset: bool) -> ImageSet:
    """The pictures with the classes in published order, or an error that names every class that does not fit.

    Labels without class names (numbers, or the words in tieredImageNet's pickles) can only be counted.

    Parameters
    ----------
    images : ImageSet
        What was found.
    dataset, split : str
        What was asked for.
    subset : bool
        Accept missing classes and classes with fewer pictures than published.
    """
    lists = published_classes(dataset)
    expected = lists[split]
    known = {name for names in lists.values() for name in names}
    if known.isdisjoint(images.classes):
        wanted = expected if not subset else images.classes[: len(expected)]
        if len(images.classes) != len(wanted):
            raise DatasetMismatchError(
                f"The {split} split of {dataset} has {len(expected)} classes, but {images.name} has "
                f"{len(images.classes)}; get the published files."
            )
    else:
        images = _in_published_order(images, dataset, split, lists, subset=subset)
    require_images(images, 1 if subset else PUBLISHED_MINIMUM[dataset])
    return images


def require_images(images: ImageSet, minimum: int) -> None:
    """Raise, naming every class with fewer than ``minimum`` pictures."""
    few = [
        f"{name}: {count} of {minimum}"
        for name, count in zip(images.classes, images.counts(), strict=True)
        if count < minimum
    ]
    if few and minimum == 1:
        empty = ", ".join(line.split(":")[0] for line in few)
        raise DatasetMismatchError(f"{images.name} has classes without pictures: {empty}; add some or remove them.")
    if few:
        raise DatasetMismatchError(
            f"{images.name} has {len(few)} classes with too few pictures ({', '.join(few)}); complete the download, or "
            "accept a part of the dataset with --subset."
        )


def _in_published_order(
    images: ImageSet, dataset: str, split: str, lists: dict[str, tuple[str, ...]], *, subset: bool
) -> ImageSet:
    expected = lists[split]
    missing = [name for name in expected if name not in set(images.classes)]
    home = {name: other for other, names in lists.items() for name in names}
    foreign = [f"{name} ({home.get(name, 'in no split')})" for name in images.classes if name not in set(expected)]
    if foreign:
        raise DatasetMismatchError(
            f"{images.name} holds {len(foreign)} classes that are not in the {split} split of {dataset}: "
            f"{', '.join(foreign)}; remove them or use the published split."
        )
    if missing and not subset:
        raise DatasetMismatchError(
            f"{images.name} misses {len(missing)} of the {len(expected)} {split} classes of {dataset}: "
            f"{', '.join(missing)}; complete the download, or accept a part of the dataset with --subset."
        )
    return images.keep_classes(name for name in expected if name not in set(missing))
