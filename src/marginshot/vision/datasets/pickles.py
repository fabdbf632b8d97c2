"""Layouts of pickled datasets."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.reading import reading
from marginshot.vision.datasets.array_pickles import load_arrays
from marginshot.vision.datasets.images import ArrayImages, EncodedImages, ImageSet
from marginshot.vision.datasets.splits import DatasetMismatchError

_FILE_WORD = {"base": "train", "validation": "val", "test": "test"}


def find_mini_cache(root: Path, split: str) -> Path | None:
    """``mini-imagenet-cache-{train,val,test}.pkl`` in ``root``."""
    path = root / f"mini-imagenet-cache-{_FILE_WORD[split]}.pkl"
    return path if path.is_file() else None


def open_mini_cache(path: Path) -> ImageSet:
    """A dict of ``image_data``, uint8 of shape (n_images, H, W, 3), and ``class_dict``, class to row numbers."""
    content = _text_keys(load_arrays(path), path, ("image_data", "class_dict"))
    pixels, rows_of = content["image_data"], content["class_dict"]
    if not (isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8 and pixels.ndim == 4):
        raise DatasetMismatchError(f"image_data in {path} is not an array of uint8 pictures; download the file again.")
    if not isinstance(rows_of, dict):
        raise DatasetMismatchError(f"class_dict in {path} is not a dict; download the file again.")
    with _reading(path):
        rows_by_name = {_text(name): _integers(rows) for name, rows in rows_of.items()}
        classes = tuple(sorted(rows_by_name))
        rows = np.concatenate([rows_by_name[name] for name in classes]) if classes else np.empty(0, dtype=np.int64)
    if rows.size and not 0 <= rows.min() <= rows.max() < len(pixels):
        raise DatasetMismatchError(f"class_dict in {path} points past its {len(pixels)} pictures; download it again.")
    return ImageSet(
        name=str(path),
        classes=classes,
        labels=np.repeat(np.arange(len(classes)), [len(rows_by_name[name]) for name in classes]),
        items=tuple(f"{path.name}#{row}" for row in rows),
        source=ArrayImages(pixels[rows]),
    )


def find_tiered_pickles(root: Path, split: str) -> tuple[Path, Path] | None:
    """``{train,val,test}_images_png.pkl`` with ``*_labels.pkl`` in ``root``."""
    word = _FILE_WORD[split]
    paths = root / f"{word}_images_png.pkl", root / f"{word}_labels.pkl"
    if not paths[0].is_file():
        return None
    if not paths[1].is_file():
        raise DatasetMismatchError(f"{paths[0]} needs {paths[1].name} beside it; put it there.")
    return paths


def open_tiered_pickles(images_path: Path, labels_path: Path) -> ImageSet:
    """A list of encoded pictures, and a dict of ``label_specific`` (n_images,) and ``label_specific_str``."""
    encoded = load_arrays(images_path)
    content = _text_keys(load_arrays(labels_path), labels_path, ("label_specific", "label_specific_str"))
    with _reading(labels_path):
        labels = _integers(content["label_specific"])
        classes = tuple(_text(name) for name in content["label_specific_str"])
    with _reading(images_path):
        pictures = tuple(np.asarray(picture, dtype=np.uint8).tobytes() for picture in encoded)
    if len(encoded) != len(labels):
        raise DatasetMismatchError(
            f"{images_path} has {len(encoded)} pictures and {labels_path} {len(labels)} labels; download both again."
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < len(classes):
        raise DatasetMismatchError(f"{labels_path} uses labels without a name; download it again.")
    return ImageSet(
        name=str(images_path),
        classes=classes,
        labels=labels,
        items=tuple(f"{images_path.name}#{index}" for index in range(len(labels))),
        source=EncodedImages(images_path, pictures, tuple(range(len(labels)))),
    )


def _text_keys(content: Any, path: Path, needed: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(content, dict):
        content = {_text(key): value for key, value in content.items()}
        if set(needed) <= set(content):
            return content
    raise DatasetMismatchError(f"{path} is not a dict with {' and '.join(needed)}; download it again.")


def _reading(path: Path) -> AbstractContextManager[None]:
    return reading(path, "a dataset's pickle", "Download it again.", DatasetMismatchError)


def _integers(values: Any) -> NDArray[np.int64]:
    """Whole numbers (n,); an empty list is one of none."""
    numbers = np.asarray(values)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise ValueError(f"{numbers.dtype} of shape {numbers.shape} are not row numbers")
    return numbers.astype(np.int64)


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
