"""Events by the times in pictures, and labels and answers that are shared within them."""

from __future__ import annotations

import csv
import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from marginshot.labelling.answers.together import certain, one_example_each, one_of_each, pooled
from marginshot.labelling.errors import RefusedError
from marginshot.labelling.items.events import with_events
from marginshot.labelling.items.folders import collect_unlabelled
from marginshot.labelling.items.shots import Shot, in_colour, place_of, read_shot
from marginshot.labelling.items.tables import text_rows

NOON = datetime(2026, 5, 1, 12)


def take(
    path: Path, time: datetime | str | None, colour=(200, 30, 30), *, serial: str = "", fraction: str = ""
) -> Path:
    """A picture with these EXIF tags."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(abs(hash(str(path))) % 2**32).integers(-9, 9, (16, 16, 3))
    image = Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8))
    exif = Image.Exif()
    inner = {0xA431: serial, 0x9291: fraction}
    if time is not None:
        inner[0x9003] = time if isinstance(time, str) else time.strftime("%Y:%m:%d %H:%M:%S")
    exif[0x8769] = {tag: value for tag, value in inner.items() if value}
    image.save(path, quality=95, exif=exif)
    return path


def events_of(folder: Path, gap: float = 60.0) -> dict[str, int]:
    collection = with_events(collect_unlabelled(folder), gap)
    return dict(zip(collection.items, collection.events.tolist(), strict=True))


def seconds(n: float) -> datetime:
    return NOON + timedelta(seconds=n)


def test_pictures_of_one_camera_within_the_gap_are_one_event(tmp_path):
    for number, second in enumerate((0, 30, 90, 151)):
        take(tmp_path / f"cam1/{number}.jpg", seconds(second))
    take(tmp_path / "cam2/0.jpg", seconds(10))
    found = events_of(tmp_path)
    assert found["cam1/0.jpg"] == found["cam1/1.jpg"] == found["cam1/2.jpg"]  # 60 s is still one event, 61 s is not
    assert len({found["cam1/0.jpg"], found["cam1/3.jpg"], found["cam2/0.jpg"]}) == 3


def test_a_serial_number_joins_folders_and_a_camera_s_own_folders_are_one_place(tmp_path):
    take(tmp_path / "a/1.jpg", seconds(0), serial="H500")
    take(tmp_path / "b/2.jpg", seconds(5), serial="H500")
    take(tmp_path / "b/3.jpg", seconds(6), serial="H501")
    take(tmp_path / "c/DCIM/100RECNX/9.jpg", seconds(0))
    take(tmp_path / "c/DCIM/101RECNX/1.jpg", seconds(5))
    found = events_of(tmp_path)
    assert found["a/1.jpg"] == found["b/2.jpg"] != found["b/3.jpg"]
    assert found["c/DCIM/100RECNX/9.jpg"] == found["c/DCIM/101RECNX/1.jpg"]
    assert place_of("c/DCIM/100RECNX/9.jpg") == "c"


def test_fractions_of_seconds_count(tmp_path):
    take(tmp_path / "1.jpg", NOON, fraction="25")
    assert read_shot(tmp_path / "1.jpg").time == NOON.replace(microsecond=250_000)


@pytest.mark.parametrize("time", [None, "0000:00:00 00:00:00", "2026:13:45 99:00:00", "yesterday", "\0\0\0"])
def test_pictures_without_a_usable_time_are_events_by_themselves(tmp_path, time):
    for number in range(3):
        take(tmp_path / f"{number}.jpg", time)
    assert len(set(events_of(tmp_path).values())) == 3
    assert "3 of them have no usable time" in with_events(collect_unlabelled(tmp_path), 60).notes[-1]


def test_a_clock_that_stands_still_joins_nothing(tmp_path):
    for number in range(21):
        take(tmp_path / f"{number}.jpg", NOON)
    assert len(set(events_of(tmp_path).values())) == 21


def test_a_clock_that_is_wrong_all_the_time_still_tells_events(tmp_path):
    for number, second in enumerate((0, 1, 500)):
        take(tmp_path / f"{number}.jpg", datetime(1970, 1, 1) + timedelta(seconds=second))
    assert sorted(events_of(tmp_path).values()) == [0, 0, 1]


def test_damaged_tags_are_no_tags(tmp_path):
    whole = take(tmp_path / "1.jpg", NOON).read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(200):
        damaged = bytearray(whole)
        for place in rng.integers(0, 200, 5):
            damaged[place] = rng.integers(256)
        (tmp_path / "2.jpg").write_bytes(bytes(damaged))
        assert isinstance(read_shot(tmp_path / "2.jpg"), Shot)


def test_infrared_has_no_colour(tmp_path):
    rng = np.random.default_rng(0)
    green = Image.fromarray((rng.random((60, 80, 3)) * (60, 110, 50)).astype(np.uint8))
    grey = green.convert("L").convert("RGB")
    grey.save(tmp_path / "grey.jpg", quality=70)
    assert in_colour(green)
    assert not in_colour(Image.open(tmp_path / "grey.jpg"))


def test_tables_have_no_events():
    with pytest.raises(RefusedError, match="only pictures have events"):
        with_events(text_rows(["a", "b"], None), 60)


def test_clips_of_a_recording_are_no_event(tmp_path):
    soundfile = pytest.importorskip("soundfile", reason="needs extra `sounds`")
    for name in ("one", "two"):
        soundfile.write(tmp_path / f"{name}.wav", np.random.default_rng(0).normal(size=8_000 * 12) / 9, 8_000)
    clips = collect_unlabelled(tmp_path)
    assert len(clips.items) > 2
    with pytest.raises(RefusedError, match="only pictures have events"):
        with_events(clips, 60)


def test_answers_of_an_event_are_their_mean_unless_it_was_split():
    values = np.array([[0.9, 0.1], [0.3, 0.7], [0.8, 0.2], [0.1, 0.9], [1.0, 0.0], [0.0, 1.0], [0.4, 0.6]])
    events = np.array([0, 0, 1, 2, 2, 2, 2])
    given = np.array([-1, -1, -1, -1, 0, 1, -1])
    found = pooled(values, events, given)
    assert np.allclose(found[:2], [0.6, 0.4])
    assert np.allclose(found[2:], values[2:])  # alone, or in an event with two labels
    assert np.allclose(pooled(values, None, given), values)


def test_what_is_said_of_none_splits_an_event_too():
    values = np.array([[0.9, 0.1], [0.3, 0.7], [1.0, 0.0], [0.0, 0.0]])
    assert np.allclose(pooled(values, np.zeros(4, dtype=int), np.array([-1, -1, 0, -2])), values)


def test_an_event_is_one_example_of_a_class_and_all_of_it_is_certain():
    given, events = np.array([0, 0, 1, -1, 0, -2]), np.array([7, 7, 7, 7, 8, 8])
    assert one_example_each(given, events).tolist() == [0, -1, 1, -1, 0, -2]
    assert one_example_each(given, None) is given
    found = certain(np.full((6, 2), 0.5), given)
    assert found.tolist() == [[1, 0], [1, 0], [0, 1], [0.5, 0.5], [1, 0], [0.5, 0.5]]


def test_one_suggestion_an_event():
    assert one_of_each(np.array([5, 1, 0, 3]), np.array([0, 0, 1, 2, 2, 1]), 3).tolist() == [5, 1, 3]


@pytest.mark.usefixtures("own_cache")
def test_one_example_labels_its_event_until_a_correction_splits_it(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    for event, colour in enumerate([(200, 30, 30), (30, 160, 40)] * 3):
        for frame in range(3):
            take(Path(f"season/cam/{event}-{frame}.jpg"), seconds(1000 * event + frame), colour)
    Path("examples.csv").write_text("path,label\ncam/0-0.jpg,red\ncam/1-0.jpg,green\n")
    words = [
        "label",
        "season",
        "--examples",
        "examples.csv",
        "--event-gap",
        "60",
        "--encoder",
        "pixels",
        "--out",
        "out",
    ]
    code, out, err = run(*words, "--format", "json")
    assert code == 0, err
    assert json.loads(out)["notes"][-1].startswith("18 pictures are 6 events")
    rows = read("out/labels.csv")
    assert [rows[f"cam/0-{frame}.jpg"]["review"] for frame in range(3)] == ["example", "event", "event"]
    for event in range(6):
        assert (
            len(
                {(rows[f"cam/{event}-{n}.jpg"]["label"], rows[f"cam/{event}-{n}.jpg"]["probability"]) for n in range(3)}
            )
            == 1
        )
    lines = Path("out/labels.csv").read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("cam/0-2.jpg"))
    lines[place] = "cam/0-2.jpg,blue,,,"
    Path("out/labels.csv").write_text("\n".join(lines) + "\n")
    code, _, err = run("label", "season", "--out", "out")
    assert code == 0, err
    rows = read("out/labels.csv")
    assert [rows[f"cam/0-{n}.jpg"]["review"] for n in (0, 2)] == ["example", "example"]
    assert rows["cam/0-2.jpg"]["label"] == "blue"
    assert rows["cam/0-1.jpg"]["review"] not in ("event", "example")
    assert "--event-gap 60" in err


def read(path: str) -> dict[str, dict[str, str]]:
    with Path(path).open(newline="") as file:
        return {row["item"]: row for row in csv.DictReader(file)}
