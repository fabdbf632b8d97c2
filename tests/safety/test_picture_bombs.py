"""Pictures that unpack to far more than they are: refused, in our words, before a pixel is decoded."""

import struct
import threading
import zlib

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="pictures need the extra pictures")

from marginshot.data import pictures  # noqa: E402
from marginshot.data.pictures import UnreadablePictureError, pillow_silenced, read_picture  # noqa: E402


def write_png_header(path, width, height, colour=2):
    """A PNG that claims a size and holds next to nothing."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunks)


@pytest.mark.parametrize(
    ("width", "height", "colour"), [(30_000, 30_000, 2), (100_000, 100_000, 0), (20_000, 14_000, 6)]
)
def test_a_bomb_is_told_by_its_size(tmp_path, width, height, colour):
    write_png_header(tmp_path / "bomb.png", width, height, colour)
    with pillow_silenced(), pytest.raises(UnreadablePictureError, match=r"is too large to be read: .* save it smaller"):
        read_picture(tmp_path / "bomb.png")


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "I;16", "CMYK"])
def test_a_scan_of_196_megapixels_is_within_the_limit(tmp_path, mode):
    image = Image.new(mode if mode != "I;16" else "I;16", (8, 8))
    assert (
        196_000_000 * pictures._BYTES_PER_PIXEL.get(image.mode, pictures._MOST_BYTES_PER_PIXEL) < pictures._MOST_BYTES
    )
    assert pictures._MOST_PIXELS > 196_000_000


def test_memory_is_counted_by_mode(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "_MOST_BYTES", 4 * 64 * 64)
    Image.new("RGB", (64, 64)).save(tmp_path / "colour.png")
    Image.new("L", (64, 64)).save(tmp_path / "grey.png")
    assert read_picture(tmp_path / "grey.png").size == (64, 64)
    with pytest.raises(UnreadablePictureError, match="is too large to be read: 64 x 64 pixels"):
        read_picture(tmp_path / "colour.png")


def test_a_jpeg_is_measured_by_what_is_decoded_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "_MOST_BYTES", 5 * 256 * 256)
    Image.new("RGB", (1024, 1024)).save(tmp_path / "plain.jpg")
    Image.new("RGB", (1024, 1024)).save(tmp_path / "progressive.jpg", progressive=True)
    assert read_picture(tmp_path / "plain.jpg", enough=128).size == (128, 128)
    with pytest.raises(UnreadablePictureError, match="is too large to be read: 1,024 x 1,024 pixels"):
        read_picture(tmp_path / "progressive.jpg", enough=128)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "I;16", "CMYK", "I"])
def test_a_large_picture_made_smaller_still_looks_the_same(tmp_path, monkeypatch, mode):
    wave = (np.sin(np.linspace(0, 3, 400))[:, None] * np.cos(np.linspace(0, 2, 600)) * 120 + 128).astype(np.uint8)
    grey = Image.fromarray(wave)
    image = Image.fromarray(wave.astype(np.uint16) * 256) if mode in ("I;16", "I") else grey.convert(mode)
    path = tmp_path / ("x.tif" if mode == "CMYK" else "x.png")
    image.save(path)
    whole = read_picture(path)
    monkeypatch.setattr(pictures, "_LARGE", 1000)
    reduced = read_picture(path, enough=50)
    assert reduced.size == (75, 50)
    expected = np.asarray(whole.reduce(8)).astype(int)
    assert np.abs(np.asarray(reduced).astype(int) - expected).max() <= 3


def test_large_pictures_are_decoded_one_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "_LARGE_BYTES", 0)
    Image.new("RGB", (64, 64)).save(tmp_path / "x.png")
    done = threading.Event()
    with pictures._one_large_picture:
        thread = threading.Thread(target=lambda: (read_picture(tmp_path / "x.png"), done.set()))
        thread.start()
        assert not done.wait(0.2)
    thread.join()
    assert done.is_set()


def test_pillows_limit_is_off_until_the_last_reader_ends():
    before = Image.MAX_IMAGE_PIXELS
    first, second = pillow_silenced(), pillow_silenced()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert Image.MAX_IMAGE_PIXELS is None
    second.__exit__(None, None, None)
    assert before == Image.MAX_IMAGE_PIXELS


def test_pillows_own_limit_is_as_before_afterwards():
    before = Image.MAX_IMAGE_PIXELS
    with pillow_silenced():
        assert Image.MAX_IMAGE_PIXELS is None
    assert before == Image.MAX_IMAGE_PIXELS
