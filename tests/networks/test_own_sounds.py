"""A user's own network for sounds: here one that gives the mean of its samples."""

from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from marginshot.networks.own_sounds import OwnSoundNetwork  # noqa: E402


def write(path, shape, **told):
    helper, number = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=1),
        helper.make_node("Reshape", ["mean", "to"], ["y"]),
    ]
    given = helper.make_tensor_value_info("x", number.FLOAT, shape)
    found = helper.make_tensor_value_info("y", number.FLOAT, None)
    to = helper.make_tensor("to", number.INT64, [2], [1, 1])
    graph = helper.make_graph(nodes, "mean", [given], [found], [to])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, told)
    onnx.save(model, path)
    return Path(path)


def test_sounds_of_any_length_go_in_whole(tmp_path):
    network = OwnSoundNetwork(write(tmp_path / "a.onnx", [1, "n"]))
    assert network.rate == 16_000
    np.testing.assert_allclose(network.encode(np.arange(5, dtype=np.float32)), [2.0])


@pytest.mark.parametrize(("n", "expected"), [(10, (1.5 + 5.5 + 17 / 4) / 3), (9, (1.5 + 5.5) / 2), (2, 1 / 4)])
def test_of_a_fixed_length_parts_are_averaged(tmp_path, n, expected):
    network = OwnSoundNetwork(write(tmp_path / "a.onnx", [4], sample_rate="8000"))
    assert network.rate == 8_000
    np.testing.assert_allclose(network.encode(np.arange(n, dtype=np.float32)), [expected])


def test_other_networks_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"is no network for sounds, .* its inputs are x \[1, 3, 4, 4\]"):
        OwnSoundNetwork(write(tmp_path / "a.onnx", [1, 3, 4, 4]))
    with pytest.raises(ValueError, match=r"sample_rate in its metadata must be 1,000 to 1,000,000; got 'fast'"):
        OwnSoundNetwork(write(tmp_path / "b.onnx", [4], sample_rate="fast"))
