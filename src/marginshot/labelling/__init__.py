"""The practitioner's path: items in, embeddings cached, labels, gallery and suggestions out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginshot._lib.lazy import lazy_names

if TYPE_CHECKING:
    from marginshot.labelling.errors import OutputExistsError, RefusedError
    from marginshot.labelling.outputs.labelling import Labelling
    from marginshot.labelling.outputs.model import LabelModel, load_model
    from marginshot.labelling.outputs.outputs import Outputs, Written, resume
    from marginshot.labelling.runs.api import label_embeddings, label_images, label_sounds, label_table, label_texts
    from marginshot.labelling.session.session import Session

__all__ = [
    "LabelModel",
    "Labelling",
    "OutputExistsError",
    "Outputs",
    "RefusedError",
    "Session",
    "Written",
    "label_embeddings",
    "label_images",
    "label_sounds",
    "label_table",
    "label_texts",
    "load_model",
    "resume",
]

_HOMES = {
    "LabelModel": "marginshot.labelling.outputs.model",
    "Labelling": "marginshot.labelling.outputs.labelling",
    "OutputExistsError": "marginshot.labelling.errors",
    "Outputs": "marginshot.labelling.outputs.outputs",
    "RefusedError": "marginshot.labelling.errors",
    "Session": "marginshot.labelling.session.session",
    "Written": "marginshot.labelling.outputs.outputs",
    "label_embeddings": "marginshot.labelling.runs.api",
    "label_images": "marginshot.labelling.runs.api",
    "label_sounds": "marginshot.labelling.runs.api",
    "label_table": "marginshot.labelling.runs.api",
    "label_texts": "marginshot.labelling.runs.api",
    "load_model": "marginshot.labelling.outputs.model",
    "resume": "marginshot.labelling.outputs.outputs",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
