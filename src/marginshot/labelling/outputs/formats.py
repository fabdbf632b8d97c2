"""The forms in which labels leave; named here alone, so that a command line can list them without loading anything."""

from __future__ import annotations

from enum import StrEnum


class Tool(StrEnum):
    """A tool that reads what we write."""

    LABEL_STUDIO = "label-studio"
    FIFTYONE = "fiftyone"
    BULK = "bulk"
    XMP = "xmp"
    BOXES = "boxes"
    CAMTRAP = "camtrap-dp"


class SessionExport(StrEnum):
    """What a session can be exported to: our own forms, and those of every `Tool`."""

    TABLE = "table"
    FOLDERS = "folders"
    MODEL = "model"
    LABEL_STUDIO = Tool.LABEL_STUDIO.value
    FIFTYONE = Tool.FIFTYONE.value
    BULK = Tool.BULK.value
    XMP = Tool.XMP.value
    BOXES = Tool.BOXES.value
    CAMTRAP = Tool.CAMTRAP.value
