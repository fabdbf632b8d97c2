"""A made-up camera-trap season, from the first command to Camtrap DP, with the truth beside the promise.

    python benchmarks/camera_traps.py [PICTURES] [--species 10] [--events 20] [--labels 1 3] [--keep FOLDER]

PICTURES is a folder of class folders or a .tar of one, by default the birds of the shared data. The season has four
cameras, bursts of three to five frames with EXIF times, every second four events in infrared, empty pictures, people, a
detector's file in MegaDetector's format, and a table of where the cameras stood. Labels are one frame of some events.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFilter

SHARED = Path(os.environ.get("MARGINSHOT_DATA", Path(__file__).parents[2] / "shared" / "data"))
SIZE = (640, 480)
CAMERAS = ("creek", "ridge/DCIM/100RECNX", "meadow", "gate")
START = datetime(2026, 5, 1, 6)
GAP = timedelta(minutes=20)  # between events of a camera

Boxes = list[dict[str, Any]]


@dataclass
class Season:
    """The pictures of a season in the making.

    Parameters
    ----------
    folder : Path
        Where they go.
    rng : Generator
    truth : dict of str to str
        Species by picture.
    events : dict of str to list of str
        Pictures by event.
    images : list
        What the detector says.
    """

    folder: Path
    rng: np.random.Generator
    truth: dict[str, str]
    events: dict[str, list[str]]
    images: list[dict[str, Any]]

    def add(self, event: int, frame: int, image: Image.Image, night: bool, boxes: Boxes) -> str:
        """Save a picture with its time, and note what the detector found."""
        camera = CAMERAS[event % len(CAMERAS)]
        time = START + GAP * (event // len(CAMERAS)) + timedelta(seconds=2 * frame)
        file = f"{camera}/IMG_{event:04d}_{frame}.jpg"
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        inner = {0x9003: time.strftime("%Y:%m:%d %H:%M:%S")}
        if camera == "meadow":
            inner[0xA431] = "H500HG05"
        exif[0x0110], exif[0x8769] = "Made-up 1", inner
        (image.convert("L").convert("RGB") if night else image).save(path, quality=88, exif=exif)
        self.images.append({"file": file, "detections": boxes})
        return file


def background(rng: np.random.Generator, camera: int) -> Image.Image:
    """Where a camera stands: blurred colours that are the same in all its pictures, in another light."""
    place = np.random.default_rng(camera)
    colours = place.integers(30, 150, (9, 12, 3)) * np.array([0.8, 1.0, 0.6])
    image = Image.fromarray(colours.astype(np.uint8)).resize(SIZE, Image.Resampling.BICUBIC)
    grain = np.asarray(image.filter(ImageFilter.GaussianBlur(2)), dtype=float) * rng.uniform(0.7, 1.2)
    return Image.fromarray(np.clip(grain + rng.normal(0, 4, grain.shape), 0, 255).astype(np.uint8))


def frame_of(
    rng: np.random.Generator, animal: Image.Image, event: int, at: tuple[float, float]
) -> tuple[Image.Image, Boxes]:
    """One frame of a burst: the animal at about the same place, in slightly another light; its box, not quite exact."""
    image = background(rng, event % len(CAMERAS))
    side = rng.uniform(0.9, 1.1) * 190 / max(animal.size)
    small = animal.resize((round(animal.width * side), round(animal.height * side)))
    x, y = (int(place * (room - own)) for place, room, own in zip(at, SIZE, small.size, strict=True))
    x, y = np.clip([x + rng.integers(-25, 26), y + rng.integers(-12, 13)], 0, np.subtract(SIZE, small.size)).tolist()
    light = np.clip(np.asarray(small, dtype=float) * rng.uniform(0.75, 1.2), 0, 255)
    image.paste(Image.fromarray(light.astype(np.uint8)), (x, y))
    exact = np.array([x / SIZE[0], y / SIZE[1], small.width / SIZE[0], small.height / SIZE[1]])
    box = np.clip(exact + rng.normal(0, 0.01, 4), 0.001, 0.999)
    found = [{"category": "1", "conf": round(float(rng.uniform(0.3, 0.98)), 3), "bbox": box.round(4).tolist()}]
    return image, found


def make_season(pictures: Path, folder: Path, n_species: int, n_events: int) -> Season:
    """Write the season, its detector file and its table of deployments below ``folder``."""
    rng = np.random.default_rng(0)
    season = Season(folder / "season", rng, {}, {}, [])
    species = sorted(path for path in pictures.iterdir() if path.is_dir())[:n_species]
    shown = [(own.name, path) for own in species for path in sorted(own.iterdir())[:n_events]]
    for event, place in enumerate(rng.permutation(len(shown)).tolist()):
        name, path = shown[place]
        animal, at = Image.open(path).convert("RGB"), tuple(rng.random(2))
        files = []
        for frame in range(rng.integers(3, 6)):
            image, boxes = frame_of(rng, animal, event, at)
            boxes.append({"category": "1", "conf": 0.04, "bbox": [0.1, 0.1, 0.1, 0.1]})  # what any detector doubts
            files.append(season.add(event, frame, image, event % 8 >= 4, boxes))
        season.events[files[0]] = files
        season.truth.update(dict.fromkeys(files, name))
    for event in range(len(shown), len(shown) + len(shown) // 4):
        person = [{"category": "2", "conf": 0.9, "bbox": [0.4, 0.2, 0.2, 0.6]}] if event % 10 == 0 else []
        season.add(event, 0, background(rng, event % len(CAMERAS)), event % 8 >= 4, person)
    content = {
        "info": {"format_version": "1.4", "detector": "made up"},
        "detection_categories": {"1": "animal", "2": "person", "3": "vehicle"},
        "images": season.images,
    }
    (folder / "detections.json").write_text(json.dumps(content))
    with (folder / "deployments.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["deploymentID", "latitude", "longitude", "deploymentStart", "deploymentEnd"])
        for number, camera in enumerate(CAMERAS):
            where = [camera.partition("/")[0], 52.1 + number / 100, 5.8 + number / 100]
            rows.writerow([*where, "2026-05-01T05:00:00+02:00", "2026-05-20T12:00:00+02:00"])
    return season


def give_examples(season: Season, folder: Path, n_labels: int) -> int:
    """Copy one frame of ``n_labels`` events of each species into a folder of its name; returns how many these are."""
    shutil.rmtree(folder, ignore_errors=True)
    given: dict[str, int] = {}
    for files in season.events.values():
        name = season.truth[files[0]]
        if given.get(name, 0) < n_labels:
            given[name] = given.get(name, 0) + 1
            (folder / name).mkdir(parents=True, exist_ok=True)
            shutil.copy(season.folder / files[0], folder / name / Path(files[0]).name)
    return sum(given.values())


def label(folder: Path, *options: str) -> dict[str, Any]:
    """Run the command on the season; what it prints as JSON."""
    words = ["label", "season", "--boxes", "detections.json", "--examples", "examples", "--out", "labelled"]
    words += ["--no-gallery", "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "marginshot", *words, *options], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stderr)
    return dict(json.loads(done.stdout))


def score(season: Season, folder: Path) -> tuple[float, int, int]:
    """Share of right labels among boxes whose label no example gave, their number, and how many are to be checked."""
    with (folder / "labelled" / "labels.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["review"] != "example"]
    right = [row["label"] == season.truth[row["item"].partition("#")[0]] for row in rows]
    return float(np.mean(right)), len(rows), sum(row["review"] == "check" for row in rows)


def run(season: Season, folder: Path, labels: list[int]) -> Iterator[tuple[Any, ...]]:
    """Rows of the table: labels, seconds of the gap, truth, promise, what to check."""
    for n_labels in labels:
        n_given = give_examples(season, folder / "examples", n_labels)
        for gap in ("0", "60"):
            shutil.rmtree(folder / "labelled", ignore_errors=True)
            options = ["--event-gap", gap, "--export", "camtrap-dp", "--deployments", "deployments.csv"]
            done = label(folder, *options)
            right, n_rows, n_check = score(season, folder)
            promise = done["expected_accuracy"]
            yield n_given, gap, n_rows, right, promise["value"], promise["low"], promise["high"], n_check
    print("\n" + "\n".join(done["notes"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pictures", nargs="?", type=Path, default=SHARED / "photos" / "birds.tar")
    parser.add_argument("--species", type=int, default=10)
    parser.add_argument("--events", type=int, default=20, help="of each species")
    parser.add_argument("--labels", type=int, nargs="+", default=[1, 3], help="labelled pictures a species")
    parser.add_argument("--keep", type=Path, help="folder for the season and its results (default: none is kept)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        pictures = given.pictures
        if pictures.suffix == ".tar":
            pictures = Path(temporary, "pictures")
            with tarfile.open(given.pictures) as archive:
                archive.extractall(pictures, filter="data")
        folder = given.keep or Path(temporary)
        season = make_season(pictures, folder, given.species, given.events)
        n_box = len(season.truth)
        print(
            f"{len(season.images):,} pictures, {n_box:,} animals of {given.species} species "
            f"in {len(season.events)} events\n"
        )
        print("| labels | gap in s | boxes labelled | right | promised | to check |\n|---:|---:|---:|---:|---:|---:|")
        for n, gap, rows, right, value, low, high, check in run(season, folder, given.labels):
            print(
                f"| {n} | {gap} | {rows:,} | {right:.1%} | {value:.1%} ({low:.1%} to {high:.1%}) | {check:,} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
