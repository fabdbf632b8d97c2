"""Boxes of a detector as items; hostile files end in one sentence, or what is wrong in them is counted."""

from __future__ import annotations

import csv
import json
import zlib
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pytest
from PIL import Image, ImageDraw

from marginshot.labelling.items.boxes import box_items, open_boxes
from marginshot.labelling.items.crops import Crop, read_crop
from marginshot.labelling.items.detections import read_detections
from marginshot.labelling.items.detector_formats import WHOLE, Box
from marginshot.labelling.items.kinds import BOX

COLOURS = {"red": (200, 30, 30), "green": (30, 180, 30)}


def draw(path: Path, *animals: tuple[str, tuple[float, float, float, float]], size: tuple[int, int] = (80, 60)) -> None:
    """A noisy grey picture with a coloured rectangle in each box."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(zlib.crc32(str(path).encode())).integers(90, 120, (*size[::-1], 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    for colour, (x, y, w, h) in animals:
        corners = (x * size[0], y * size[1], (x + w) * size[0] - 1, (y + h) * size[1] - 1)
        ImageDraw.Draw(image).rectangle(corners, fill=COLOURS[colour])
    image.save(path)


def found(box: tuple[float, ...], conf: float = 0.9, category: str = "1") -> dict[str, object]:
    return {"category": category, "conf": conf, "bbox": list(box)}


LEFT, RIGHT = (0.1, 0.2, 0.25, 0.5), (0.6, 0.2, 0.3, 0.5)


def megadetector(images: list[object]) -> dict[str, object]:
    return {
        "info": {"format_version": "1.4", "detector": "md_v5a.0.0.pt"},
        "detection_categories": {"1": "animal", "2": "person", "3": "vehicle"},
        "images": images,
    }


@pytest.fixture
def season(tmp_path, monkeypatch):
    """Ten pictures of two cameras: one animal each, one with both, one empty, one with a person, one that failed."""
    monkeypatch.chdir(tmp_path)
    images: list[object] = []
    for number in range(6):
        colour, box = ("red", LEFT) if number % 2 else ("green", RIGHT)
        draw(Path(f"season/cam{number % 2}/{number}.png"), (colour, box))
        images.append({"file": f"cam{number % 2}/{number}.png", "detections": [found(box), found(RIGHT, 0.05)]})
    draw(Path("season/cam0/both.png"), ("red", LEFT), ("green", RIGHT))
    draw(Path("season/cam0/empty.png"))
    draw(Path("season/cam1/person.png"))
    draw(Path("season/cam1/broken.png"))
    images += [
        {"file": "cam0/both.png", "detections": [found(LEFT), found(RIGHT)]},
        {"file": "cam0/empty.png", "detections": [found(LEFT, 0.01)]},
        {"file": "cam1/person.png", "detections": [found(LEFT, category="2")]},
        {"file": "cam1/broken.png", "failure": "Failure image access", "detections": None},
    ]
    Path("md.json").write_text(json.dumps(megadetector(images)))
    Path("examples.csv").write_text("path,label\ncam1/1.png,red\ncam0/both.png#600-200-300-500,green\n")
    return tmp_path


def rows_of(path: str) -> dict[str, dict[str, str]]:
    with Path(path).open(newline="") as file:
        return {row["item"]: row for row in csv.DictReader(file)}


@pytest.mark.usefixtures("own_cache")
def test_boxes_are_labelled_and_empty_pictures_are_not(season, run):
    code, out, err = run(
        *[
            "label",
            "season",
            "--boxes",
            "md.json",
            "--examples",
            "examples.csv",
            "--encoder",
            "pixels",
            "--out",
            "out",
            "--format",
            "json",
        ]
    )
    assert code == 0, err
    rows = rows_of("out/labels.csv")
    assert {name.partition("#")[0] for name in rows} == {f"cam{n % 2}/{n}.png" for n in range(6)} | {"cam0/both.png"}
    assert len(rows) == 8
    assert rows["cam0/both.png#600-200-300-500"]["review"] == "example"
    notes = json.loads(out)["notes"]
    assert notes[0] == "1 picture is empty: no box of confidence 0.2 or more."
    assert "1 person" in notes[1]
    assert "cam1/broken.png" in notes[2]
    assert "Failure image access" in err + notes[2]


@pytest.mark.usefixtures("own_cache")
def test_several_are_boxes(season, run):
    words = ["label", "season", "--boxes", "md.json", "--examples", "examples.csv", "--encoder", "pixels"]
    assert run(*words, "--out", "out")[0] == 0
    page = Path("out/gallery.html").read_text(encoding="utf-8")
    assert "boxes in 2 classes" in page
    assert "and these are boxes" in run(*words, "--out", "out", "--export", "xmp")[2]


def test_corrections_of_boxes_are_kept_in_the_next_run(season, run):
    words = [
        "label",
        "season",
        "--boxes",
        "md.json",
        "--examples",
        "examples.csv",
        "--encoder",
        "pixels",
        "--out",
        "out",
    ]
    assert run(*words)[0] == 0
    table = Path("out/labels.csv")
    lines = table.read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("cam0/2.png"))
    lines[place] = "cam0/2.png#600-200-300-500,blue,,,"
    table.write_text("\n".join(lines) + "\n")
    code, _, err = run("label", "season", "--out", "out")  # all options are recalled
    assert code == 0, err
    assert rows_of("out/labels.csv")["cam0/2.png#600-200-300-500"]["label"] == "blue"
    assert "--boxes" in err
    assert "--box-confidence" not in err


def test_pictures_with_boxes_stay_where_they_are(season, run):
    for way in ("--copy", "--move", "--link"):
        words = ["label", "season", "--boxes", "md.json", "--examples", "examples.csv", "--out", "out", way]
        assert run(*words)[0] == 2
        assert run(*words, "--dry-run")[0] == 2
    assert not Path("out").exists()


def test_coco_boxes_are_the_same_boxes(season):
    content = json.loads(Path("md.json").read_text())
    pictures = [
        {"id": n, "file_name": one["file"], "width": 80, "height": 60} for n, one in enumerate(content["images"])
    ]
    annotations = [
        {
            "id": 100 + n,
            "image_id": n,
            "category_id": int(box["category"]),
            "score": box["conf"],
            "bbox": [80 * box["bbox"][0], 60 * box["bbox"][1], 80 * box["bbox"][2], 60 * box["bbox"][3]],
        }
        for n, one in enumerate(content["images"])
        for box in one["detections"] or ()
    ]
    categories = [{"id": 1, "name": "animal"}, {"id": 2, "name": "person"}]
    Path("coco.json").write_text(json.dumps({"images": pictures, "annotations": annotations, "categories": categories}))
    ours = [
        box_items(Path("season"), read_detections(Path(name), Path("season"), 0.2)) for name in ("md.json", "coco.json")
    ]
    assert list(ours[0]) == list(ours[1])


def test_the_crop_is_the_box_with_a_margin(season):
    crop = read_crop(Crop(Path("season/cam0/both.png"), Box(*LEFT)))
    assert crop.size == (36, 36)  # the longer side is 30 pixels, a tenth is added on each side
    middle = np.asarray(crop)[18, 18]
    assert middle[0] > 150
    assert middle[1] < 60
    at_edge = read_crop(Crop(Path("season/cam0/both.png"), Box(0.9, 0.9, 0.1, 0.1)))
    assert min(at_edge.size) >= 9
    assert read_crop(Crop(Path("season/cam0/both.png"), WHOLE)).size == (80, 60)


def test_a_small_box_of_a_large_jpeg_is_read_in_full(tmp_path):
    draw(tmp_path / "large.jpg", ("red", (0.5, 0.5, 0.1, 0.1)), size=(4000, 3000))
    assert read_crop(Crop(tmp_path / "large.jpg", Box(0.5, 0.5, 0.1, 0.1))).width >= 320


def test_boxes_of_one_picture_have_hashes_of_their_own(season):
    left, right = (BOX.digest(Crop(Path("season/cam0/both.png"), Box(*box))) for box in (LEFT, RIGHT))
    assert left != right
    assert left.partition("#")[0] == right.partition("#")[0]
    assert BOX.scene(Crop(Path("season/cam0/both.png"), Box(*LEFT)), 80).size == (80, 60)


def test_a_picture_among_the_examples_stands_for_its_boxes(season):
    draw(Path("examples/red/elsewhere.png"), ("red", (0.0, 0.0, 1.0, 1.0)))
    Path("examples/green").mkdir()
    Path("examples/green/copy.png").write_bytes(Path("season/cam0/2.png").read_bytes())
    detections = read_detections(Path("md.json"), Path("season"), 0.2)
    collection = open_boxes(Path("season"), detections, [Path("examples")])
    labelled = {item: label for item, label in zip(collection.items, collection.labels, strict=True) if label}
    assert labelled == {"cam0/2.png#600-200-300-500": "green", "examples/red/elsewhere.png": "red"}
    assert collection.listed.sum() == 8
    assert collection.contents[-1].box == WHOLE


HOSTILE = [
    ({"file": "../md.json", "detections": []}, "a picture in another folder"),
    ({"file": "cam0/../../md.json", "detections": []}, "a picture in another folder"),
    ({"file": "/etc/passwd", "detections": []}, "a picture in another folder"),
    ({"file": "C:\\cam0\\2.png", "detections": []}, "a picture in another folder"),
    ({"file": "cam0/gone.png", "detections": []}, "a picture that is not there"),
    ({"file": "a" * 5000 + ".png", "detections": []}, "a picture that is not there"),
    ({"file": "cam0/film.mp4", "frame_rate": 30, "detections": [found(LEFT) | {"frame_number": 3}]}, "a video"),
    ({"file": 7, "detections": []}, "a picture without a path"),
    ({"file": "a\0.png", "detections": []}, "a picture without a path"),
    ({"file": "cam0/2.png", "detections": [found(LEFT)]}, "a picture named twice"),
    ("cam0/2.png", "an entry that is no picture"),
]


@pytest.mark.parametrize(("entry", "why"), HOSTILE)
def test_entries_that_cannot_be_used_are_counted(season, entry, why):
    content = json.loads(Path("md.json").read_text())
    Path("md.json").write_text(json.dumps({**content, "images": [*content["images"], entry]}))
    detections = read_detections(Path("md.json"), Path("season"), 0.2)
    assert len(detections.pictures) == 10
    (told,) = [reason for reason in detections.unusable if why in reason]
    assert detections.unusable[told] == 1
    assert f"1 x {told}" in detections.notes[-1]


@pytest.mark.parametrize(
    ("box", "why"),
    [
        ([float("nan"), 0, 0.1, 0.1], "a box with something else than a number"),
        ([0, 0, float("inf"), 0.1], "a box with something else than a number"),
        (["0", 0, 0.1, 0.1], "a box with something else than a number"),
        ([0, 0, 0.1], "a box without four numbers"),
        ({"x": 1}, "a box without four numbers"),
        ([1.5, 0, 0.1, 0.1], "a box without an area in its picture"),
        ([0.5, 0.5, -0.2, 0.1], "a box without an area in its picture"),
        ([0.5, 0.5, 0, 0.1], "a box without an area in its picture"),
    ],
)
def test_boxes_that_cannot_be_used_are_counted(season, box, why):
    entry = {"file": "cam0/2.png", "detections": [{"category": "1", "conf": 0.9, "bbox": box}, found(LEFT)]}
    Path("md.json").write_text(json.dumps(megadetector([entry])))
    detections = read_detections(Path("md.json"), Path("season"), 0.2)
    assert detections.unusable == {why: 1}
    assert len(box_items(Path("season"), detections)) == 1


def test_boxes_at_one_place_are_one_item_and_counted(season):
    """Two boxes equal in thousandths have one name: one of them was lost in silence, be it the surer one."""
    near = tuple(value + 0.0001 for value in LEFT)
    boxes = [found(LEFT, 0.5), found(near, 0.9), found(LEFT, 0.1), found(RIGHT), found(LEFT, category="2")]
    boxes += [found(near, 0.8, category="3")]
    Path("md.json").write_text(json.dumps(megadetector([{"file": "cam0/2.png", "detections": boxes}])))
    detections = read_detections(Path("md.json"), Path("season"), 0.2)
    assert detections.unusable == {"a box at the same place as another": 2}
    assert "2 x a box at the same place as another" in detections.notes[-1]
    items = box_items(Path("season"), detections)
    assert [crop.box.confidence for crop in items.values()] == [0.9, 0.9]
    assert [crop.box.place for crop in items.values()] == [(0, 1), (0, 3)]
    (picture,) = detections.pictures
    assert [box.category for box in detections.others(picture)] == ["person"]
    assert len(picture.boxes) == 4  # with the one that is not sure


@pytest.mark.parametrize("conf", [None, "0.9", 1.5, float("nan"), True])
def test_a_box_needs_a_confidence(season, conf):
    entry = {"file": "cam0/2.png", "detections": [{"category": "1", "conf": conf, "bbox": list(LEFT)}]}
    Path("md.json").write_text(json.dumps(megadetector([entry])))
    detections = read_detections(Path("md.json"), Path("season"), 0.2)
    assert sum(detections.unusable.values()) == 1
    assert not box_items(Path("season"), detections)


def test_a_box_that_reaches_out_of_its_picture_is_cut_at_the_edge(season):
    Path("md.json").write_text(
        json.dumps(megadetector([{"file": "cam0/2.png", "detections": [found((-0.1, 0.5, 0.3, 0.9))]}]))
    )
    (picture,) = read_detections(Path("md.json"), Path("season"), 0.2).pictures
    assert picture.boxes[0].corner == "0-500-200-500"


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"images": 3}', "[" * 100_000, '{"images": []}', "\udcff"])
def test_a_file_that_is_none_of_a_detector_is_one_sentence(season, run, content):
    Path("md.json").write_text(content, errors="surrogateescape")
    code, _, err = run("label", "season", "--boxes", "md.json", "--examples", "examples.csv", "--out", "out")
    assert code == 2
    assert "md.json" in err
    assert "Traceback" not in err
    assert not Path("out").exists()


def test_many_boxes_of_one_picture_are_read(season):
    boxes = [found((i % 1000 / 1000, i // 1000 / 100, 0.001, 0.001)) for i in range(100_000)]
    entry = {"file": "cam0/2.png", "detections": boxes}
    Path("md.json").write_text(json.dumps(megadetector([entry])))
    detections = read_detections(Path("md.json"), Path("season"), 0.2)
    assert len(box_items(Path("season"), detections)) == 100_000


def test_paths_of_windows_are_found(season):
    Path("md.json").write_text(json.dumps(megadetector([{"file": "cam0\\2.png", "detections": [found(LEFT)]}])))
    assert read_detections(Path("md.json"), Path("season"), 0.2).pictures[0].file == "cam0/2.png"


@pytest.mark.parametrize(("there", "named"), [("NFC", "NFD"), ("NFD", "NFC")])
def test_accents_are_found_however_they_are_coded(season, there, named):
    name = "Bäch/Möwe.png"
    draw(Path("season", normalize(there, name)), ("red", LEFT))
    Path("md.json").write_text(
        json.dumps(megadetector([{"file": normalize(named, name), "detections": [found(LEFT)]}]))
    )
    assert [one.file for one in read_detections(Path("md.json"), Path("season"), 0.2).pictures] == [
        normalize(there, name)
    ]


def test_absolute_paths_inside_the_folder_are_found(season):
    whole = str(Path("season/cam0/2.png").absolute())
    Path("md.json").write_text(json.dumps(megadetector([{"file": whole, "detections": [found(LEFT)]}])))
    assert read_detections(Path("md.json"), Path("season"), 0.2).pictures[0].file == "cam0/2.png"
