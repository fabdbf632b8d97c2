"""Charts of one block of results as SVG: accuracy, paired differences, tasks, time, calibration."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from marginshot._lib.extras import need
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
    "svg.fonttype": "none",  # keep text as text: searchable, and in the page's font
    "svg.hashsalt": "marginshot",
    "text.parse_math": False,  # no formulas: a dollar sign in a file name is printed as it is
}

_WIDTH = 4.9
_FEW_ROWS = 12  # with more rows than this they are drawn closer together


@contextmanager
def house_style() -> Iterator[None]:
    """Use our matplotlib style inside the block and restore the caller's afterwards."""
    need("matplotlib")
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
    # A bin is a whole number of queries wide, so that every bin holds equally many possible values.
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

    return _chart(draw, height=0.75 + (0.42 if len(block) <= _FEW_ROWS else 0.32) * len(block))


def _resolution(block: Sequence[MethodResult]) -> float:
    """The smallest step between accuracies of tasks: one query."""
    values = np.unique(np.concatenate([result.per_task for result in block] + [[0.0, 1.0]]))
    steps = np.diff(values)
    return float(steps[steps > 1e-9].min())


def time_chart(block: Sequence[MethodResult]) -> str:
    """Accuracy against time per task: up and to the left is better. Points carry numbers, explained at the side."""

    def draw(ax: Axes) -> None:
        times = np.array([1000 * result.seconds_per_task for result in block])
        accuracies = np.array([100 * result.accuracy for result in block])
        ax.set_xscale("log")
        for result, milliseconds in zip(block, times, strict=True):
            color = _row_color(result)
            ax.plot(milliseconds, 100 * result.accuracy, "o", color=color, mfc=_fill(result, color), markersize=5)
        ax.set_xlim(times.min() / 1.8, times.max() * 1.8)
        ax.margins(y=0.12)
        ax.grid(visible=True)
        _tick_milliseconds(ax, times)
        ax.set_xlabel("time per task on one core, ms")
        ax.set_ylabel("accuracy, %")
        _write_key(ax, block)
        _number_points(ax, times, accuracies, [_row_color(result) for result in block])

    return _chart(draw, height=_time_height(block))


def _tick_milliseconds(ax: Axes, times: Any) -> None:
    """Plain numbers on the logarithmic axis, more than the powers of ten where ``times`` (n,) span few of them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if times.max() < 60 * times.min() else (1.0,)))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())


def _time_height(block: Sequence[MethodResult]) -> float:
    return max(3.0, 0.75 + 0.165 * len(block))


def _number_points(ax: Axes, times: Any, accuracies: Any, colors: Sequence[str]) -> None:
    """Write 1, 2, … beside the points, each where it overlaps other numbers and points least."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()  # the layout fixes the positions of points on the page
    places = ax.transData.transform(np.column_stack([times, accuracies])) * 72 / figure.dpi
    offsets = place_numbers(places)
    for number, (x, y, offset, color) in enumerate(zip(times, accuracies, offsets, colors, strict=True), 1):
        ax.annotate(
            str(number),
            (x, y),
            xytext=tuple(offset),
            textcoords="offset points",
            ha="center",
            va="center_baseline",
            fontsize=7.5,
            color=color,
        )


# Candidate offsets of a number from its point, in typographic points: right first, then around, then farther out.
_AROUND = [
    (radius * np.cos(angle), 0.8 * radius * np.sin(angle))
    for radius in (8.0, 12.0, 16.0, 21.0)
    for angle in np.pi / 6 * np.array([0, 6, 2, -2, 4, -4, 3, -3, 1, -1, 5, -5])
]


def place_numbers(points: Any) -> Any:
    """Offsets (n, 2) of numbers from ``points`` (n, 2), all in typographic points, that keep them apart."""
    taken = [(x, y, 6.0, 6.0) for x, y in points]  # centre, width and height
    offsets = []
    for x, y in points:
        boxes = [(x + dx, y + dy, 10.0, 8.0) for dx, dy in _AROUND]
        best = min(range(len(boxes)), key=lambda place: sum(_overlap(boxes[place], other) for other in taken))
        taken.append(boxes[best])
        offsets.append(_AROUND[best])
    return np.array(offsets)


def _overlap(box: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> float:
    """Area that two boxes share."""
    across = (box[2] + other[2]) / 2 - abs(box[0] - other[0])
    down = (box[3] + other[3]) / 2 - abs(box[1] - other[1])
    return max(across, 0.0) * max(down, 0.0)


def _write_key(ax: Axes, block: Sequence[MethodResult]) -> None:
    """Write the methods that the numbers stand for in the right margin."""
    line = 11.5 / (72 * (_time_height(block) - 0.6))  # height of a line of text, as a share of the axes
    for place, result in enumerate(block):
        name = result.title if result.settings.get("method") == result.method else result.method
        for x, text, side in ((1.075, str(place + 1), "right"), (1.095, name, "left")):
            style: Any = {"ha": side, "va": "top", "fontsize": 8, "color": _row_color(result)}
            ax.text(x, 1 - line * place, text, transform=ax.transAxes, **style)


def calibration_chart(block: Sequence[MethodResult]) -> str | None:
    """Reliability curves, one panel for each method that gives probabilities; None if no method does."""
    from matplotlib.figure import Figure

    curves = [result for result in block if result.calibration]
    if not curves:
        return None
    n_columns = min(len(curves), 4)
    n_rows = -(-len(curves) // n_columns)
    side = _WIDTH / max(n_columns, 3)
    with house_style():
        figure = Figure(figsize=(side * n_columns, (side + 0.22) * n_rows + 0.2), layout="constrained")
        panels = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
        for ax, result in zip(panels.flat, curves, strict=False):
            _draw_curve(ax, result)
        for ax in panels.flat[len(curves) :]:
            ax.set_visible(False)
        figure.supxlabel("confidence, %", fontsize=9, color=_INK)
        figure.supylabel("share that is right, %", fontsize=9, color=_INK)
        return to_svg(figure)


def _draw_curve(ax: Axes, result: MethodResult) -> None:
    """One reliability curve, the area between it and the diagonal shaded."""
    curve = result.calibration
    assert curve is not None
    n_queries = np.array(curve.n_queries)
    # The accuracy of a bin with very few queries is noise.
    shown = n_queries >= max(10, 0.0005 * n_queries.sum())
    x, y = 100 * np.array(curve.confidence)[shown], 100 * np.array(curve.accuracy)[shown]
    color = _row_color(result)
    ax.plot([0, 100], [0, 100], color="#9aa3ab", linewidth=0.8, linestyle=(0, (4, 3)))
    ax.fill_between(x, x, y, color=color, alpha=0.15, linewidth=0)
    ax.plot(x, y, "-o", color=color, linewidth=1.1, markersize=2.4)
    ax.set(xlim=(0, 102), ylim=(0, 102), xticks=[0, 50, 100], yticks=[0, 50, 100], aspect="equal")
    ax.tick_params(labelsize=7.5)
    ax.grid(visible=True)
    name = "\n".join(wrap(name_of(result), 21)[:2])
    ax.set_title(f"{name}\nECE {100 * curve.ece:.1f}", fontsize=7.5, color=color, linespacing=1.1)


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
    return 0.75 + (0.3 if len(block) <= _FEW_ROWS else 0.21) * len(block)


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
    # A mark in the metadata by which the command line recognises its own files; each format has its own field.
    field = "Software" if Path(path).suffix.lower() == ".png" else "Creator"
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=200, metadata={field: "marginshot-output"})
