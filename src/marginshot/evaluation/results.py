"""Results of an evaluation, as dataclasses and as JSON with the accuracies of all tasks beside it."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot import __version__
from marginshot._lib.files import atomic_path
from marginshot._lib.reading import DamagedFileError, read_json, read_npz, reading

#: First entry of every result file; `Evaluation.load` refuses a file without it.
FORMAT = "marginshot-output/1"

# Fields of a result that are arrays -> how their names begin in the file beside the JSON.
_ARRAYS = {"per_task": "result", "reliability": "reliability", "redrawn": "redrawn", "foreign": "foreign"}

_REPEAT = "Evaluate again: repeat the command of the run, with --force."
ROUNDING = 1e-6


@dataclass(frozen=True, kw_only=True)
class FeatureRecord:
    """The features an evaluation ran on; ``sha256`` is `FeatureBank.content_hash`."""

    source: str
    sha256: str
    n_rows: int
    n_features: int
    n_classes: int


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Mean difference in accuracy to another method on the same tasks, and half its 95 % interval.

    ``p_holm`` is the p-value of the paired t-test, adjusted by Holm's method for the methods compared on these tasks,
    not for other blocks; None in results of earlier versions. ``ci95_classes`` is half the interval over classes as
    well as tasks, see `interval_over_classes`.
    """

    to: str
    mean: float
    ci95: float
    p_holm: float | None = None
    ci95_classes: float | None = None


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Reliability of a method's probabilities: the expected calibration error, and the curve it comes from."""

    ece: float
    confidence: tuple[float, ...]
    accuracy: tuple[float, ...]
    n_queries: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class OpenSet:
    """How well foreign queries are told: mean areas under the ROC and precision-recall curves, and half intervals."""

    auroc: float
    auroc_ci95: float
    aupr: float
    aupr_ci95: float


@dataclass(frozen=True, kw_only=True)
class MethodResult:
    """One method on the tasks of one block: features, way and shot.

    Parameters
    ----------
    features : str
        Source of the features, one of `Evaluation.features`.
    method : str
        Label of the method; ``title`` is how a table names it, ``reference`` its paper, ``settings`` its parameters.
    transductive : bool
        Whether the method uses all queries of a task together.
    way, shot, query : int
        Classes, support examples per class (a tuple where they differ) and queries per class.
    tasks : int
        Tasks finished.
    accuracy, ci95 : float
        Mean over the tasks, 0 to 1, and half the width of its 95 % confidence interval.
    worst_tenth : float
        Mean accuracy of the worst tenth of the tasks.
    seconds_per_task : float
        Processor time of the method itself, on one core, without drawing the task and without what tasks share.
    difference : Difference, optional
        To the reference method; None for that method itself.
    calibration : Calibration, optional
        For a method that gives probabilities.
    redrawn_tasks : int
        Tasks whose class shares had to be drawn again to fit the class sizes.
    per_task : ndarray of shape (tasks,)
        Accuracy of every task, in order. Two methods of one block have the same tasks, so their arrays can be
        subtracted. `Evaluation.save` keeps them in the ``.npz`` beside the JSON; the entry ``per_task`` in the JSON is
        the name of the array.
    among_best : bool
        Whether the method is first in its block, or not significantly below the first (paired t-test at 5 %, adjusted
        by Holm's method). False in results of earlier versions.
    ci95_classes : float, optional
        Half the 95 % interval over classes as well as tasks; None where all classes occur in every task.
    given_prior : bool
        Whether the method was given beliefs about the queries besides their features.
    reliability : ndarray of int64 of shape (N_BINS, 3), optional
        Counts behind ``calibration``; kept beside ``per_task``, as is the next. None in results of earlier versions.
    redrawn : ndarray of bool of shape (tasks,), optional
        Which tasks had their class shares drawn again.
    open_set : OpenSet, optional
        Where queries of foreign classes were among the queries; the accuracy is that on the others.
    foreign : ndarray of shape (tasks, 2), optional
        Areas behind ``open_set``, of every task; kept beside ``per_task``.
    """

    features: str
    method: str
    title: str
    reference: str
    transductive: bool
    settings: Mapping[str, Any]
    way: int
    shot: int | tuple[int, ...]
    query: int
    tasks: int
    accuracy: float
    ci95: float
    worst_tenth: float
    seconds_per_task: float
    difference: Difference | None
    calibration: Calibration | None
    redrawn_tasks: int
    per_task: NDArray[np.float64] = field(repr=False)
    among_best: bool = False
    ci95_classes: float | None = None
    given_prior: bool = False
    reliability: NDArray[np.int64] | None = field(default=None, repr=False)
    redrawn: NDArray[np.bool_] | None = field(default=None, repr=False)
    open_set: OpenSet | None = None
    foreign: NDArray[np.float64] | None = field(default=None, repr=False)

    @property
    def block(self) -> tuple[str, int, int | tuple[int, ...]]:
        """Features, way and shot; all results of one block are on the same tasks."""
        return self.features, self.way, self.shot

    def to_json(self) -> dict[str, Any]:
        """Everything but the arrays."""
        entry = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in _ARRAYS}
        for name in ("difference", "calibration", "open_set"):
            entry[name] = None if entry[name] is None else asdict(entry[name])
        return entry


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A whole run: what is needed to repeat it, and its results.

    Parameters
    ----------
    arguments : mapping
        Everything that chooses the tasks and methods: way, shot, query, tasks, seed, dirichlet, present, methods.
    features : tuple of FeatureRecord
    results : tuple of MethodResult
        Block by block, methods in the order asked for.
    command : str
        The command line, or an empty text for a run from Python.
    complete : bool
        False where the run was interrupted and some tasks are missing.
    version, created, machine
        Version of marginshot, time in UTC, and the computer with its library versions.
    """

    arguments: Mapping[str, Any]
    features: tuple[FeatureRecord, ...]
    results: tuple[MethodResult, ...]
    command: str = ""
    complete: bool = True
    version: str = __version__
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    machine: Mapping[str, str] = field(default_factory=lambda: describe_machine())

    def identity(self) -> dict[str, Any]:
        """`Run.identity` of the run that gave this result."""
        return as_json({**self.arguments, "sha256": [record.sha256 for record in self.features]})

    def over_classes(self) -> Evaluation:
        """The evaluation with every interval taken over classes as well as tasks."""
        results = []
        for result in self.results:
            if result.ci95_classes is None:
                raise ValueError(
                    f"There is no interval over classes for {result.features}, {result.way} ways: it needs more "
                    "classes than ways, and at least two tasks of every class."
                )
            gap = result.difference
            if gap is not None:
                gap = replace(gap, ci95=gap.ci95_classes or 0.0)
            results.append(replace(result, ci95=result.ci95_classes, difference=gap))
        return replace(self, arguments={**self.arguments, "intervals": "classes"}, results=tuple(results))

    def blocks(self) -> list[list[MethodResult]]:
        """Results grouped by the tasks they are on."""
        groups: dict[Any, list[MethodResult]] = {}
        for result in self.results:
            groups.setdefault(result.block, []).append(result)
        return list(groups.values())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON to ``path`` and the accuracies of all tasks to `tasks_path` beside it.

        The JSON is written last and holds the hash of the other file. After a power cut between the two, `load` notices
        that they do not belong together.
        """
        target = Path(path)
        with atomic_path(tasks_path(target)) as temporary:
            np.savez_compressed(temporary, allow_pickle=False, **self._tasks_arrays())
            digest = _sha256(temporary)
        with atomic_path(target) as temporary:
            content = {**self.to_json(tasks_path(target).name), "per_task_sha256": digest}
            temporary.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")

    def _tasks_arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {}
        for i, result in enumerate(self.results):
            found = {prefix: getattr(result, name) for name, prefix in _ARRAYS.items()}
            arrays |= {f"{prefix}_{i}": array for prefix, array in found.items() if array is not None}
        # The name of this entry, in plain text in the file, marks it as ours.
        return {"marginshot-output": np.array(FORMAT)} | arrays

    def to_json(self, per_task: str | None = None) -> dict[str, Any]:
        """The evaluation as JSON types; ``per_task`` names the file with the accuracies of single tasks."""
        entry = {item.name: getattr(self, item.name) for item in fields(self)}
        entry["features"] = [asdict(record) for record in self.features]
        entry["results"] = [
            result.to_json() | ({} if per_task is None else {"per_task": f"result_{i}"})
            for i, result in enumerate(self.results)
        ]
        results = entry.pop("results")
        seed = self.arguments.get("seed")
        return {"format": FORMAT, **entry, "seed": seed, "per_task_file": per_task, "results": results}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Evaluation:
        """Read what `save` wrote."""
        target = Path(path)
        content = read_json(target, "a result file of `marginshot evaluate`")
        if content.get("format") != FORMAT:
            raise DamagedFileError(
                f"{target.name} is not a result file of `marginshot evaluate`: no format {FORMAT!r} in it."
            )
        with reading(target, "a result file of `marginshot evaluate`", _REPEAT):
            beside = target.with_name(content["per_task_file"])
            arrays = _read_tasks(beside, target, content.get("per_task_sha256"))
            results = tuple(_read_result(entry, arrays) for entry in content["results"])
            known = {item.name for item in fields(cls)}
            rest = {name: value for name, value in content.items() if name in known}
            rest["features"] = tuple(FeatureRecord(**record) for record in content["features"])
            loaded = cls(**(rest | {"results": results}))
            loaded.identity()
        return loaded


def _read_tasks(beside: Path, target: Path, digest: str | None) -> dict[str, Any]:
    if not beside.exists():
        raise FileNotFoundError(f"{beside.name}, the accuracies of single tasks, is missing beside {target.name}.")
    arrays = read_npz(beside, "the accuracies of single tasks", _REPEAT)
    if digest is not None and _sha256(beside) != digest:  # results of earlier versions name none
        raise DamagedFileError(
            f"{target.name} and {beside.name} are of two different runs: one was stopped between writing them, or a "
            f"file was replaced. {_REPEAT}"
        )
    return arrays


def _read_result(entry: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> MethodResult:
    number = entry["per_task"].removeprefix("result_")
    entry = dict(entry, per_task=arrays[entry["per_task"]])
    entry |= {name: arrays.get(f"{prefix}_{number}") for name, prefix in _ARRAYS.items() if name != "per_task"}
    if isinstance(entry["shot"], list):
        entry["shot"] = tuple(entry["shot"])
    if entry["difference"] is not None:
        entry["difference"] = Difference(**entry["difference"])
    if entry["calibration"] is not None:
        curve = entry["calibration"]
        lists = {name: tuple(curve[name]) for name in ("confidence", "accuracy", "n_queries")}
        entry["calibration"] = Calibration(ece=curve["ece"], **lists)
    if entry.get("open_set") is not None:
        entry["open_set"] = OpenSet(**entry["open_set"])
    result = MethodResult(**entry)
    _check_values(result)
    return result


def _check_values(result: MethodResult) -> None:
    """Raise ValueError if a number is outside its range, or an accuracy is not the mean of its tasks."""
    per_task = result.per_task
    check_shares(f"the tasks of {result.method}", per_task)
    if per_task.shape != (result.tasks,) or abs(float(per_task.mean()) - result.accuracy) > ROUNDING:
        raise ValueError(f"the accuracy of {result.method} is not the mean of its {result.tasks} tasks")
    shares = [result.accuracy, result.worst_tenth]
    if result.difference is not None:
        shares += [abs(result.difference.mean), result.difference.p_holm or 0.0]
    if result.calibration is not None:
        shares += [result.calibration.ece, *result.calibration.confidence, *result.calibration.accuracy]
    if result.open_set is not None:
        shares += [result.open_set.auroc, result.open_set.aupr]
    check_shares(f"the accuracies of {result.method}", np.array(shares))
    lengths = [result.ci95, result.seconds_per_task, result.ci95_classes or 0.0]
    if result.difference is not None:
        lengths += [result.difference.ci95, result.difference.ci95_classes or 0.0]
    if result.reliability is not None and (result.reliability < 0).any():
        raise ValueError(f"a count of {result.method} is negative")
    if result.redrawn is not None and result.redrawn.sum() != result.redrawn_tasks:
        raise ValueError(f"{result.redrawn_tasks} redrawn tasks of {result.method} are not those listed")
    if not all(0 <= value < math.inf for value in lengths):
        raise ValueError(f"an interval or a time of {result.method} is not a positive number")


def check_shares(what: str, values: NDArray[Any]) -> None:
    """Raise ValueError unless all ``values`` are numbers from 0 to 1."""
    if values.dtype.kind != "f" or not bool(((values >= 0) & (values <= 1)).all()):
        raise ValueError(f"{what} are not all between 0 and 1")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def as_json(content: Any) -> Any:
    """``content`` after a round trip through JSON, which turns tuples into lists."""
    return json.loads(json.dumps(content))


def tasks_path(path: Path) -> Path:
    """Path of the accuracies of all tasks for a result at ``path``."""
    return beside_result(path, "tasks.npz")


def beside_result(path: Path, suffix: str) -> Path:
    """A file with the name of the result at ``path`` and a ``suffix`` of its own."""
    return path.with_name(f"{path.name.removesuffix('.json')}.{suffix}")


def describe_machine() -> dict[str, str]:
    """Computer and library versions, as far as they can change a time or a last digit."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn", "numba")},
    }


def _processor() -> str:
    """Name of the processor as Linux gives it, elsewhere as Python does."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
