"""Embeddings in the columns of a Parquet file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.extras import need
from marginshot._lib.names import listed
from marginshot._lib.reading import DamagedFileError, reading

#: Metadata key of our Parquet files that holds the order of the classes.
PARQUET_CLASSES = b"marginshot.classes"

# A class column may be called either way: `label` in EasyFSL's benchmark files, `class_name` in its data frames.
_LABEL_COLUMNS = ("label", "class_name")


def read_parquet(path: Path) -> dict[str, Any]:
    """Arguments of `make_bank`: ``X``, ``labels``, and ``classes`` and ``items`` or None."""
    need("pyarrow")
    import pyarrow.parquet as pq

    # Opened here, and not memory-mapped: the file may be replaced while we hold the table.
    with reading(path, "a readable Parquet file"), path.open("rb") as file:
        held = pq.read_schema(file)
        label = next((name for name in _LABEL_COLUMNS if name in held.names), None)
        if "embedding" not in held.names or label is None:
            missing = "embedding" if label else "label"
            raise DamagedFileError(f"{path.name}: column {missing!r} is missing; the file has {listed(held.names)}.")
        wanted = ["embedding", label] + (["item"] if "item" in held.names else [])
        table = pq.read_table(file, columns=wanted).combine_chunks()
        X = _stack_embeddings(table.column("embedding"), path.name)
        if table.column(label).null_count:
            raise DamagedFileError(f"{path.name}: {table.column(label).null_count} rows have no {label}. Drop them.")
        labels = np.array(table.column(label).to_pylist())
        items = table.column("item").to_pylist() if "item" in wanted else None
        if items and None in items:
            raise DamagedFileError(f"{path.name}: row {items.index(None)} has no item. Name it or drop it.")
        stored = (held.metadata or {}).get(PARQUET_CLASSES)
        if stored is None:
            classes = None
        else:
            classes = json.loads(stored)
            labels = _index_in(classes, labels.tolist(), path.name)
    return {"X": X, "labels": labels, "classes": classes, "items": items}


def _index_in(classes: Sequence[str], labels: Sequence[str], source: str) -> NDArray[np.int64]:
    """Labels by name -> index of each in the ``classes`` that a file of ours lists."""
    index = {name: position for position, name in enumerate(classes)}
    strange = sorted(set(labels) - set(index))
    if strange:
        raise DamagedFileError(f"{source}: label {strange[0]!r} is not among the classes the file lists.")
    return np.array([index[name] for name in labels], dtype=np.int64)


def _stack_embeddings(column: Any, source: str) -> NDArray[Any]:
    """A column of equally long lists -> (n_rows, n_features)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise DamagedFileError(f"{source}: column 'embedding' must hold lists of numbers; it holds {kind}.")
    lengths = set(pc.list_value_length(column).to_pylist())
    if len(lengths) != 1 or None in lengths:
        found = ", ".join(sorted("none" if length is None else str(length) for length in lengths)) or "no rows"
        raise DamagedFileError(f"{source}: all embeddings must have one length; got {found}.")
    values = pc.list_flatten(column).to_numpy()
    return values.reshape(len(column), lengths.pop())
