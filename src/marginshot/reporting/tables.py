"""Results as tables: complete for the screen and for programs, and in the form papers print."""

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


def p_value(p: float | None) -> str:
    """An adjusted p-value with one significant digit or two; a dash where it is missing."""
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def ranked_blocks(evaluation: Evaluation) -> list[list[MethodResult]]:
    """Results grouped by the tasks they are on, the highest accuracy first."""
    return [sorted(block, key=lambda result: -result.accuracy) for block in evaluation.blocks()]


def full_table(evaluation: Evaluation) -> Grid:
    """One row per method and block with everything measured, the highest accuracy first."""
    reference = next((r.difference.to for r in evaluation.results if r.difference), None)
    titles = {result.method: result.title for result in evaluation.results}
    several_files = len(evaluation.features) > 1
    is_open = any(result.open_set for result in evaluation.results)
    names = (*(("Features",) if several_files else ()), "Task", "Method")
    headers = (
        *names,
        "Accuracy %",
        "",
        f"Δ to {titles[reference]}" if reference else "Δ",
        "Holm p",
        "Worst tenth %",
        "ECE %",
        *(("AUROC %", "AUPR %") if is_open else ()),
        "ms/task",
    )
    sections = []
    for block in ranked_blocks(evaluation):
        rows = []
        for place, result in enumerate(block):
            words = (*((result.features,) if several_files else ()), task_name(result), mark(result))
            rows.append(
                (
                    *(Cell(word) for word in words),
                    Cell(percent(result.accuracy, result.ci95), bold=place == 0),
                    Cell("●" if place == 0 else "○" if result.among_best else ""),
                    Cell(_difference(result)),
                    Cell(p_value(result.difference.p_holm) if result.difference else ""),
                    Cell(percent(result.worst_tenth)),
                    Cell(percent(result.calibration.ece) if result.calibration else "–"),
                    *_of_open_set(result),
                    Cell(duration(result.seconds_per_task)),
                )
            )
        sections.append(tuple(rows))
    return Grid(headers=headers, sections=tuple(sections), n_text=len(names), title=describe_tasks(evaluation))


def _of_open_set(result: MethodResult) -> tuple[Cell, ...]:
    """Areas under the curves of foreign queries, where there were any."""
    found = result.open_set
    if found is None:
        return ()
    return Cell(percent(found.auroc, found.auroc_ci95)), Cell(percent(found.aupr, found.aupr_ci95))


def name_of(result: MethodResult) -> str:
    """Title of a method, with its label where that says more."""
    return result.title if result.settings.get("method") == result.method else f"{result.title} ({result.method})"


def mark(result: MethodResult) -> str:
    """Title of a method, with a T if it is transductive, and a P if it was given a prior."""
    return name_of(result) + " [T]" * result.transductive + " [P]" * result.given_prior


def _difference(result: MethodResult) -> str:
    if result.difference is None:
        return "reference"
    return percent(result.difference.mean, result.difference.ci95, signed=True)


def paper_table(evaluation: Evaluation) -> Grid:
    """Methods down, the highest mean accuracy first; accuracy, Δ and calibration error of each block across.

    In bold: the first of a block, and all that are not significantly below it.
    """
    blocks = [{result.method: result for result in block} for block in ranked_blocks(evaluation)]
    several_files = len(evaluation.features) > 1
    headers = ["Method", "Setting"]
    for block in blocks:
        one = next(iter(block.values()))
        headers += [(f"{one.features}, " if several_files else "") + task_name(one), "Δ", "ECE"]
    names = sorted(blocks[0], key=lambda name: -sum(block[name].accuracy for block in blocks))
    rows = []
    for name in names:
        cells: list[Cell] = []
        for block in blocks:
            result, first = block[name], next(iter(block.values()))
            cells += [
                Cell(percent(result.accuracy, result.ci95), bold=result.among_best or result is first),
                Cell(_difference(result) if result.difference else "–"),
                Cell(percent(result.calibration.ece) if result.calibration else "–"),
            ]
        slowest = max(block[name].seconds_per_task for block in blocks)
        mode = "transductive" if blocks[0][name].transductive else "inductive"
        mode += ", with the prior" * blocks[0][name].given_prior
        rows.append((Cell(name_of(blocks[0][name])), Cell(mode), *cells, Cell(duration(slowest))))
    headers.append("ms/task")
    return Grid(headers=tuple(headers), sections=(tuple(rows),), n_text=2, title=describe_tasks(evaluation))


def numbers_table(evaluation: Evaluation) -> Grid:
    """One row per method and block with plain numbers, for spreadsheets and data frames; the highest accuracy first."""
    headers = (
        *("features", "way", "shot", "query", "dirichlet", "present", "foreign", "seed", "tasks", "redrawn_tasks"),
        *("method", "transductive", "given_prior", "accuracy", "ci95", "among_best", "worst_tenth", "seconds_per_task"),
        *("difference_to", "difference", "difference_ci95", "p_holm", "ece", "auroc", "aupr"),
    )
    regime = [evaluation.arguments.get(name) for name in ("dirichlet", "present", "foreign", "seed")]
    rows = []
    for r in (result for block in ranked_blocks(evaluation) for result in block):
        gap, curve = r.difference, r.calibration
        shot = r.shot if isinstance(r.shot, int) else " ".join(map(str, r.shot))
        values = (
            *(r.features, r.way, shot, r.query, *regime, r.tasks, r.redrawn_tasks),
            *(
                r.method,
                r.transductive,
                r.given_prior,
                r.accuracy,
                r.ci95,
                r.among_best,
                r.worst_tenth,
                r.seconds_per_task,
            ),
            *((gap.to, gap.mean, gap.ci95, gap.p_holm) if gap else [None] * 4),
            curve.ece if curve else None,
            *((r.open_set.auroc, r.open_set.aupr) if r.open_set else (None, None)),
        )
        rows.append(tuple(Cell("" if value is None else str(value)) for value in values))
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
    if arguments.get("foreign"):
        parts.append(f"and of {arguments['foreign']} foreign classes")
    if arguments.get("dirichlet") is not None:
        parts.append(f"Dirichlet {arguments['dirichlet']:g}")
    if arguments.get("prior") is not None:
        parts.append(f"prior of [P]: {arguments['prior']}")
    return "; ".join([*parts, f"seed {arguments['seed']}"])


def notes(evaluation: Evaluation) -> list[str]:
    """Notes below the numbers: missing tasks, what intervals are over, redrawn shares."""
    lines = []
    if not evaluation.complete:
        lines.append("Interrupted: the numbers are over the tasks finished so far.")
    if evaluation.arguments.get("intervals") == "classes":
        lines.append("Intervals are for other classes of this kind as well as other tasks; p values are for tasks.")
    redrawn = {result.block: result for result in evaluation.results if result.redrawn_tasks}
    lines += [
        f"{r.features}, {task_name(r)}: in {r.redrawn_tasks:,} of {r.tasks:,} tasks the class shares asked for more "
        "queries than a class has, and were drawn again."
        for r in redrawn.values()
    ]
    return lines
