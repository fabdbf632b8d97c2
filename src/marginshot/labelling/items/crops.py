"""Boxes in pictures as a kind of item: cut out with a margin, encoded and shown as pictures of their own."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marginshot.data.pictures import picture_suffixes, pillow_silenced, pillow_version, read_picture
from marginshot.labelling.items.detector_formats import WHOLE, Box
from marginshot.labelling.items.encoders import PICTURE_ENCODER, PIXELS, ItemEncoder, PictureEncoder, PixelEncoder
from marginshot.labelling.items.kind import OTHER_CAMERA, Kind
from marginshot.labelling.items.store import file_digest

if TYPE_CHECKING:
    from PIL.Image import Image

# Share of the longer side of a box that is added on each side of it: detectors cut tails and ears. The crop is square,
# because encoders take the middle square of a picture.
_MARGIN = 0.1

# Pixels of the longer side of a box that are read, where the picture has them.
_ENOUGH = 320
_MOST = 2**14  # pixels of a picture's shorter side that are read for a small box

_FRAME = (255, 140, 0)  # orange: seen on leaves, snow and infrared


@dataclass(frozen=True)
class Crop:
    """A box in a picture of the disk."""

    path: Path
    box: Box


def read_crop(content: Crop, enough: int = _ENOUGH) -> Image:
    """What is in a box and its margin, about square, in RGB; raises UnreadablePictureError."""
    box = content.box
    if box == WHOLE:
        return read_picture(content.path)
    largest = max(box.width, box.height)
    image = read_picture(content.path, enough=min(math.ceil(enough / largest), _MOST))
    half = (0.5 + _MARGIN) * max(box.width * image.width, box.height * image.height)
    sides = [
        _within(middle * length, half, length)
        for middle, length in ((box.x + box.width / 2, image.width), (box.y + box.height / 2, image.height))
    ]
    (left, right), (top, bottom) = sides
    return image.crop((left, top, right, bottom))


def _within(middle: float, half: float, length: int) -> tuple[int, int]:
    """A stretch of twice ``half`` around ``middle``, moved into 0 to ``length``; all of that where it is longer."""
    start = min(max(middle - half, 0.0), max(length - 2 * half, 0.0))
    first = min(int(start), length - 1)
    return first, min(max(math.ceil(start + 2 * half), first + 1), length)


@dataclass(frozen=True)
class DetectedBox(Kind):
    """Boxes in pictures; a content is a `Crop`."""

    name = "box"
    plural = "boxes"
    in_folder = True
    has_image = True
    are_pictures = True
    in_boxes = True
    other_source = OTHER_CAMERA
    tag = "Image"

    @property
    def suffixes(self) -> frozenset[str]:
        """Suffixes of the pictures that can be read here."""
        return picture_suffixes()

    def encoder(self, name: str | None = None, device: str = "auto", contents: Any = ()) -> ItemEncoder:
        """The network of that ``name``, or grey values for "pixels", applied to the crops."""
        if name == PIXELS:
            return PixelEncoder(read_crop)
        return PictureEncoder(name or PICTURE_ENCODER, device, read_crop)

    def digest(self, content: Crop) -> str:
        """Hash of the file and the box."""
        found = content.path.stat()
        whole = _digest(content.path, found.st_mtime_ns, found.st_size)
        return whole if content.box == WHOLE else f"{whole}#{content.box.corner}"

    @property
    def reader(self) -> str:
        """Pillow with its version, which reads the pictures."""
        return pillow_version()

    def reading(self) -> AbstractContextManager[None]:
        """Silence Pillow's warnings about readable files."""
        return pillow_silenced()

    def file(self, content: Crop) -> Path:
        """Path of the picture that the box is in."""
        return content.path

    def image(self, content: Crop, side: int) -> Image:
        """The crop, made smaller; raises UnreadablePictureError."""
        image = read_crop(content, side)
        image.thumbnail((side, side))
        return image

    def scene(self, content: Crop, side: int) -> Image:
        """The whole picture with a frame around the box."""
        from PIL import ImageDraw

        image = read_picture(content.path, enough=side)
        image.thumbnail((side, side))
        if content.box != WHOLE:
            box, line = content.box, max(2, max(image.size) // 200)
            corners = [box.x * image.width, box.y * image.height]
            corners += [corners[0] + box.width * image.width, corners[1] + box.height * image.height]
            ImageDraw.Draw(image).rectangle(corners, outline=_FRAME, width=line)
        return image

    def exported(self, item: str, content: Crop) -> str:
        """The whole path of the picture."""
        return str(content.path.absolute())


@lru_cache(maxsize=8)
def _digest(path: Path, moment: int, size: int) -> str:
    """Hash of a file that has this time and size."""
    return file_digest(path)
