"""Camtrap DP 1.0.2, the exchange format of camera-trap data: deployments, media and observations as tables.

What is not known stays empty, and is listed in a file beside the tables. https://camtrap-dp.tdwg.org
"""

from __future__ import annotations

import json
import mimetypes
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from marginshot import __version__
from marginshot._lib.files import atomic_path
from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.collection import means_none
from marginshot.labelling.items.crops import Crop
from marginshot.labelling.items.detections import DetectedPicture
from marginshot.labelling.items.detector_formats import WHOLE, Box
from marginshot.labelling.items.embed import printable
from marginshot.labelling.items.shots import Shot, place_of, read_shot
from marginshot.labelling.items.tables import write_table
from marginshot.labelling.outputs.result import Result
from marginshot.labelling.outputs.surveys import DEPLOYMENT_COLUMNS, Survey, read_survey

_HOME = "https://raw.githubusercontent.com/tdwg/camtrap-dp/1.0.2"

FILES = ("datapackage.json", "deployments.csv", "media.csv", "observations.csv", "unknown.txt")

MEDIA_COLUMNS = (
    "mediaID", "deploymentID", "captureMethod", "timestamp", "filePath", "filePublic", "fileName", "fileMediatype",
    "exifData", "favorite", "mediaComments",
)  # fmt: skip

OBSERVATION_COLUMNS = (
    "observationID", "deploymentID", "mediaID", "eventID", "eventStart", "eventEnd", "observationLevel",
    "observationType", "cameraSetupType", "scientificName", "count", "lifeStage", "sex", "behavior", "individualID",
    "individualPositionRadius", "individualPositionAngle", "individualSpeed", "bboxX", "bboxY", "bboxWidth",
    "bboxHeight", "classificationMethod", "classifiedBy", "classificationTimestamp", "classificationProbability",
    "observationTags", "observationComments",
)  # fmt: skip

# Names of classes and categories that are no animals, in any case.
_TYPES = {
    **dict.fromkeys(("person", "people", "human"), "human"),
    **dict.fromkeys(("vehicle", "car"), "vehicle"),
    **dict.fromkeys(("blank", "empty"), "blank"),
}

Row = dict[str, Any]


def write_camtrap(labelling: Result, paths: Sequence[Path]) -> None:
    """Write the package to ``paths``, in the order of `FILES`."""
    source = labelling.request.source
    if source is None or not labelling.collection.kind.in_folder:
        raise RefusedError("Camtrap DP holds pictures of a folder; this is a table.", at_fault=Option.EXPORTS)
    package = CamtrapPackage(labelling, source.path, read_survey(source.deployments))
    described, deployments, media, observations, unknown = paths
    described.parent.mkdir(parents=True, exist_ok=True)
    for path, columns, rows in (
        (deployments, DEPLOYMENT_COLUMNS, package.deployments),
        (media, MEDIA_COLUMNS, package.media),
        (observations, OBSERVATION_COLUMNS, package.observations),
    ):
        write_table({name: [row.get(name, "") for row in rows] for name in columns}, path)
    _write(described, json.dumps(package.description, indent=1, ensure_ascii=False))
    _write(unknown, "".join(f"{line}\n" for line in package.unknown))


def _write(path: Path, text: str) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class _Picture:
    """A picture of the folder: its path there, what the camera recorded, where the camera stood."""

    file: str
    shot: Shot
    deployment: str
    timestamp: str


@dataclass(frozen=True, eq=False)
class CamtrapPackage:
    """The package of a labelling.

    Parameters
    ----------
    labelling : Result
    folder : Path
        Where the pictures are.
    survey : Survey
        What is known besides.
    """

    labelling: Result
    folder: Path
    survey: Survey

    @cached_property
    def pictures(self) -> dict[str, _Picture]:
        """Every picture by its path, those without an item included."""
        boxes = self.labelling.request.source.boxes if self.labelling.request.source else None
        files = [picture.file for picture in boxes.pictures] if boxes else []
        files += [self._file(row) for row in self.labelling.rows.tolist()]
        return {file: self._picture(file) for file in dict.fromkeys(files)}

    def _file(self, row: int) -> str:
        collection = self.labelling.collection
        return collection.kind.file(collection.contents[row]).relative_to(self.folder).as_posix()

    def _picture(self, file: str) -> _Picture:
        shot, deployment = read_shot(self.folder / file), place_of(file) or self.folder.resolve().name
        offset = shot.offset or self.survey.offset(deployment)
        known = shot.time is not None and offset
        return _Picture(file, shot, deployment, f"{shot.time:%Y-%m-%dT%H:%M:%S}{offset}" if known else "")

    @cached_property
    def deployments(self) -> list[Row]:
        """A row for each camera's place: the facts of the survey, and the camera as its pictures name it."""
        rows: dict[str, Row] = {name: dict(known) for name, known in self.survey.deployments.items()}
        for picture in self.pictures.values():
            row = rows.setdefault(picture.deployment, {"deploymentID": picture.deployment})
            for name, value in (("cameraID", picture.shot.serial), ("cameraModel", picture.shot.model)):
                if value:
                    row.setdefault(name, value)
        return list(rows.values())

    @cached_property
    def media(self) -> list[Row]:
        """A row for each picture."""
        return [
            {
                "mediaID": picture.file,
                "deploymentID": picture.deployment,
                "timestamp": picture.timestamp,
                "filePath": picture.file,
                "filePublic": "false",  # it is on a disk
                "fileName": Path(picture.file).name,
                "fileMediatype": mimetypes.guess_type(picture.file)[0] or "image/jpeg",
            }
            for picture in self.pictures.values()
        ]

    @cached_property
    def observations(self) -> list[Row]:
        """A row for each item, each other box and each empty picture; where there are events, for each class of one."""
        return [*self._of_items(), *self._of_detector(), *self._of_events()]

    @cached_property
    def _events(self) -> dict[int, list[int]]:
        """Rows of each event."""
        events: dict[int, list[int]] = defaultdict(list)
        if self.labelling.collection.events is not None:
            for row in self.labelling.rows.tolist():
                events[int(self.labelling.collection.events[row])].append(row)
        return events

    def _in_event(self, rows: Sequence[int]) -> Row:
        """Deployment, name and times of the event that these rows are."""
        pictures = [self.pictures[self._file(row)] for row in rows]
        times = sorted(picture.timestamp for picture in pictures)
        first = min(pictures, key=lambda picture: picture.timestamp)
        return {
            "deploymentID": first.deployment,
            "eventID": first.file,
            "eventStart": times[0],
            "eventEnd": times[-1],
        }

    def _of_items(self) -> Iterator[Row]:
        result, contents = self.labelling, self.labelling.collection.contents
        events = {row: self._in_event(rows) for rows in self._events.values() for row in rows}
        for row in result.rows.tolist():
            picture = self.pictures[self._file(row)]
            yield {
                **(events[row] if events else self._alone(picture)),
                "observationID": result.collection.items[row],
                "deploymentID": picture.deployment,
                "mediaID": picture.file,
                "observationLevel": "media",
                **self._class_of(row),
                **(_corners(contents[row].box) if isinstance(contents[row], Crop) else {}),
            }

    def _of_detector(self) -> Iterator[Row]:
        """Rows from the detector alone: boxes not to be classified, empty pictures, and pictures it could not read."""
        boxes = self.labelling.request.source.boxes if self.labelling.request.source else None
        info = boxes.content.get("info") if boxes else None
        by = printable(str(info.get("detector", ""))) if isinstance(info, dict) else ""
        taken = set(self.labelling.collection.items)
        for picture in boxes.pictures if boxes else ():
            row = {"mediaID": picture.file, "observationLevel": "media", **self._alone(self.pictures[picture.file])}
            row |= {"classificationMethod": "machine", "classifiedBy": by}
            if boxes is not None and (picture.failure or boxes.is_empty(picture)):
                yield {**row, "observationID": picture.file, "observationType": _type_without(picture)}
            for box in boxes.others(picture) if boxes else ():
                name = f"{picture.file}#{box.corner}"
                yield {
                    **row,
                    "observationID": f"{name} {printable(box.category)}" if name in taken else name,
                    "observationType": _TYPES.get(box.category.casefold(), "unknown"),
                    "classificationProbability": round(box.confidence, 4),
                    **_corners(box),
                }

    def _alone(self, picture: _Picture) -> Row:
        times = {"eventStart": picture.timestamp, "eventEnd": picture.timestamp}
        return {"deploymentID": picture.deployment, **times}

    def _of_events(self) -> Iterator[Row]:
        for rows in self._events.values():
            by_label: dict[str, list[int]] = defaultdict(list)
            for row in rows:
                by_label[self.labelling.labels[row]].append(row)
            event = self._in_event(rows)
            for label, own in by_label.items():
                seen = max(own, key=lambda row: (self._is_human(row), self.labelling.probabilities[row]))
                yield {
                    **event,
                    "observationID": f"{event['eventID']} {label or 'without a label'}",
                    "observationLevel": "event",
                    **self._class_of(seen),
                }

    def _is_human(self, row: int) -> bool:
        return bool(self.labelling.answers.given[row] >= 0)

    def _class_of(self, row: int) -> Row:
        """Columns on the class of an item, who classified it, and how sure that is."""
        label = self.labelling.labels[row]
        if not label:
            said_none = means_none(self.labelling.reviews[row])
            return {"observationType": "unknown" if said_none else "unclassified"}
        kind = _TYPES.get(label.casefold(), "animal")
        known = {"observationType": kind, "scientificName": label if kind == "animal" else ""}
        if self._is_human(row):
            return {**known, "classificationMethod": "human"}
        return {
            **known,
            "classificationMethod": "machine",
            "classifiedBy": f"marginshot {__version__}",
            "classificationTimestamp": self._now,
            "classificationProbability": self.labelling.probabilities[row],
        }

    @cached_property
    def _now(self) -> str:
        return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"

    @cached_property
    def description(self) -> Row:
        """The content of ``datapackage.json``: what is known, completed by the survey's own file."""
        theirs = self.survey.about
        levels = sorted({row["observationLevel"] for row in self.observations}, reverse=True)
        project = theirs.get("project")
        project = project if isinstance(project, dict) else {}
        names = sorted({row["scientificName"] for row in self.observations if row.get("scientificName")})
        derived = {
            "name": re.sub(r"[^a-z0-9._-]+", "-", self.folder.resolve().name.lower()).strip("-") or "pictures",
            "title": self.folder.resolve().name,
            "spatial": self._spatial(),
            "temporal": self._temporal(),
            "taxonomic": [{"scientificName": name} for name in names],
        }
        ours = {
            "profile": f"{_HOME}/camtrap-dp-profile.json",
            "created": self._now,
            "project": {"title": derived["title"], "individualAnimals": False, **project, "observationLevel": levels},
            "resources": [_resource(name) for name in ("deployments", "media", "observations")],
        }
        return {**{key: value for key, value in derived.items() if value}, **theirs, **ours}

    def _spatial(self) -> Row:
        """The box around all cameras; empty where no place is known."""
        x, y = self.survey.numbers("longitude"), self.survey.numbers("latitude")
        if not x or not y:
            return {}
        (west, east), (south, north) = (min(x), max(x)), (min(y), max(y))
        ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
        return {"type": "Polygon", "coordinates": [ring]}

    def _temporal(self) -> Row:
        starts, ends = self.survey.texts("deploymentStart"), self.survey.texts("deploymentEnd")
        return {"start": min(starts)[:10], "end": max(ends)[:10]} if starts and ends else {}

    @property
    def unknown(self) -> list[str]:
        """A line on each thing that Camtrap DP asks for and that is not known."""
        project = self.description["project"]
        missing = [name for name in ("contributors", "spatial", "temporal") if not self.description.get(name)]
        missing += [f"project.{name}" for name in ("samplingDesign", "captureMethod") if not project.get(name)]
        lines = [f"datapackage.json: {name}" for name in missing]
        for name in ("latitude", "longitude", "deploymentStart", "deploymentEnd"):
            without = [row["deploymentID"] for row in self.deployments if not row.get(name)]
            lines += [f"deployments.csv: {name} of {', '.join(without)}"] if without else []
        untimed = [picture for picture in self.pictures.values() if picture.shot.time is None]
        unzoned = [picture for picture in self.pictures.values() if picture.shot.time and not picture.timestamp]
        if untimed:
            lines.append(f"media.csv: timestamp of {len(untimed):,} pictures that hold no time")
        if unzoned:
            lines.append(
                f"media.csv: timestamp of {len(unzoned):,} pictures, whose clock's offset from UTC is not known: give "
                "it in deploymentStart of their deployment, such as 2026-05-01T12:00:00+02:00"
            )
        if outside := [picture for picture in self.pictures.values() if self._is_outside(picture)]:
            places = ", ".join(sorted({picture.deployment for picture in outside}))
            lines.append(
                f"media.csv: {len(outside):,} with a timestamp outside of the deployment ({places}), such as "
                f"{outside[0].file}: the clock may have been wrong"
            )
        lines.append("observations.csv: count, sex, lifeStage and behavior; scientificName holds the names of classes")
        return lines

    def _is_outside(self, picture: _Picture) -> bool:
        """Whether the time of a picture, where known, is outside its deployment."""
        known = self.survey.deployments.get(picture.deployment, {})
        start, end = (known.get(name) for name in ("deploymentStart", "deploymentEnd"))
        if not (picture.timestamp and start and end):
            return False
        time, first, last = map(datetime.fromisoformat, (picture.timestamp, start, end))
        return not first <= time <= last


def _type_without(picture: DetectedPicture) -> str:
    """Type of a picture without a box: blank where the detector could read it."""
    return "unclassified" if picture.failure else "blank"


def _corners(box: Box) -> Mapping[str, float]:
    if box == WHOLE:
        return {}
    values = (box.x, box.y, box.width, box.height)
    return dict(zip(("bboxX", "bboxY", "bboxWidth", "bboxHeight"), (round(value, 6) for value in values), strict=True))


def _resource(name: str) -> Row:
    return {
        "name": name,
        "path": f"{name}.csv",
        "profile": "tabular-data-resource",
        "schema": f"{_HOME}/{name}-table-schema.json",
    }
