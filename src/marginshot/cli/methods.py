"""``marginshot methods``: the list of all methods."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Annotated

import typer

from marginshot.cli._options import sort_methods
from marginshot.cli._output import emit, emit_grid
from marginshot.cli.evaluate import Format


def command(
    form: Annotated[Format, typer.Option("--format", help="How the table is printed.")] = Format.TABLE,
) -> None:
    """List all methods with the paper each follows and its settings.

    Example: marginshot methods --format markdown
    """
    from marginshot.methods import METHODS
    from marginshot.reporting.grid import Cell, Grid

    entries = [
        {
            "name": name,
            "title": method.title,
            "setting": "transductive" if method.transductive else "inductive",
            "settings": ", ".join(f"{item.name}={item.default!r}" for item in fields(method)) or "none",  # type: ignore[arg-type]
            "reference": method.reference,
        }
        for name, method in ((name, METHODS[name]) for name in sort_methods(METHODS))
    ]
    if form is Format.JSON:
        emit(json.dumps(entries, indent=1))
        return
    rows = tuple(tuple(Cell(value) for value in entry.values()) for entry in entries)
    grid = Grid(headers=("Name", "Method", "Setting", "Settings", "Reference"), sections=(rows,), n_text=5)
    if form is Format.TABLE:
        emit_grid(grid)
    else:
        emit(grid.render(form.value))
