"""One self-contained HTML page to look through the labels: what to label next, each class, the strangers, a map."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

from marginshot._lib.files import atomic_path
from marginshot.data.pictures import UnreadablePictureError, pillow_silenced, read_picture
from marginshot.labelling.embedding_map import embedding_map
from marginshot.labelling.labelling import COLUMNS, FOREIGN, GIVEN, Labelling

#: Items of one group that are shown; of larger groups the least certain, and some spread evenly over the others.
LARGEST_GROUP = 120

#: Points of the map that are drawn.
LARGEST_MAP = 2_500

_THUMBNAIL_SIDE = 144
_TEXT_LENGTH = 280
_NOTEBOOK_ROWS = 20

# Ten colours that stay apart for most eyes; with more classes the shape of the points changes too.
_COLOURS = (
    "#4269d0", "#d9822b", "#2f9e6e", "#d64550", "#8a63c9", "#8f6b4a", "#d46bb0", "#5b6c7d", "#a3a02c", "#2ba6bf",
)  # fmt: skip
_SHAPES = ("circle", "square", "triangle")


def write_gallery(labelling: Labelling, path: Path) -> None:
    """Write the page to ``path``; it needs no other file and no network."""
    page = render_gallery(labelling)
    with atomic_path(path, private=True) as temporary:
        temporary.write_text(page, encoding="utf-8")


def render_gallery(labelling: Labelling) -> str:
    """The page as text; names of files and classes and texts are escaped wherever they appear."""
    rows = labelling.rows
    styles = {
        name: {"colour": _COLOURS[place % len(_COLOURS)], "shape": _SHAPES[place // len(_COLOURS) % len(_SHAPES)]}
        for place, name in enumerate(labelling.classes)
    }
    foreign = [row for row in rows.tolist() if labelling.answers.foreign[row]]
    counts = labelling.counts()
    template = _environment().get_template("gallery.html")
    # The map is computed beside the thumbnails; both take seconds, mostly outside Python.
    with pillow_silenced(), ThreadPoolExecutor(1) as thread:
        points = thread.submit(embedding_map, labelling.X)
        return template.render(
            kind=labelling.collection.kind,
            classes=[_describe_class(labelling, name, counts[name], styles[name]) for name in labelling.classes],
            largest=max(counts.values(), default=0) or 1,
            suggested=[_describe(labelling, row) for row in labelling.answers.suggested],
            foreign=_describe_group(labelling, foreign),
            rejected=labelling.rejected,
            problems=labelling.problems,
            n_items=len(rows),
            origin=_origin(labelling),
            n_close=int(labelling.answers.close[rows].sum()),
            points=_describe_map(labelling, points.result(), styles),
            styles=styles,
        )


def _origin(labelling: Labelling) -> str:
    """What the labels come from, in words."""
    n_given, n_named = int((labelling.answers.given >= 0).sum()), len(labelling.answers.named)
    words = [f"from {n_given:,} example{'s' if n_given != 1 else ''}"] if n_given else []
    words += [f"from the name{'s' if n_named != 1 else ''} of {n_named:,} class{'es' if n_named != 1 else ''}"] * bool(
        n_named
    )
    return " and ".join(words) or "by a saved model"


def render_table(labelling: Labelling) -> str:
    """The first rows of the table for a notebook, escaped."""
    columns = labelling.columns()
    rows = list(zip(*(columns[name][:_NOTEBOOK_ROWS] for name in COLUMNS), strict=True))
    template = _environment().get_template("table.html")
    return template.render(headers=COLUMNS, rows=rows, n_rows=len(columns["item"]))


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("marginshot.labelling"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _describe_class(labelling: Labelling, name: str, count: int, style: dict[str, str]) -> dict[str, Any]:
    place = labelling.classes.index(name)
    best, foreign, given = labelling.answers.best, labelling.answers.foreign, labelling.answers.given
    examples = [row for row in range(len(given)) if given[row] == place]
    found = [row for row in labelling.rows.tolist() if best[row] == place and given[row] < 0 and not foreign[row]]
    return {
        "name": name,
        "anchor": f"class-{place}",
        "style": style,
        "count": count,
        "n_close": sum(1 for row in found if labelling.answers.close[row]),
        "examples": [_describe(labelling, row) for row in examples[:12]],
        "n_examples": len(examples),
        "found": _describe_group(labelling, found),
    }


def _describe_group(labelling: Labelling, rows: Sequence[int]) -> dict[str, Any]:
    """The items of a group from least to most certain, thinned out where there are too many."""
    ordered = sorted(rows, key=lambda row: labelling.probabilities[row])
    shown = ordered
    if len(ordered) > LARGEST_GROUP:
        half = LARGEST_GROUP // 2
        spread = np.linspace(half, len(ordered) - 1, LARGEST_GROUP - half).astype(int)
        shown = ordered[:half] + [ordered[place] for place in spread]
    return {"n": len(ordered), "shown": [_describe(labelling, row) for row in shown]}


def _describe(labelling: Labelling, row: int) -> dict[str, Any]:
    collection = labelling.collection
    content = collection.contents[row]
    text, picture = "", ""
    if collection.kind == "text":
        text = content if len(content) <= _TEXT_LENGTH else content[: _TEXT_LENGTH - 1] + "…"
    elif collection.kind == "picture":
        try:
            picture = thumbnail_uri(Path(content), _THUMBNAIL_SIDE)
        except UnreadablePictureError as error:
            text = str(error)  # embedded from the cache, gone since
    return {
        "item": collection.items[row],
        "text": text,
        "picture": picture,
        "label": labelling.classes[labelling.answers.best[row]],
        "probability": labelling.probabilities[row],
        "runner_up": labelling.runners_up[row],
        "close": bool(labelling.answers.close[row]),
        "foreign": labelling.reviews[row] == FOREIGN,
        "given": labelling.reviews[row] == GIVEN,
    }


def thumbnail_uri(path: Path, side: int) -> str:
    """A small JPEG of the picture as a ``data:`` address, its longer side at most ``side`` pixels."""
    image = read_picture(path, enough=side)
    image.thumbnail((side, side))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _describe_map(
    labelling: Labelling, points: NDArray[np.float64], styles: dict[str, dict[str, str]]
) -> list[dict[str, Any]]:
    suggested = set(labelling.answers.suggested)
    rows = np.arange(len(points))
    if len(rows) > LARGEST_MAP:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:LARGEST_MAP])
    return [
        {
            "x": round(float(points[row, 0]), 4),
            "y": round(float(points[row, 1]), 4),
            "item": labelling.collection.items[row],
            "name": labelling.classes[labelling.answers.best[row]],
            "style": styles[labelling.classes[labelling.answers.best[row]]],
            "given": bool(labelling.answers.given[row] >= 0),
            "foreign": bool(labelling.answers.foreign[row]),
            "suggested": row in suggested,
        }
        # Examples and suggestions last, so that they lie on top.
        for row in sorted(rows.tolist(), key=lambda row: (labelling.answers.given[row] >= 0, row in suggested))
    ]
