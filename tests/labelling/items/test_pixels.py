"""The encoder that needs no network."""

import numpy as np
from PIL import Image

from marginshot.labelling.items.encoders import PixelEncoder
from marginshot.labelling.items.kinds import PICTURE


def test_grey_values_do_not_depend_on_size_brightness_or_contrast(tmp_path):
    shape = np.zeros((32, 32), dtype=np.uint8)
    shape[8:16, 8:24] = 200
    Image.fromarray(shape).save(tmp_path / "bright.png")
    Image.fromarray(shape // 2 + 50).resize((64, 64), Image.Resampling.NEAREST).convert("RGB").save(
        tmp_path / "dim.png"
    )
    encoder = PICTURE.encoder("pixels")
    assert isinstance(encoder, PixelEncoder)
    encoder.load()
    bright, dim = encoder.encode([encoder.prepare(tmp_path / name) for name in ("bright.png", "dim.png")])
    assert bright.shape == (256,)
    np.testing.assert_allclose(bright, dim, atol=0.06)


def test_a_blank_picture_is_zero(tmp_path):
    Image.new("L", (20, 20), 130).save(tmp_path / "blank.png")
    assert not PixelEncoder().prepare(tmp_path / "blank.png").any()
