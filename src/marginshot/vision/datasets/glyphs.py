"""glyphs: characters of several alphabets drawn from the fonts inside matplotlib; nothing to download."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.ft2font import FT2Font
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from marginshot.vision.datasets.images import ArrayImages, ImageSet

IMAGE_SIZE = 32
IMAGES_PER_CLASS = 60
_CANVAS = 4 * IMAGE_SIZE
_FONT_SIZE = 72
_FACES = (
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
)


def draw_glyphs(classes: tuple[str, ...], name: str, seed: int = 0, per_class: int = IMAGES_PER_CLASS) -> ImageSet:
    """Draw ``per_class`` pictures of each character in ``classes``.

    The pictures of a class depend on ``seed`` and on its character only, so any subset of the classes gives the same
    bytes.

    Parameters
    ----------
    classes : tuple of str
        Characters, each written as its code point, like ``"U+0533"``.
    name : str
        Name of the set.
    seed : int, default=0
        Seed of all random choices.
    per_class : int, default=60
        Pictures per character.

    Returns
    -------
    ImageSet
        White characters on black, 32x32 pixels.
    """
    pixels = np.concatenate([_draw_class(code_point, seed, per_class) for code_point in classes])
    items = tuple(f"{code_point}/{index:03d}" for code_point in classes for index in range(per_class))
    labels = np.repeat(np.arange(len(classes), dtype=np.int64), per_class)
    return ImageSet(name=name, classes=classes, labels=labels, items=items, source=ArrayImages(pixels))


def _draw_class(code_point: str, seed: int, per_class: int) -> NDArray[np.uint8]:
    """All pictures of one character, uint8 of shape (per_class, 32, 32)."""
    code = int(code_point.removeprefix("U+"), 16)
    fonts = _fonts_with(code)
    if not fonts:
        raise ValueError(f"No font inside matplotlib {matplotlib.__version__} has the character {code_point}.")
    rng = np.random.default_rng([seed, code])
    return np.stack([_draw_one(chr(code), fonts[rng.integers(len(fonts))], rng) for _ in range(per_class)])


def _draw_one(character: str, font: ImageFont.FreeTypeFont, rng: np.random.Generator) -> NDArray[np.uint8]:
    """One deformed picture of shape (32, 32): stroke, turn, slant, scale, shift, bent corners, contrast, noise."""
    canvas = Image.new("L", (_CANVAS, _CANVAS))
    stroke = float(rng.choice([0.0, 0.0, 1.0, 2.0]))
    centre = _CANVAS / 2
    ImageDraw.Draw(canvas).text((centre, centre), character, fill=255, font=font, anchor="mm", stroke_width=stroke)
    canvas = _centred(canvas)
    bent = canvas.transform(
        canvas.size, Image.Transform.QUAD, data=_bent_corners(rng), resample=Image.Resampling.BILINEAR
    )
    small = np.asarray(bent.reduce(_CANVAS // IMAGE_SIZE), dtype=np.float64)
    noisy = small * rng.uniform(0.4, 1.0) + rng.normal(0.0, rng.uniform(5.0, 50.0), small.shape)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def _centred(canvas: Image.Image) -> Image.Image:
    """The drawing moved to the middle: fonts place letters on a baseline, which would give the class away."""
    box = canvas.getbbox()
    if box is None:
        return canvas
    left, top, right, bottom = box
    shifted = Image.new("L", canvas.size)
    shifted.paste(canvas.crop(box), ((_CANVAS - (right - left)) // 2, (_CANVAS - (bottom - top)) // 2))
    return shifted


def _bent_corners(rng: np.random.Generator) -> tuple[float, ...]:
    """Source corners of the picture (upper left, lower left, lower right, upper right) as eight numbers."""
    corners = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, 1.0], [1.0, -1.0]])
    angle = rng.normal(0.0, 0.25)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    slant = np.array([[1.0, rng.normal(0.0, 0.25)], [0.0, 1.0]])
    scale = np.diag(rng.uniform(0.5, 1.15, size=2))
    corners = corners @ (turn @ slant @ scale).T
    corners += rng.normal(0.0, 0.1, size=2) + rng.normal(0.0, 0.15, size=(4, 2))
    points: NDArray[np.float64] = (corners + 1.0) * _CANVAS / 2
    return tuple(float(value) for value in points.ravel())


@cache
def _fonts_with(code: int) -> tuple[ImageFont.FreeTypeFont, ...]:
    return tuple(_font(face) for face in _FACES if code in _characters(face))


@cache
def _font(face: str) -> ImageFont.FreeTypeFont:
    # The basic layout engine is part of every Pillow; Raqm would draw Hebrew elsewhere on some machines.
    return ImageFont.truetype(_font_file(face), _FONT_SIZE, layout_engine=ImageFont.Layout.BASIC)


@cache
def _characters(face: str) -> frozenset[int]:
    return frozenset(FT2Font(str(_font_file(face))).get_charmap())


def _font_file(face: str) -> Path:
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{face}.ttf"
