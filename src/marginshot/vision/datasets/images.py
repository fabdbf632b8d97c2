"""Labelled pictures of one split, in files, arrays or encoded bytes."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from marginshot.data.pictures import UnreadablePictureError, pillow_silenced, read_picture


class CorruptImageError(ValueError):
    """A picture that cannot be decoded."""


class ImageSource(Protocol):
    """A source of pictures: files, arrays, or encoded bytes."""

    def read(self, index: int) -> Image.Image:
        """Picture ``index`` in RGB; raises CorruptImageError."""
        ...

    def fingerprint(self) -> str:
        """A hash that changes when a picture changes."""
        ...

    def select(self, rows: NDArray[np.int64]) -> ImageSource:
        """A source with only ``rows``, in that order."""
        ...


@dataclass(frozen=True)
class ImageSet:
    """Pictures with their classes.

    Parameters
    ----------
    name : str
        Dataset and split, for messages and feature files.
    classes : tuple of str
        Class names.
    labels : ndarray of int64 of shape (n_images,)
        Index of each picture's class in ``classes``.
    items : tuple of str
        Name of each picture, usually its path inside the dataset.
    source : ImageSource
        Reads the pictures.
    """

    name: str
    classes: tuple[str, ...]
    labels: NDArray[np.int64]
    items: tuple[str, ...]
    source: ImageSource

    def __len__(self) -> int:
        return len(self.labels)

    def counts(self) -> NDArray[np.int64]:
        """Number of pictures of each class, shape (n_classes,)."""
        return np.bincount(self.labels, minlength=len(self.classes))

    def select(self, rows: NDArray[np.int64]) -> ImageSet:
        """All classes, with only the pictures ``rows``."""
        items = tuple(self.items[row] for row in rows)
        return replace(self, labels=self.labels[rows], items=items, source=self.source.select(rows))

    def keep_classes(self, names: Iterable[str]) -> ImageSet:
        """Only the classes ``names``, in that order."""
        names = tuple(names)
        position = {name: index for index, name in enumerate(names)}
        new_label = np.array([position.get(name, -1) for name in self.classes], dtype=np.int64)
        rows = np.flatnonzero(new_label[self.labels] >= 0)
        kept = self.select(rows)
        return replace(kept, classes=names, labels=new_label[kept.labels])


@dataclass(frozen=True)
class FileImages:
    """One file per picture."""

    root: Path
    names: tuple[str, ...]

    def read(self, index: int) -> Image.Image:
        """Picture ``index`` in RGB."""
        path = self.root / self.names[index]
        try:
            return read_picture(path)
        except UnreadablePictureError as error:
            raise _corrupt(str(path), error) from error

    def fingerprint(self) -> str:
        """A hash of the files' sizes and times."""
        return _digest([repr([_size_and_time(self.root / name) for name in self.names]).encode()])

    def select(self, rows: NDArray[np.int64]) -> FileImages:
        """Only ``rows``."""
        return replace(self, names=tuple(self.names[row] for row in rows))


@dataclass(frozen=True)
class ArrayImages:
    """Pictures as one array of uint8 of shape (n_images, H, W, 3) or (n_images, H, W)."""

    pixels: NDArray[np.uint8]

    def read(self, index: int) -> Image.Image:
        """Picture ``index`` in RGB."""
        return Image.fromarray(self.pixels[index]).convert("RGB")

    def fingerprint(self) -> str:
        """A hash of the pixels."""
        return _digest([repr(self.pixels.shape).encode(), np.ascontiguousarray(self.pixels).data])

    def select(self, rows: NDArray[np.int64]) -> ArrayImages:
        """Only ``rows``."""
        return ArrayImages(self.pixels[rows])


@dataclass(frozen=True)
class EncodedImages:
    """Pictures as PNG or JPEG bytes in memory, all from the file ``origin``."""

    origin: Path
    encoded: tuple[bytes, ...]
    positions: tuple[int, ...]

    def read(self, index: int) -> Image.Image:
        """Picture ``index`` in RGB."""
        try:
            return read_picture(io.BytesIO(self.encoded[index]))
        except UnreadablePictureError as error:
            raise _corrupt(f"Entry {self.positions[index]} of {self.origin}", error) from error

    def fingerprint(self) -> str:
        """A hash of the bytes."""
        return _digest(self.encoded)

    def select(self, rows: NDArray[np.int64]) -> EncodedImages:
        """Only ``rows``."""
        encoded = tuple(self.encoded[row] for row in rows)
        return replace(self, encoded=encoded, positions=tuple(self.positions[row] for row in rows))


def _size_and_time(path: Path) -> tuple[int, int] | None:
    """Size and time of a file; None if it cannot be opened, such as a broken link, which reading reports."""
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_size, state.st_mtime_ns


def _digest(parts: Iterable[bytes | memoryview]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def drop_corrupt(images: ImageSet) -> tuple[ImageSet, tuple[str, ...]]:
    """Decode every picture once; returns the set without those that fail, and the problem of each of them."""
    good: list[int] = []
    problems: list[str] = []
    with pillow_silenced():
        for index in range(len(images)):
            try:
                images.source.read(index)
            except CorruptImageError as error:
                problems.append(str(error))
            else:
                good.append(index)
    return images.select(np.array(good, dtype=np.int64)), tuple(problems)


def _corrupt(what: str, error: UnreadablePictureError) -> CorruptImageError:
    return CorruptImageError(f"{what} {error}; repair or remove it, or skip it.")
