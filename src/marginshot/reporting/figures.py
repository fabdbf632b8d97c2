"""Charts of one block of results as SVG: accuracy, paired differences, tasks, time, calibration."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginshot._lib.files import atomic_path
from marginshot.evaluation.results import MethodResult
from marginshot.reporting.tables import name_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The reference method is drawn in the red of the paper's separating line, all others in blue grey.
ACCENT = "#b3261e"
MUTED = "#41586f"
_GRID = "#e4e7ea"
_INK = "#22282e"

# Told apart by readers who do not see red or green (after Okabe and Ito, darkened for thin lines on white).
_PALETTE = (
    "#41586f",
    "#d07c00",
    "#2b7fb8",
    "#00805c",
    "#a8548c",
    "#8a7300",
    "#5f5fc4",
    "#7d4e2d",
    "#4d4d4d",
    "#1a8a8a",
)

_STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.edgecolor": "#9aa3ab",
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": "#5c666f",
    "ytick.color": "#5c666f",
    "xtick.labelcolor": _INK,
    "ytick.labelcolor": _INK,
    "grid.color": _GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text stays text: searchable, and in the page's own font
    "svg.hashsalt": "marginshot",
    "text.parse_math": False,  # a dollar sign in a file name is a dollar sign
}

_WIDTH = 4.9


@contextmanager
def house_style() -> Iterator[None]:
    """Our look inside the block, the caller's afterwards."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        yield


def accuracy_chart(block: Sequence[MethodResult]) -> str:
    """Mean accuracy of every method with its 95 % interval."""

    def draw(ax: Axes) -> None:
        for place, result in enumerate(block):
            _whisker(ax, 100 * result.accuracy, 100 * result.ci95, place, result)
        _name_rows(ax, block)
        ax.set_xlabel("accuracy, %")

    return _chart(draw, height=_row_height(block))


def difference_chart(block: Sequence[MethodResult]) -> str | None:
    """Paired difference of every method to the reference, or None where there is nothing to compare."""
    compared = [result for result in block if result.difference]
    if not compared:
        return None
    reference = next(result for result in block if result.difference is None)

    def draw(ax: Axes) -> None:
        ax.axvline(0, color=ACCENT, linewidth=1)
        for place, result in enumerate(compared):
            gap = result.difference
            assert gap is not None
            _whisker(ax, 100 * gap.mean, 100 * gap.ci95, place, result)
        _name_rows(ax, compared)
        ax.set_xlabel(f"difference to {reference.title} on the same tasks, points")

    return _chart(draw, height=_row_height(compared))


def tasks_chart(block: Sequence[MethodResult]) -> str:
    """Histogram of the accuracies of single tasks, one row per method."""
    low = min(float(result.per_task.min()) for result in block)
    # A bin is a whole number of queries wide, so that no bin catches more of the possible values than the next.
    n_query = round(1 / _resolution(block))
    queries_per_bin = max(1, round(n_query / 40))
    edges = np.arange(n_query + 0.5, low * n_query - queries_per_bin, -queries_per_bin)[::-1] / n_query

    def draw(ax: Axes) -> None:
        for place, result in enumerate(block):
            share, _ = np.histogram(result.per_task, edges)
            heights = 0.85 * share / share.max()
            color = _row_color(result)
            ax.stairs(place + 0.42 - heights, 100 * edges, baseline=place + 0.42, fill=True, color=color, alpha=0.28)
            ax.stairs(place + 0.42 - heights, 100 * edges, baseline=None, color=color, linewidth=0.9)
            ax.plot([100 * result.accuracy] * 2, [place + 0.42, place - 0.43], color=color, linewidth=1.4)
        _name_rows(ax, block)
        ax.set_xlim(max(0, 100 * low - 1), 100.5)
        ax.set_xlabel("accuracy of a task, %")

    return _chart(draw, height=0.75 + 0.42 * len(block))


def _resolution(block: Sequence[MethodResult]) -> float:
    """The smallest step between accuracies of tasks: one query."""
    values = np.unique(np.concatenate([result.per_task for result in block] + [[0.0, 1.0]]))
    steps = np.diff(values)
    return float(steps[steps > 1e-9].min())


def time_chart(block: Sequence[MethodResult]) -> str:
    """Accuracy against time per task: up and to the left is better."""

    def draw(ax: Axes) -> None:
        times = np.array([1000 * result.seconds_per_task for result in block])
        ax.set_xscale("log")
        for result, milliseconds in zip(block, times, strict=True):
            color = _row_color(result)
            ax.errorbar(milliseconds, 100 * result.accuracy, 100 * result.ci95, fmt="none", ecolor=color, elinewidth=1)
            ax.plot(milliseconds, 100 * result.accuracy, "o", color=color, mfc=_fill(result, color), markersize=6)
        ax.set_xlim(times.min() / 1.6, times.max() * 1.6)
        ax.margins(y=0.12)
        ax.grid(visible=True)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.set_xlabel("time per task on one core, ms")
        ax.set_ylabel("accuracy, %")
        _label_points(ax, block, times)

    return _chart(draw, height=_time_height(block))


def _time_height(block: Sequence[MethodResult]) -> float:
    return max(3.0, 0.9 + 0.19 * len(block))


def _label_points(ax: Axes, block: Sequence[MethodResult], times: Any) -> None:
    """Names in the right margin, level with their points and moved apart where they would overlap."""
    bottom, top = ax.get_ylim()
    line = 12 * (top - bottom) / (72 * (_time_height(block) - 0.7))  # height of a line of text, in points of accuracy
    heights = spread_apart(np.array([100 * result.accuracy for result in block]), line)
    for result, milliseconds, height in zip(block, times, heights, strict=True):
        ax.annotate(
            result.title if result.settings.get("method") == result.method else result.method,
            (milliseconds, 100 * result.accuracy),
            xytext=(1.03, height),
            textcoords=("axes fraction", "data"),
            va="center",
            color=_row_color(result),
            fontsize=8.5,
            arrowprops={"arrowstyle": "-", "color": "#c9d0d6", "linewidth": 0.6, "shrinkA": 1, "shrinkB": 4},
        )


def spread_apart(values: Any, gap: float) -> Any:
    """Positions in the order of ``values`` (n,), at least ``gap`` apart, as near to them as that allows."""
    order = np.argsort(values, kind="stable")
    # Runs of labels that touch move as one, centred on the mean of where they want to be.
    runs: list[list[float]] = []
    for value in np.asarray(values, dtype=float)[order]:
        runs.append([value])
        while len(runs) > 1 and _centre(runs[-1]) - _centre(runs[-2]) < gap * (len(runs[-1]) + len(runs[-2])) / 2:
            runs[-2:] = [runs[-2] + runs[-1]]
    places = [_centre(run) + gap * (i - (len(run) - 1) / 2) for run in runs for i in range(len(run))]
    spread = np.empty(len(places))
    spread[order] = places
    return spread


def _centre(run: list[float]) -> float:
    return sum(run) / len(run)


def calibration_chart(block: Sequence[MethodResult]) -> str | None:
    """Reliability curves of the methods that give probabilities, or None where none does."""
    curves = [result for result in block if result.calibration]
    if not curves:
        return None
    n_columns = 1 if len(curves) < 4 else 2

    def draw(ax: Axes) -> None:
        ax.plot([0, 100], [0, 100], color="#9aa3ab", linewidth=0.9, linestyle=(0, (4, 3)))
        for place, result in enumerate(curves):
            curve = result.calibration
            assert curve is not None
            n_queries = np.array(curve.n_queries)
            # A bin with next to no queries says nothing and jumps about.
            told = n_queries >= max(10, 0.0005 * n_queries.sum())
            x, y = 100 * np.array(curve.confidence)[told], 100 * np.array(curve.accuracy)[told]
            color = ACCENT if result.difference is None else _PALETTE[place % len(_PALETTE)]
            label = f"{name_of(result)}, ECE {100 * curve.ece:.1f}"
            ax.plot(x, y, "-o", color=color, linewidth=1.3, markersize=3.5, label=label)
        ax.set_xlim(0, 101)
        ax.set_ylim(0, 101)
        ax.grid(visible=True)
        ax.set_xlabel("confidence, %")
        ax.set_ylabel("share that is right, %")
        # Above the axes: curves may lie in any corner.
        ax.get_figure(root=True).legend(  # type: ignore[union-attr]
            loc="outside upper left",
            ncols=n_columns,
            fontsize=8,
            handlelength=1.6,
            labelspacing=0.35,
            columnspacing=1.2,
        )

    return _chart(draw, height=4.0 + 0.17 * -(-len(curves) // n_columns))


def _whisker(ax: Axes, value: float, ci95: float, place: int, result: MethodResult) -> None:
    color = _row_color(result)
    ax.errorbar(value, place, xerr=ci95, fmt="none", ecolor=color, elinewidth=1.4, capsize=3, capthick=1.4)
    ax.plot(value, place, "o", color=color, mfc=_fill(result, color), markersize=5.5)


def _row_color(result: MethodResult) -> str:
    return ACCENT if result.difference is None else MUTED


def _fill(result: MethodResult, color: str) -> str:
    """Filled for a transductive method, hollow for an inductive one."""
    return color if result.transductive else "white"


def _name_rows(ax: Axes, block: Sequence[MethodResult]) -> None:
    ax.set_yticks(range(len(block)), [name_of(result) for result in block])
    ax.set_ylim(len(block) - 0.45, -0.55)
    ax.grid(visible=True, axis="x")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def _row_height(block: Sequence[MethodResult]) -> float:
    return 0.75 + 0.3 * len(block)


def _chart(draw: Callable[[Axes], None], height: float) -> str:
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(figure.subplots())
        return to_svg(figure)


def to_svg(figure: Figure) -> str:
    """The figure as an ``<svg>`` element to put into a page."""
    target = io.StringIO()
    figure.savefig(target, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = target.getvalue()
    return text[text.index("<svg") :]


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure as PNG, SVG or PDF, whole or not at all."""
    # The mark by which the command line knows its own files again; each format has a field of its own for it.
    field = "Software" if Path(path).suffix.lower() == ".png" else "Creator"
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=200, metadata={field: "marginshot-output"})
