"""Drawings in the plane: Figure 1 of the paper, and the separating line along the λ2 sequence."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.files import atomic_path
from marginshot.reporting.figures import ACCENT, MUTED, house_style, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE_SUFFIXES = (".png", ".svg", ".pdf")

# Milliseconds a stage is shown in the animation.
_FRAME = 900

_POSITIVE, _NEGATIVE = ACCENT, "#1f5f99"
_WRONG, _GHOST = "#f6c244", "#9aa3ab"


@dataclass(frozen=True, kw_only=True)
class PlaneTask:
    """A 2-way task in the plane.

    Parameters
    ----------
    support : ndarray of shape (n_support, 2)
    support_labels : ndarray of shape (n_support,)
        0 or 1.
    query : ndarray of shape (n_query, 2)
    query_labels : ndarray of shape (n_query,)
        For the drawing only: queries on the wrong side are marked.
    """

    support: NDArray[np.float64]
    support_labels: NDArray[np.int64]
    query: NDArray[np.float64]
    query_labels: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Line:
    """The line ``normal @ x + offset = 0``; class 1 is on its positive side. ``lambda2`` is the query weight."""

    normal: NDArray[np.float64]
    offset: float
    lambda2: float

    def count_wrong(self, task: PlaneTask) -> int:
        """Queries on the wrong side."""
        return int(((task.query @ self.normal + self.offset > 0) != (task.query_labels == 1)).sum())


def draw_figure1(task: PlaneTask, before: Line, after: Line) -> Figure:
    """Draw (a) the maximum-margin line of the support and (b) the line after the queries moved it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_panel(left, task, before)
    left.set_title(_title("(a) support only", before, task), fontsize=10)
    _draw_panel(right, task, after, ghost=before)
    right.set_title(_title("(b) support and queries", after, task), fontsize=10)
    figure.legend(handles=_legend(), loc="outside lower center", ncols=4, fontsize=8.5, columnspacing=1.6)
    return figure


def _legend() -> list[Any]:
    """Legend of the marks and lines of Figure 1."""
    from matplotlib.lines import Line2D

    def point(label: str, edge: str, fill: str = "white", size: float = 6.0, width: float = 0.9) -> Line2D:
        style: Any = {"marker": "o", "linestyle": "", "markersize": size, "mec": edge, "mfc": fill, "mew": width}
        return Line2D([], [], label=label, **style)

    return [
        point("labelled, class +", _POSITIVE, size=9, width=1.8),
        point("labelled, class −", _NEGATIVE, size=9, width=1.8),
        point("query", MUTED),
        point("query on the wrong side", MUTED, fill=_WRONG),
        Line2D([], [], color=ACCENT, linewidth=2.0, label="separating line"),
        Line2D([], [], color=ACCENT, linewidth=0.9, linestyle=(0, (5, 4)), alpha=0.7, label="its margins"),
        Line2D([], [], color=_GHOST, linewidth=1.0, linestyle=(0, (2, 2)), label="the line of (a)"),
    ]


def draw_strip(task: PlaneTask, lines: Sequence[Line]) -> Figure:
    """One panel per value of λ2."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.35 * len(lines), 2.75), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(lines)))
    for place, (ax, line) in enumerate(zip(axes, lines, strict=True)):
        _draw_panel(ax, task, line, ghost=lines[place - 1] if place else None, scale=0.6)
        ax.set_title(_title(f"λ2 = {line.lambda2:g}", line, task), fontsize=8.5)
    return figure


def save_figure1(path: str | os.PathLike[str], task: PlaneTask, before: Line, after: Line) -> None:
    """Write Figure 1 as PNG, SVG or PDF."""
    with house_style():
        save_figure(draw_figure1(task, before, after), path)


def save_sequence(path: str | os.PathLike[str], task: PlaneTask, lines: Sequence[Line]) -> None:
    """Write the line along the λ2 sequence: a strip as PNG, SVG or PDF, an animation as GIF."""
    with house_style():
        if Path(path).suffix.lower() == ".gif":
            _save_animation(path, task, lines)
        else:
            save_figure(draw_strip(task, lines), path)


def _save_animation(path: str | os.PathLike[str], task: PlaneTask, lines: Sequence[Line]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    frames = []
    for place, line in enumerate(lines):
        figure = Figure(figsize=(4.2, 4.4), dpi=120, layout="constrained")
        canvas = FigureCanvasAgg(figure)
        ax = figure.subplots()
        _draw_panel(ax, task, line, ghost=lines[place - 1] if place else None)
        ax.set_title(_title(f"λ2 = {line.lambda2:g}", line, task), fontsize=10)
        canvas.draw()  # type: ignore[no-untyped-call]
        pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
        frames.append(Image.fromarray(pixels).convert("P", palette=Image.Palette.ADAPTIVE))
    with atomic_path(path) as temporary:
        frames[0].save(
            temporary, save_all=True, append_images=frames[1:], duration=_FRAME, loop=0, comment=b"marginshot-output"
        )


def _title(name: str, line: Line, task: PlaneTask) -> str:
    wrong = line.count_wrong(task)
    return f"{name}\n{wrong} of {len(task.query)} queries wrong"


def _draw_panel(ax: Axes, task: PlaneTask, line: Line, ghost: Line | None = None, scale: float = 1.0) -> None:
    """Draw points, the line with its margins, and the line of the stage before."""
    wrong = (task.query @ line.normal + line.offset > 0) != (task.query_labels == 1)
    size = 34 * scale
    for chosen, fill in ((~wrong, "white"), (wrong, _WRONG)):
        x, y = task.query[chosen].T
        ax.scatter(x, y, s=size, facecolors=fill, edgecolors=MUTED, linewidths=0.9, zorder=2)
    for label, color, sign in ((1, _POSITIVE, "+"), (0, _NEGATIVE, "−")):
        for x, y in task.support[task.support_labels == label].tolist():
            ax.scatter(x, y, s=190 * scale, facecolors="white", edgecolors=color, linewidths=1.8, zorder=4)
            ax.text(x, y, sign, color=color, fontsize=13 * scale**0.5, ha="center", va="center_baseline", zorder=5)
    points = np.concatenate([task.support, task.query])
    reach = 1.12 * np.abs(points).max()
    if ghost is not None:
        _draw_line(ax, ghost, 0, color=_GHOST, linewidth=1.0, linestyle=(0, (2, 2)))
    _draw_line(ax, line, 0, color=ACCENT, linewidth=2.0)
    for level in (-1, 1):
        _draw_line(ax, line, level, color=ACCENT, linewidth=0.9, linestyle=(0, (5, 4)), alpha=0.7)
    ax.set(xlim=(-reach, reach), ylim=(-reach, reach), aspect="equal", xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_visible(True)


def _draw_line(ax: Axes, line: Line, level: float, **style: Any) -> None:
    """Draw the line on which the decision value is ``level``."""
    through = line.normal * (level - line.offset) / (line.normal @ line.normal)
    along = np.array([-line.normal[1], line.normal[0]])
    ax.axline(tuple(through), tuple(through + along), zorder=3, **style)
