"""The practitioner's path: items in, embeddings cached, labels, gallery and suggestions out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marginshot._lib.lazy import lazy_names

if TYPE_CHECKING:
    from marginshot.labelling.api import label_embeddings, label_images, label_table, label_texts
    from marginshot.labelling.errors import OutputExistsError, RefusedError
    from marginshot.labelling.labelling import Labelling
    from marginshot.labelling.model import LabelModel, load_model
    from marginshot.labelling.outputs import Outputs, Written, resume
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
    "label_table",
    "label_texts",
    "load_model",
    "resume",
]

_HOMES = {
    "LabelModel": "marginshot.labelling.model",
    "Labelling": "marginshot.labelling.labelling",
    "OutputExistsError": "marginshot.labelling.errors",
    "Outputs": "marginshot.labelling.outputs",
    "RefusedError": "marginshot.labelling.errors",
    "Session": "marginshot.labelling.session.session",
    "Written": "marginshot.labelling.outputs",
    "label_embeddings": "marginshot.labelling.api",
    "label_images": "marginshot.labelling.api",
    "label_table": "marginshot.labelling.api",
    "label_texts": "marginshot.labelling.api",
    "load_model": "marginshot.labelling.model",
    "resume": "marginshot.labelling.outputs",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
