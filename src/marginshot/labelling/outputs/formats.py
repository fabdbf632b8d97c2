"""Names of the export formats, in a file of their own: a command line can list them without loading anything."""

from __future__ import annotations

from enum import StrEnum


class Tool(StrEnum):
    """A tool that reads what we write."""

    LABEL_STUDIO = "label-studio"
    FIFTYONE = "fiftyone"
    BULK = "bulk"
    XMP = "xmp"
    HUGGING_FACE = "huggingface"
    YOLO = "yolo-cls"
    BOXES = "boxes"
    CAMTRAP = "camtrap-dp"


class SessionExport(StrEnum):
    """What a session can be exported to: our own forms, and those of every `Tool`."""

    TABLE = "table"
    FOLDERS = "folders"
    MODEL = "model"
    vars().update({tool.name: tool.value for tool in Tool})
