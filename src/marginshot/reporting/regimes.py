"""One method compared with the others over regimes: a summary, a table of counts, a heat map."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np

from marginshot.evaluation.regime_table import Cell, RegimeTable, Score
from marginshot.reporting.figures import house_style, save_figure
from marginshot.reporting.grid import Cell as GridCell
from marginshot.reporting.grid import Grid
from marginshot.reporting.tables import percent

if TYPE_CHECKING:
    import os

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The inductive baseline, which a transductive method should not fall below.
FLOOR_METHOD = "fs-mmc"

# Points up to which colour grows with distance; beyond, with its logarithm. One extreme cell then does not wash out the
# others, and none is off the scale.
_LINEAR_POINTS = 1.5
_TICKS = (1, 2, 5, 10, 20, 50)
_EMPTY = "#f3f4f5"
_INK = "#22282e"


class Place(StrEnum):
    """Where a method stands against the best of the others, by the paired 95 % interval of the difference."""

    AHEAD = "ahead"
    LEVEL = "level"
    BEHIND = "behind"


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The chosen method in one cell, the best of its rivals, and FS-MMC where it took part.

    Parameters
    ----------
    cell : Cell
    own, best : Score
    distance, ci95 : float
        Mean accuracy of the chosen method less that of the best rival on the same tasks, in shares of 1, and half its
        paired 95 % interval. The interval is not widened for the choice of the best of many, which is to the rival's
        advantage.
    floor : Score or None
    """

    cell: Cell
    own: Score
    best: Score
    distance: float
    ci95: float
    floor: Score | None

    @property
    def place(self) -> Place:
        """Ahead or behind where the interval leaves out 0, level where it does not."""
        if abs(self.distance) <= self.ci95:
            return Place.LEVEL
        return Place.AHEAD if self.distance > 0 else Place.BEHIND


def find_standings(table: RegimeTable, of: str, without: Collection[str] = ()) -> list[Standing]:
    """The standing of the method ``of`` in every cell that has it and a rival: any other method not in ``without``."""
    standings = []
    for result in table.results:
        own = result.score(of)
        rivals = [score for score in result.scores if score.method != of and score.method not in without]
        if own is not None and rivals:
            best = max(rivals, key=lambda score: score.accuracy)
            distance, ci95 = result.difference(own, best)
            floor = None if of == FLOOR_METHOD else result.score(FLOOR_METHOD)
            standings.append(Standing(cell=result.cell, own=own, best=best, distance=distance, ci95=ci95, floor=floor))
    return standings


def summarise(standings: Sequence[Standing], of: str) -> str:
    """The cells in which the method is ahead, level and behind, and its worst cell against FS-MMC."""
    if not standings:
        return f"No cell compares {of} with another method."
    counts = _counts(standings)
    text = (
        f"{of} against the best other method of each cell, by paired 95 % intervals: ahead in {counts[Place.AHEAD]}, "
        f"level in {counts[Place.LEVEL]}, behind in {counts[Place.BEHIND]} of {len(standings)} cells"
    )
    gaps = [(s.own.accuracy - s.floor.accuracy, s.cell) for s in standings if s.floor is not None]
    if not gaps:
        return f"{text}."
    gap, cell = min(gaps, key=lambda pair: pair[0])
    if gap >= 0:
        return f"{text}; never below {FLOOR_METHOD} (nearest: {cell}, {percent(gap, signed=True)})."
    return f"{text}; never more than {percent(-gap)} points below {FLOOR_METHOD} (worst: {cell})."


def _counts(standings: Sequence[Standing]) -> dict[Place, int]:
    return {place: sum(standing.place is place for standing in standings) for place in Place}


def counts_table(standings: Sequence[Standing], of: str) -> Grid:
    """Cells in which the method is ahead, level and behind: regimes down, features across."""
    regimes = _in_order(standing.cell.regime for standing in standings)
    features = _in_order(standing.cell.features for standing in standings)
    rows = tuple(
        (GridCell(regime), *(GridCell(_count(standings, regime, source)) for source in features)) for regime in regimes
    )
    headers = ("Regime", *(_stem(source) for source in features))
    return Grid(headers=headers, sections=(rows,), title=f"Cells with {of} ahead / level / behind")


def _count(standings: Sequence[Standing], regime: str, features: str) -> str:
    chosen = [s for s in standings if (s.cell.regime, s.cell.features) == (regime, features)]
    return " / ".join(map(str, _counts(chosen).values())) if chosen else "–"


def describe_gaps(table: RegimeTable) -> list[str]:
    """Lines on cells and methods left out, counted by reason, and on cells with redrawn shares."""
    reasons = [entry.reason for entry in table.left_out]
    lines = [f"Left out {_cells(reasons.count(reason))}: {reason}." for reason in _in_order(reasons)]
    slow = [method for result in table.results for method in result.too_slow]
    lines += [f"Left out {method} of {_cells(slow.count(method))}: too slow." for method in _in_order(slow)]
    wanted = table.arguments["ci95"]
    wide = sum(any(score.ci95 > wanted for score in result.scores) for result in table.results)
    if wide:
        lines.append(f"In {_cells(wide)} an interval is wider than ± {100 * wanted:g} after the most tasks allowed.")
    redrawn = sum(2 * result.redrawn_tasks > result.tasks for result in table.results)
    if redrawn:
        lines.append(
            f"In {_cells(redrawn)} most tasks asked for more queries than a class has, and were drawn again: their "
            "shares are milder than the regime says."
        )
    return lines


def _cells(count: int) -> str:
    return f"{count} cell" if count == 1 else f"{count} cells"


def save_heat_map(path: str | os.PathLike[str], standings: Sequence[Standing], of: str) -> None:
    """Write `draw_heat_map` as PNG, SVG or PDF."""
    with house_style():
        save_figure(draw_heat_map(standings, of), path)


def draw_heat_map(standings: Sequence[Standing], of: str) -> Figure:
    """Distance of the method from the best other one: features and regimes down, ways and shots across."""
    from matplotlib.figure import Figure

    features = _in_order(s.cell.features for s in standings)
    regimes = _in_order(s.cell.regime for s in standings)
    ways = sorted({s.cell.way for s in standings})
    shots = sorted({s.cell.shot for s in standings})
    size = (max(6.4, 3.4 + 0.86 * len(ways) * len(shots)), 1.7 + 0.52 * len(features) * len(regimes))
    figure = Figure(figsize=size, layout="constrained")
    figure.get_layout_engine().set(wspace=0.015, hspace=0.02)  # type: ignore[union-attr, call-arg]
    panels = figure.subplots(len(features), len(ways), squeeze=False)
    limit = _color_limit(standings)
    for row, source in enumerate(features):
        for column, way in enumerate(ways):
            chosen = [s for s in standings if (s.cell.features, s.cell.way) == (source, way)]
            image = _draw_panel(panels[row, column], chosen, regimes, shots, limit)
        panels[row, 0].set_yticks(range(len(regimes)), regimes)
        name = "\n".join(wrap(_stem(source), 20))
        panels[row, 0].set_ylabel(name, fontsize=10, fontweight="bold", rotation=0, ha="right", va="center")
    for column, way in enumerate(ways):
        panels[0, column].set_title(f"{way}-way", fontsize=10, fontweight="bold")
        panels[-1, column].set_xticks(range(len(shots)), [f"{shot}-shot" for shot in shots])
    _finish(figure, panels, image, standings, of)
    return figure


def _color_limit(standings: Sequence[Standing]) -> float:
    """The largest distance, in whole points."""
    largest = round(100 * max(abs(standing.distance) for standing in standings), 6)
    return float(max(np.ceil(largest), 1.0))


def _draw_panel(
    ax: Axes, standings: Sequence[Standing], regimes: Sequence[str], shots: Sequence[int], limit: float
) -> object:
    """One set of features and one way: regimes down, shots across."""
    from matplotlib.colors import AsinhNorm

    norm = AsinhNorm(_LINEAR_POINTS, -limit, limit)
    points = np.full((len(regimes), len(shots)), np.nan)
    ax.set_facecolor(_EMPTY)
    for standing in standings:
        y, x = regimes.index(standing.cell.regime), shots.index(standing.cell.shot)
        points[y, x] = 100 * standing.distance
        _write_cell(ax, x, y, standing, dark=abs(norm(points[y, x]) - 0.5) > 0.27)
    image = ax.imshow(points, cmap="RdBu", norm=norm, aspect="auto")
    ax.set_xticks(np.arange(0.5, len(shots) - 1), minor=True)
    ax.set_yticks(np.arange(0.5, len(regimes) - 1), minor=True)
    ax.grid(which="minor", color="white", linewidth=1.6)
    ax.tick_params(which="both", length=0)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return image


def _write_cell(ax: Axes, x: int, y: int, standing: Standing, *, dark: bool) -> None:
    """The distance, the best other method below it, and a dot unless the chosen one is behind."""
    ink = "white" if dark else _INK
    ax.text(x, y - 0.14, _points(standing.distance), ha="center", va="center", fontsize=9.5, color=ink)
    name = "\n".join(wrap(standing.best.method, 15))
    ax.text(x, y + 0.27, name, ha="center", va="center", fontsize=5.6, color=ink, linespacing=1.05)
    if standing.place is not Place.BEHIND:
        fill = ink if standing.place is Place.AHEAD else "none"
        ax.plot(x + 0.39, y - 0.34, "o", markersize=3.6, mfc=fill, mec=ink, mew=0.8)


def _points(distance: float) -> str:
    text = f"{100 * distance:+.1f}"
    # A distance that rounds to zero is printed without a sign.
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def _finish(figure: Figure, panels: object, image: object, standings: Sequence[Standing], of: str) -> None:
    """Add the title, the colour scale and the legend of the dots."""
    from matplotlib.lines import Line2D

    title = f"{of} against the best other method, named below:\npoints of accuracy more (blue) or less (red)"
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    limit = _color_limit(standings)
    ticks = [tick for tick in _TICKS if tick <= limit]
    bar = figure.colorbar(
        image,  # type: ignore[arg-type]
        ax=panels,  # type: ignore[arg-type]
        fraction=0.02,
        pad=0.01,
        shrink=0.5,
        ticks=[*(-tick for tick in reversed(ticks)), 0, *ticks],
        format=lambda value, _: f"{value:+g}".replace("-", "−") if value else "0",
    )
    bar.outline.set_visible(False)
    marks = [
        Line2D([], [], linestyle="", marker="o", markersize=4, mfc=fill, mec=_INK, label=label)
        for fill, label in ((_INK, "ahead"), ("none", "level: the paired 95 % interval of the difference holds 0"))
    ]
    figure.legend(handles=marks, loc="outside lower left", ncols=2, fontsize=8.5, handletextpad=0.2)


def _stem(source: str) -> str:
    return PurePath(source).stem


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
