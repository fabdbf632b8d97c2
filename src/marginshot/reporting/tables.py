"""Results as tables: in full for the screen and for programs, as papers print them for pasting."""

from __future__ import annotations

from marginshot.evaluation.results import Evaluation, MethodResult
from marginshot.reporting.grid import Cell, Grid


def task_name(result: MethodResult) -> str:
    """``5-way 1-shot``, as papers say it; unequal shots are listed."""
    shot = result.shot if isinstance(result.shot, int) else ",".join(map(str, result.shot))
    return f"{result.way}-way {shot}-shot"


def percent(value: float, ci95: float | None = None, *, signed: bool = False) -> str:
    """A share of 1 in per cent with two decimals, and its interval."""
    # A true minus sign is as wide as the plus.
    text = f"{100 * value:{'+' if signed else ''}.2f}".replace("-", "−")
    return text if ci95 is None else f"{text} ± {100 * ci95:.2f}"


def duration(seconds: float) -> str:
    """Milliseconds with three significant digits."""
    milliseconds = 1000 * seconds
    decimals = 3 if milliseconds < 1 else 2 if milliseconds < 10 else 1 if milliseconds < 100 else 0
    return f"{milliseconds:,.{decimals}f}"


def full_table(evaluation: Evaluation) -> Grid:
    """One row per method and block, with everything measured."""
    reference = next((r.difference.to for r in evaluation.results if r.difference), None)
    titles = {result.method: result.title for result in evaluation.results}
    several_files = len(evaluation.features) > 1
    headers = (
        *(("Features",) if several_files else ()),
        "Task",
        "Method",
        "Accuracy %",
        f"Δ to {titles[reference]}" if reference else "Δ",
        "Worst tenth %",
        "ECE %",
        "ms/task",
    )
    sections = []
    for block in evaluation.blocks():
        best = max(result.accuracy for result in block)
        rows = []
        for result in block:
            names = (task_name(result), mark(result))
            rows.append(
                (
                    *((Cell(result.features),) if several_files else ()),
                    *(Cell(name) for name in names),
                    Cell(percent(result.accuracy, result.ci95), bold=result.accuracy == best),
                    Cell(_difference(result)),
                    Cell(percent(result.worst_tenth)),
                    Cell(percent(result.calibration.ece) if result.calibration else "–"),
                    Cell(duration(result.seconds_per_task)),
                )
            )
        sections.append(tuple(rows))
    n_text = 3 if several_files else 2
    return Grid(headers=headers, sections=tuple(sections), n_text=n_text, title=describe_tasks(evaluation))


def name_of(result: MethodResult) -> str:
    """Title of a method, with its label where that says more."""
    return result.title if result.settings.get("method") == result.method else f"{result.title} ({result.method})"


def mark(result: MethodResult) -> str:
    """The same, with a T for transductive."""
    return f"{name_of(result)} [T]" if result.transductive else name_of(result)


def _difference(result: MethodResult) -> str:
    if result.difference is None:
        return "reference"
    return percent(result.difference.mean, result.difference.ci95, signed=True)


def paper_table(evaluation: Evaluation) -> Grid:
    """Methods down, blocks across, accuracy with interval in each cell, the best of a column in bold."""
    blocks = evaluation.blocks()
    several_files = len(evaluation.features) > 1
    heads = [(f"{block[0].features}, " if several_files else "") + task_name(block[0]) for block in blocks]
    best = [max(result.accuracy for result in block) for block in blocks]
    rows = []
    for place, first in enumerate(blocks[0]):
        cells = [
            Cell(percent(block[place].accuracy, block[place].ci95), bold=block[place].accuracy == top)
            for block, top in zip(blocks, best, strict=True)
        ]
        mode = "transductive" if first.transductive else "inductive"
        slowest = max(block[place].seconds_per_task for block in blocks)
        rows.append((Cell(name_of(first)), Cell(mode), *cells, Cell(duration(slowest))))
    headers = ("Method", "Setting", *heads, "ms/task")
    return Grid(headers=headers, sections=(tuple(rows),), n_text=2, title=describe_tasks(evaluation))


def numbers_table(evaluation: Evaluation) -> Grid:
    """One row per method and block with plain numbers, for spreadsheets and data frames."""
    headers = (
        *("features", "way", "shot", "query", "tasks", "method", "transductive", "accuracy", "ci95", "worst_tenth"),
        *("seconds_per_task", "difference_to", "difference", "difference_ci95", "ece"),
    )
    rows = []
    for r in evaluation.results:
        gap, curve = r.difference, r.calibration
        shot = r.shot if isinstance(r.shot, int) else " ".join(map(str, r.shot))
        numbers: tuple[object, ...] = (r.accuracy, r.ci95, r.worst_tenth, r.seconds_per_task)
        compared: tuple[object, ...] = (gap.to, gap.mean, gap.ci95) if gap else ("", "", "")
        values = (r.features, r.way, shot, r.query, r.tasks, r.method, r.transductive, *numbers, *compared)
        rows.append(tuple(Cell(str(value)) for value in (*values, curve.ece if curve else "")))
    return Grid(headers=headers, sections=(tuple(rows),), n_text=1)


def describe_tasks(evaluation: Evaluation) -> str:
    """One line on how the tasks were drawn."""
    arguments = evaluation.arguments
    parts = [
        ", ".join(record.source for record in evaluation.features),
        f"{arguments['tasks']:,} tasks",
        f"{arguments['query']} queries a class",
    ]
    if arguments.get("present") is not None:
        parts.append(f"{arguments['present']} classes present")
    if arguments.get("dirichlet") is not None:
        parts.append(f"Dirichlet {arguments['dirichlet']:g}")
    return "; ".join([*parts, f"seed {arguments['seed']}"])


def notes(evaluation: Evaluation) -> list[str]:
    """What a reader of the numbers must know: missing tasks, redrawn shares."""
    lines = []
    if not evaluation.complete:
        lines.append("Interrupted: the numbers are over the tasks finished so far.")
    redrawn = {result.block: result for result in evaluation.results if result.redrawn_tasks}
    lines += [
        f"{r.features}, {task_name(r)}: in {r.redrawn_tasks:,} of {r.tasks:,} tasks the class shares asked for more "
        "queries than a class has, and were drawn again."
        for r in redrawn.values()
    ]
    return lines
