"""How many items each class got, in a table that ends with totals and stays short where classes are many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from marginshot.labelling.outputs.result import Result

#: Classes that are shown one by one; of more, the largest and the most doubtful.
MOST_LINES = 30
_LARGEST = 20

NO_LABEL = "no label"


@dataclass(frozen=True)
class Line:
    """A class, or several together: their items, and how many of these are to be checked."""

    name: str
    n_items: int
    n_to_check: int


@dataclass(frozen=True)
class Summary:
    """Number of items that each class got.

    Parameters
    ----------
    classes : tuple of Line
        The classes shown, in their order.
    others : Line or None
        The classes not shown, together.
    totals : tuple of Line
        Items without a label, if any; all items.
    """

    classes: tuple[Line, ...]
    others: Line | None
    totals: tuple[Line, ...]


def summarize(labelling: Result, *, whole: bool = False) -> Summary:
    """Count what each class got; ``whole`` shows every class, however many there are."""
    counts, to_check = labelling.counts(), labelling.counts_to_check()
    lines = [Line(name, counts[name], to_check[name]) for name in labelling.classes]
    shown = lines if whole or len(lines) <= MOST_LINES else _notable(lines)
    hidden = [line for line in lines if line not in shown]
    n_unlabelled = len(labelling.rows) - sum(counts.values())
    totals = [Line(NO_LABEL, n_unlabelled, 0)] if n_unlabelled else []
    totals.append(Line("total", len(labelling.rows), sum(to_check.values())))
    return Summary(tuple(shown), _together(hidden) if hidden else None, tuple(totals))


def _notable(lines: Sequence[Line]) -> list[Line]:
    """The largest classes and the most doubtful of the others, in the order of ``lines``."""
    by_size = sorted(lines, key=lambda line: -line.n_items)
    doubtful = sorted(by_size[_LARGEST:], key=lambda line: -line.n_to_check)
    chosen = {line.name for line in by_size[:_LARGEST] + doubtful[: MOST_LINES - _LARGEST]}
    return [line for line in lines if line.name in chosen]


def _together(lines: Sequence[Line]) -> Line:
    name = f"{len(lines):,} smaller classes"
    return Line(name, sum(line.n_items for line in lines), sum(line.n_to_check for line in lines))
