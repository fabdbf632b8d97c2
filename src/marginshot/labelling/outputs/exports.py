"""Labels in the formats of the tools people already have: a registry of them, and those of a few lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from marginshot._lib.files import atomic_path
from marginshot.labelling.answers.embedding_map import embedding_map
from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.tables import write_table
from marginshot.labelling.outputs import camtrap, datasets
from marginshot.labelling.outputs.detector_files import write_boxes
from marginshot.labelling.outputs.formats import Tool
from marginshot.labelling.outputs.result import Result
from marginshot.labelling.outputs.sidecars import write_sidecars


def _allow(_: object) -> None:
    """Allow everything."""


@dataclass(frozen=True, kw_only=True)
class Export:
    """An export format.

    Parameters
    ----------
    files : tuple of str
        Files of the export, below the folder of the outputs.
    write : callable
        Writes a result to these files.
    opened : callable
        One line for the user who has the tool, from the first of the files and the result.
    check : callable
        Raises RefusedError where items of a collection have no place in it.
    check_classes : callable
        Raises RefusedError where a class cannot have its name there.
    only : str, default=""
        Why rows of a table have no place in it; empty where they have.
    reads_files : bool, default=False
        Whether it copies the files, or files beside them, so that it has to be written before a move.
    in_place : str, default=""
        Why files have to stay where they are, if they have to.
    """

    files: tuple[str, ...]
    write: Callable[[Result, list[Path]], None]
    opened: Callable[[Path, Result], str]
    check: Callable[[Collection], None] = _allow
    check_classes: Callable[[Iterable[str]], None] = _allow
    only: str = ""
    reads_files: bool = False
    in_place: str = ""

    def paths(self, folder: Path, prefix: str = "") -> list[Path]:
        """The files of the export in the ``folder`` of the outputs."""
        return [folder / f"{prefix}{name}" for name in self.files]


def _needs_pictures(what: str, instead: str = "") -> Callable[[Collection], None]:
    """A check that items are pictures: ``what`` only they can be, and what to do ``instead``, in words."""

    def check(collection: Collection) -> None:
        if not collection.kind.are_pictures:
            raise RefusedError(f"{what}, and these are {collection.kind.plural}{instead}.", at_fault=Option.EXPORTS)

    return check


def _check_sidecars(collection: Collection) -> None:
    if not (collection.kind.are_pictures and collection.kind.in_files):
        raise RefusedError(
            f"sidecars describe pictures, and these are {collection.kind.plural}.", at_fault=Option.EXPORTS
        )


def _check_boxes(collection: Collection) -> None:
    if not collection.kind.in_boxes:
        raise RefusedError(
            "'boxes' fills in a detector's file; name that with {boxes}, or leave 'boxes' out of {exports}.",
            exports=Option.EXPORTS,
            boxes=Option.BOXES,
        )


def _check_label_studio(collection: Collection) -> None:
    part = collection.first_part()
    if part is not None:
        raise RefusedError(
            f"{part!r} is a part of a recording, which {Tool.LABEL_STUDIO} shows as a whole only; choose bulk.",
            at_fault=Option.EXPORTS,
        )


def _open_fiftyone(first: Path, labelling: Result) -> str:
    # FiftyOne looks for a folder `data` unless told that there is a manifest.
    return (
        f"fiftyone.Dataset.from_dir({str(first.parent)!r}, "
        f'fiftyone.types.FiftyOneImageClassificationDataset, data_path="{first.name}")'
    )


def _open_bulk(first: Path, labelling: Result) -> str:
    return f"bulk {'image' if labelling.collection.kind.are_pictures else 'text'} {first}"


def _open_metadata(first: Path, labelling: Result) -> str:
    kind = labelling.collection.kind
    builder = "imagefolder" if kind.are_pictures else "audiofolder"
    return (
        f"put {first} into the folder of the {kind.plural}, unless they were moved beside it, then "
        f'datasets.load_dataset("{builder}", data_dir="THAT-FOLDER")'
    )


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


#: Every format by its tool.
EXPORTS: dict[Tool, Export] = {
    Tool.LABEL_STUDIO: Export(
        files=("label-studio.json", "label-studio.xml"),
        write=_write_label_studio,
        opened=lambda first, _: (
            f"import {first} into a project with the labelling configuration {first.with_suffix('.xml')}"
        ),
        check=_check_label_studio,
    ),
    Tool.FIFTYONE: Export(
        files=("fiftyone/data.json", "fiftyone/labels.json"),
        write=_write_fiftyone,
        opened=_open_fiftyone,
        check=_needs_pictures("FiftyOne holds pictures", "; choose bulk"),
        only="FiftyOne holds pictures",
    ),
    Tool.BULK: Export(files=("bulk.csv",), write=_write_bulk, opened=_open_bulk),
    Tool.XMP: Export(
        files=("xmp-sidecars.zip",),
        write=lambda labelling, paths: write_sidecars(labelling, paths[0]),
        opened=lambda first, _: f"unzip -n {first} -d FOLDER-OF-THE-PICTURES",
        check=_check_sidecars,
        only="sidecars describe pictures",
        reads_files=True,
    ),
    Tool.HUGGING_FACE: Export(
        files=("metadata.jsonl",),
        write=lambda labelling, paths: datasets.write_metadata(labelling, paths[0]),
        opened=_open_metadata,
        check=datasets.check_whole_files,
        only="metadata.jsonl lists files",
    ),
    Tool.YOLO: Export(
        files=("yolo-cls.zip",),
        write=lambda labelling, paths: datasets.write_yolo(labelling, paths[0]),
        opened=lambda first, _: f"unzip {first} -d DATASET, then yolo classify train data=DATASET",
        check=datasets.check_pictures,
        check_classes=datasets.check_folders_of_classes,
        only="YOLO's folders hold pictures",
        reads_files=True,
    ),
    Tool.BOXES: Export(
        files=("detections.json",),
        write=lambda labelling, paths: write_boxes(labelling, paths[0]),
        opened=lambda first, _: (
            f"{first}, with the folder of pictures, in Timelapse, AddaxAI or whatever reads the detector's files"
        ),
        check=_check_boxes,
        only="a detector's file describes pictures",
    ),
    Tool.CAMTRAP: Export(
        files=tuple(f"camtrap-dp/{name}" for name in camtrap.FILES),
        write=camtrap.write_camtrap,
        opened=lambda first, _: (
            f"frictionless validate {first}; what is not known is listed in {first.with_name('unknown.txt')}"
        ),
        check=_needs_pictures("Camtrap DP holds pictures"),
        only="Camtrap DP holds pictures of a folder",
        in_place="Camtrap DP names cameras by the folders of pictures, which moved ones leave",
    ),
}
