"""The summary of regimes says what the scores say, and the heat map shows all of them."""

from __future__ import annotations

import re
from dataclasses import replace

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


def make_score(method: str, accuracy: float, tasks: int = 50, swing: int = 0) -> Score:
    """``accuracy`` in per cent of 1000 queries; odd tasks have ``swing`` right answers more, even ones fewer."""
    right = tuple(round(10 * accuracy) + (swing if i % 2 else -swing) for i in range(tasks))
    return Score(method=method, accuracy=accuracy / 100, ci95=0.01, seconds_per_task=0.002, right=right)


def make_result(way: int, regime: str = "balanced", tasks: int = 50, redrawn: int = 0, **accuracies) -> CellResult:
    """Accuracies in per cent; every interval is ± 1. That of `ridge` differs from task to task, by ± 3 points."""
    scores = tuple(
        make_score(name.replace("_", "-"), value, tasks, swing=30 if name == "ridge" else 0)
        for name, value in accuracies.items()
    )
    cell = Cell(features="some.npz", regime=regime, way=way, shot=1)
    return CellResult(cell=cell, tasks=tasks, redrawn_tasks=redrawn, queries=1000, scores=scores, too_slow={})


def make_table(*results: CellResult, **more) -> RegimeTable:
    return RegimeTable(arguments={"ci95": 0.01}, features={}, results=results, **more)


@pytest.fixture
def table() -> RegimeTable:
    return make_table(
        make_result(2, auto=80, fs_mmc=70, ridge=75),  # ahead
        make_result(5, auto=80, fs_mmc=70, ridge=80.7),  # level: the difference is 0.7 ± 0.86
        make_result(10, auto=80, fs_mmc=80.5, ridge=82),  # behind
        make_result(2, "present-1", auto=60, fs_mmc=60, ridge=50),  # equal
        make_result(5, "present-1", fs_mmc=60, ridge=50),  # not there
    )


def test_standing_is_against_the_best_of_the_others(table):
    standings = find_standings(table, "auto")
    assert [(s.cell.way, s.best.method, s.place.value) for s in standings] == [
        (2, "ridge", "ahead"),
        (5, "ridge", "level"),
        (10, "ridge", "behind"),
        (2, "fs-mmc", "level"),
    ]
    assert [round(100 * s.distance, 2) for s in standings] == [5, -0.7, -2, 0]
    assert [round(100 * s.ci95, 2) for s in standings] == [0.86, 0.86, 0.86, 0]


def test_a_paired_interval_decides_and_not_the_methods_own():
    """0.4 points behind in every task: inside the method's own interval of a point, yet certain (issue 36)."""
    (standing,) = find_standings(make_table(make_result(5, auto=80, svm=80.4)), "auto")
    assert standing.own.ci95 == 0.01
    assert standing.place.value == "behind"


def test_methods_of_one_family_are_not_each_others_rivals(table):
    standings = find_standings(table, "auto", without=["auto", "ridge"])
    assert {s.best.method for s in standings} == {"fs-mmc"}


def test_summary(table):
    assert summarise(find_standings(table, "auto"), "auto") == (
        "auto against the best other method of each cell, by paired 95 % intervals: ahead in 1, level in 2, "
        "behind in 1 of 4 cells; never more than 0.50 points below fs-mmc (worst: some.npz, balanced, 10-way 1-shot)."
    )
    ahead = find_standings(make_table(table.results[0]), "auto")
    assert summarise(ahead, "auto").endswith("never below fs-mmc (nearest: some.npz, balanced, 2-way 1-shot, +10.00).")
    itself = summarise(find_standings(table, "fs-mmc"), "fs-mmc")
    assert itself.endswith("ahead in 1, level in 1, behind in 3 of 5 cells.")
    assert summarise([], "auto") == "No cell compares auto with another method."


def test_counts_by_regime_and_features(table):
    grid = counts_table(find_standings(table, "auto"), "auto")
    assert grid.render("csv") == "Regime,some\nbalanced,1 / 1 / 1\npresent-1,0 / 1 / 0"


def test_what_is_missing_is_counted():
    slow = make_result(5, auto=80, fs_mmc=70, redrawn=26)
    slow = CellResult(**(vars(slow) | {"too_slow": {"ridge": 9.0}}))
    wide = make_result(10, auto=80, fs_mmc=70)
    wide = CellResult(**(vars(wide) | {"scores": (replace(make_score("auto", 80), ci95=0.02),)}))
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
    assert dots == {"2-way": [True, False], "5-way": [False], "10-way": []}
    # Blue where ahead, red where behind, the same distance equally strong.
    (image,) = panels["10-way"].images
    assert image.get_clim() == (-5, 5)

    save_heat_map(tmp_path / "map.svg", standings, "auto")
    svg = (tmp_path / "map.svg").read_text()
    assert "marginshot-output" in svg
    assert re.findall(r">([+−]\d\.\d)<", svg) == ["+5.0", "−0.7", "−2.0"]
