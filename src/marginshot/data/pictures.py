"""Reading one picture: any format, the right way up, grey and transparent ones included."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

if TYPE_CHECKING:
    from PIL import Image

#: What counts as a picture when a folder is searched.
PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".ppm", ".pgm"})

# Pixels a side, far more than encoders look at.
_ENOUGH_PIXELS = 1024

_ORIENTATION = 0x0112  # EXIF's tag


def is_picture(path: Path) -> bool:
    """Whether a file's name is that of a picture, and not hidden."""
    return path.suffix.lower() in PICTURE_SUFFIXES and not path.name.startswith(".")


class UnreadablePictureError(ValueError):
    """What was meant to be a picture cannot be read as one."""


def read_picture(source: Path | BinaryIO, enough: int = _ENOUGH_PIXELS) -> Image.Image:
    """The picture in RGB: turned as its EXIF tag says, grey widened, transparency on white, first frame only.

    JPEGs are decoded at a fraction of their size as long as ``enough`` pixels a side remain.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(source) as image:
            image.draft(None, (enough, enough))
            image.load()
            return _upright(_as_rgb(image), image.getexif().get(_ORIENTATION))
    except UnidentifiedImageError as error:
        raise UnreadablePictureError("cannot be read as a picture (of no known format)") from error
    except Exception as error:
        # Of a damaged file each of Pillow's many readers may raise anything.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if isinstance(source, Path):
            reason = reason.replace(str(source), source.name)
        raise UnreadablePictureError(f"cannot be read as a picture ({reason})") from error


@contextmanager
def pillow_silenced() -> Iterator[None]:
    """Pillow warns about odd metadata and large pictures, then reads them well.

    Around all reading, not each picture: filters of warnings belong to the process, and threads that set and restore
    them leave them in disorder.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


def _upright(image: Image.Image, orientation: int | None) -> Image.Image:
    """Turned as its tag says. Pillow's own function writes all tags anew as well, and stops at odd ones."""
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return image.transpose(turns[orientation]) if orientation in turns else image


def _as_rgb(image: Image.Image) -> Image.Image:
    from PIL import Image

    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        # Pillow's own conversion would clip more than 8 bits a pixel to white.
        values = np.nan_to_num(np.asarray(image, dtype=np.float64), nan=0.0, posinf=0.0)
        brightest = float(values.max(initial=0.0))
        white = max(brightest, 1.0)
        if image.mode != "F":
            # Cameras keep 10, 12 or 14 bits in files of 16.
            white = next((2.0**bits - 1.0 for bits in (8, 10, 12, 14, 16) if brightest < 2.0**bits), brightest)
        image = Image.fromarray((np.clip(values / white, 0.0, 1.0) * 255.0).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return image.convert("RGB")
