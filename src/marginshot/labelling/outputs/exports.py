"""Labels in the formats of the tools people already have: Label Studio, FiftyOne, bulk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from marginshot._lib.files import atomic_path
from marginshot.labelling.answers.embedding_map import embedding_map
from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.tables import write_table
from marginshot.labelling.outputs import camtrap
from marginshot.labelling.outputs.detector_files import write_boxes
from marginshot.labelling.outputs.formats import Tool
from marginshot.labelling.outputs.result import Result
from marginshot.labelling.outputs.sidecars import write_sidecars


def export_paths(tool: Tool, out: Path, prefix: str = "") -> list[Path]:
    """The files an export writes into the folder ``out``."""
    return [out / f"{prefix}{name}" for name in _FILES[tool]]


def check_exports(collection: Collection, tools: Iterable[Tool]) -> None:
    """Raise RefusedError where one of the ``tools`` cannot show such items."""
    kind, part = collection.kind, collection.first_part()
    for tool in tools:
        if tool is Tool.FIFTYONE and not kind.are_pictures:
            raise RefusedError(f"FiftyOne holds pictures, and these are {kind}s; choose bulk.", at_fault=Option.EXPORTS)
        if tool is Tool.XMP and not (kind.are_pictures and kind.in_files):
            raise RefusedError(f"sidecars are of pictures, and these are {kind}s.", at_fault=Option.EXPORTS)
        if tool is Tool.LABEL_STUDIO and part is not None:
            raise RefusedError(
                f"{part!r} is a part of a recording, which {tool} shows as a whole only; choose bulk.",
                at_fault=Option.EXPORTS,
            )


def write_export(labelling: Result, tool: Tool, paths: list[Path]) -> None:
    """Write one export to ``paths``, in the order of `export_paths`."""
    _WRITERS[tool](labelling, paths)


def how_to_open(tool: Tool, labelling: Result, out: Path, prefix: str = "") -> str:
    """One line for the user who has the tool."""
    first = export_paths(tool, out, prefix)[0]
    if tool is Tool.FIFTYONE:
        # FiftyOne looks for a folder `data` unless told that there is a manifest.
        return (
            f"fiftyone.Dataset.from_dir({str(first.parent)!r}, "
            f'fiftyone.types.FiftyOneImageClassificationDataset, data_path="{first.name}")'
        )
    if tool is Tool.BOXES:
        return f"{first}, with the folder of pictures, in Timelapse, AddaxAI or whatever reads the detector's files"
    if tool is Tool.CAMTRAP:
        return f"frictionless validate {first}; what is not known is listed in {first.with_name('unknown.txt')}"
    if tool is Tool.XMP:
        return f"unzip -n {first} -d FOLDER-OF-THE-PICTURES"
    if tool is Tool.BULK:
        return f"bulk {'image' if labelling.collection.kind.are_pictures else 'text'} {first}"
    return f"import {first} into a project with the labelling configuration {first.with_suffix('.xml')}"


def _write_label_studio(labelling: Result, paths: list[Path]) -> None:
    """Tasks with predictions, and the labelling configuration they fit."""
    kind, tag = labelling.collection.kind, labelling.collection.kind.tag
    field = tag.lower()
    tasks = []
    for row in labelling.rows.tolist():
        result = []
        if labelling.labels[row]:
            value = {"choices": [labelling.labels[row]]}
            result = [{"from_name": "label", "to_name": field, "type": "choices", "value": value}]
        prediction = {"model_version": "marginshot", "score": labelling.probabilities[row], "result": result}
        content = _shown_content(labelling, row)
        tasks.append({"data": {field: _served(content) if kind.in_files else content}, "predictions": [prediction]})
    _write_json(tasks, paths[0])
    choices = "".join(f"    <Choice value={quoteattr(name)}/>\n" for name in labelling.classes)
    config = (
        f'<View>\n  <{tag} name="{field}" value="${field}"/>\n'
        f'  <Choices name="label" toName="{field}" choice="single">\n{choices}  </Choices>\n</View>\n'
    )
    with atomic_path(paths[1]) as temporary:
        temporary.write_text(config, encoding="utf-8")


def _write_fiftyone(labelling: Result, paths: list[Path]) -> None:
    """A FiftyOneImageClassificationDataset: a manifest instead of copies of the pictures, and the labels."""
    if not labelling.collection.kind.are_pictures:
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


def _write_bulk(labelling: Result, paths: list[Path]) -> None:
    """The CSV of `bulk image` (column path) or `bulk text` (column text), with a map and the label as colour."""
    points = embedding_map(labelling.X)
    rows = labelling.rows.tolist()
    content = "path" if labelling.collection.kind.are_pictures else "text"
    columns: dict[str, list[Any]] = {
        content: [_shown_content(labelling, row) for row in rows],
        "x": [round(float(points[row, 0]), 4) for row in rows],
        "y": [round(float(points[row, 1]), 4) for row in rows],
        "color": [labelling.labels[row] for row in rows],
    }
    write_table(columns, paths[0])


def _shown_content(labelling: Result, row: int) -> str:
    collection = labelling.collection
    return collection.kind.exported(collection.items[row], collection.contents[row])


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
    Tool.XMP: ("xmp-sidecars.zip",),
    Tool.BOXES: ("detections.json",),
    Tool.CAMTRAP: tuple(f"camtrap-dp/{name}" for name in camtrap.FILES),
}

_WRITERS: dict[Tool, Callable[[Result, list[Path]], None]] = {
    Tool.LABEL_STUDIO: _write_label_studio,
    Tool.FIFTYONE: _write_fiftyone,
    Tool.BULK: _write_bulk,
    Tool.XMP: lambda labelling, paths: write_sidecars(labelling, paths[0]),
    Tool.BOXES: lambda labelling, paths: write_boxes(labelling, paths[0]),
    Tool.CAMTRAP: camtrap.write_camtrap,
}
