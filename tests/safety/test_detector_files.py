"""Files of detectors may come from anybody: odd ones are labelled, or end in one sentence before the work."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from workplaces import draw_picture, own_cache, run, workplace  # noqa: F401

LEFT, RIGHT = [0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 0.5, 1.0]
HALF = "\ud800"  # half of a surrogate pair: JSON can hold it, UTF-8 cannot


def megadetector(**more: Any) -> dict[str, Any]:
    """The boxes of four pictures, and of one without any."""
    names = ("red-2", "red-4", "blue-2", "blue-4")
    boxes = [[{"category": "1", "conf": 0.9, "bbox": LEFT}] for _ in names]
    images: list[dict[str, Any]] = [
        {"file": f"{name}.png", "detections": own} for name, own in zip(names, boxes, strict=True)
    ]
    images.append({"file": "green-2.png", "detections": []})
    return {"images": images, "detection_categories": {"1": "animal", "2": "person"}, **more}


def with_first(**more: Any) -> dict[str, Any]:
    content = megadetector()
    content["images"][0]["detections"].append({"category": "2", "conf": 0.9, "bbox": RIGHT, **more})
    return content


def with_last(**more: Any) -> dict[str, Any]:
    content = megadetector()
    content["images"].append({"file": "green-4.png", "detections": None, **more})
    return content


def coco(**more: Any) -> dict[str, Any]:
    images = [
        {"id": n, "file_name": one["file"], "width": 16, "height": 16} for n, one in enumerate(megadetector()["images"])
    ]
    boxes = [{"id": n, "image_id": n, "category_id": 1, "score": 0.9, "bbox": [0, 0, 8, 16]} for n in range(4)]
    return {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "animal"}], **more}


def nested(levels: int) -> list[Any]:
    content: list[Any] = []
    for _ in range(levels):
        content = [content]
    return content


LABELLED = {
    "info is a list": megadetector(info=[1]),
    "info is a text": megadetector(info="MegaDetector"),
    "the detector is an object": megadetector(info={"detector": {"a": [1]}}),
    "the detector is no UTF-8": megadetector(info={"detector": HALF}),
    "the detector is a formula": megadetector(info={"detector": "=cmd|'/c calc'!A1"}),
    "categories are a list": megadetector(detection_categories=[1]),
    "a category is no UTF-8": megadetector(detection_categories={"1": "animal", "2": HALF}),
    "classes are a list": megadetector(classification_categories=[3]),
    "a class has a number of 5,000 digits": megadetector(classification_categories={"9" * 5_000: "elk"}),
    "a box has a list for a category": with_first(category=["1"]),
    "a box at infinity": with_first(bbox=[10**400, 0, 1, 1]),
    "a failure is an object": with_last(failure={"a": 1}),
    "a failure is no UTF-8": with_last(failure=f"{HALF}\n\0"),
    "a path is no UTF-8": with_last(file=f"{HALF}.png"),
    "an entry of somebody else's": megadetector(extra=[float("nan"), HALF]),
    "COCO: info is a list": coco(info=[1]),
    "COCO: a category has a list for an id": coco(categories=[{"id": [1], "name": "red"}, {"id": 1, "name": "animal"}]),
    "COCO: names of categories are lists": coco(categories=[{"id": 1, "name": ["animal"]}, 3, None]),
}


def told(run: Any, content: dict[str, Any]) -> tuple[int, str]:  # noqa: F811
    Path("md.json").write_text(json.dumps(content))
    Path("examples.csv").write_text("path,label\nred-2.png,red\nblue-2.png,blue\n")
    words = ("label", "photos", "--boxes", "md.json", "--examples", "examples.csv", "--encoder", "pixels")
    code, _, err = run(*words, "--out", "out", "--no-gallery", "--no-session", "--export", "camtrap-dp")
    return code, " ".join(err.split())


@pytest.mark.parametrize("content", LABELLED.values(), ids=LABELLED)
def test_an_odd_file_is_labelled_and_written_back(workplace, run, content):  # noqa: F811
    code, err = told(run, content)
    assert code == 0, err
    with Path("out/labels.csv").open(newline="") as file:
        labels = {row["item"].partition("#")[0]: row["label"] for row in csv.DictReader(file)}
    assert {name: labels[f"{name}.png"] for name in ("red-4", "blue-4")} == {"red-4": "red", "blue-4": "blue"}
    written = json.loads(Path("out/detections.json").read_text(encoding="utf-8"))
    assert repr(written.get("extra")) == repr(content.get("extra"))
    with Path("out/camtrap-dp/observations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["observationID"] for row in rows}) == len(rows)
    assert not any(row["classifiedBy"].startswith("=") for row in rows)


@pytest.mark.parametrize("levels", [60, 500, 900])
def test_a_file_of_many_levels_is_one_sentence(workplace, run, levels):  # noqa: F811
    code, err = told(run, megadetector(extra=nested(levels)))
    assert code == 2
    assert "md.json is nested in more than 50 levels. Give a file in MegaDetector's output format" in err
    assert not Path("out").exists()
