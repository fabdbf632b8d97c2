from __future__ import annotations

import json
import struct
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image", reason="pictures need the extra pictures")

from marginshot.data import pictures  # noqa: E402
from marginshot.data.pictures import UnreadablePictureError, is_picture, read_picture  # noqa: E402
from marginshot.labelling import label_images  # noqa: E402
from marginshot.labelling.items.kinds import PICTURE  # noqa: E402
from marginshot.labelling.outputs.exports import EXPORTS  # noqa: E402
from marginshot.labelling.outputs.formats import Tool  # noqa: E402


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tiff"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_formats(tmp_path, suffix, mode):
    path = tmp_path / f"p.{suffix}"
    Image.new(mode, (20, 10), 200 if mode == "L" else (200, 10, 10)).save(path)
    picture = read_picture(path)
    assert (picture.mode, picture.size) == ("RGB", (20, 10))
    assert abs(np.asarray(picture)[5, 5].astype(int) - ([200] * 3 if mode == "L" else [200, 10, 10])).max() < 6


def test_exif_rotation(tmp_path):
    picture = Image.new("RGB", (20, 10), "white")
    picture.paste((255, 0, 0), (0, 0, 5, 10))
    exif = Image.Exif()
    exif[0x0112] = 6  # shown turned a quarter to the right: the left edge becomes the top
    picture.save(tmp_path / "turned.png", exif=exif)
    turned = read_picture(tmp_path / "turned.png")
    assert turned.size == (10, 20)
    assert np.asarray(turned)[2, 5].tolist() == [255, 0, 0]


def test_transparency_lies_on_white(tmp_path):
    Image.new("RGBA", (4, 4), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert np.asarray(read_picture(tmp_path / "clear.png"))[0, 0].tolist() == [255, 255, 255]
    palette = Image.new("P", (4, 4), 0)
    palette.save(tmp_path / "palette.png", transparency=0)
    assert np.asarray(read_picture(tmp_path / "palette.png"))[0, 0].tolist() == [255, 255, 255]


def test_sixteen_bits_are_scaled_not_clipped(tmp_path):
    Image.fromarray(np.full((4, 4), 32768, dtype=np.uint16)).save(tmp_path / "deep.png")
    assert abs(int(np.asarray(read_picture(tmp_path / "deep.png"))[0, 0, 0]) - 127) <= 1


def test_cameras_keep_twelve_bits_in_sixteen(tmp_path):
    Image.fromarray(np.linspace(0, 4095, 16).reshape(4, 4).astype(np.uint16)).save(tmp_path / "camera.tiff")
    assert np.asarray(read_picture(tmp_path / "camera.tiff"))[..., 0].max() == 255


def test_a_pixel_that_is_no_number_is_black(tmp_path):
    values = np.full((4, 4), 0.5, dtype=np.float32)
    values[0, 0], values[3, 3] = np.nan, 1.0
    Image.fromarray(values).save(tmp_path / "float.tiff")
    assert np.asarray(read_picture(tmp_path / "float.tiff"))[[0, 1, 3], [0, 1, 3], 0].tolist() == [0, 127, 255]


def test_odd_metadata_of_a_turned_picture(tmp_path):
    # The second tag is stored as text where a number belongs.
    tags = struct.pack("<HHIHH", 0x0112, 3, 1, 6, 0) + struct.pack("<HHI4s", 0x0213, 2, 2, b"1\0\0\0")
    exif = b"Exif\0\0II*\0\x08\0\0\0\x02\0" + tags + b"\0\0\0\0"
    Image.new("RGB", (20, 10), "red").save(tmp_path / "odd.jpg", exif=exif)
    assert read_picture(tmp_path / "odd.jpg").size == (10, 20)


@pytest.mark.parametrize("error", [RuntimeError("decoder"), NotImplementedError(), AttributeError("x")])
def test_whatever_a_reader_raises_is_one_picture_less(tmp_path, monkeypatch, error):
    def fail(*_):
        raise error

    Image.new("RGB", (4, 4)).save(tmp_path / "p.png")
    monkeypatch.setattr(Image.Image, "convert", fail)
    with pytest.raises(UnreadablePictureError, match="cannot be read as a picture"):
        read_picture(tmp_path / "p.png")


def test_reading_in_threads_leaves_warnings_as_they_are(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "p.png")
    before = list(warnings.filters)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(read_picture, [tmp_path / "p.png"] * 200))
    assert warnings.filters == before


def test_half_a_file(tmp_path):
    whole = tmp_path / "whole.jpg"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(whole)
    half = tmp_path / "half.jpg"
    half.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(UnreadablePictureError, match="cannot be read as a picture"):
        read_picture(half)


def test_thumbnails_are_small(tmp_path):
    Image.new("RGB", (2000, 1000), "navy").save(tmp_path / "large.jpg")
    assert PICTURE.image(tmp_path / "large.jpg", 100).size == (100, 50)


def test_function_gallery_and_exports(workplace, encoded, tmp_path):
    (workplace / "photos" / "red-2.png").rename(workplace / "photos" / "<script>alert(1)<img>.png")
    result = label_images("photos", "examples", suggest=3)
    page = tmp_path / "gallery.html"
    result.write_gallery(page)
    text = page.read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)&lt;img&gt;.png" in text
    assert "http" not in text.replace("http-equiv", "")
    assert text.index('id="next"') < text.index('id="class-0"')
    EXPORTS[Tool.FIFTYONE].write(result, EXPORTS[Tool.FIFTYONE].paths(tmp_path))
    manifest = json.loads((tmp_path / "fiftyone" / "data.json").read_text(encoding="utf-8"))
    labels = json.loads((tmp_path / "fiftyone" / "labels.json").read_text(encoding="utf-8"))
    assert labels["classes"] == ["blue", "green", "red"]
    assert set(manifest) == set(labels["labels"])
    for key, path in manifest.items():
        assert Path(path).is_file()
        if "script" not in path:
            assert labels["labels"][key]["label"] == Path(path).name.partition("-")[0]


def test_label_studio_is_given_addresses_it_serves(workplace, encoded, tmp_path):
    (workplace / "photos" / "red-2.png").rename(workplace / "photos" / "100 % & more?.png")
    result = label_images("photos", "examples", reject=True)
    EXPORTS[Tool.LABEL_STUDIO].write(result, EXPORTS[Tool.LABEL_STUDIO].paths(tmp_path))
    tasks = json.loads((tmp_path / "label-studio.json").read_text(encoding="utf-8"))
    for task, row in zip(tasks, result.rows.tolist(), strict=True):
        address = urlsplit(task["data"]["image"])
        assert address.path == "/data/local-files/"
        assert Path("/", parse_qs(address.query)["d"][0]) == Path(result.collection.contents[row]).resolve()


def test_how_to_open_an_export(workplace, encoded):
    result = label_images("photos", "examples")

    def opened(tool: Tool) -> str:
        return EXPORTS[tool].opened(EXPORTS[tool].paths(Path("out"))[0], result)

    assert opened(Tool.BULK) == "bulk image out/bulk.csv"
    assert 'data_path="data.json"' in opened(Tool.FIFTYONE)
    assert "out/label-studio.xml" in opened(Tool.LABEL_STUDIO)


def test_a_copy_of_an_example_counts_once(workplace, encoded):
    (workplace / "photos" / "copy.png").write_bytes((workplace / "examples" / "red" / "example-0.png").read_bytes())
    result = label_images("photos", "examples")
    assert int((result.answers.given >= 0).sum()) == 6
    assert result.counts() == {"blue": 8, "green": 8, "red": 9}


def test_gallery_goes_from_least_to_most_certain(workplace, encoded, tmp_path):
    from marginshot.labelling.outputs import gallery

    result = label_images("photos", "examples")
    group = gallery._describe_group(result, range(24))
    chances = [entry["probability"] for entry in group["shown"]]
    assert chances == sorted(chances)


def test_large_groups_are_thinned_but_keep_the_least_certain(workplace, encoded, monkeypatch):
    from marginshot.labelling.outputs import gallery

    monkeypatch.setattr(gallery, "LARGEST_GROUP", 10)
    result = label_images("photos", "examples")
    group = gallery._describe_group(result, range(24))
    ordered = sorted(range(24), key=lambda row: result.probabilities[row])
    assert group["n"] == 24
    assert len(group["shown"]) == 10
    assert [entry["item"] for entry in group["shown"][:5]] == [result.collection.items[row] for row in ordered[:5]]
    assert group["shown"][-1]["item"] == result.collection.items[ordered[-1]]


@pytest.fixture
def without_heif(monkeypatch):
    """As where pillow-heif is not installed."""
    monkeypatch.setattr(pictures, "find_spec", lambda name: None if name == "pillow_heif" else find_spec(name))
    pictures.picture_suffixes.cache_clear()
    yield
    pictures.picture_suffixes.cache_clear()


@pytest.mark.usefixtures("without_heif", "encoded")
def test_files_that_are_not_read_are_counted_by_kind(workplace, run):
    for name in ("a.heic", "trip/b.HEIC", "c.mp4", "notes.txt", "README", ".hidden.mp4", "labelled/old.mp4"):
        (workplace / "photos" / name).parent.mkdir(exist_ok=True)
        (workplace / "photos" / name).write_bytes(b"x")
    arguments = ("label", "photos", "--examples", "examples", "--out", "photos/labelled", "--no-gallery")
    code, _, err = run(*arguments)
    assert code == 0, err
    told = (
        "Not read: 2 .heic (to read them: pip install 'marginshot[heif]'), 1 without a suffix, 1 .mp4 (video), 1 .txt."
    )
    assert told in err.splitlines()
    _, out, _ = run(*arguments, "--format", "json")
    assert json.loads(out)["not_read"] == {".heic": 2, ".mp4": 1, ".txt": 1, "": 1}


@pytest.mark.usefixtures("without_heif")
def test_a_folder_of_other_files_says_what_is_there(tmp_path, workplace, run):
    (tmp_path / "phone").mkdir()
    (tmp_path / "phone" / "a.heic").write_bytes(b"x")
    code, _, err = run("label", tmp_path / "phone", "--examples", "examples", "--out", "labelled")
    assert code == 2
    assert "there are 1 .heic (to read them: pip install 'marginshot[heif]')" in err


@pytest.mark.parametrize("suffix", [".heic", ".avif"])
def test_pictures_of_telephones_are_read(tmp_path, suffix):
    if suffix not in pictures.picture_suffixes():
        pytest.skip(f"nothing here reads {suffix}")
    pictures._formats()
    Image.new("RGB", (64, 48), (200, 40, 30)).save(tmp_path / f"x{suffix}")
    assert is_picture(tmp_path / f"X{suffix.upper()}")
    found = read_picture(tmp_path / f"x{suffix}")
    assert (found.mode, found.size) == ("RGB", (64, 48))
    assert np.abs(np.asarray(found).mean(axis=(0, 1)) - (200, 40, 30)).max() < 8


def test_pillows_own_limit_is_told_in_our_words(tmp_path, monkeypatch):
    Image.new("L", (64, 64)).save(tmp_path / "x.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(
        UnreadablePictureError, match=r"^is too large to be read \(.*exceeds limit of 200 pixels\); save it smaller$"
    ):
        read_picture(tmp_path / "x.png")
