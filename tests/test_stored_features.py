"""Features kept in the repository: their classes, their size, and the command that reads them."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

import marginshot
from marginshot.data.features import load_features

FOLDER = Path(__file__).parents[1] / "benchmarks" / "features"
FILES = sorted(FOLDER.glob("*.npz"))
LISTS = Path(marginshot.__file__).parent / "vision" / "datasets" / "class_lists"

pytestmark = pytest.mark.skipif(not FILES, reason="the source archive leaves the features out")


def published(dataset: str, split: str) -> set[str]:
    rows = csv.DictReader((LISTS / f"{dataset}.csv").read_text().splitlines())
    return {row["class"] for row in rows if row["split"] == split}


def test_together_they_take_at_most_12_mb():
    assert sum(path.stat().st_size for path in FILES) <= 12e6


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_each_has_the_pictures_that_its_name_says(path):
    bank = load_features(path)
    dataset = "cub" if "cub" in path.stem else "miniimagenet"
    split = "validation" if path.stem.endswith("-val") else "test"
    assert set(bank.classes) == published(dataset, split)
    if dataset == "miniimagenet":
        assert len(bank.y) == 600 * len(bank.classes)
    assert f"`{path.name}`" in (FOLDER / "README.md").read_text()


def test_the_command_of_the_readme():
    path = FOLDER / "mini_resnet18-test.npz"
    words = ["paper", "--table", "1", "--measure", str(path), "--tasks", "20", "--format", "json"]
    done = subprocess.run([sys.executable, "-m", "marginshot", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ours = {
        row["method"]: row["ours"] for row in json.loads(done.stdout) if row["ours"] is not None and row["shot"] == 5
    }
    assert set(ours) == {"FS-TMMC", "SimpleShot", "LaplacianShot", "ProtoNet", "MatchingNet"}
    assert min(ours.values()) > 25  # guessing gives 20
