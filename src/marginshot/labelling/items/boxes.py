"""The boxes of a detector as items of a folder, and the examples among or beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection as Names
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.collection import Collection, check_classes
from marginshot.labelling.items.crops import Crop
from marginshot.labelling.items.detections import Detections
from marginshot.labelling.items.detector_formats import WHOLE
from marginshot.labelling.items.folders import Example, match_examples, read_examples
from marginshot.labelling.items.kinds import BOX, PICTURE


def box_items(source: Path, detections: Detections) -> dict[str, Crop]:
    """The boxes of a detector's file that are to be classified, by name: the path of the picture, ``#``, the place."""
    found: dict[str, Crop] = {}
    for picture in detections.pictures:
        for box in detections.boxes(picture):
            found.setdefault(f"{picture.file}#{box.corner}", Crop(source / picture.file, box))
    return found


def open_boxes(
    source: Path,
    detections: Detections,
    examples: Sequence[Path],
    classes: Names[str] = (),
    said: Mapping[str, str] = MappingProxyType({}),
    *,
    alone: bool = False,
) -> Collection:
    """The boxes in pictures of ``source``, with labels from ``examples`` or by item in ``said``.

    Parameters
    ----------
    source : Path
        Folder of pictures.
    detections : Detections
        What is in them.
    examples : sequence of Path
        As in `folders.collect_files`. A picture of the source stands for the boxes in it; any other is an example as
        a whole. Tables may name boxes.
    classes : collection of str
        Names that are labels in tables of examples, whatever they look like.
    said : mapping of str to str
        Label by the name of a box; it overrides the examples.
    alone : bool, default=False
        Whether no labels come from elsewhere, so that those of two classes at least are needed here.
    """
    found = box_items(source, detections)
    if not found:
        raise ValueError(
            f"{detections.path} has no box of confidence {detections.least:g} or more to label in {source}. "
            f"{' '.join(detections.notes)}"
        )
    given, notes = read_examples(PICTURE, examples, source, classes, found)
    named = {example.content.as_posix(): example.label for example in given if example.content.as_posix() in found}
    labels, outside = _labels_of(found, [example for example in given if example.content.as_posix() not in found])
    labels |= {**named, **{name: label for name, label in said.items() if name in found}}
    contents = [*found.values(), *(Crop(example.content, WHOLE) for example in outside)]
    collection = Collection(
        BOX,
        (*found, *(example.content.as_posix() for example in outside)),
        contents,
        (*(labels.get(name, "") for name in found), *(example.label for example in outside)),
        np.arange(len(contents)) < len(found),
        notes=(*detections.notes, *notes),
    )
    if alone and not any(collection.labels) and not examples:
        raise RefusedError(
            "There are no examples of what is in the boxes of {source}. Give {examples} a folder with one sub-folder a "
            "class, or a table with the columns path and label.",
            source=source,
            examples=Option.EXAMPLES,
        )
    if alone:
        check_classes(filter(None, collection.labels), "Examples")
    return collection


def _labels_of(found: Mapping[str, Crop], examples: Sequence[Example]) -> tuple[dict[str, str], list[Example]]:
    """Label of each box that lies in an example, by name, and the examples without such a box."""
    boxes = defaultdict(list)
    for name, crop in found.items():
        boxes[crop.path].append(name)
    labels, outside = match_examples(PICTURE, list(boxes), examples)
    return {
        name: label for label, names in zip(labels, boxes.values(), strict=True) if label for name in names
    }, outside
