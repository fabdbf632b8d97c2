"""Labels of boxes in the file that the boxes came from, so that the detector's own tools open them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from marginshot._lib.files import atomic_path
from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.detector_formats import Ranked
from marginshot.labelling.outputs.result import Result

#: Name of the classifier that the file gives.
CLASSIFIER = "marginshot"

_MOST, _LEAST = 5, 0.005  # classes of a box, and the least probability of one


def write_boxes(labelling: Result, path: Path) -> None:
    """Write the detector's file once more, with the classes of its boxes; all else in it stays."""
    source = labelling.request.source
    if source is None or source.boxes is None:
        raise RefusedError("the export 'boxes' fills in a detector's file; name it with {boxes}.", boxes=Option.BOXES)
    contents = labelling.collection.contents
    ranked = {contents[row].box.place: own for row in labelling.rows.tolist() if (own := ranking(labelling, row))}
    content = source.boxes.form.classified(source.boxes.content, ranked, CLASSIFIER)
    with atomic_path(path) as temporary:
        # Halves of surrogate pairs, which JSON can hold and UTF-8 cannot, stay the escapes that they were.
        text = json.dumps(content, indent=1, ensure_ascii=False)
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def ranking(labelling: Result, row: int) -> Ranked:
    """Classes of an item with their probabilities, its label first; none where it has no label."""
    if not labelling.labels[row]:
        return []
    probabilities = labelling.answers.probabilities[row]
    best = [place for place in np.argsort(-probabilities, kind="stable")[:_MOST] if probabilities[place] >= _LEAST]
    names = [(labelling.classes[place], round(float(probabilities[place]), 4)) for place in best]
    # A label that was accepted in bulk may not be the most probable one any more.
    is_first = names and names[0][0] == labelling.labels[row]
    return names if is_first else [(labelling.labels[row], labelling.probabilities[row])]
