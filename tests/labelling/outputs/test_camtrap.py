"""Camtrap DP and a detector's file as outputs: valid by the published schemas, and nothing in them is made up."""

from __future__ import annotations

import csv
import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

SCHEMAS = Path(__file__).with_name("camtrap_dp_1_0_2")

BOXES = {"red": (0.1, 0.2, 0.25, 0.5), "green": (0.6, 0.2, 0.3, 0.5)}
COLOURS = {"red": (200, 30, 30), "green": (30, 180, 30)}


@pytest.fixture
def season(tmp_path, monkeypatch, own_cache):
    """Two cameras, six bursts of two frames, an empty picture, one of a person, and one that failed."""
    monkeypatch.chdir(tmp_path)
    images = []
    for event in range(6):
        colour = ("red", "green")[event % 2]
        for frame in range(2):
            file = f"{('creek', 'ridge')[event // 3]}/{event}-{frame}.jpg"
            take(Path("season") / file, 600 * event + frame, colour)
            images.append({"file": file, "detections": [{"category": "1", "conf": 0.9, "bbox": list(BOXES[colour])}]})
    for name in ("empty", "person", "failed"):
        take(Path(f"season/creek/{name}.jpg"), 9000, None)
    images += [
        {"file": "creek/empty.jpg", "detections": []},
        {"file": "creek/person.jpg", "detections": [{"category": "2", "conf": 0.8, "bbox": [0.1, 0.1, 0.2, 0.2]}]},
        {"file": "creek/failed.jpg", "failure": "Failure image access", "detections": None},
    ]
    content = {
        "info": {"format_version": "1.4", "detector": "md_v5a.0.0.pt"},
        "detection_categories": {"1": "animal", "2": "person", "3": "vehicle"},
        "images": images,
    }
    Path("md.json").write_text(json.dumps(content))
    Path("examples.csv").write_text("path,label\ncreek/0-0.jpg,red\ncreek/1-0.jpg,green\n")
    Path("survey").mkdir()
    Path("survey/deployments.csv").write_text(
        "deploymentID,latitude,longitude,deploymentStart,deploymentEnd\n"
        "creek,52.1,-5.8,2026-05-01T00:00:00+02:00,2026-05-30T00:00:00+02:00\n"
        "ridge,52.2,-5.9,2026-05-01T00:00:00+02:00,2026-05-30T00:00:00+02:00\n"
    )
    return tmp_path


def take(path: Path, second: int, colour: str | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(np.random.default_rng(second).integers(90, 120, (60, 80, 3), dtype=np.uint8))
    if colour:
        x, y, w, h = BOXES[colour]
        ImageDraw.Draw(image).rectangle((80 * x, 60 * y, 80 * (x + w), 60 * (y + h)), fill=COLOURS[colour])
    exif = Image.Exif()
    exif[0x8769] = {0x9003: f"{datetime(2026, 5, 2, 12) + timedelta(seconds=second):%Y:%m:%d %H:%M:%S}"}
    image.save(path, exif=exif)


def label(run, *options: str) -> str:
    words = ["label", "season", "--boxes", "md.json", "--examples", "examples.csv", "--encoder", "pixels"]
    code, out, err = run(*words, "--out", "out", "--no-gallery", *options)
    assert code == 0, err
    return out + err


def table(name: str) -> list[dict[str, str]]:
    with Path("out/camtrap-dp", name).open(newline="") as file:
        return list(csv.DictReader(file))


def invalid(folder: Path) -> set[tuple[str, str]]:
    """Table and column of every value that breaks the published schemas."""
    frictionless = pytest.importorskip("frictionless", reason="the group dev has frictionless")
    content = json.loads((folder / "datapackage.json").read_text())
    for resource in content["resources"]:
        assert resource["schema"].startswith("https://raw.githubusercontent.com/tdwg/camtrap-dp/1.0.2/")
        resource["schema"] = json.loads((SCHEMAS / Path(resource["schema"]).name).read_text())
    described = {key: content[key] for key in ("name", "resources")}
    report = frictionless.Package(described, basepath=str(folder)).validate()
    return {
        (task.name, error.field_name if hasattr(error, "field_name") else error.type)
        for task in report.tasks
        for error in task.errors
    }


def test_a_package_is_valid_where_the_survey_is_known(season, run):
    Path("survey/datapackage.json").write_text(
        json.dumps(
            {
                "contributors": [{"title": "A. Ranger", "role": "contact"}],
                "project": {"samplingDesign": "opportunistic", "captureMethod": ["activityDetection"]},
            }
        )
    )
    label(run, "--export", "camtrap-dp", "--deployments", "survey/deployments.csv")
    assert invalid(Path("out/camtrap-dp")) == set()
    content = json.loads(Path("out/camtrap-dp/datapackage.json").read_text())
    profile = json.loads((SCHEMAS / "camtrap-dp-profile.json").read_text())["allOf"][1]
    assert set(profile["required"]) <= set(content)
    assert set(profile["properties"]["project"]["required"]) <= set(content["project"])
    assert content["contributors"][0]["title"] == "A. Ranger"
    assert content["taxonomic"] == [{"scientificName": "green"}, {"scientificName": "red"}]
    unknown = Path("out/camtrap-dp/unknown.txt").read_text()
    assert "datapackage.json" not in unknown
    assert "deployments.csv" not in unknown


def test_observations_say_what_is_seen_by_whom_and_what_is_empty(season, run):
    label(run, "--export", "camtrap-dp", "--deployments", "survey/deployments.csv")
    rows = table("observations.csv")
    by_id = {row["observationID"]: row for row in rows}
    assert len(by_id) == len(rows) == 12 + 3 + 6  # boxes; person, empty and failed pictures; events
    assert by_id["creek/empty.jpg"]["observationType"] == "blank"
    assert by_id["creek/failed.jpg"]["observationType"] == "unclassified"
    person = by_id["creek/person.jpg#100-100-200-200"]
    assert (person["observationType"], person["scientificName"], person["classifiedBy"]) == (
        "human",
        "",
        "md_v5a.0.0.pt",
    )
    given = by_id["creek/0-0.jpg#100-200-250-500"]
    assert (given["classificationMethod"], given["classificationProbability"]) == ("human", "")
    answered = by_id["ridge/4-1.jpg#100-200-250-500"]
    assert (answered["scientificName"], answered["classificationMethod"]) == ("red", "machine")
    assert 0 < float(answered["classificationProbability"]) <= 1
    assert (answered["eventStart"], answered["eventEnd"]) == ("2026-05-02T12:40:00+02:00", "2026-05-02T12:40:01+02:00")
    events = [row for row in rows if row["observationLevel"] == "event"]
    assert len(events) == 6
    assert not any(row["mediaID"] for row in events)
    assert {row["count"] for row in rows} == {""}


def test_what_is_not_known_stays_empty_and_is_listed(season, run):
    told = label(run, "--export", "camtrap-dp")
    assert "unknown.txt" in told
    assert invalid(Path("out/camtrap-dp")) == {
        *(("deployments", name) for name in ("latitude", "longitude", "deploymentStart", "deploymentEnd")),
        ("media", "timestamp"),
        ("observations", "eventStart"),
        ("observations", "eventEnd"),
    }
    unknown = Path("out/camtrap-dp/unknown.txt").read_text()
    for part in ("contributors", "spatial", "samplingDesign", "latitude of creek, ridge", "timestamp of 15 pictures"):
        assert part in unknown


def test_pictures_of_another_time_than_their_deployment_are_listed(season, run):
    take(Path("season/creek/0-0.jpg"), 60 * 24 * 3600, "red")
    label(run, "--export", "camtrap-dp", "--deployments", "survey/deployments.csv")
    unknown = Path("out/camtrap-dp/unknown.txt").read_text()
    assert "media.csv: 1 with a timestamp outside of the deployment (creek), such as creek/0-0.jpg" in unknown


def test_the_studio_knows_where_cameras_stood(season, run):
    pytest.importorskip("uvicorn", reason="needs extra `studio`")
    words = ["studio", "season", "--boxes", "md.json", "--examples", "examples.csv", "--encoder", "pixels"]
    words += ["--deployments", "survey/deployments.csv", "--export", "camtrap-dp", "--out"]
    code, _, err = run(*words, "out")
    assert code == 0, err
    rows = {row["deploymentID"]: row for row in table("deployments.csv")}
    assert rows["creek"]["latitude"] == "52.1"
    assert table("media.csv")[0]["timestamp"].endswith("+02:00")
    Path("survey").rename("camtrap-dp")
    words[words.index("survey/deployments.csv")] = "camtrap-dp/deployments.csv"
    before = Path("camtrap-dp/deployments.csv").read_text()
    code, _, err = run(*words, ".", "--force")
    assert code == 2
    assert "camtrap-dp/deployments.csv" in err
    assert Path("camtrap-dp/deployments.csv").read_text() == before
    words[words.index("camtrap-dp/deployments.csv")] = "gone.csv"
    code, _, err = run(*words, "elsewhere")
    assert code == 2
    assert "gone.csv" in err
    assert "Traceback" not in err


def test_a_person_in_the_box_of_an_animal_is_an_observation_of_its_own(season, run):
    content = json.loads(Path("md.json").read_text())
    box = content["images"][0]["detections"][0]
    content["images"][0]["detections"].append({**box, "category": "2"})
    Path("md.json").write_text(json.dumps(content))
    label(run, "--export", "camtrap-dp", "--deployments", "survey/deployments.csv")
    rows = {row["observationID"]: row for row in table("observations.csv")}
    assert len(rows) == len(table("observations.csv"))
    assert rows["creek/0-0.jpg#100-200-250-500 person"]["observationType"] == "human"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("place,latitude\ncreek,1\n", "needs the column deploymentID"),
        ("deploymentID,latitude\ncreek,91\n", "latitude is a number of degrees"),
        ("deploymentID,latitude\ncreek,north\n", "latitude is a number of degrees"),
        ("deploymentID,latitude\ncreek,nan\n", "latitude is a number of degrees"),
        ("deploymentID,latitude\ncreek,1\ncreek,2\n", "empty or there twice"),
        ("deploymentID,deploymentStart\ncreek,01.05.2026 08:00\n", "deploymentStart is a time with its offset"),
        ("deploymentID,deploymentStart\ncreek,2026-05-01T08:00:00\n", "deploymentStart is a time with its offset"),
        ("deploymentID,deploymentEnd\ncreek,2026-13-01T08:00:00Z\n", "deploymentEnd is a time with its offset"),
    ],
)
def test_a_table_of_deployments_is_checked_before_the_work(season, run, content, why):
    Path("survey/deployments.csv").write_text(content)
    words = ["label", "season", "--boxes", "md.json", "--examples", "examples.csv", "--out", "out"]
    code, _, err = run(*words, "--export", "camtrap-dp", "--deployments", "survey/deployments.csv")
    assert code == 2
    assert why in " ".join(err.split())
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--export", "boxes"], "name that with --boxes"),
        (["--export", "camtrap-dp", "--move"], "names cameras by the folders of pictures"),
    ],
)
def test_exports_without_a_place_are_refused_before_the_work(season, run, options, why):
    code, _, err = run("label", "season", "--examples", "examples.csv", "--encoder", "pixels", "--out", "out", *options)
    assert code == 2
    assert why in " ".join(err.split())
    assert not Path("out").exists()


def test_classes_go_back_into_the_detector_s_file(season, run):
    before = json.loads(Path("md.json").read_text())
    before["classification_categories"] = {"4": "elk"}
    before["images"][-2]["detections"][0]["classifications"] = [["4", 0.6]]
    Path("md.json").write_text(json.dumps(before))
    label(run)
    after = json.loads(Path("out/detections.json").read_text())
    assert after["info"] == {**before["info"], "classifier": "marginshot"}
    names = after["classification_categories"]
    assert names == {"4": "elk", "5": "green", "6": "red"}
    for old, new in zip(before["images"], after["images"], strict=True):
        for box in (new["detections"] or ())[:1]:
            found = box.pop("classifications")
            assert [p for _, p in found] == sorted((p for _, p in found), reverse=True)
            assert names[found[0][0]] == (
                "elk" if "person" in new["file"] else "green" if box["bbox"][0] == 0.6 else "red"
            )
        for box in old["detections"] or ():
            box.pop("classifications", None)
        assert old == new


def test_classes_go_back_into_a_coco_file(season, run):
    pictures = [
        {"id": n, "file_name": f"creek/{n}-{f}.jpg", "width": 80, "height": 60} for n, f in ((0, 0), (1, 0), (2, 1))
    ]
    boxes = [
        {"id": n, "image_id": n, "category_id": 9, "score": 0.9, "bbox": [80 * x, 60 * y, 80 * w, 60 * h]}
        for n, (x, y, w, h) in enumerate((BOXES["red"], BOXES["green"], BOXES["red"]))
    ]
    content = {"images": pictures, "annotations": boxes, "categories": [{"id": 9, "name": "animal"}]}
    Path("md.json").write_text(json.dumps(content))
    label(run)
    after = json.loads(Path("out/detections.json").read_text())
    names = {one["id"]: one["name"] for one in after["categories"]}
    assert [names[box["category_id"]] for box in after["annotations"]] == ["red", "green", "red"]
    assert {box["detection_category_id"] for box in after["annotations"]} == {9}
    assert after["images"] == pictures
