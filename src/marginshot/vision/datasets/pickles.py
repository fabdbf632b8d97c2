"""Layouts of pickled datasets."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.reading import read_npz, reading
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
    pixels, rows_of = _pictures(content["image_data"], path), content["class_dict"]
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


_CATEGORY_WORD = {"base": "train_phase_train", "validation": "val", "test": "test"}


def find_category_split(root: Path, split: str) -> Path | None:
    """``miniImageNet_category_split_*.pickle`` in ``root``, as Gidaris and MetaOptNet publish it."""
    path = root / f"miniImageNet_category_split_{_CATEGORY_WORD[split]}.pickle"
    return path if path.is_file() else None


def open_category_split(path: Path) -> ImageSet:
    """A dict of ``data``, uint8 (n_images, H, W, 3), and ``labels``; ``catname2label`` names them where it is there."""
    content = _text_keys(load_arrays(path), path, ("data", "labels"))
    with _reading(path):
        names = {int(label): _text(name) for name, label in dict(content.get("catname2label", {})).items()}
        return _labelled_pictures(_pictures(content["data"], path), _integers(content["labels"]), names, path)


def find_tiered_archives(root: Path, split: str) -> tuple[Path, Path] | None:
    """``{train,val,test}_images.npz`` with ``*_labels.pkl`` in ``root``."""
    word = _FILE_WORD[split]
    return _with_labels(root / f"{word}_images.npz", root / f"{word}_labels.pkl")


def open_tiered_archives(images_path: Path, labels_path: Path) -> ImageSet:
    """An array ``images``, uint8 (n_images, H, W, 3), a dict with ``labels`` or ``label_specific`` (n_images,)."""
    arrays = read_npz(images_path, "an archive of pictures", "Download it again.", DatasetMismatchError)
    if "images" not in arrays:
        raise DatasetMismatchError(f"{images_path} has no array images; download it again.")
    content = _text_keys(load_arrays(labels_path), labels_path, ())
    with _reading(labels_path):
        labels = _integers(content["labels"] if "labels" in content else content["label_specific"])
        words = [_text(name) for name in content.get("label_specific_str", ())]
    return _labelled_pictures(_pictures(arrays["images"], images_path), labels, dict(enumerate(words)), images_path)


def _labelled_pictures(
    pixels: NDArray[np.uint8], labels: NDArray[np.int64], names: dict[int, str], path: Path
) -> ImageSet:
    """Pictures (n_images, H, W, 3) with ``labels`` (n_images,); a label without a name is called by its number."""
    if len(pixels) != len(labels):
        raise DatasetMismatchError(f"{path} has {len(pixels)} pictures but {len(labels)} labels; download it again.")
    used, codes = np.unique(labels, return_inverse=True)
    classes = tuple(names.get(label, str(label)) for label in used.tolist())
    if len(set(classes)) < len(classes):
        raise DatasetMismatchError(f"{path} gives two of its classes one name; download it again.")
    return ImageSet(
        name=str(path),
        classes=classes,
        labels=codes.astype(np.int64),
        items=tuple(f"{path.name}#{row}" for row in range(len(labels))),
        source=ArrayImages(pixels),
    )


def _pictures(pixels: Any, path: Path) -> NDArray[np.uint8]:
    if not (isinstance(pixels, np.ndarray) and pixels.dtype == np.uint8 and pixels.ndim == 4):
        raise DatasetMismatchError(f"{path} does not hold an array of uint8 pictures; download it again.")
    return pixels


def find_tiered_pickles(root: Path, split: str) -> tuple[Path, Path] | None:
    """``{train,val,test}_images_png.pkl`` with ``*_labels.pkl`` in ``root``."""
    word = _FILE_WORD[split]
    return _with_labels(root / f"{word}_images_png.pkl", root / f"{word}_labels.pkl")


def _with_labels(images: Path, labels: Path) -> tuple[Path, Path] | None:
    if not images.is_file():
        return None
    if not labels.is_file():
        raise DatasetMismatchError(f"{images} needs {labels.name} beside it; put it there.")
    return images, labels


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
    wanted = " with " + " and ".join(needed) if needed else ""
    raise DatasetMismatchError(f"{path} is not a dict{wanted}; download it again.")


def _reading(path: Path) -> AbstractContextManager[None]:
    return reading(path, "a dataset's pickle", "Download it again.", DatasetMismatchError)


def _integers(values: Any) -> NDArray[np.int64]:
    """An array (n,) of integers; an empty list gives an empty array."""
    numbers = np.asarray(values)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise ValueError(f"{numbers.dtype} of shape {numbers.shape} are not row numbers")
    return numbers.astype(np.int64)


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
