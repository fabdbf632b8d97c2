"""The practitioner's path: items in, embeddings cached, labels, gallery and suggestions out."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from marginshot.labelling.api import label_embeddings, label_images, label_texts
    from marginshot.labelling.labelling import Labelling
    from marginshot.labelling.model import LabelModel, load_model

__all__ = ["LabelModel", "Labelling", "label_embeddings", "label_images", "label_texts", "load_model"]

_HOMES = {
    "LabelModel": "marginshot.labelling.model",
    "Labelling": "marginshot.labelling.labelling",
    "label_embeddings": "marginshot.labelling.api",
    "label_images": "marginshot.labelling.api",
    "label_texts": "marginshot.labelling.api",
    "load_model": "marginshot.labelling.model",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
