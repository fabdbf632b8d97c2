"""A user's own network, in an .onnx file: what it is given, what comes back, and what is refused."""

import json

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs the extra pictures")
pytest.importorskip("onnxruntime", reason="needs the extra pictures")
Image = pytest.importorskip("PIL.Image", reason="needs the extra pictures")

from written import mean_colour, word_vectors, words  # noqa: E402

from marginshot.labelling.items.encoders import PictureEncoder, TextEncoder  # noqa: E402
from marginshot.networks.own_pictures import OwnPictureNetwork  # noqa: E402
from marginshot.networks.own_texts import OwnTextNetwork  # noqa: E402


@pytest.fixture
def picture():
    pixels = np.zeros((60, 90, 3), dtype=np.uint8)
    pixels[...] = (255, 51, 102)
    return Image.fromarray(pixels)


def test_pixels_are_normalised_as_imagenet_is_unless_the_file_says_otherwise(tmp_path, picture):
    usual = OwnPictureNetwork(mean_colour(tmp_path / "a.onnx")).prepare(picture)
    expected = (np.array([1.0, 0.2, 0.4]) - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    np.testing.assert_allclose(usual, expected, rtol=1e-3)  # single precision sums 50,000 pixels
    told = mean_colour(tmp_path / "b.onnx", mean="[0.5, 0.5, 0.5]", std="[0.5, 0.5, 0.5]", image_size="32")
    np.testing.assert_allclose(OwnPictureNetwork(told).prepare(picture), [1.0, -0.6, -0.2], atol=1e-5)


def test_channels_may_come_last_and_bytes_go_in_as_they_are(tmp_path, picture):
    network = OwnPictureNetwork(mean_colour(tmp_path / "a.onnx", (1, 16, 16, 3), onnx.TensorProto.UINT8))
    assert network.encode([network.prepare(picture)] * 2).tolist() == [[255.0, 51.0, 102.0]] * 2


@pytest.mark.parametrize(
    ("shape", "metadata", "message"),
    [
        (("n", 1, 28, 28), {}, r"no network for pictures.*its inputs are x \['n', 1, 28, 28\]"),
        (("n", 3, 28, 32), {}, "28 x 32 pixels; only squares"),
        (("n", 3, "h", "w"), {"image_size": "big"}, "image_size in the metadata of .* got 'big'"),
        (("n", 3, "h", "w"), {"mean": "[1, 2]"}, r"mean in the metadata .* three numbers.* got '\[1, 2\]'"),
        (("n", 3, "h", "w"), {"std": "[1, 0, 1]"}, "std in the metadata"),
    ],
)
def test_networks_that_do_not_fit_are_refused(tmp_path, shape, metadata, message):
    with pytest.raises(ValueError, match=message):
        OwnPictureNetwork(mean_colour(tmp_path / "a.onnx", shape, **metadata))


def test_files_that_are_no_network_are_reported(tmp_path):
    (tmp_path / "a.onnx").write_bytes(b"not a network")
    with pytest.raises(ValueError, match=r"a\.onnx is damaged, or not a network that ONNX Runtime can run"):
        OwnPictureNetwork(tmp_path / "a.onnx")
    with pytest.raises(FileNotFoundError, match="There is no network"):
        OwnPictureNetwork(tmp_path / "b.onnx")


def test_word_pieces_are_averaged_without_their_padding(tmp_path):
    words(tmp_path)
    network = OwnTextNetwork(word_vectors(tmp_path / "onnx" / "model.onnx"))  # the tokenizer is one folder up
    found = network.encode(["red red blue green red", "blue", "red blue"])
    expected = np.array([[0, 3, 1, 1], [0, 0, 0, 1], [0, 1, 0, 1]]) / np.sqrt([[11], [1], [2]])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_network_for_texts_needs_a_tokenizer_and_known_inputs(tmp_path):
    path = word_vectors(tmp_path / "model.onnx")
    with pytest.raises(FileNotFoundError, match=r"needs tokenizer\.json beside it"):
        OwnTextNetwork(path)
    words(tmp_path)
    with pytest.raises(ValueError, match=r"no network for texts: its inputs are input_ids, pixel_values; known are"):
        OwnTextNetwork(word_vectors(path, ("input_ids", "pixel_values")))


def test_the_identity_follows_the_content_of_the_files(tmp_path):
    words(tmp_path)
    path = word_vectors(tmp_path / "model.onnx")
    before = TextEncoder(str(path)).identity
    assert TextEncoder(str(path)).identity == before
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["truncation"] = None
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert TextEncoder(str(path)).identity != before
    picture = mean_colour(tmp_path / "pictures.onnx")
    first = PictureEncoder(str(picture)).identity
    mean_colour(picture, mean="[0, 0, 0]")
    assert PictureEncoder(str(picture)).identity != first


def test_the_command_labels_with_it(tmp_path, monkeypatch, capsys):
    from marginshot.cli.app import main

    monkeypatch.setenv("MARGINSHOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    mean_colour(tmp_path / "own.onnx", image_size="16")
    rng = np.random.default_rng(0)
    for place, name in enumerate(["a/1", "b/2", "a/3", "b/4", *(f"x{number}" for number in range(8))]):
        pixels = np.full((20, 20, 3), (200, 30, 30) if place % 2 else (30, 200, 30)) + rng.integers(0, 20, (20, 20, 3))
        path = tmp_path / "photos" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype(np.uint8)).save(path)
    with pytest.raises(SystemExit) as ended:
        main(["label", "photos", "--encoder", "own.onnx", "--out", "done", "--no-gallery"])
    assert ended.value.code == 0, capsys.readouterr().err
    rows = [line.split(",")[:2] for line in (tmp_path / "done" / "labels.csv").read_text().splitlines()[1:]]
    assert {name: label for name, label in rows if name.startswith("x")} == {
        f"x{number}.png": "ab"[number % 2] for number in range(8)
    }
