"""Results of a run over regimes, cell by cell, as dataclasses, JSON and CSV."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from marginshot import __version__
from marginshot._lib.files import atomic_path
from marginshot._lib.names import safe_cell
from marginshot._lib.reading import DamagedFileError, read_json, reading
from marginshot.evaluation.results import ROUNDING, check_shares, describe_machine
from marginshot.evaluation.statistics import paired_difference

#: First entry of every file; `RegimeTable.load` refuses a file without it.
FORMAT = "marginshot-output/regimes-2"

_EARLIER = "marginshot-output/regimes-1"
_REPEAT = "Start over with --force."

CSV_COLUMNS = (
    *("features", "regime", "way", "shot", "method", "tasks", "redrawn_tasks"),
    *("accuracy", "ci95", "difference_to", "difference", "difference_ci95", "ms_per_task"),
)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One kind of task: features, the name of a regime, classes and support examples per class."""

    features: str
    regime: str
    way: int
    shot: int

    def __str__(self) -> str:
        return f"{self.features}, {self.regime}, {self.way}-way {self.shot}-shot"


@dataclass(frozen=True, kw_only=True)
class Score:
    """One method on the tasks of a cell.

    Parameters
    ----------
    method : str
    accuracy, ci95 : float
        Mean over the tasks, 0 to 1, and half its 95 % interval.
    seconds_per_task : float
        Processor time.
    right : tuple of int
        Right answers in every task, in order: methods of one cell have the same tasks, so they can be paired.
    """

    method: str
    accuracy: float
    ci95: float
    seconds_per_task: float
    right: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """All methods on the same tasks of one cell.

    Parameters
    ----------
    cell : Cell
    tasks, redrawn_tasks : int
        Tasks used, and those whose class shares had to be drawn again to fit the class sizes.
    queries : int
        Queries of one task.
    scores : tuple of Score
        In the order in which methods were asked for.
    too_slow : mapping
        Methods left out of this cell -> seconds they need for a task.
    """

    cell: Cell
    tasks: int
    redrawn_tasks: int
    queries: int
    scores: tuple[Score, ...]
    too_slow: Mapping[str, float]

    def score(self, method: str) -> Score | None:
        """The score of ``method``, or None where it was left out."""
        return next((score for score in self.scores if score.method == method), None)

    def difference(self, one: Score, other: Score) -> tuple[float, float]:
        """Mean accuracy of ``one`` less that of ``other`` on the same tasks, and half its paired 95 % interval."""
        return paired_difference(*(np.array(score.right) / self.queries for score in (one, other)))


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A cell that cannot be run on its features, and why."""

    cell: Cell
    reason: str


@dataclass(frozen=True, kw_only=True)
class RegimeTable:
    """Cells finished so far, and what is needed to repeat them.

    Parameters
    ----------
    arguments : mapping
        Settings every cell depends on; a table is continued only with equal ones.
    features : mapping
        Source -> `FeatureBank.content_hash`.
    results : tuple of CellResult
    left_out : tuple of LeftOut
    command : str
        The command line, or an empty text for a run from Python.
    complete : bool
        Whether the last run over the table came to its end.
    version, created, machine
        Version of marginshot, time in UTC, and the computer with its library versions.
    """

    arguments: Mapping[str, Any]
    features: Mapping[str, str]
    results: tuple[CellResult, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    command: str = ""
    complete: bool = False
    version: str = __version__
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    machine: Mapping[str, str] = field(default_factory=lambda: describe_machine())

    def cells(self) -> set[Cell]:
        """Cells that are finished or left out."""
        return {result.cell for result in self.results} | {entry.cell for entry in self.left_out}

    def add(self, entry: CellResult | LeftOut) -> RegimeTable:
        """The table with one more cell, or with a new result of a cell it has."""
        if isinstance(entry, LeftOut):
            return replace(self, left_out=(*self.left_out, entry))
        results = {result.cell: result for result in self.results} | {entry.cell: entry}
        return replace(self, results=tuple(results.values()))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON to ``path``."""
        entries = {item.name: getattr(self, item.name) for item in fields(self)}
        entries["results"] = [_to_json(result) for result in self.results]
        entries["left_out"] = [asdict(entry) for entry in self.left_out]
        content = json.dumps({"format": FORMAT, **entries}, indent=1, allow_nan=False)
        with atomic_path(path) as temporary:
            temporary.write_text(content + "\n", encoding="utf-8")

    def save_csv(self, path: str | os.PathLike[str], of: str) -> None:
        """Write one row per cell and method to ``path``; accuracies are shares of 1, differences are to ``of``."""
        with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(CSV_COLUMNS)
            for result in self.results:
                cell, own = result.cell, result.score(of)
                for score in result.scores:
                    names = (safe_cell(name) for name in (cell.features, cell.regime))
                    asked = (*names, cell.way, cell.shot, safe_cell(score.method))
                    gap = ("", "", "") if own in (None, score) else (safe_cell(of), *result.difference(score, own))
                    found = (score.accuracy, score.ci95, *gap, round(1000 * score.seconds_per_task, 4))
                    writer.writerow((*asked, result.tasks, result.redrawn_tasks, *found))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RegimeTable:
        """Read what `save` wrote."""
        target = Path(path)
        content = read_json(target, "a table of `marginshot regimes`", _REPEAT)
        found = content.pop("format", None)
        if found == _EARLIER:
            raise ValueError(
                f"{target.name} is of an earlier version, which did not keep the tasks that paired intervals need. "
                f"Write to a new folder. {_REPEAT}"
            )
        if found != FORMAT:
            raise DamagedFileError(
                f"{target.name} was not written by `marginshot regimes`: no format {FORMAT!r} in it."
            )
        with reading(target, "a table of `marginshot regimes`", _REPEAT):
            results = tuple(_read_result(entry) for entry in content.pop("results"))
            left_out = tuple(LeftOut(cell=Cell(**item["cell"]), reason=item["reason"]) for item in content["left_out"])
            table = cls(**(content | {"results": results, "left_out": left_out}))
            table.cells()
            dict(table.features), dict(table.arguments["methods"])
        return table


def _to_json(result: CellResult) -> dict[str, Any]:
    """A result as JSON types; the right answers of all tasks are one text, a line of the file and not thousands."""
    entry = {item.name: getattr(result, item.name) for item in fields(result)}
    scores = [vars(score) | {"right": " ".join(map(str, score.right))} for score in result.scores]
    return entry | {"cell": asdict(result.cell), "scores": scores, "too_slow": dict(result.too_slow)}


def _read_result(entry: dict[str, Any]) -> CellResult:
    scores = tuple(Score(**(score | {"right": tuple(map(int, score["right"].split()))})) for score in entry["scores"])
    for score in scores:
        check_shares(f"the accuracies of {score.method}", np.array([score.accuracy]))
        if not (0 <= score.ci95 < math.inf and 0 <= score.seconds_per_task < math.inf):
            raise ValueError(f"an interval or a time of {score.method} is not a positive number")
        per_task = np.array(score.right, dtype=np.float64) / entry["queries"]
        if len(per_task) != entry["tasks"] or abs(float(per_task.mean()) - score.accuracy) > ROUNDING:
            raise ValueError(f"the accuracy of {score.method} is not the mean of its {entry['tasks']} tasks")
        check_shares(f"the tasks of {score.method}", per_task)
    return CellResult(**(entry | {"cell": Cell(**entry["cell"]), "scores": scores}))
