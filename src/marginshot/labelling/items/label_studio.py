"""Tasks as Label Studio exports them (JSON and JSON-MIN), read as a table: their data, and a column for each choice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from marginshot._lib.reading import reading
from marginshot._lib.warn import warn_user

#: The column of the choices, where there is but one.
LABEL_COLUMN = "label"

#: The suffix of its exports.
TASK_SUFFIX = ".json"

#: What addresses of files on its own machine begin with.
LOCAL_FILES = "/data/local-files/?d="

# Fields of an annotation in JSON-MIN that are neither data of the task nor answers.
_ABOUT = ("id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time")


def read_tasks(path: Path) -> dict[str, list[str]]:
    """Columns of the ``data`` of all tasks as text, and one for each control of choices, empty where nobody chose.

    Of several annotations of a task the one written last counts; those skipped or cancelled do not. Data that are
    lists or objects are left out.
    """
    with reading(path, "tasks of Label Studio", "Export the project as JSON."):
        content = json.loads(path.read_text(encoding="utf-8-sig"))
        if not isinstance(content, list) or not all(isinstance(task, Mapping) for task in content):
            raise ValueError("it is not a list of tasks")
        content = _newest_of_each(content)
        records = [_record(task) for task in content]
    controls = list(dict.fromkeys(name for _, chosen, _ in records for name in chosen))
    named = {controls[0]: LABEL_COLUMN} if len(controls) == 1 else {name: name for name in controls}
    fields = list(dict.fromkeys(name for data, _, _ in records for name in data))
    if not fields:
        raise ValueError(f"{path} holds no tasks with data.")
    columns = {
        name: [_as_text(data.get(name)) for data, _, _ in records] for name in fields if name not in named.values()
    }
    columns |= {named[name]: [chosen.get(name, "") for _, chosen, _ in records] for name in controls}
    if several := sum(n for _, _, n in records):
        warn_user(f"{path.name}: {several:,} answers with several choices are taken as no label.")
    return columns


def chosen_in(results: Any) -> Iterator[tuple[str, list[str]]]:
    """Name of the control and what was chosen, for every answer of choices among the results of an annotation."""
    for result in results if isinstance(results, list) else ():
        value = result.get("value") if isinstance(result, Mapping) else None
        choices = value.get("choices") if isinstance(value, Mapping) else None
        if isinstance(choices, list) and all(isinstance(choice, str) for choice in choices):
            yield str(result.get("from_name", LABEL_COLUMN)), choices


def newest(annotations: Any) -> Mapping[str, Any]:
    """The annotation that was written last and not cancelled; empty where there is none."""
    whole = [one for one in annotations if isinstance(one, Mapping)] if isinstance(annotations, list) else []
    held = [one for one in whole if not one.get("was_cancelled")]
    return max(held, key=_moment, default={})


def _newest_of_each(tasks: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The tasks; of those that JSON-MIN repeats for each annotation, the one written last."""
    found: dict[object, Mapping[str, Any]] = {}
    for place, task in enumerate(tasks):
        repeated = "annotation_id" in task and isinstance(task.get("id"), int | str) and "data" not in task
        key = ("task", task["id"]) if repeated else place
        if key not in found or _moment(task) >= _moment(found[key]):
            found[key] = task
    return list(found.values())


def _moment(written: Mapping[str, Any]) -> str:
    return str(written.get("updated_at") or written.get("created_at") or "")


def _as_text(value: Any) -> str:
    """A value of JSON as it would stand in a table of text."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _single(data: Mapping[str, Any]) -> dict[str, Any]:
    """What of the data is one value."""
    return {name: value for name, value in data.items() if not isinstance(value, Mapping | list)}


def _record(task: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str], int]:
    """The data of a task, its choices by control, and how many answers have several choices."""
    if not isinstance(task.get("data"), Mapping):  # JSON-MIN has all in one
        several = sum(isinstance(value, Mapping) and "choices" in value for value in task.values())
        about = _ABOUT if "annotation_id" in task else ()
        return {name: value for name, value in _single(task).items() if name not in about}, {}, several
    found = list(chosen_in(newest(task.get("annotations")).get("result")))
    single = {name: choices[0] for name, choices in found if len(choices) == 1}
    return _single(task["data"]), single, sum(len(choices) > 1 for _, choices in found)
