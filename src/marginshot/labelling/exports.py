"""Labels in the formats of the tools people already have: Label Studio, FiftyOne, bulk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from marginshot._lib.files import atomic_path
from marginshot.labelling.embedding_map import embedding_map
from marginshot.labelling.formats import Tool
from marginshot.labelling.labelling import Labelling
from marginshot.labelling.tables import write_table


def export_paths(tool: Tool, out: Path, prefix: str = "") -> list[Path]:
    """The files an export writes into the folder ``out``."""
    return [out / f"{prefix}{name}" for name in _FILES[tool]]


def write_export(labelling: Labelling, tool: Tool, paths: list[Path]) -> None:
    """Write one export to ``paths``, in the order of `export_paths`."""
    _WRITERS[tool](labelling, paths)


def how_to_open(tool: Tool, labelling: Labelling, out: Path, prefix: str = "") -> str:
    """One line for the user who has the tool."""
    first = export_paths(tool, out, prefix)[0]
    if tool is Tool.FIFTYONE:
        # FiftyOne looks for a folder `data` unless told that there is a manifest.
        return (
            f"fiftyone.Dataset.from_dir({str(first.parent)!r}, "
            f'fiftyone.types.FiftyOneImageClassificationDataset, data_path="{first.name}")'
        )
    if tool is Tool.BULK:
        return f"bulk {'image' if labelling.collection.kind == 'picture' else 'text'} {first}"
    return f"import {first} into a project with the labelling configuration {first.with_suffix('.xml')}"


def _write_label_studio(labelling: Labelling, paths: list[Path]) -> None:
    """Tasks with predictions, and the labelling configuration they fit."""
    kind = "image" if labelling.collection.kind == "picture" else "text"
    tasks = []
    for row in labelling.rows.tolist():
        result = []
        if labelling.labels[row]:
            value = {"choices": [labelling.labels[row]]}
            result = [{"from_name": "label", "to_name": kind, "type": "choices", "value": value}]
        prediction = {"model_version": "marginshot", "score": labelling.probabilities[row], "result": result}
        content = _shown_content(labelling, row)
        tasks.append({"data": {kind: _served(content) if kind == "image" else content}, "predictions": [prediction]})
    _write_json(tasks, paths[0])
    tag = "Image" if kind == "image" else "Text"
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in labelling.classes)
    config = (
        f'<View>\n  <{tag} name="{kind}" value="${kind}"/>\n'
        f'  <Choices name="label" toName="{kind}" choice="single">\n{choices}  </Choices>\n</View>\n'
    )
    with atomic_path(paths[1]) as temporary:
        temporary.write_text(config, encoding="utf-8")


def _write_fiftyone(labelling: Labelling, paths: list[Path]) -> None:
    """A FiftyOneImageClassificationDataset: a manifest instead of copies of the pictures, and the labels."""
    if labelling.collection.kind != "picture":
        raise ValueError("FiftyOne holds pictures; export texts and embeddings to label-studio or bulk.")
    rows = labelling.rows.tolist()
    # FiftyOne takes the keys for paths without their suffix, which need not be unique; numbers are.
    keys = {row: f"{place:06d}" for place, row in enumerate(rows)}
    manifest = {keys[row]: _shown_content(labelling, row) for row in rows}
    labels = {
        keys[row]: {"label": labelling.labels[row], "confidence": labelling.probabilities[row]}
        if labelling.labels[row]
        else None
        for row in rows
    }
    paths[0].parent.mkdir(exist_ok=True)
    _write_json(manifest, paths[0])
    _write_json({"classes": list(labelling.classes), "labels": labels}, paths[1])


def _write_bulk(labelling: Labelling, paths: list[Path]) -> None:
    """The CSV of `bulk image` (column path) or `bulk text` (column text), with a map and the label as colour."""
    points = embedding_map(labelling.X)
    rows = labelling.rows.tolist()
    content = "path" if labelling.collection.kind == "picture" else "text"
    columns: dict[str, list[Any]] = {
        content: [_shown_content(labelling, row) for row in rows],
        "x": [round(float(points[row, 0]), 4) for row in rows],
        "y": [round(float(points[row, 1]), 4) for row in rows],
        "color": [labelling.labels[row] for row in rows],
    }
    write_table(columns, paths[0])


def _shown_content(labelling: Labelling, row: int) -> str:
    collection = labelling.collection
    if collection.kind == "picture":
        # Not resolved: what is a link now may be about to be replaced by the picture.
        return str(Path(collection.contents[row]).absolute())
    return str(collection.contents[row]) if collection.kind == "text" else collection.items[row]


def _served(path: str) -> str:
    """The address under which Label Studio serves a file of its own machine, its document root being ``/``."""
    below_root = Path(path).relative_to(Path(path).anchor)
    return f"/data/local-files/?d={quote(below_root.as_posix())}"


def _write_json(content: Any, path: Path) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


_FILES: dict[Tool, tuple[str, ...]] = {
    Tool.LABEL_STUDIO: ("label-studio.json", "label-studio.xml"),
    Tool.FIFTYONE: ("fiftyone/data.json", "fiftyone/labels.json"),
    Tool.BULK: ("bulk.csv",),
}

_WRITERS: dict[Tool, Callable[[Labelling, list[Path]], None]] = {
    Tool.LABEL_STUDIO: _write_label_studio,
    Tool.FIFTYONE: _write_fiftyone,
    Tool.BULK: _write_bulk,
}
