"""Light as a domain: pictures in colour and by infrared, each seen from their own mean where there are enough."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from marginshot.labelling import Session, label_images
from marginshot.labelling.items import lights
from marginshot.labelling.items.events import with_events
from marginshot.labelling.items.folders import collect_unlabelled
from marginshot.labelling.items.lights import LEAST_ITEMS, find_lights
from marginshot.labelling.items.store import Store

NOON = datetime(2026, 5, 1, 12)
SHAPES = ("bar", "post")


def take(path: Path, shape: str, night: bool, number: int) -> None:
    """A bar or a post; by night without colours, and before a bright half that is larger than either."""
    rng = np.random.default_rng(number)
    pixels = np.full((16, 16), 80.0)
    pixels[(slice(7, 9), slice(2, 14)) if shape == "bar" else (slice(2, 14), slice(7, 9))] += 60
    pixels += 90 * (np.arange(16)[:, None] > 7) * night + rng.normal(0, 12, (16, 16))
    colour = np.ones(3) if night else np.array([1.2, 1.0, 0.6])
    exif = Image.Exif()
    exif[0x8769] = {0x9003: (NOON + timedelta(minutes=5 * number)).strftime("%Y:%m:%d %H:%M:%S")}
    image = Image.fromarray(np.clip(pixels[..., None] * colour, 0, 255).astype(np.uint8))
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, exif=exif)


@pytest.fixture
def season(tmp_path, monkeypatch) -> Path:
    """60 pictures by day and 60 by night, an event each; bars and posts, one in four by night a bar."""
    monkeypatch.chdir(tmp_path)
    rows = []
    for number in range(120):
        night = number >= 60
        shape = SHAPES[number % 2 if not night else number % 4 != 0]
        take(Path(f"season/{shape}-{number}.png"), shape, night, number)
        if number in (0, 1, 2, 3):
            rows.append(f"{shape}-{number}.png,{shape}\n")
    Path("examples.csv").write_text("path,label\n" + "".join(rows))
    return Path("season")


def n_right(labels: dict[str, str]) -> int:
    return sum(label == item.partition("-")[0] for item, label in labels.items())


@pytest.mark.usefixtures("own_cache")
def test_lights_are_domains_in_python_on_the_command_line_and_in_a_session(season, run):
    found = label_images(season, "examples.csv", encoder="pixels", event_gap=60)
    by_night = np.array([int(item.partition("-")[2][:-4]) >= 60 for item in found.collection.items])
    np.testing.assert_array_equal(found.model.classifier.domains_, by_night)
    assert found.collection.notes[-1].startswith("60 items are in colour and 60 by infrared")
    assert found.n_unlike == 60  # examples are by day alone
    labels = dict(zip(found.collection.items, found.labels, strict=True))
    without = label_images(season, "examples.csv", encoder="pixels", event_gap=0)
    assert without.n_unlike == 0
    assert n_right(labels) > n_right(dict(zip(without.collection.items, without.labels, strict=True)))

    words = ["label", season, "--examples", "examples.csv", "--event-gap", "60", "--encoder", "pixels", "--out", "out"]
    _, out, _ = run(*words, "--json")
    assert json.loads(out)["notes"] == list(found.collection.notes)
    _, _, err = run(*words)
    assert "60 items are in colour and 60 by infrared" in " ".join(err.split())

    with Session.open(season, examples="examples.csv", encoder="pixels", event_gap=60) as session:
        answers = session.solve(complete=True)
        assert dict(zip(session.items, answers.labels, strict=True)) == labels
        session.label(["bar-60.png"], "bar")
        session.solve()
        classifier, _ = session._answering.latest.fitted
        np.testing.assert_array_equal(classifier.domains_, by_night)


def test_lights_need_events_and_enough_pictures_of_either(season, tmp_path):
    collection = collect_unlabelled(season)
    assert find_lights(collection, None) is None
    collection = with_events(collection, 60.0)
    assert np.bincount(find_lights(collection, None)).tolist() == [60, 60]
    night = [row for row, item in enumerate(collection.items) if int(item.partition("-")[2][:-4]) >= 60]
    day = [row for row in range(120) if row not in night]
    assert find_lights(collection.select([*day, *night[: LEAST_ITEMS - 1]]), None) is None
    assert find_lights(collection.select([*day, *night[:LEAST_ITEMS]]), None) is not None


def test_what_was_seen_is_kept_until_the_picture_changes(season, tmp_path, monkeypatch):
    store, collection = Store(tmp_path / "kept"), with_events(collect_unlabelled(season), 60.0)
    first = find_lights(collection, store)
    looked = []
    monkeypatch.setattr(lights, "in_colour", lambda image: looked.append(image) or True)
    np.testing.assert_array_equal(find_lights(collection, store), first)
    assert not looked
    take(season / "bar-60.png", "bar", False, 500)
    found = find_lights(collection, store)
    assert len(looked) == 1
    assert found.sum() == 59


def test_what_cannot_be_read_is_in_no_count(season):
    collection = with_events(collect_unlabelled(season), 60.0)
    for item in [item for item in collection.items if int(item.partition("-")[2][:-4]) >= 60][LEAST_ITEMS - 1 :]:
        (season / item).write_bytes(b"no picture")
    assert find_lights(collection, None) is None
