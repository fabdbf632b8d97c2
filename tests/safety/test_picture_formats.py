"""Only decoders of the formats we name see a file (issue 31): PostScript called .jpg would go to Ghostscript."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

Image = pytest.importorskip("PIL.Image", reason="pictures need the extra vision")

from marginshot.data.pictures import UnreadablePictureError, picture_suffixes, read_picture  # noqa: E402

_POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(ran) print\nshowpage\n%%EOF\n"


def test_postscript_is_not_handed_to_ghostscript(tmp_path, monkeypatch):
    from PIL import EpsImagePlugin

    ran = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: ran.append("gs") or Image.new("RGB", (9, 9)).im)
    (tmp_path / "x.jpg").write_bytes(_POSTSCRIPT)
    with pytest.raises(UnreadablePictureError, match="of no known format"):
        read_picture(tmp_path / "x.jpg")
    assert ran == []


@pytest.mark.parametrize("kind", ["PCX", "TGA", "ICO", "SGI", "MSP", "XBM", "PDF"])
def test_formats_that_nobody_asked_for_are_not_read(tmp_path, kind):
    image = Image.new("1" if kind in ("XBM", "MSP") else "L", (16, 16))
    image.save(tmp_path / "x.png", kind)
    with pytest.raises(UnreadablePictureError, match="of no known format"):
        read_picture(tmp_path / "x.png")


@pytest.mark.parametrize("suffix", sorted(picture_suffixes()))
def test_every_suffix_we_take_is_read(tmp_path, suffix):
    if suffix in (".heic", ".heif", ".hif", ".avif"):
        pytest.importorskip("pillow_heif", reason="needs the extra heif")
        import pillow_heif

        pillow_heif.register_heif_opener()
    buffer = io.BytesIO()
    kind = {".hif": "HEIF", ".heic": "HEIF"}.get(suffix) or Image.registered_extensions()[suffix]
    Image.new("L" if suffix == ".pgm" else "RGB", (32, 32)).save(buffer, kind)
    Path(tmp_path / f"x{suffix}").write_bytes(buffer.getvalue())
    assert read_picture(tmp_path / f"x{suffix}").size == (32, 32)


def test_several_pictures_in_one_jpeg_are_read(tmp_path):
    frames = [Image.new("RGB", (32, 32), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "x.mpo", "MPO", save_all=True, append_images=frames[1:])
    shutil.copy(tmp_path / "x.mpo", tmp_path / "x.jpg")
    assert read_picture(tmp_path / "x.jpg").getpixel((0, 0))[0] > 200
