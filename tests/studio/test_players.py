"""What a player is sent: a sound, or the part of it that it asks for."""

import numpy as np
import pytest

pytest.importorskip("soundfile")
pytest.importorskip("starlette")

import soundfile
from starlette.requests import Request

from marginshot.data.sounds import Clip
from marginshot.labelling.items.sounds import SOUND
from marginshot.studio.responses import in_part
from marginshot.studio.thumbnails import Thumbnails


def ask(asked=""):
    headers = [(b"range", asked.encode())] if asked else []
    return in_part(Request({"type": "http", "headers": headers}), b"0123456789", "audio/wav")


@pytest.mark.parametrize(
    ("asked", "status", "body"),
    [
        ("", 200, b"0123456789"),
        ("bytes=0-", 206, b"0123456789"),
        ("bytes=3-5", 206, b"345"),
        ("bytes=8-100", 206, b"89"),
        ("bytes=10-", 416, b""),
        ("bytes=5-3", 416, b""),
        ("bytes=-5", 200, b"0123456789"),
        ("lines=1-2", 200, b"0123456789"),
    ],
)
def test_parts(asked, status, body):
    response = ask(asked)
    assert (response.status_code, response.body) == (status, body)


def test_where_a_part_lies_is_said():
    assert ask("bytes=3-5").headers["content-range"] == "bytes 3-5/10"
    assert ask("bytes=10-").headers["content-range"] == "bytes */10"


def test_clips_of_one_file_have_thumbnails_of_their_own(tmp_path):
    samples = np.concatenate([0.3 * np.sin(np.arange(80_000)), 0.3 * np.random.default_rng(0).normal(size=80_000)])
    soundfile.write(tmp_path / "a.wav", samples, 16_000)
    thumbnails = Thumbnails(tmp_path / "cache", SOUND)
    first, second = (Clip(tmp_path / "a.wav", start, start + 5.0) for start in (0.0, 5.0))
    assert thumbnails.thumbnail(first) != thumbnails.thumbnail(second)
    assert thumbnails.thumbnail(first) == thumbnails.thumbnail(first)
    assert thumbnails.sound(first)[:4] == b"RIFF"
