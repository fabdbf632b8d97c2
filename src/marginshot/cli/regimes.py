"""``marginshot regimes``: methods over regimes, ways, shots and features, as a table and a heat map."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marginshot._lib.extras import need
from marginshot.cli import _errors
from marginshot.cli._options import Jobs, Plugins, load_plugins, parse_methods
from marginshot.cli._output import check_outputs, clean, emit, emit_grid, progress_bar, say

if TYPE_CHECKING:
    from marginshot.evaluation.regime_table import CellResult, RegimeTable
    from marginshot.evaluation.regimes import RegimePlan

DEFAULT_REGIMES = ["balanced", "dirichlet-2", "dirichlet-0.5", "present-5"]
DEFAULT_WAYS = [2, 5, 10, 20, 40]
DEFAULT_SHOTS = [1, 3, 5, 10]


def command(
    features: Annotated[list[str], typer.Argument(help="As for `marginshot evaluate`.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for regimes.json, .csv, .png and .svg.")] = Path("regimes"),
    regime: Annotated[
        list[str], typer.Option("--regime", help="balanced, dirichlet-A or present-N; repeat for several.")
    ] = DEFAULT_REGIMES,
    way: Annotated[list[int], typer.Option("--way", help="Classes per task; repeat for several.")] = DEFAULT_WAYS,
    shot: Annotated[
        list[int], typer.Option("--shot", help="Support examples per class; repeat for several.")
    ] = DEFAULT_SHOTS,
    query: Annotated[int, typer.Option("--query", help="Queries per class.")] = 15,
    methods: Annotated[
        str, typer.Option("--methods", help="Comma-separated, or 'all'; see `marginshot methods`.")
    ] = "all",
    of: Annotated[
        str,
        typer.Option(
            "--of", help="Methods to compare with the best of the others, comma-separated; mapped: the first."
        ),
    ] = "fs-tmmc-auto",
    interval: Annotated[
        float, typer.Option("--interval", help="Tasks are added until every 95 % interval is at most ± this, points.")
    ] = 1.0,
    max_tasks: Annotated[int, typer.Option("--max-tasks", help="Most tasks per cell.")] = 2000,
    budget: Annotated[
        float, typer.Option("--budget", help="Seconds of a core for a method and cell; slower ones are left out of it.")
    ] = 120.0,
    seed: Annotated[int, typer.Option("--seed", help="Task i depends on the seed and i alone.")] = 0,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML with settings of methods, e.g. from `marginshot tune`.")
    ] = None,
    plugin: Plugins = None,
    jobs: Jobs = -1,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the cells that are in --out, add those that are not.")
    ] = False,
    again: Annotated[
        str | None,
        typer.Option("--again", help="With --resume: methods that changed or are new, comma-separated."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Start over; replace files others made.")] = False,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Read pickles. They can run any code: only files you trust.")
    ] = False,
) -> None:
    """Compare methods over regimes, ways, shots and features: who is best where, by paired 95 % intervals.

    All methods of a cell see the same tasks, and --of is compared with the best of the others on them. Cells for which
    the features do not suffice are left out and reported. The table is written after every cell, so Ctrl-C or a power
    cut costs one cell. --resume continues a table, adds ways, shots, regimes or features to it, and draws it again for
    another --of. --resume --again NAME measures a method that changed or is new on the same tasks, and keeps the scores
    of the others.

    Example: marginshot regimes features.npz digits --way 5 --way 20 -j 2 --out regimes/
    """
    need("numba")
    need("matplotlib")  # draws the heat map when all cells are done
    check_folder(out, resume=resume, force=force)
    from marginshot.data.features import load_features
    from marginshot.evaluation.regime_table import RegimeTable
    from marginshot.evaluation.regimes import Regime, RegimePlan

    load_plugins(plugin)
    chosen = parse_methods(methods, config)
    compared = parse_of(of, list(chosen))
    changed = parse_again(again, list(chosen), resume=resume)
    plan = RegimePlan(
        regimes=[Regime.parse(text) for text in dict.fromkeys(regime)],
        ways=list(dict.fromkeys(way)),
        shots=list(dict.fromkeys(shot)),
        n_query_per_class=query,
        seed=seed,
        ci95=interval / 100,
        max_tasks=max_tasks,
        budget=budget,
        methods=chosen,
        banks=[load_features(spec, allow_pickle=allow_pickle) for spec in features],
    )
    given = shlex.join(["marginshot", *sys.argv[1:]])
    target = table_path(out)
    table = plan.continue_table(RegimeTable.load(target), given, changed) if resume and target.exists() else None
    out.mkdir(exist_ok=True)
    table = run_cells(plan, table or plan.start_table(given), target, compared[0], jobs, changed)
    write_pictures(table, out, compared)
    show(table, compared)
    if not table.complete:
        when = "" if table.results else " before any cell was finished"
        say(f"Interrupted{when}. What is finished is in {out}: repeat the command with --resume to continue.")
        raise typer.Exit(_errors.INTERRUPTED)
    say(f"Table and heat map written to {out}")


def parse_of(of: str, methods: list[str]) -> list[str]:
    """Names of the methods to compare with the best of the others; at least one other is left."""
    names = list(dict.fromkeys(name.strip() for name in of.split(",") if name.strip()))
    missing = [name for name in names if name not in methods]
    if missing or not names:
        raise typer.BadParameter(
            f"{missing[0] if missing else repr(of)} must be one of the --methods; got {', '.join(methods)}.",
            param_hint="--of",
        )
    if len(names) == len(methods):
        raise typer.BadParameter(
            f"no other method is left to compare with; got {', '.join(methods)}. Add one to --methods.",
            param_hint="--of",
        )
    return names


def parse_again(again: str | None, methods: list[str], *, resume: bool) -> list[str]:
    """Names of the methods to measure again."""
    names = [name.strip() for name in (again or "").split(",") if name.strip()]
    if names and not resume:
        raise typer.BadParameter(
            "only a table that is there can be measured again; add --resume.", param_hint="--again"
        )
    unknown = [name for name in names if name not in methods]
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]!r} is not one of the --methods; got {', '.join(methods)}.", param_hint="--again"
        )
    return names


def table_path(out: Path) -> Path:
    """Path of the table, from which all other files are made."""
    return out / "regimes.json"


def check_folder(out: Path, *, resume: bool, force: bool) -> None:
    """Check all files before the work starts."""
    if resume and force:
        raise typer.BadParameter("--force starts over, --resume continues: give one of them.", param_hint="--resume")
    if not out.exists():
        check_outputs([out], force=force)
        return
    if not out.is_dir():
        raise NotADirectoryError(f"Cannot write to {out}: it is a file. Give the name of a folder.")
    clean([out])
    table = table_path(out)
    check_outputs([table], force=force)
    if not table.exists():
        check_outputs([table.with_suffix(suffix) for suffix in (".csv", ".png", ".svg")], force=force)
    elif not (resume or force):
        raise FileExistsError(f"{table} is there already. Go on with it by --resume, or start over with --force.")


def run_cells(plan: RegimePlan, table: RegimeTable, target: Path, of: str, jobs: int, again: list[str]) -> RegimeTable:
    """Run the cells and write the table after each; after Ctrl-C it is marked as incomplete."""
    from marginshot.evaluation.protocol import warnings_once
    from marginshot.evaluation.regime_table import CellResult
    from marginshot.evaluation.regimes import measure_again, run_regimes

    cells = [cell for cell, _, _ in plan.cells()]
    known = table.cells()
    n_done = 0 if again else sum(cell in known for cell in cells)
    table.save(target)
    with progress_bar("cells") as update, warnings_once():

        def on_tasks(done: int, needed: int) -> None:
            update(n_done, len(cells), f"{done} of {needed} tasks")

        try:
            changed = measure_again(plan, table, again, n_jobs=jobs, on_tasks=on_tasks)
            missing = run_regimes(plan, known=known, n_jobs=jobs, on_tasks=on_tasks)
            for entry in chain(changed, missing):
                n_done += 1
                table = table.add(entry)
                table.save(target)
                if isinstance(entry, CellResult):
                    say(describe(entry, of))
            table = replace(table, complete=True)
        except KeyboardInterrupt:
            say("Stopping.")
    # Written again, because the interruption may have come between a cell and its writing.
    table.save(target)
    return table


def describe(result: CellResult, of: str) -> str:
    """One line on a finished cell: the method ``of``, and the best method if it is another."""
    from marginshot.reporting.tables import percent

    first = max(result.scores, key=lambda score: score.accuracy, default=None)
    shown = [score for score in result.scores if score is first or score.method == of]
    scores = ", ".join(f"{score.method} {percent(score.accuracy, score.ci95)}" for score in shown)
    return f"{result.cell}: {result.tasks} tasks; {scores or 'all methods too slow'}"


def write_pictures(table: RegimeTable, out: Path, compared: list[str]) -> None:
    """Write the table as CSV, and the heat map of the first method compared."""
    from marginshot.reporting.regimes import find_standings, save_heat_map

    target = table_path(out)
    table.save_csv(target.with_suffix(".csv"), compared[0])
    standings = find_standings(table, compared[0], without=compared)
    for picture in (target.with_suffix(".png"), target.with_suffix(".svg")):
        if standings:
            save_heat_map(picture, standings, compared[0])
        else:
            # Remove a picture of an earlier table, which would not match this one.
            picture.unlink(missing_ok=True)


def show(table: RegimeTable, compared: list[str]) -> None:
    """Print the number of cells in which each method compared is ahead, level and behind."""
    from marginshot.reporting.regimes import counts_table, describe_gaps, find_standings, summarise

    for line in describe_gaps(table):
        say(line)
    for name in compared:
        standings = find_standings(table, name, without=compared)
        if standings:
            emit_grid(counts_table(standings, name))
        emit(summarise(standings, name))
