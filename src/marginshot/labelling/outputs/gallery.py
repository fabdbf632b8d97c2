"""One self-contained HTML page to look through the labels: what to label next, each class, the strangers, a map."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

from marginshot._lib.files import atomic_path
from marginshot._lib.reading import UnreadableError
from marginshot.labelling.answers.embedding_map import embedding_map
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.kinds import describe_unread
from marginshot.labelling.outputs.result import COLUMNS, GIVEN, TARGET, Result

if TYPE_CHECKING:
    from PIL.Image import Image

#: Items of one group that are shown; of larger groups the least certain, and some spread evenly over the others.
LARGEST_GROUP = 120

#: Items of all groups that are shown, or about: with many classes each shows fewer, so that the page stays small.
LARGEST_PAGE = 2_400
_SMALLEST_GROUP = 12

#: Classes from which on their counts are an index in columns, above the map.
MANY_CLASSES = 16

#: Points of the map that are drawn.
LARGEST_MAP = 2_500

_THUMBNAIL_SIDE = 144
_TEXT_LENGTH = 280
_NOTEBOOK_ROWS = 20

# Ten colours that stay apart for most eyes, then lighter and darker ones.
_COLOURS = (
    "#4269d0", "#d9822b", "#2f9e6e", "#d64550", "#8a63c9", "#8f6b4a", "#d46bb0", "#5b6c7d", "#a3a02c", "#2ba6bf",
    "#8ba4e6", "#efb783", "#82c9aa", "#ea949b", "#bba4e0", "#bfa58d", "#e7acd3", "#9da8b3", "#c9c77a", "#7fcbd8",
    "#243f87", "#8c4f12", "#17603f", "#8a1f28", "#523585", "#574029", "#8a3170", "#333f4a", "#605e10", "#136272",
)  # fmt: skip


def write_gallery(labelling: Result, path: Path) -> None:
    """Write the page to ``path``; it needs no other file and no network."""
    page = render_gallery(labelling, path.parent)
    with atomic_path(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


def render_gallery(labelling: Result, folder: Path | None = None) -> str:
    """The page as text; names of files and classes and texts are escaped wherever they appear.

    In a page that will lie in ``folder`` sounds have a player, which plays the files where they are.
    """
    rows = labelling.rows
    colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(labelling.classes)}
    foreign = [row for row in rows.tolist() if labelling.answers.foreign[row]]
    counts, to_check = labelling.counts(), labelling.counts_to_check()
    kind, template = labelling.collection.kind, _environment().get_template("gallery.html")
    # The map is computed beside the thumbnails; both take seconds, mostly outside Python.
    with kind.reading(), ThreadPoolExecutor(1) as thread:
        points = thread.submit(embedding_map, labelling.X)
        return template.render(
            kind=kind.name,
            kinds=kind.plural,
            sound=partial(_sound_address, labelling.collection, folder),
            unit="file" if kind.in_files else "row",
            layout="items" if kind.has_image else "texts",
            classes=[
                _describe_class(labelling, place) | {"count": counts[name], "n_to_check": to_check[name]}
                for place, name in enumerate(labelling.classes)
            ],
            many=len(labelling.classes) > MANY_CLASSES,
            largest=max(counts.values(), default=0) or 1,
            suggested=[_describe(labelling, row) for row in labelling.answers.suggested],
            foreign=_describe_group(labelling, foreign),
            rejected=labelling.rejected,
            problems=labelling.problems,
            not_read=describe_unread(labelling.collection.not_read),
            n_items=len(rows),
            origin=_origin(labelling),
            n_to_check=sum(to_check.values()),
            target=TARGET,
            expected=labelling.expected_accuracy(),
            points=_describe_map(labelling, points.result(), colours),
            colours=colours,
        )


def _origin(labelling: Result) -> str:
    """What the labels come from, in words."""
    n_given, n_named = int((labelling.answers.given >= 0).sum()), len(labelling.answers.named)
    words = [f"from {n_given:,} example{'s' if n_given != 1 else ''}"] if n_given else []
    words += [f"from the name{'s' if n_named != 1 else ''} of {n_named:,} class{'es' if n_named != 1 else ''}"] * bool(
        n_named
    )
    return " and ".join(words) or "by a saved model"


def render_table(labelling: Result) -> str:
    """The first rows of the table for a notebook, escaped."""
    columns = labelling.columns()
    rows = list(zip(*(columns[name][:_NOTEBOOK_ROWS] for name in COLUMNS), strict=True))
    template = _environment().get_template("table.html")
    return template.render(headers=COLUMNS, rows=rows, n_rows=len(columns["item"]))


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("marginshot.labelling.outputs"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _describe_class(labelling: Result, place: int) -> dict[str, Any]:
    """The items of a class: those the table counts for it, and examples that lie elsewhere."""
    name, given = labelling.classes[place], labelling.answers.given
    examples = [row for row in range(len(given)) if given[row] == place]
    found = [row for row in labelling.rows.tolist() if labelling.labels[row] == name and given[row] != place]
    return {
        "name": name,
        "anchor": f"class-{place}",
        "examples": [_describe(labelling, row) for row in examples[:12]],
        "n_examples": len(examples),
        "found": _describe_group(labelling, found, len(labelling.classes)),
    }


def _describe_group(labelling: Result, rows: Sequence[int], n_groups: int = 1) -> dict[str, Any]:
    """The items of one of ``n_groups`` groups from least to most certain, thinned out where there are too many."""
    ordered = sorted(rows, key=lambda row: labelling.probabilities[row])
    shown = ordered
    largest = min(LARGEST_GROUP, max(_SMALLEST_GROUP, LARGEST_PAGE // n_groups))
    if len(ordered) > largest:
        half = largest // 2
        spread = np.linspace(half, len(ordered) - 1, largest - half).astype(int)
        shown = ordered[:half] + [ordered[place] for place in spread]
    return {"n": len(ordered), "shown": [_describe(labelling, row) for row in shown]}


def _describe(labelling: Result, row: int) -> dict[str, Any]:
    collection = labelling.collection
    kind, content = collection.kind, collection.contents[row]
    text, picture = kind.text(content), ""
    text = text if len(text) <= _TEXT_LENGTH else text[: _TEXT_LENGTH - 1] + "…"
    if kind.has_image:
        try:
            picture = _data_uri(kind.image(content, _THUMBNAIL_SIDE))
        except UnreadableError as error:
            text = str(error)  # embedded from the cache, gone since
    return {
        "row": row,
        "item": collection.items[row],
        "text": text,
        "picture": picture,
        "label": labelling.classes[labelling.answers.best[row]],
        "probability": labelling.probabilities[row],
        "runner_up": labelling.runners_up[row],
        "check": bool(labelling.to_check[row]),
        "foreign": bool(labelling.answers.foreign[row]),
        "given": labelling.reviews[row] == GIVEN,
    }


def _sound_address(collection: Collection, folder: Path | None, row: int) -> str:
    """Where a page in ``folder`` finds the sound of an item, and its place in the file; empty where it has none."""
    content = collection.contents[row]
    if folder is None or not collection.kind.has_sound:
        return ""
    file, here = collection.kind.file(content).absolute(), folder.absolute()
    beside = file.drive == here.drive
    address = quote(Path(os.path.relpath(file, here)).as_posix()) if beside else file.as_uri()
    return f"{address}{collection.kind.fragment(content)}"


def _data_uri(image: Image) -> str:
    """The image as a JPEG in a ``data:`` address."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _describe_map(labelling: Result, points: NDArray[np.float64], colours: Mapping[str, str]) -> list[dict[str, Any]]:
    suggested = set(labelling.answers.suggested)
    rows = np.arange(len(points))
    if len(rows) > LARGEST_MAP:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:LARGEST_MAP])
    given, foreign, best = labelling.answers.given, labelling.answers.foreign, labelling.answers.best
    return [
        {
            "x": round(float(points[row, 0]), 4),
            "y": round(float(points[row, 1]), 4),
            "item": labelling.collection.items[row],
            "name": labelling.classes[best[row]],
            "colour": colours[labelling.classes[best[row]]],
            "shape": "star"
            if given[row] >= 0
            else "diamond"
            if row in suggested
            else "ring"
            if foreign[row]
            else "dot",
        }
        # Examples and suggestions last, so that they lie on top.
        for row in sorted(rows.tolist(), key=lambda row: (given[row] >= 0, row in suggested))
    ]
