"""A graph of ONNX, written node by node."""

from __future__ import annotations

from typing import Any

import numpy as np

# LayerNormalization came with 17, Gelu with 20; ONNX Runtime reads 20 since its version 1.17.
_OPSET = 20
# The oldest version of the file's frame that has this opset: later ones would ask for newer runtimes.
_FRAME = 9


class GraphWriter:
    """Nodes and constants in the order they are written; each node's result is called by its place.

    Everything is written into one model. Functions that put one together from parts copy every array twice.
    """

    def __init__(self) -> None:
        from onnx import ModelProto

        self._model = ModelProto(ir_version=_FRAME)
        self._model.opset_import.add(version=_OPSET)
        self._graph: Any = self._model.graph
        self._graph.name = "marginshot"

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of one result, whose name is returned."""
        from onnx import helper

        name = f"{operator}_{len(self._graph.node)}"
        self._graph.node.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def constant(self, values: Any, dtype: Any = np.float32) -> str:
        """Add an array; its name is returned."""
        from onnx import helper

        array = np.asarray(values, dtype=np.dtype(dtype).newbyteorder("<"))
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        name = f"constant_{len(self._graph.initializer)}"
        self._graph.initializer.add(name=name, data_type=kind, dims=array.shape, raw_data=array.tobytes())
        return name

    def finish(self, inputs: dict[str, tuple[Any, list[Any]]], result: str) -> bytes:
        """The model as a file has it; ``inputs`` gives each name its type and shape, names for free axes."""
        from onnx import TensorProto, helper

        for name, (dtype, shape) in inputs.items():
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            self._graph.input.append(helper.make_tensor_value_info(name, kind, shape))
        self._graph.output.append(helper.make_tensor_value_info("embedding", TensorProto.FLOAT, None))
        self._graph.node.append(helper.make_node("Identity", [result], ["embedding"]))
        return bytes(self._model.SerializeToString())
