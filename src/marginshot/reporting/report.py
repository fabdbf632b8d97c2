"""An evaluation as one self-contained HTML page."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from marginshot._lib.files import atomic_path
from marginshot.evaluation.results import Evaluation, MethodResult
from marginshot.reporting import figures, tables

_SECTIONS: tuple[tuple[str, str, Callable[[Sequence[MethodResult]], str | None]], ...] = (
    (
        "Accuracy",
        "Mean accuracy over all tasks with its 95 % confidence interval. Filled: transductive; hollow: inductive.",
        figures.accuracy_chart,
    ),
    (
        "Paired differences",
        "Every method sees the same tasks, so the difference task by task is known far better than either mean. "
        "An interval that leaves out zero is a difference one can rely on where it is the only one looked at; for many "
        "methods at once see the adjusted p in the table.",
        figures.difference_chart,
    ),
    (
        "Tasks, easy and hard",
        "How the accuracies of single tasks spread, one row per method, each scaled to its own peak; the upright line "
        "is the mean.",
        figures.tasks_chart,
    ),
    (
        "Accuracy against time",
        "Time of the method itself on one core, without drawing the task. Up and to the left is better. "
        "Numbers rank by accuracy.",
        figures.time_chart,
    ),
    (
        "Calibration",
        "How often an answer is right, given how sure the method is, for the methods that define probabilities. "
        "On the dashed line confidence can be taken at its word; below it a method is too sure. "
        "ECE is the mean distance from it, in points.",
        figures.calibration_chart,
    ),
)


def write_report(evaluation: Evaluation, path: str | os.PathLike[str]) -> None:
    """Write the page to ``path``; it needs no other file and no network."""
    page = render_report(evaluation)
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def render_report(evaluation: Evaluation) -> str:
    """The page as text. Names of files, classes and methods are escaped wherever they appear."""
    environment = Environment(
        loader=PackageLoader("marginshot.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": tables.percent, "duration": tables.duration, "p_value": tables.p_value}
    blocks = tables.ranked_blocks(evaluation)
    return environment.get_template("report.html").render(
        evaluation=evaluation,
        blocks=[_describe_block(evaluation, block) for block in blocks],
        sections=[_describe_section(evaluation, blocks, *section) for section in _SECTIONS],
        methods=_describe_methods(blocks[0]),
        tasks=tables.describe_tasks(evaluation),
        notes=tables.notes(evaluation),
        reference=next((result.title for result in evaluation.results if result.difference is None), ""),
    )


def _describe_block(evaluation: Evaluation, block: Sequence[MethodResult]) -> dict[str, Any]:
    best = block[0]
    return {
        "name": _block_name(evaluation, block),
        "rows": [{"name": tables.name_of(r), "best": r is best or r.among_best, "result": r} for r in block],
        "best": best,
        "best_name": tables.name_of(best),
        "reference": next(result for result in block if result.difference is None),
    }


def _block_name(evaluation: Evaluation, block: Sequence[MethodResult]) -> str:
    task = tables.task_name(block[0])
    return f"{block[0].features}, {task}" if len(evaluation.features) > 1 else task


def _describe_section(
    evaluation: Evaluation,
    blocks: Sequence[Sequence[MethodResult]],
    title: str,
    text: str,
    draw: Callable[[Sequence[MethodResult]], str | None],
) -> dict[str, Any]:
    drawn = ((_block_name(evaluation, block), draw(block)) for block in blocks)
    charts = [{"name": name, "svg": Markup(svg)} for name, svg in drawn if svg is not None]
    return {"title": title, "text": text, "charts": charts}


def _describe_methods(block: Sequence[MethodResult]) -> list[dict[str, Any]]:
    return [
        {
            "name": tables.name_of(result),
            "label": result.method,
            "mode": "transductive" if result.transductive else "inductive",
            "reference": result.reference,
            "settings": ", ".join(f"{k} = {_show(v)}" for k, v in result.settings.items() if k != "method") or "none",
        }
        for result in block
    ]


def _show(value: Any) -> str:
    return f"({', '.join(_show(item) for item in value)})" if isinstance(value, list | tuple) else str(value)
