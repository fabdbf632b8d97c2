from __future__ import annotations

import hashlib
import subprocess
import sys
import unicodedata

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra vision")

from marginshot.vision.datasets import open_dataset
from marginshot.vision.datasets.glyphs import draw_glyphs
from marginshot.vision.datasets.splits import published_classes

SOME = ("U+0041", "U+0531", "U+10D0", "U+05D0")


def digest(seed: int) -> str:
    return hashlib.sha256(draw_glyphs(SOME, "some", seed).source.pixels.tobytes()).hexdigest()


def test_same_bytes_in_another_process():
    code = (
        "import hashlib; from marginshot.vision.datasets.glyphs import draw_glyphs\n"
        f"print(hashlib.sha256(draw_glyphs({SOME!r}, 'some', 7).source.pixels.tobytes()).hexdigest())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert digest(7) == other
    assert digest(8) != other


def test_a_class_does_not_depend_on_the_others():
    together = draw_glyphs(SOME, "some").source.pixels.reshape(len(SOME), -1, 32, 32)
    np.testing.assert_array_equal(draw_glyphs(SOME[2:3], "one").source.pixels, together[2])


def test_splits_are_disjoint_alphabets():
    splits = published_classes("glyphs")
    assert {name: len(classes) for name, classes in splits.items()} == {"base": 235, "validation": 63, "test": 142}
    alphabets = {
        split: {unicodedata.name(chr(int(name[2:], 16))).split()[0] for name in classes}
        for split, classes in splits.items()
    }
    assert alphabets["validation"] == {"HEBREW", "LAO"}
    assert alphabets["test"] == {"ARMENIAN", "GEORGIAN"}
    assert not alphabets["base"] & (alphabets["validation"] | alphabets["test"])


def test_no_two_characters_look_alike():
    # Latin A, Greek Alpha and Cyrillic A are one picture: only one of them may be a class.
    from PIL import Image, ImageDraw

    from marginshot.vision.datasets.glyphs import _font

    looks = {}
    for name in sum(published_classes("glyphs").values(), ()):
        canvas = Image.new("L", (200, 200))
        text = chr(int(name[2:], 16))
        ImageDraw.Draw(canvas).text((100, 100), text, fill=255, font=_font("DejaVuSans"), anchor="mm")
        cropped = canvas.crop(canvas.getbbox())
        looks.setdefault((cropped.size, cropped.tobytes()), []).append(name)
    assert [names for names in looks.values() if len(names) > 1] == []


def test_every_class_has_its_pictures():
    images = open_dataset("glyphs", None, "validation")
    assert set(images.counts()) == {60}
    assert images.source.read(0).size == (32, 32)
    # Many faces and deformations: no two pictures of a class are the same.
    assert len({pixels.tobytes() for pixels in images.source.pixels[:60]}) == 60
