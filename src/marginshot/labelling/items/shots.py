"""What a camera wrote into a picture: when it was taken, by which camera, and whether in colour or by infrared."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from marginshot.data.pictures import open_picture

if TYPE_CHECKING:
    from PIL.Image import Image

# Tags of EXIF.
_PHOTO = 0x8769  # where most of the following are
_TIMES = (0x9003, 0x9004, 0x0132)  # taken, digitised, changed
_FRACTION, _OFFSET, _SERIAL, _MODEL = 0x9291, 0x9011, 0xA431, 0x0110

_TIME = re.compile(r"(\d{4})[:-](\d\d)[:-](\d\d)[ T](\d\d):(\d\d):(\d\d)")
_ZONE = re.compile(r"[+-]\d\d:\d\d")

# Folders that cameras make by themselves, such as DCIM/100RECNX: they do not name the place.
_BY_CAMERA = re.compile(r"dcim|\d{3}[a-z0-9_]{2,5}", re.IGNORECASE)

_SIDE = 64  # pixels of a picture that are looked at for its colours
# Mean distance of the channels, of 255, below which a picture is taken for infrared. Grey pictures saved as JPEG in
# colour have 0 to 1, dim forests in colour 6 and more.
_COLOUR = 3.0


@dataclass(frozen=True)
class Shot:
    """What a camera recorded with a picture.

    Parameters
    ----------
    time : datetime, optional
        On the camera's clock, which may be wrong; None where there is none.
    offset : str
        Of that clock from UTC, such as ``+01:00``; empty where not known.
    serial, model : str
        Of the camera; empty where not known.
    """

    time: datetime | None = None
    offset: str = ""
    serial: str = ""
    model: str = ""


def read_shot(path: Path) -> Shot:
    """Time, serial number and model in the EXIF tags of a picture; empty where tags are missing or damaged."""
    try:
        with open_picture(path) as image:
            tags = image.getexif()
            inner = tags.get_ifd(_PHOTO)
    except Exception:
        # Pillow may raise anything for damaged tags; a picture that cannot be read is reported where it is encoded.
        return Shot()
    values = {tag: _text(inner.get(tag, tags.get(tag))) for tag in (*_TIMES, _FRACTION, _OFFSET, _SERIAL, _MODEL)}
    times = (_read_time(values[tag], values[_FRACTION]) for tag in _TIMES)
    offset = values[_OFFSET] if _ZONE.fullmatch(values[_OFFSET]) else ""
    return Shot(next((time for time in times if time is not None), None), offset, values[_SERIAL], values[_MODEL])


def _text(value: Any) -> str:
    text = value.decode("ascii", "ignore") if isinstance(value, bytes) else str(value or "")
    return "".join(letter for letter in text if letter.isprintable()).strip()[:100]


def _read_time(text: str, fraction: str) -> datetime | None:
    """A time of EXIF; None for one that no clock shows, such as 0000:00:00 00:00:00."""
    match = _TIME.match(text)
    if match is None:
        return None
    digits = fraction[:6] if fraction.isascii() and fraction.isdigit() else ""
    try:
        return datetime(*map(int, match.groups()), microsecond=int(f"{digits:0<6}"))  # type: ignore[arg-type, misc]
    except ValueError:
        return None


def place_of(item: str) -> str:
    """The folder of a picture, without those that cameras make by themselves; empty at the top.

    Examples
    --------
    >>> place_of("north/creek/DCIM/100RECNX/IMG_0001.JPG"), place_of("IMG_0001.JPG")
    ('north/creek', '')
    """
    parts = [*PurePosixPath(item).parts[:-1]]
    while parts and _BY_CAMERA.fullmatch(parts[-1]):
        parts.pop()
    return "/".join(parts)


def in_colour(image: Image) -> bool:
    """Whether a picture in RGB has colours; cameras take infrared pictures at night, which have none."""
    pixels = np.asarray(image.resize((_SIDE, _SIDE)), dtype=np.float32)
    return bool((pixels.max(axis=2) - pixels.min(axis=2)).mean() >= _COLOUR)
