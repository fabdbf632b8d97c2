"""A graph of ONNX, written node by node. Numbers of fields are those of ``onnx.proto``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marginshot.networks.protobuf import Parts, field

# LayerNormalization came with 17, Gelu with 20; ONNX Runtime reads 20 since its version 1.17.
_OPSET = 20
# The oldest version of the file's frame that has this opset: later ones would ask for newer runtimes.
_FRAME = 9

_TYPES = {np.dtype(np.float32): 1, np.dtype(np.uint8): 2, np.dtype(np.int64): 7}


class GraphWriter:
    """Nodes and constants in the order they are written; each node's result is called by its place."""

    def __init__(self) -> None:
        self._nodes: list[Parts] = []
        self._constants: list[Parts] = []

    def node(self, operator: str, *inputs: str, **attributes: int | float | str | Sequence[int]) -> str:
        """Add a node of one result, whose name is returned."""
        name = f"{operator}_{len(self._nodes)}"
        self._add_node(operator, inputs, name, attributes)
        return name

    def _add_node(self, operator: str, inputs: Sequence[str], output: str, attributes: Mapping[str, Any]) -> None:
        node = [*_repeated(1, inputs), *field(2, output), *field(4, operator)]
        for name, value in sorted(attributes.items()):
            node += field(5, [*field(1, name), *_attribute(value)])
        self._nodes.append(node)

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Add an array; its name is returned."""
        array = np.ascontiguousarray(values, dtype=np.dtype(dtype).newbyteorder("<")).reshape(np.shape(values))
        name = f"constant_{len(self._constants)}"
        content = array.reshape(-1).view(np.uint8).data
        kind = field(2, _TYPES[np.dtype(dtype)])
        self._constants.append([*_repeated(1, array.shape), *kind, *field(8, name), *field(9, content)])
        return name

    def finish(self, inputs: dict[str, tuple[Any, list[Any]]], result: str) -> bytes:
        """The model as a file has it; ``inputs`` gives each name its type and shape, names for free axes."""
        self._add_node("Identity", [result], "embedding", {})
        graph: Parts = [*_repeated(1, self._nodes), *field(2, "marginshot"), *_repeated(5, self._constants)]
        for name, (dtype, shape) in inputs.items():
            sizes = [field(1 if isinstance(size, int) else 2, size) for size in shape]
            graph += field(11, _described(name, dtype, field(2, _repeated(1, sizes))))
        graph += field(12, _described("embedding", np.float32, []))
        model = [*field(1, _FRAME), *field(7, graph), *field(8, field(2, _OPSET))]
        return b"".join(model)


def _repeated(number: int, values: Sequence[Any]) -> Parts:
    return [part for value in values for part in field(number, value)]


def _attribute(value: int | float | str | Sequence[int]) -> Parts:
    """Value and type of an attribute."""
    if isinstance(value, float):
        return [*field(2, value), *field(20, 1)]
    if isinstance(value, int):
        return [*field(3, value), *field(20, 2)]
    if isinstance(value, str):
        return [*field(4, value), *field(20, 3)]
    return [*_repeated(8, value), *field(20, 7)]


def _described(name: str, dtype: Any, shape: Parts) -> Parts:
    """An input or output: its name, the type of its numbers, its shape where known."""
    tensor = [*field(1, _TYPES[np.dtype(dtype)]), *shape]
    return [*field(1, name), *field(2, field(1, tensor))]
