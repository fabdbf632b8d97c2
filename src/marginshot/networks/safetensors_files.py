"""Weights in a ``.safetensors`` file, read as arrays: a table of contents in JSON, then the numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.reading import reading

_TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8")}
_LONGEST_TABLE = 100_000_000  # bytes, the limit of the format


def read_safetensors(path: Path) -> dict[str, NDArray[Any]]:
    """Every tensor in the file by its name; tensors of other types than float32 and int64 are an error."""
    with reading(path, "a .safetensors file", "Install its package again."), path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _LONGEST_TABLE:
            raise ValueError(f"a table of contents of {length} bytes")
        table = json.loads(file.read(length).decode("utf-8"))
        content = file.read()
        return {name: _array(name, entry, content) for name, entry in table.items() if name != "__metadata__"}


def _array(name: str, entry: dict[str, Any], content: bytes) -> NDArray[Any]:
    dtype, shape, (start, end) = _TYPES.get(entry["dtype"]), entry["shape"], entry["data_offsets"]
    if dtype is None:
        raise ValueError(f"{name} is of type {entry['dtype']}")
    if not 0 <= start <= end <= len(content) or end - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name} of shape {shape} over bytes {start} to {end}")
    return np.frombuffer(content, dtype=dtype, count=math.prod(shape), offset=start).reshape(shape)
