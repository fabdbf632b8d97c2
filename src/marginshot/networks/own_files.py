"""A user's own network: the ``.onnx`` file, weights that lie apart, its tokenizer, what its metadata say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from marginshot._lib.reading import reading

#: What a file should be that is read as a network, and what to do where it is not.
NETWORK, EXPORT_AGAIN = "a network that ONNX Runtime can run", "Export it again, as .onnx."


def files_of(path: Path) -> list[Path]:
    """The network's file and the others that its embeddings depend on; raises where one is missing or elsewhere."""
    if not path.is_file():
        raise FileNotFoundError(2, "There is no network", str(path))
    tokenizer = tokenizer_of(path)
    return [path, *_weights_apart(path), *([] if tokenizer is None else [tokenizer])]


def _weights_apart(path: Path) -> list[Path]:
    """Files of weights that the graph names; they lie beside it or below its folder."""
    import onnx

    with reading(path, NETWORK, EXPORT_AGAIN):
        named = sorted(set(_locations(onnx.load(path, load_external_data=False).graph)))
        for name in named:
            # A path of either system: a network may come from the other one.
            parts = PureWindowsPath(name)
            if not name or parts.anchor or ".." in parts.parts:
                raise ValueError(f"its weights are in {name!r}, which is not in its folder")
    return [path.parent / name for name in named]


def _locations(graph: Any) -> Iterator[str]:
    """Names of files that tensors of the graph, and of the graphs inside it, say they lie in."""
    tensors = [*graph.initializer]
    for sparse in graph.sparse_initializer:
        tensors += (sparse.values, sparse.indices)
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        tensors += (attribute.t, *attribute.tensors)
        for inner in (attribute.g, *attribute.graphs):
            yield from _locations(inner)
    for tensor in tensors:
        yield from (entry.value for entry in tensor.external_data if entry.key == "location")


def tokenizer_of(path: Path) -> Path | None:
    """``tokenizer.json`` beside the network, or one folder up, as repositories with a folder ``onnx`` have it."""
    places = [path.parent / "tokenizer.json"]
    if path.parent.resolve().name == "onnx":
        places.append(path.parent.resolve().parent / "tokenizer.json")
    return next((place for place in places if place.is_file()), None)


def read_count(told: Mapping[str, str], name: str, usual: int, most: int, what: str, path: Path) -> int:
    """A number from 1 to ``most`` in the metadata of the network at ``path``, ``usual`` where it has none."""
    said = told.get(name, str(usual))
    if not (said.isdecimal() and len(said) < 10 and 1 <= int(said) <= most):
        raise ValueError(
            f"{name} in the metadata of {path} must be a number of {what}, 1 to {most:,}; got {said!r:.60}."
        )
    return int(said)
