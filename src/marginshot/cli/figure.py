"""``marginshot figure``: what the queries do to the separating line, in the plane."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marginshot.cli._options import at_least
from marginshot.cli._output import check_outputs, say

if TYPE_CHECKING:
    from marginshot.reporting.plane import Line, PlaneTask


class Kind(StrEnum):
    """Which drawing."""

    FIGURE1 = "figure1"
    SEQUENCE = "sequence"


def command(
    file: Annotated[
        Path | None, typer.Argument(help="File to write: .png, .svg or .pdf; .gif for an animated sequence.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The file to write, as other commands name it.")] = None,
    kind: Annotated[
        Kind, typer.Option("--kind", help="The paper's Figure 1, or the line along the λ2 sequence.")
    ] = Kind.FIGURE1,
    seed: Annotated[int, typer.Option("--seed", callback=at_least(0), help="Seed of the points.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace a file somebody else made.")] = False,
) -> None:
    """Draw a 2-way 1-shot task in the plane: the maximum-margin line, and the line after the queries moved it.

    Example: marginshot figure --out sequence.gif --kind sequence
    """
    from marginshot.reporting.plane import FIGURE_SUFFIXES, save_figure1, save_sequence

    if (file is None) == (out is None):
        raise typer.BadParameter("name one file to write: marginshot figure --out figure1.svg.", param_hint="--out")
    target = Path(file or out or "")
    allowed = (*FIGURE_SUFFIXES, ".gif") if kind is Kind.SEQUENCE else FIGURE_SUFFIXES
    if target.suffix.lower() not in allowed:
        raise typer.BadParameter(
            f"{kind.value} is written as {', '.join(allowed)}; got {target.name!r}.", param_hint="--out"
        )
    check_outputs([target], force=force)
    task = make_task(seed)
    lines = follow_line(task)
    if kind is Kind.FIGURE1:
        save_figure1(target, task, lines[0], lines[-1])
    else:
        save_sequence(target, task, lines)
    say(f"Figure written to {target}")


def make_task(seed: int) -> PlaneTask:
    """Two long clusters side by side, with the two labelled examples at opposite ends."""
    import numpy as np

    from marginshot.reporting.plane import PlaneTask

    rng = np.random.default_rng(seed)
    along, across = np.array([0.8, 0.6]), np.array([-0.6, 0.8])
    labels = np.repeat([0, 1], 24)
    side = np.where(labels == 1, 0.8, -0.8)
    query = rng.uniform(-1.4, 1.4, 48)[:, None] * along + (side + rng.normal(0, 0.16, 48))[:, None] * across
    # The upper cluster's example lies towards its right end, the lower one's towards its left, so the line between the
    # two is skew.
    support = np.array([-0.7 * along - 0.8 * across, 0.7 * along + 0.8 * across])
    return PlaneTask(support=support, support_labels=np.array([0, 1]), query=query, query_labels=labels)


def follow_line(task: PlaneTask) -> list[Line]:
    """The separating line after each stage of the λ2 sequence."""
    import numpy as np

    from marginshot import TransductiveMaxMarginClassifier
    from marginshot.classifier.settings import LAMBDA2
    from marginshot.reporting.plane import Line

    X = np.concatenate([task.support, task.query])
    y = np.concatenate([task.support_labels, np.full(len(task.query), -1)])
    sequence = LAMBDA2
    lines = []
    for stage in range(len(sequence)):
        # Without centring and scaling to unit length: otherwise all points would lie on a circle.
        classifier = TransductiveMaxMarginClassifier.from_preset(
            "paper", lambda2=tuple(sequence[: stage + 1]), feature_transform=None
        )
        classifier.fit(X, y)
        normal = classifier.planes_[1] - classifier.planes_[0]
        offset = float(classifier.offsets_[1] - classifier.offsets_[0])
        # Halved, so that the two planes of a 2-way task, mirror images of each other, give back the one.
        lines.append(Line(normal=normal / 2, offset=offset / 2, lambda2=float(sequence[stage])))
    return lines
