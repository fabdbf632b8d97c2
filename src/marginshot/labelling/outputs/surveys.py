"""Facts on a camera-trap survey that no picture holds: where and when its cameras stood, and who runs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from marginshot._lib.names import listed
from marginshot._lib.reading import read_json
from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.sources import Source
from marginshot.labelling.items.tables import as_text, read_table

#: Columns of Camtrap DP 1.0.2, of which the first is the place of the camera as `shots.place_of` names it.
DEPLOYMENT_COLUMNS = (
    "deploymentID", "locationID", "locationName", "latitude", "longitude", "coordinateUncertainty", "deploymentStart",
    "deploymentEnd", "setupBy", "cameraID", "cameraModel", "cameraDelay", "cameraHeight", "cameraDepth", "cameraTilt",
    "cameraHeading", "detectionDistance", "timestampIssues", "baitUse", "featureType", "habitat", "deploymentGroups",
    "deploymentTags", "deploymentComments",
)  # fmt: skip

_ZONE = re.compile(r"(Z|[+-]\d\d:?\d\d)$")
_TIMES = ("deploymentStart", "deploymentEnd")
_BOUNDS = {"latitude": 90.0, "longitude": 180.0}


@dataclass(frozen=True)
class Survey:
    """What is known of a survey.

    Parameters
    ----------
    deployments : mapping of str to mapping of str to str
        Filled-in columns of Camtrap DP, by deployment.
    about : mapping of str to object
        Its ``datapackage.json``: title, contributors, project and the like.
    """

    deployments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def offset(self, deployment: str) -> str:
        """Offset of a camera's clock from UTC, as the start of its deployment is written; empty where not known."""
        match = _ZONE.search(self.deployments.get(deployment, {}).get("deploymentStart", ""))
        return "" if match is None else match.group()

    def numbers(self, column: str) -> list[float]:
        """The numbers there are in a column."""
        return [float(row[column]) for row in self.deployments.values() if row.get(column)]

    def texts(self, column: str) -> list[str]:
        """The texts there are in a column."""
        return [row[column] for row in self.deployments.values() if row.get(column)]


def read_survey(path: Path | None) -> Survey:
    """The survey in a table of deployments, and in a ``datapackage.json`` beside it where there is one."""
    if path is None:
        return Survey()
    table = read_table(path)
    if "deploymentID" not in table.columns:
        raise RefusedError(
            f"{path} needs the column deploymentID, the folder of each camera; it has {listed(table.columns)}.",
            at_fault=Option.DEPLOYMENTS,
        )
    kept = [name for name in DEPLOYMENT_COLUMNS if name in table.columns]
    rows = zip(*(map(as_text, table.columns[name]) for name in kept), strict=True)
    deployments: dict[str, Mapping[str, str]] = {}
    for number, values in enumerate(rows, 1):
        row = {name: value.strip() for name, value in zip(kept, values, strict=True) if value.strip()}
        if not row.get("deploymentID") or row["deploymentID"] in deployments:
            raise RefusedError(
                f"{path}, row {number}: deploymentID is empty or there twice ({row.get('deploymentID', '')!r}).",
                at_fault=Option.DEPLOYMENTS,
            )
        _check_place(row, path, number)
        _check_times(row, path, number)
        deployments[row["deploymentID"]] = row
    beside = path.with_name("datapackage.json")
    return Survey(deployments, read_json(beside, "the description of a data package") if beside.is_file() else {})


def with_deployments(source: Source, path: Path | None) -> Source:
    """The source with a table of deployments, which is read once now: an error in it is found before the work."""
    read_survey(path)
    return replace(source, deployments=path)


def _check_place(row: Mapping[str, str], path: Path, number: int) -> None:
    for name, most in _BOUNDS.items():
        try:
            is_good = name not in row or abs(float(row[name])) <= most
        except ValueError:
            is_good = False
        if not is_good:
            raise RefusedError(
                f"{path}, row {number}: {name} is a number of degrees from -{most:g} to {most:g}; got {row[name]!r}.",
                at_fault=Option.DEPLOYMENTS,
            )


def _check_times(row: Mapping[str, str], path: Path, number: int) -> None:
    for name in _TIMES:
        if name in row and not _is_time(row[name]):
            raise RefusedError(
                f"{path}, row {number}: {name} is a time with its offset from UTC, such as 2026-05-01T12:00:00+02:00; "
                f"got {row[name]!r}.",
                at_fault=Option.DEPLOYMENTS,
            )


def _is_time(text: str) -> bool:
    try:
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%S%z")
    except ValueError:
        return False
    return True
