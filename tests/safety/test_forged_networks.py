"""Networks and tokenizers that are damaged, forged or odd (issue 31): one sentence, or a problem of one item alone."""

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra pictures")
pytest.importorskip("onnxruntime", reason="needs the extra pictures")
Image = pytest.importorskip("PIL.Image", reason="needs the extra pictures")
tokenizers = pytest.importorskip("tokenizers", reason="needs the extra texts")

from marginshot.labelling import label_texts  # noqa: E402
from marginshot.labelling.items.encoders import PictureEncoder  # noqa: E402
from marginshot.networks.own_pictures import OwnPictureNetwork  # noqa: E402
from marginshot.networks.own_texts import OwnTextNetwork  # noqa: E402

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def written(path, nodes, inputs, constants=(), outputs=("y",), **metadata):
    helper = onnx.helper
    given = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    results = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "forged", given, results, list(constants))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, metadata)
    path.write_bytes(model.SerializeToString())
    return path


def apart(location):
    """A matrix (192, 4) whose numbers lie in another file."""
    tensor = onnx.TensorProto(name="w", data_type=FLOAT, dims=(192, 4), data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=str(location))
    return tensor


def product(path, weights):
    """A network whose features are a product with ``weights``."""
    nodes = [onnx.helper.make_node("Flatten", ["x"], ["f"]), onnx.helper.make_node("MatMul", ["f", "w"], ["y"])]
    return written(path, nodes, {"x": (FLOAT, (1, 3, 8, 8))}, [weights])


def pooled(path, side="h", **metadata):
    node = onnx.helper.make_node("GlobalAveragePool", ["x"], ["y"])
    return written(path, [node], {"x": (FLOAT, ("n", 3, side, side))}, **metadata)


def test_weights_of_any_name_beside_the_network_are_part_of_what_it_is(tmp_path):
    """Only two names were known: with other weights, embeddings of before were taken from the cache."""
    (tmp_path / "anything.bin").write_bytes(np.ones((192, 4), dtype="<f4").tobytes())
    path = product(tmp_path / "net.onnx", apart("anything.bin"))
    before = PictureEncoder(str(path)).identity
    OwnPictureNetwork(path)
    (tmp_path / "anything.bin").write_bytes(np.full((192, 4), 2, dtype="<f4").tobytes())
    assert PictureEncoder(str(path)).identity != before


@pytest.mark.parametrize("inner", [False, True], ids=["of the graph", "of a graph inside it"])
@pytest.mark.parametrize("location", ["../secret.bin", "{absolute}", "a/../../secret.bin", "..\\secret.bin", "C:x.bin"])
def test_no_weights_are_read_from_outside_the_folder(tmp_path, location, inner):
    secret = tmp_path / "secret.bin"
    secret.write_bytes(np.ones((192, 4), dtype="<f4").tobytes())
    folder = tmp_path / "received"
    folder.mkdir()
    path = product(folder / "net.onnx", apart(location.format(absolute=secret)))
    if inner:
        model = onnx.load(path, load_external_data=False)
        branch = onnx.helper.make_graph([], "branch", [], [], [model.graph.initializer.pop()])
        model.graph.node.append(onnx.helper.make_node("If", ["f"], ["z"], then_branch=branch, else_branch=branch))
        path.write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match="not in its folder"):
        OwnPictureNetwork(path)
    with pytest.raises(ValueError, match="not in its folder"):
        PictureEncoder(str(path)).identity  # noqa: B018


@pytest.mark.parametrize(
    ("side", "metadata", "words"),
    [
        (100_000, {}, "number of pixels, 1 to 2,048; got 100000"),
        (0, {}, "The side of pictures in the graph of .* 1 to 2,048; got 0"),
        ("h", {"image_size": "9999"}, "number of pixels, 1 to 2,048; got 9999"),
        ("h", {"image_size": "1" * 5000}, "number of pixels, 1 to 2,048"),
        ("h", {"mean": "[" * 100_000}, "mean in the metadata .* must be three numbers"),
        ("h", {"std": f"[{'9' * 400}, 1, 1]"}, "std in the metadata .* must be three numbers"),
    ],
)
def test_sizes_and_numbers_in_a_network_are_bounded(tmp_path, side, metadata, words):
    with pytest.raises(ValueError, match=words) as error:
        OwnPictureNetwork(pooled(tmp_path / "net.onnx", side, **metadata))
    assert len(str(error.value)) < 500


def test_a_network_without_an_output_is_refused(tmp_path):
    path = pooled(tmp_path / "net.onnx")
    model = onnx.load(path)
    model.graph.ClearField("output")
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ValueError, match=r"net\.onnx is damaged, or not a network"):
        OwnPictureNetwork(path)


WORDS = ["[UNK]", "tea", "green", "black", "bread", "rye", "white", "odd"]


def of_words(folder, n_known=None, pattern=None, **metadata):
    """A network of word vectors, of which the first ``n_known`` words have one."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: i for i, w in enumerate(WORDS)}, "[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    content = json.loads(tokenizer.to_str())
    if pattern is not None:
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": False}
        content["pre_tokenizer"] = split
    (folder / "tokenizer.json").write_text(json.dumps(content))
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)
    vectors[1:4, 0] += 5.0
    vectors[4:7, 1] += 5.0
    node = onnx.helper.make_node("Gather", ["w", "input_ids"], ["y"])
    constants = [onnx.numpy_helper.from_array(vectors[:n_known], "w")]
    return written(folder / "net.onnx", [node], {"input_ids": (INT64, ("n", "l"))}, constants, **metadata)


TEXTS = ["green tea", "rye bread", "black tea", "white bread", "tea", "bread"]
LABELS = ["tea", "bread", None, None, None, None]


@pytest.mark.parametrize(
    ("odd", "network", "words"),
    [
        ("odd", {"n_known": 7}, "cannot be encoded"),  # a word piece without a vector
        ("a" * 40 + "!", {"pattern": r"(a+)+$|\s+"}, "the tokenizer gave up"),  # a panic of Rust, no Exception
        ("   .", {"pattern": r"[\s.]+"}, "its embedding is not finite"),  # no word pieces
        ("half a \ud800", {}, "half a character"),
    ],
)
def test_a_text_that_a_network_cannot_take_is_a_problem_of_its_own(tmp_path, odd, network, words):
    path = of_words(tmp_path, **network)
    found = label_texts([*TEXTS, odd], [*LABELS, None], encoder=str(path), cache=False)
    assert words in found.problems["row 7"]
    assert list(found.labels) == ["tea", "bread"] * 3


@pytest.mark.parametrize("length", ["0", "9" * 30, "9" * 5000, "²"])
def test_the_length_of_texts_is_bounded(tmp_path, length):
    with pytest.raises(ValueError, match="number of word pieces, 1 to 32,768"):
        OwnTextNetwork(of_words(tmp_path, max_length=length))
