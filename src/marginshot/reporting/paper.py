"""The paper's Tables 1 to 3, and our numbers in the columns beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from marginshot.evaluation.results import Evaluation, MethodResult
from marginshot.reporting.grid import Cell, Grid
from marginshot.reporting.tables import percent

# Our method names -> the paper's.
_PAPER_NAMES = {
    "fs-tmmc": "FS-TMMC",
    "fs-mmc": "FS-MMC",
    "simpleshot": "SimpleShot",
    "laplacianshot": "LaplacianShot",
    "bd-cspn": "BD-CSPN",
    "protonet": "ProtoNet",
    "matchingnet": "MatchingNet",
    "transductive-finetuning": "Transductive tuning",
}

# Patterns in the name of a feature file that identify its dataset and network.
_DATASETS = {
    "miniImageNet → CUB": r"mini.*cub",
    "miniImageNet": r"mini",
    "tieredImageNet": r"tiered",
    "CUB": r"cub",
}
_NETWORKS = {"ResNet-18": r"(resnet|rn)[-_]?18", "WRN": r"wrn|wide", "DenseNet": r"densenet|dn[-_]?121"}


@dataclass(frozen=True, kw_only=True)
class PaperCell:
    """A printed number in per cent; ``ci95`` where the paper gives one."""

    accuracy: float
    ci95: float | None
    bold: bool


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """One line of a table; ``cells`` follow the columns of the table, None where the paper has no number."""

    method: str
    network: str
    cells: tuple[PaperCell | None, ...]


@dataclass(frozen=True, kw_only=True)
class PaperTable:
    """One table; ``columns`` are pairs of dataset and shot, ``groups`` the parts between rules."""

    number: int
    caption: str
    columns: tuple[tuple[str, int], ...]
    groups: tuple[tuple[PaperRow, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One of our results and the cell of the paper it belongs beside."""

    dataset: str
    network: str
    result: MethodResult


@cache
def paper_tables() -> tuple[PaperTable, ...]:
    """All tables, as printed."""
    content = json.loads(files("marginshot.reporting").joinpath("paper_tables.json").read_text(encoding="utf-8"))
    return tuple(
        PaperTable(
            number=table["number"],
            caption=table["caption"],
            columns=tuple((dataset, shot) for dataset, shot in table["columns"]),
            groups=tuple(tuple(_read_row(row) for row in group) for group in table["groups"]),
        )
        for table in content["tables"]
    )


def _read_row(row: dict[str, list[list[float] | None]]) -> PaperRow:
    cells = (
        None if cell is None else PaperCell(accuracy=cell[0], ci95=cell[1], bold=bool(cell[2])) for cell in row["cells"]
    )
    return PaperRow(method=str(row["method"]), network=str(row["network"]), cells=tuple(cells))


_PROTOCOL = {"query": 15, "dirichlet": None, "present": None}


def place_results(evaluation: Evaluation, dataset: str | None = None, network: str | None = None) -> list[Measured]:
    """Find the paper's cell for each of our results, by ``dataset`` and ``network`` or by the name of the features."""
    placed = []
    as_printed = all(evaluation.arguments[name] == value for name, value in _PROTOCOL.items())
    for result in evaluation.results:
        known_dataset, known_network = identify(result.features, dataset, network)
        if result.way == 5 and result.settings["method"] in _PAPER_NAMES and as_printed:
            placed.append(Measured(dataset=known_dataset, network=known_network, result=result))
    if not placed:
        names = ", ".join(_PAPER_NAMES)
        raise ValueError(
            "No result stands in the paper's tables: they are 5-way with 15 queries of every class, and of our methods "
            f"have {names}."
        )
    return placed


def identify(source: str, dataset: str | None = None, network: str | None = None) -> tuple[str, str]:
    """The paper's dataset and network, as given or else read from the name of the features."""
    return _choose(dataset, _DATASETS, source, "dataset"), _choose(network, _NETWORKS, source, "network")


def printed_methods(tables: Sequence[PaperTable], dataset: str, network: str) -> list[str]:
    """Our names of the methods for which ``tables`` have a number on this dataset and network, in printed order."""
    ours = {paper: name for name, paper in _PAPER_NAMES.items()}
    printed = {
        row.method: None
        for table in tables
        for row in (row for group in table.groups for row in group)
        if row.network == network
        and any(cell and column[0] == dataset for column, cell in zip(table.columns, row.cells, strict=True))
    }
    found = [ours[method] for method in printed if method in ours]
    if not found:
        numbers = " and ".join(str(table.number) for table in tables)
        raise ValueError(f"Table {numbers} of the paper has no numbers for {dataset} with {network}; ask for another.")
    return found


def _choose(given: str | None, patterns: dict[str, str], source: str, what: str) -> str:
    if given is not None:
        exact = {name.lower().replace("→", "->").replace(" ", ""): name for name in patterns}
        key = given.lower().replace("→", "->").replace(" ", "")
        if key not in exact:
            raise ValueError(f"The paper has no {what} {given!r}; it has {', '.join(patterns)}.")
        return exact[key]
    for name, pattern in patterns.items():
        if re.search(pattern, source.lower()):
            return name
    raise ValueError(f"The name {source!r} does not say the {what}. Say it with --{what} ({', '.join(patterns)}).")


def _find_ours(table: PaperTable, measured: Sequence[Measured]) -> list[dict[tuple[str, str], MethodResult]]:
    """For each column of the table our results by method and network, where the paper has a number."""
    found = []
    for place, column in enumerate(table.columns):
        printed = {(row.method, row.network) for group in table.groups for row in group if row.cells[place]}
        ours = {
            (_PAPER_NAMES[m.result.settings["method"]], m.network): m.result
            for m in measured
            if (m.dataset, m.result.shot) == column
        }
        found.append({key: result for key, result in ours.items() if key in printed})
    return found


def has_place(table: PaperTable, measured: Sequence[Measured]) -> bool:
    """Whether one of our results stands beside a number of the table."""
    return any(_find_ours(table, measured))


def table_numbers(table: PaperTable, measured: Sequence[Measured] = ()) -> list[dict[str, Any]]:
    """One entry per printed number, in per cent, with ours beside it; None where it is missing."""
    entries = []
    shown = _find_ours(table, measured)
    for row in (row for group in table.groups for row in group):
        for (dataset, shot), cell, ours in zip(table.columns, row.cells, shown, strict=True):
            if cell is None:
                continue
            result = ours.get((row.method, row.network))
            entries.append(
                {
                    "table": table.number,
                    "method": row.method,
                    "network": row.network,
                    "dataset": dataset,
                    "shot": shot,
                    "printed": cell.accuracy,
                    "printed_ci95": cell.ci95,
                    "ours": None if result is None else 100 * result.accuracy,
                    "ours_ci95": None if result is None else 100 * result.ci95,
                    "difference": None if result is None else 100 * result.accuracy - cell.accuracy,
                }
            )
    return entries


def numbers_grid(entries: Sequence[Mapping[str, Any]]) -> Grid:
    """`table_numbers` of some tables as one table."""
    rows = tuple(tuple(Cell("" if value is None else str(value)) for value in entry.values()) for entry in entries)
    return Grid(headers=tuple(entries[0]), sections=(rows,))


def table_grid(table: PaperTable, measured: Sequence[Measured] = ()) -> Grid:
    """The table as printed; a column for which we have a number is followed by ours and the difference."""
    headers = ["Method", "Network"]
    shown = _find_ours(table, measured)
    for (dataset, shot), ours in zip(table.columns, shown, strict=True):
        headers += [f"{dataset} {shot}-shot", *(("ours", "Δ") if ours else ())]
    sections = tuple(tuple(_grid_row(row, shown) for row in group) for group in table.groups)
    return Grid(headers=tuple(headers), sections=sections, n_text=2, title=f"Table {table.number}. {table.caption}")


def _grid_row(row: PaperRow, shown: Sequence[dict[tuple[str, str], MethodResult]]) -> tuple[Cell, ...]:
    cells = [Cell(row.method), Cell(row.network)]
    for cell, ours in zip(row.cells, shown, strict=True):
        cells.append(_printed(cell))
        if not ours:
            continue
        result = ours.get((row.method, row.network))
        if result is None or cell is None:
            cells += [Cell(""), Cell("")]
            continue
        gap = result.accuracy - cell.accuracy / 100
        cells += [Cell(percent(result.accuracy, result.ci95)), Cell(percent(gap, signed=True))]
    return tuple(cells)


def _printed(cell: PaperCell | None) -> Cell:
    if cell is None:
        return Cell("–")
    interval = None if cell.ci95 is None else cell.ci95 / 100
    return Cell(percent(cell.accuracy / 100, interval), bold=cell.bold)
