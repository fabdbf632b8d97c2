"""Boxes in the studio: shown cut out and in their picture, in events, filtered by light, in a session of their own."""

import io
import json

import numpy as np
import pytest
from serving import running

from marginshot.labelling import Session

image = pytest.importorskip("PIL.Image", reason="pictures need the extra pictures")


@pytest.fixture
def traps(tmp_path):
    """Three bursts of two frames, the last one grey; a box in each picture, and two in the first."""
    rng, images = np.random.default_rng(0), []
    for event in range(3):
        for frame in range(2):
            pixels = rng.integers(0, 200, (60, 80, 3)) * (1, 0.8, 0.4)
            picture = image.fromarray(pixels.astype(np.uint8))
            exif = image.Exif()
            exif[0x8769] = {0x9003: f"2026:05:0{event + 1} 12:00:0{frame}"}
            (picture.convert("L").convert("RGB") if event == 2 else picture).save(
                tmp_path / f"{event}-{frame}.jpg", exif=exif
            )
            boxes = [[0.5, 0.5, 0.25, 0.25], [0.1, 0.1, 0.2, 0.2]][: 2 if event == frame == 0 else 1]
            found = [{"category": "1", "conf": 0.9, "bbox": box} for box in boxes]
            images.append({"file": f"{event}-{frame}.jpg", "detections": found})
    content = {"info": {"format_version": "1.4"}, "detection_categories": {"1": "animal"}, "images": images}
    (tmp_path / "md.json").write_text(json.dumps(content))
    return tmp_path


def open_boxes(traps):
    places = {"folder": traps / "sessions", "cache": traps / "cache"}
    return Session.open(traps, boxes=traps / "md.json", encoder="pixels", **places)


def test_a_box_is_shown_small_by_itself_and_large_in_its_picture(traps):
    with running(open_boxes(traps), traps / "cache") as client:
        tags = {client.get(f"/api/thumb/{row}").headers["ETag"] for row in range(7)}
        assert len(tags) == 7
        small, large = (image.open(io.BytesIO(client.get(f"/api/{place}/0").content)) for place in ("thumb", "picture"))
        assert (small.size, large.size) == ((24, 25), (80, 60))
        frame = np.asarray(large.convert("RGB"), dtype=int)[44, 40]  # on the left side of the box
        assert frame[0] > 180
        assert frame[2] < 90
        project = client.get("/api/project").json
        assert (project["in_boxes"], project["in_files"], project["shows"]) == (True, False, "image")


def test_events_and_light_reach_the_page(traps):
    with running(open_boxes(traps), traps / "cache") as client:
        events = np.frombuffer(client.get("/api/together").content, dtype="<i4")
        assert events.tolist() == [0, 0, 0, 1, 1, 2, 2]
        fields = {one["name"]: one["values"] for one in client.get("/api/fields").json}
        assert fields["Light"] == [["colour", 5], ["infrared", 2]]
        assert [value for value, _ in fields["Time"]] == ["2026-05-01", "2026-05-02", "2026-05-03"]


def test_what_is_said_of_boxes_is_kept_apart_from_what_is_said_of_pictures(traps):
    with open_boxes(traps) as session:
        session.label({0: "fox", 3: "hare"})
        assert session.items[0] == "0-0.jpg#500-500-250-250"
        answers = session.solve()
        assert answers.labels[1] == answers.labels[2]  # one event, one answer
        assert answers.confidence[1] == answers.confidence[2]
    with Session.open(traps, encoder="pixels", folder=traps / "sessions", cache=traps / "cache") as pictures:
        assert not pictures.state.classes
    with open_boxes(traps) as session:
        assert [known.name for known in session.state.classes] == ["fox", "hare"]
        assert session.item_events is not None
