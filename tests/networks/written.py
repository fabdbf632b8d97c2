"""Small networks and tokenizers that tests write."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
tokenizers = pytest.importorskip("tokenizers", reason="needs the extra texts")


def written(path, nodes, inputs, output, constants=(), **metadata):
    """A model file; ``inputs`` maps names to (type, shape)."""
    helper = onnx.helper
    given = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    arrays = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants]
    result = helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "own", given, [result], arrays)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    helper.set_model_props(model, metadata)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    return path


def mean_colour(path, shape=("n", 3, "h", "w"), kind=onnx.TensorProto.FLOAT, **metadata):
    """A network that gives the mean of every channel, as (n, 3, 1, 1) where channels come first."""
    first = shape[1] == 3
    nodes = [
        onnx.helper.make_node("Cast", ["x"], ["f"], to=1),
        onnx.helper.make_node("ReduceMean", ["f", "axes"], ["y"], keepdims=int(first)),
    ]
    axes = np.array([2, 3] if first else [1, 2])
    return written(path, nodes, {"x": (kind, list(shape))}, "y", [("axes", axes)], **metadata)


def words(folder):
    """A tokenizer of four words, each a piece, in ``folder``."""
    model = tokenizers.models.WordLevel({"[UNK]": 0, "red": 1, "green": 2, "blue": 3}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))


def word_vectors(path, names=("input_ids", "attention_mask"), output="last_hidden_state"):
    """A network that gives every word its own axis, (n, length, 4)."""
    nodes = [onnx.helper.make_node("Gather", ["table", "input_ids"], [output])]
    inputs = {name: (onnx.TensorProto.INT64, ["n", "length"]) for name in names}
    return written(path, nodes, inputs, output, [("table", np.eye(4, dtype=np.float32))])
