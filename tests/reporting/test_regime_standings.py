"""The summary of regimes says what the scores say, and the heat map shows all of them."""

from __future__ import annotations

import re

import pytest

from marginshot.evaluation.regime_table import Cell, CellResult, LeftOut, RegimeTable, Score
from marginshot.reporting.regimes import (
    counts_table,
    describe_gaps,
    draw_heat_map,
    find_standings,
    save_heat_map,
    summarise,
)


def make_result(way: int, regime: str = "balanced", tasks: int = 50, redrawn: int = 0, **accuracies) -> CellResult:
    """Accuracies in per cent; every interval is ± 1."""
    scores = tuple(
        Score(method=name.replace("_", "-"), accuracy=value / 100, ci95=0.01, seconds_per_task=0.002)
        for name, value in accuracies.items()
    )
    cell = Cell(features="some.npz", regime=regime, way=way, shot=1)
    return CellResult(cell=cell, tasks=tasks, redrawn_tasks=redrawn, scores=scores, too_slow={})


def make_table(*results: CellResult, **more) -> RegimeTable:
    return RegimeTable(arguments={"ci95": 0.01}, features={}, results=results, **more)


@pytest.fixture
def table() -> RegimeTable:
    return make_table(
        make_result(2, auto=80, fs_mmc=70, ridge=75),  # first
        make_result(5, auto=80, fs_mmc=70, ridge=80.7),  # within its interval
        make_result(10, auto=80, fs_mmc=80.5, ridge=82),  # neither
        make_result(2, "present-1", auto=60, fs_mmc=60, ridge=50),  # level
        make_result(5, "present-1", fs_mmc=60, ridge=50),  # not there
    )


def test_standing_is_against_the_best_of_the_others(table):
    standings = find_standings(table, "auto")
    assert [(s.cell.way, s.best.method, s.is_first, s.holds) for s in standings] == [
        (2, "ridge", True, True),
        (5, "ridge", False, True),
        (10, "ridge", False, False),
        (2, "fs-mmc", True, True),
    ]
    assert [round(100 * s.distance, 2) for s in standings] == [5, -0.7, -2, 0]


def test_summary(table):
    assert summarise(find_standings(table, "auto"), "auto") == (
        "auto: first or within its interval in 3 of 4 cells; "
        "never more than 0.50 points below fs-mmc (worst: some.npz, balanced, 10-way 1-shot)."
    )
    ahead = find_standings(make_table(table.results[0]), "auto")
    assert summarise(ahead, "auto").endswith("never below fs-mmc (nearest: some.npz, balanced, 2-way 1-shot, +10.00).")
    itself = summarise(find_standings(table, "fs-mmc"), "fs-mmc")
    assert itself == "fs-mmc: first or within its interval in 2 of 5 cells."
    assert summarise([], "auto") == "No cell compares auto with another method."


def test_counts_by_regime_and_features(table):
    grid = counts_table(find_standings(table, "auto"), "auto")
    assert grid.render("csv") == "Regime,some\nbalanced,2 of 3\npresent-1,1 of 1"


def test_what_is_missing_is_counted():
    slow = make_result(5, auto=80, fs_mmc=70, redrawn=26)
    slow = CellResult(**(vars(slow) | {"too_slow": {"ridge": 9.0}}))
    wide = make_result(10, auto=80, fs_mmc=70)
    wide = CellResult(**(vars(wide) | {"scores": (Score(method="auto", accuracy=1, ci95=0.02, seconds_per_task=1),)}))
    cells = [Cell(features="some.npz", regime="balanced", way=way, shot=1) for way in (20, 40, 50)]
    reasons = ("too few", "too few", "too small")
    left_out = tuple(LeftOut(cell=cell, reason=reason) for cell, reason in zip(cells, reasons, strict=True))
    assert describe_gaps(make_table(slow, wide, left_out=left_out)) == [
        "Left out 2 cells: too few.",
        "Left out 1 cell: too small.",
        "Left out ridge of 1 cell: too slow.",
        "In 1 cell an interval is wider than ± 1 after the most tasks allowed.",
        "In 1 cell most tasks asked for more queries than a class has, and were drawn again: their shares are milder "
        "than the regime says.",
    ]
    assert describe_gaps(make_table(make_result(5, auto=80, fs_mmc=70))) == []


def test_heat_map_shows_every_cell(table, tmp_path):
    standings = find_standings(table, "auto")
    figure = draw_heat_map(standings, "auto")
    panels = {ax.get_title(): ax for ax in figure.axes if ax.get_title()}
    assert list(panels) == ["2-way", "5-way", "10-way"]
    written = [text.get_text() for ax in panels.values() for text in ax.texts]
    assert written == ["+5.0", "ridge", "0.0", "fs-mmc", "−0.7", "ridge", "−2.0", "ridge"]
    dots = {title: [line.get_markerfacecolor() != "none" for line in ax.lines] for title, ax in panels.items()}
    assert dots == {"2-way": [True, True], "5-way": [False], "10-way": []}
    # Blue where ahead, red where behind, the same distance equally strong.
    (image,) = panels["10-way"].images
    assert image.get_clim() == (-5, 5)

    save_heat_map(tmp_path / "map.svg", standings, "auto")
    svg = (tmp_path / "map.svg").read_text()
    assert "marginshot-output" in svg
    assert re.findall(r">([+−]\d\.\d)<", svg) == ["+5.0", "−0.7", "−2.0"]
