"""Files of an extraction beside the features; known without torch, so that mistakes are reported at once."""

from __future__ import annotations

from pathlib import Path

from marginshot._lib.reading import read_json
from marginshot.data.features import load_features


def parts_path(out: Path) -> Path:
    """The folder of the batches finished so far."""
    return out.with_name(f"{out.name}.partial")


def provenance_path(out: Path) -> Path:
    """Path of the JSON file that says where the features in ``out`` come from."""
    return out.with_name(f"{out.name}.json")


def was_interrupted(out: Path) -> bool:
    """Whether ``out`` is complete, but its extraction was stopped before it could clean up."""
    about = provenance_path(out)
    if not (out.is_file() and about.is_file() and parts_path(out).is_dir()):
        return False
    try:
        record = read_json(about, "what features come from")
        return bool(record.get("sha256") == load_features(out).content_hash)
    except ValueError:
        return False  # changed since it was written: left to the user
