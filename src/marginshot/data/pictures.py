"""Reading one picture: any format, the right way up, grey and transparent ones included."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from marginshot._lib.reading import UnreadableError

if TYPE_CHECKING:
    from PIL import Image

# Suffixes of pictures that every Pillow reads.
_ALWAYS_READ = frozenset({".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".ppm", ".pgm"})
_HEIF = frozenset({".heic", ".heif", ".hif"})
_AVIF = frozenset({".avif"})

# Pillow's formats of these; its reader of JPEG knows those with several pictures.
_READ = ("JPEG", "PNG", "WEBP", "TIFF", "BMP", "DIB", "GIF", "PPM", "HEIF", "AVIF")

_VIDEO = frozenset({".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".3gp"})
_RAW = frozenset({".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf"})

#: Files beside pictures that are not read, and what they are or what would read them.
NOT_READ = (
    (_HEIF, "to read them: pip install 'marginshot[heif]'"),
    (_AVIF, "to read them: pip install 'pillow>=11.3'"),
    (_VIDEO, "video"),
    (_RAW, "raw camera files: export them as JPEG"),
)

# Pixels a side, far more than encoders use.
_ENOUGH_PIXELS = 1024

# Longest a picture may be, in units of its shorter side. Encoders enlarge that to 224 to 512 pixels and take
# the middle square: a file of 118 bytes with 1 x 20,000 pixels would become 224 x 4,480,000. Panoramas stay below 30.
_LONGEST = 64

_ORIENTATION = 0x0112  # EXIF's tag

# Most memory and pixels of a decoded picture. Scans of 196 million pixels pass in every common mode; a small file that
# unpacks to more is refused.
_MOST_BYTES = 3 * 2**29
_MOST_PIXELS = 2**28
_MOST_PIXELS_REDUCED = 2**30  # of a JPEG, which is decoded at a fraction of its size

# Larger pictures are decoded one at a time, whatever the number of threads, and made smaller at once.
_LARGE_BYTES = 2**27
_LARGE = 2**25  # pixels
_one_large_picture = threading.Lock()

# Bytes a pixel takes while it is decoded and made smaller, by Pillow's mode.
_BYTES_PER_PIXEL = {"1": 2, "L": 1, "P": 5, "I;16": 6, "I;16B": 6, "I": 4, "F": 4, "RGB": 4, "CMYK": 8, "YCbCr": 8}
_MOST_BYTES_PER_PIXEL = 8
_BYTES_PER_ROW = 16  # Pillow's pointer to each row, and what fills a row of few pixels up
_BYTES_PER_PIXEL_OF_PROGRESSIVE_JPEG = 6  # all coefficients of the whole picture


@cache
def picture_suffixes() -> frozenset[str]:
    """Suffixes of the pictures that can be read here: HEIC where pillow-heif is installed, AVIF where Pillow has it."""
    suffixes = _ALWAYS_READ
    if find_spec("pillow_heif") is not None:
        suffixes |= _HEIF
    if find_spec("PIL") is not None:
        from PIL import features

        suffixes |= _AVIF if "avif" in features.get_supported_modules() else frozenset()
    return suffixes


def is_picture(path: Path) -> bool:
    """Whether a file's name is that of a picture, and not hidden."""
    return path.suffix.lower() in picture_suffixes() and not path.name.startswith(".")


@cache
def pillow_version() -> str:
    """What reads pictures here; another version of it may read what this one cannot."""
    try:
        return f"Pillow {version('pillow')}"
    except PackageNotFoundError:
        return "no Pillow"


def is_video(path: Path) -> bool:
    """Whether a file's name is that of a video."""
    return path.suffix.lower() in _VIDEO


@cache
def _formats() -> tuple[str, ...]:
    """Pillow's names of the formats that are read, whatever a file is called; from here on Pillow opens HEIC as well.

    Pillow hands PostScript to Ghostscript, and has dozens of other readers that no picture here needs.
    """
    from PIL import Image

    if find_spec("pillow_heif") is not None:
        from pillow_heif import register_heif_opener

        register_heif_opener()
    Image.init()
    return tuple(name for name in _READ if name in Image.OPEN)


class UnreadablePictureError(UnreadableError):
    """A file or its bytes cannot be read as a picture."""


@contextmanager
def open_picture(source: Path) -> Iterator[Image.Image]:
    """A picture whose head alone is read until more is asked for; raises whatever Pillow raises."""
    from PIL import Image

    with Image.open(source, formats=_formats()) as image:
        yield image


def read_info(source: Path) -> dict[str, Any]:
    """What a picture says of itself in Pillow's terms, such as ``xmp``; empty where it cannot be opened."""
    try:
        with open_picture(source) as image:
            return {name: value for name, value in image.info.items() if isinstance(name, str)}
    except (OSError, ValueError, SyntaxError):
        return {}


def read_picture(source: Path | BinaryIO, enough: int = _ENOUGH_PIXELS) -> Image.Image:
    """The picture in RGB: turned as its EXIF tag says, grey widened, transparency on white, first frame only.

    JPEGs are decoded at a fraction of their size as long as ``enough`` pixels a side remain; other pictures of more
    than 33 million pixels are reduced to that. One that would take more memory than a large scan is not decoded. Of one
    more than 64 times as long as it is wide the middle is taken.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(source, formats=_formats()) as image:
            whole = image.size
            image.draft(None, (enough, enough))
            n_bytes = _check_size(image, whole)
            with _one_large_picture if n_bytes > _LARGE_BYTES else nullcontext():
                image.load()
                orientation = image.getexif().get(_ORIENTATION)
                return _upright(_as_rgb(_reduced(_middle(image), enough)), orientation)
    except UnreadablePictureError:
        raise
    except UnidentifiedImageError as error:
        raise UnreadablePictureError("cannot be read as a picture (of no known format)") from error
    except Image.DecompressionBombError as error:
        reason = str(error).partition(",")[0]
        raise UnreadablePictureError(f"is too large to be read ({reason}); save it smaller") from error
    except Exception as error:
        # Pillow's readers may raise anything for a damaged file.
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if isinstance(source, Path):
            reason = reason.replace(str(source), source.name)
        raise UnreadablePictureError(f"cannot be read as a picture ({reason})") from error


def _check_size(image: Image.Image, whole: tuple[int, int]) -> int:
    """Bytes that decoding takes; raises if the picture needs more memory or time than an ordinary large scan.

    ``whole`` is the size in the file; a JPEG may be decoded at a fraction of it.
    """
    n_pixels = math.prod(image.size)
    n_bytes = n_pixels * _BYTES_PER_PIXEL.get(image.mode, _MOST_BYTES_PER_PIXEL)
    if image.format in ("WEBP", "HEIF", "AVIF"):
        n_bytes = n_pixels * _MOST_BYTES_PER_PIXEL  # their readers hold the picture twice
    n_bytes += image.height * _BYTES_PER_ROW
    if image.info.get("progressive"):
        n_bytes += math.prod(whole) * _BYTES_PER_PIXEL_OF_PROGRESSIVE_JPEG
    most_pixels = _MOST_PIXELS_REDUCED if image.size != whole else _MOST_PIXELS
    if n_bytes > _MOST_BYTES or math.prod(whole) > most_pixels:
        raise UnreadablePictureError(
            f"is too large to be read: {whole[0]:,} x {whole[1]:,} pixels would take {n_bytes / 1e9:.1f} GB; at most "
            f"{_MOST_BYTES / 1e9:.1f} GB and {most_pixels:,} pixels are allowed; save it smaller"
        )
    return n_bytes


def _middle(image: Image.Image) -> Image.Image:
    """The middle of a picture that is longer than `_LONGEST` allows; others are not changed."""
    most = _LONGEST * min(image.size)
    if max(image.size) <= most:
        return image
    left, top = (max(side - most, 0) // 2 for side in image.size)
    return image.crop((left, top, left + min(image.width, most), top + min(image.height, most)))


def _reduced(image: Image.Image, enough: int) -> Image.Image:
    """Reduce a large picture to no fewer than ``enough`` pixels a side; others are not changed."""
    factor = min(image.size) // enough
    if math.prod(image.size) <= _LARGE or factor < 2:
        return image
    if image.mode in ("1", "P", "PA"):
        image = image.convert("L" if image.mode == "1" else "RGBA" if "transparency" in image.info else "RGB")
    elif image.mode.startswith("I;16"):
        image = image.convert("I")
    return image.reduce(factor)


@contextmanager
def pillow_silenced() -> Iterator[None]:
    """Silence Pillow's warnings about odd metadata and large pictures, which `read_picture` handles.

    Pillow's limit is turned off too: it refuses ordinary scans and does not bound memory; `_check_size` does. Filters
    and limit belong to the process, not to a thread: the first thread that reads sets them, the last restores them.
    """
    _settings_of_pillow.enter()
    try:
        yield
    finally:
        _settings_of_pillow.leave()


class _SharedSettings:
    """Settings of Pillow, shared by all threads that read at the same time."""

    def __init__(self) -> None:
        self._lock, self._n_readers, self._stack = threading.Lock(), 0, ExitStack()

    def enter(self) -> None:
        with self._lock:
            if not self._n_readers:
                self._stack.enter_context(_own_settings())
            self._n_readers += 1

    def leave(self) -> None:
        with self._lock:
            self._n_readers -= 1
            if not self._n_readers:
                self._stack.close()


_settings_of_pillow = _SharedSettings()


@contextmanager
def _own_settings() -> Iterator[None]:
    try:
        from PIL import Image
    except ImportError:  # without Pillow no pictures are read
        yield
        return
    usual, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"PIL\.")
            yield
    finally:
        Image.MAX_IMAGE_PIXELS = usual


def _upright(image: Image.Image, orientation: int | None) -> Image.Image:
    """Rotate as the EXIF tag says. Pillow's own function also rewrites all tags, and fails on odd ones."""
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
