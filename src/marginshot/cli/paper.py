"""``marginshot paper``: the paper's tables, and ours beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginshot.cli._options import Jobs
from marginshot.cli._output import emit, emit_grid
from marginshot.cli.evaluate import Format, run_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from marginshot.evaluation.run import Run
    from marginshot.reporting.paper import Measured, PaperTable

_TASKS = 10_000  # of the paper, for each number of shots


def command(
    results: Annotated[
        list[Path] | None, typer.Argument(help="Result files of `marginshot evaluate --json`, to show beside.")
    ] = None,
    table: Annotated[int | None, typer.Option("--table", help="1, 2 or 3; all by default.")] = None,
    dataset: Annotated[
        str | None,
        typer.Option(
            "--dataset", help="Dataset of the results: miniImageNet, tieredImageNet, CUB, 'miniImageNet -> CUB'."
        ),
    ] = None,
    network: Annotated[
        str | None, typer.Option("--network", help="Network of the results: ResNet-18, WRN or DenseNet.")
    ] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", help="Features: run the methods of the tables on them now. Repeat for several."),
    ] = None,
    tasks: Annotated[
        int | None, typer.Option("--tasks", help="With --measure: tasks of each number of shots (default 10000).")
    ] = None,
    jobs: Jobs = -1,
    form: Annotated[Format, typer.Option("--format", help="How the tables are printed.")] = Format.TABLE,
) -> None:
    """Print Tables 1 to 3 of the FS-TMMC paper, with your own numbers beside them where results or features are given.

    Dataset and network are read from the name of the features (mini-resnet18-test.npz) unless they are given.
    --format csv and json give one entry per printed number, in per cent.

    Example: marginshot paper --table 1 --measure benchmarks/features/mini_resnet18-test.npz
    """
    from marginshot.evaluation.results import Evaluation
    from marginshot.reporting.paper import has_place, paper_tables, place_results, table_grid, table_numbers

    tables = [entry for entry in paper_tables() if table in (None, entry.number)]
    if not tables:
        raise typer.BadParameter(f"the paper has tables 1, 2 and 3; got {table}.", param_hint="--table")
    if tasks is not None and not measure:
        raise typer.BadParameter("it needs features to run the methods on: give --measure FILE.", param_hint="--tasks")
    measured: list[Measured] = []
    for path in results or ():
        measured += place_results(Evaluation.load(path), dataset, network)
    for run in [_plan(spec, tables, dataset, network, tasks) for spec in measure or ()]:
        measured += place_results(run_tasks(run, None, jobs), dataset, network)
    if measure and table is None:
        tables = [entry for entry in tables if has_place(entry, measured)]
    if form in (Format.CSV, Format.JSON):
        entries = [entry for one in tables for entry in table_numbers(one, measured)]
        emit(json.dumps(entries, indent=1, ensure_ascii=False) if form is Format.JSON else _as_csv(entries))
        return
    for one in tables:
        grid = table_grid(one, measured)
        if form is Format.TABLE:
            emit_grid(grid)
        else:
            emit(grid.render(form.value) + "\n")


def _plan(spec: str, tables: Sequence[PaperTable], dataset: str | None, network: str | None, tasks: int | None) -> Run:
    """The paper's protocol on features, for the methods that the tables have on their dataset and network."""
    from marginshot.data.features import load_features
    from marginshot.data.sampler import TaskSettings
    from marginshot.evaluation.run import Run
    from marginshot.methods import get_method
    from marginshot.reporting.paper import identify, printed_methods

    bank = load_features(spec)
    names = printed_methods(tables, *identify(bank.source, dataset, network))
    settings = [TaskSettings(n_way=5, n_shot=shot) for shot in (1, 5)]
    return Run(
        banks=[bank],
        methods={name: get_method(name) for name in names},
        settings=settings,
        n_tasks=_TASKS if tasks is None else tasks,
    )


def _as_csv(entries: Sequence[Mapping[str, Any]]) -> str:
    from marginshot.reporting.paper import numbers_grid

    return numbers_grid(entries).render("csv")
