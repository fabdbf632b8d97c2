"""``marginshot paper``: the paper's tables, and ours beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginshot.cli._output import emit, emit_grid
from marginshot.cli.evaluate import Format

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from marginshot.reporting.paper import Measured


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
    form: Annotated[Format, typer.Option("--format", help="How the tables are printed.")] = Format.TABLE,
) -> None:
    """Print Tables 1 to 3 of the FS-TMMC paper, with your own numbers beside them where results are given.

    Dataset and network are read from the name of the features (mini-resnet18-test.npz) unless they are given.
    --format csv and json give one entry per printed number, in per cent.

    Example: marginshot paper result.json --table 3 --dataset miniImageNet --network ResNet-18
    """
    from marginshot.evaluation.results import Evaluation
    from marginshot.reporting.paper import paper_tables, place_results, table_grid, table_numbers

    measured: list[Measured] = []
    for path in results or ():
        measured += place_results(Evaluation.load(path), dataset, network)
    tables = [entry for entry in paper_tables() if table in (None, entry.number)]
    if not tables:
        raise typer.BadParameter(f"the paper has tables 1, 2 and 3; got {table}.", param_hint="--table")
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


def _as_csv(entries: Sequence[Mapping[str, Any]]) -> str:
    from marginshot.reporting.paper import numbers_grid

    return numbers_grid(entries).render("csv")
