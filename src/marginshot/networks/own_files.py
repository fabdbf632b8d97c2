"""A user's own network: the ``.onnx`` file, weights that lie apart, its tokenizer and settings, its metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PureWindowsPath

from marginshot._lib.reading import reading
from marginshot.networks.protobuf import fields

#: What a file should be that is read as a network, and what to do where it is not.
NETWORK, EXPORT_AGAIN = "a network that ONNX Runtime can run", "Export it again, as .onnx."

#: Files of a repository of the Hugging Face hub that say what a network's input and output are.
TOKENIZER = "tokenizer.json"
PREPROCESSOR, POOLING, MODULES = "preprocessor_config.json", "1_Pooling/config.json", "modules.json"
TOKENIZER_SETTINGS, SENTENCE_SETTINGS = "tokenizer_config.json", "sentence_bert_config.json"
PROMPTS = "config_sentence_transformers.json"
SIDE_FILES = (TOKENIZER, PREPROCESSOR, POOLING, MODULES, TOKENIZER_SETTINGS, SENTENCE_SETTINGS, PROMPTS)

# Messages of onnx.proto that tensors lie in: number of a field, and the kind of message that is its value.
_INSIDE = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_EXTERNAL = 13  # the field of a tensor with words about its file, each a key (1) and a value (2)


def files_of(path: Path) -> list[Path]:
    """The network's file and the others that its embeddings depend on; raises where one is missing or elsewhere."""
    if not path.is_file():
        raise FileNotFoundError(2, "There is no network", str(path))
    beside = (side_file(path, name) for name in SIDE_FILES)
    return [path, *weights_apart(path), *(file for file in beside if file is not None)]


def side_file(path: Path, name: str) -> Path | None:
    """A file beside the network at ``path``, or one folder up, as repositories with a folder ``onnx`` have it."""
    folder = path.parent.resolve()
    places = [folder, folder.parent] if folder.name == "onnx" else [folder]
    return next((place / name for place in places if (place / name).is_file()), None)


def choose_network(names: Iterable[str], preferred: Sequence[str], where: str) -> str | None:
    """The name ``onnx/FILE.onnx`` of the network to take: of the ``preferred``, or the only one; None if there is none.

    Examples
    --------
    >>> choose_network(["onnx/model.onnx", "onnx/model_fp16.onnx", "README.md"], ["model"], "org/name")
    'onnx/model.onnx'
    """
    found = sorted(name for name in names if name.startswith("onnx/") and name.endswith(".onnx"))
    for name in (f"onnx/{stem}.onnx" for stem in preferred):
        if name in found:
            return name
    if len(found) > 1:
        raise ValueError(f"{where} has several networks: {', '.join(found):.300}. Name one, as {where}/{found[0]}.")
    return found[0] if found else None


def weights_apart(path: Path) -> list[Path]:
    """Files of weights that the graph names; they lie beside it or below its folder."""
    with reading(path, NETWORK, EXPORT_AGAIN):
        named = sorted({name for one in _tensors(memoryview(path.read_bytes()), "model") for name in _locations(one)})
        for name in named:
            # A path of either system: a network may come from the other one.
            parts = PureWindowsPath(name)
            if not name or parts.anchor or ".." in parts.parts:
                raise ValueError(f"its weights are in {name!r}, which is not in its folder")
    return [path.parent / name for name in named]


def _tensors(message: memoryview, kind: str) -> Iterator[memoryview]:
    """Every tensor in a message of that kind, those of graphs and functions inside it too."""
    inside = _INSIDE[kind]
    for number, value in fields(message):
        inner = inside.get(number)
        if inner is None or isinstance(value, int):
            continue
        if inner == "tensor":
            yield value
        else:
            yield from _tensors(value, inner)


def _locations(tensor: memoryview) -> Iterator[str]:
    """Names of files that a tensor says it lies in; none of one that lies in the graph."""
    for number, entry in fields(tensor):
        if number == _EXTERNAL and not isinstance(entry, int):
            told = {key: str(text, "utf-8") for key, text in fields(entry) if not isinstance(text, int)}
            if told.get(1) == "location":
                yield told.get(2, "")
