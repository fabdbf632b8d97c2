"""Reading one picture: any format, the right way up, grey and transparent ones included; and its thumbnail."""

from __future__ import annotations

import base64
import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from PIL import Image

#: What counts as a picture when a folder is searched.
PICTURE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif"})

# Pixels a side, far more than encoders look at.
_ENOUGH_PIXELS = 1024


class UnreadableItemError(ValueError):
    """An item whose content cannot be used; it is reported and left out."""


def read_picture(path: Path, enough: int = _ENOUGH_PIXELS) -> Image.Image:
    """The picture in RGB: turned as its EXIF tag says, grey widened, transparency on white, first frame only.

    JPEGs are decoded at a fraction of their size as long as ``enough`` pixels a side remain.
    """
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            # Pillow warns about odd metadata and large pictures, then reads them well.
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                image.draft(None, (enough, enough))
                image.load()
                return _as_rgb(ImageOps.exif_transpose(image))
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        # SyntaxError comes from Pillow's PNG reader.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        reason = reason.replace(str(path), path.name)
        raise UnreadableItemError(f"cannot be read as a picture ({reason})") from error


def _as_rgb(image: Image.Image) -> Image.Image:
    from PIL import Image

    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        # 16 and 32 bits a pixel: Pillow's own conversion would clip them to white.
        values = np.asarray(image, dtype=np.float64)
        largest = 65535.0 if image.mode.startswith("I;16") else max(float(values.max()), 1.0)
        image = Image.fromarray((np.clip(values / largest, 0.0, 1.0) * 255.0).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return image.convert("RGB")


def thumbnail_uri(path: Path, side: int) -> str:
    """A small JPEG of the picture as a ``data:`` address, its longer side at most ``side`` pixels."""
    image = read_picture(path, enough=side)
    image.thumbnail((side, side))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
