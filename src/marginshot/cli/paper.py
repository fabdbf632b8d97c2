"""``marginshot paper``: the paper's tables, and ours beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marginshot.cli._output import emit, emit_grid
from marginshot.cli.evaluate import Format

if TYPE_CHECKING:
    from marginshot.reporting.paper import Measured


def command(
    results: Annotated[
        list[Path] | None, typer.Argument(help="Result files of `marginshot evaluate --json`, to show beside.")
    ] = None,
    table: Annotated[int | None, typer.Option("--table", help="1, 2 or 3; all by default.")] = None,
    dataset: Annotated[
        str | None,
        typer.Option("--dataset", help="Of the results: miniImageNet, tieredImageNet, CUB or 'miniImageNet -> CUB'."),
    ] = None,
    network: Annotated[
        str | None, typer.Option("--network", help="Of the results: ResNet-18, WRN or DenseNet.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="How the tables are printed.")] = Format.TABLE,
) -> None:
    """Print Tables 1 to 3 of the FS-TMMC paper, with your own numbers beside them where results are given.

    Dataset and network are read from the name of the features (mini-resnet18-test.npz) unless they are given.

    Example: marginshot paper result.json --table 3 --dataset miniImageNet --network ResNet-18
    """
    from marginshot.evaluation.results import Evaluation
    from marginshot.reporting.paper import paper_tables, place_results, table_grid

    measured: list[Measured] = []
    for path in results or ():
        measured += place_results(Evaluation.load(path), dataset, network)
    tables = [entry for entry in paper_tables() if table in (None, entry.number)]
    if not tables:
        raise typer.BadParameter(f"the paper has tables 1, 2 and 3; got {table}.", param_hint="--table")
    grids = [table_grid(entry, measured) for entry in tables]
    if form is Format.JSON:
        rows = [
            dict(zip(_unique(grid.headers), (cell.text for cell in row), strict=True)) | {"table": entry.number}
            for entry, grid in zip(tables, grids, strict=True)
            for section in grid.sections
            for row in section
        ]
        emit(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    for grid in grids:
        if form is Format.TABLE:
            emit_grid(grid)
        else:
            emit(grid.render(form.value) + "\n")


def _unique(headers: tuple[str, ...]) -> list[str]:
    """``ours`` and ``Δ`` occur once per column of the paper: say which."""
    named, last = [], ""
    for header in headers:
        if header in ("ours", "Δ"):
            named.append(f"{last}, {header}")
        else:
            named.append(header)
            last = header
    return named
