"""The scripts of the site run as they stand, without a warning."""

import runpy
from pathlib import Path

import matplotlib
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(path for room in ("concepts", "recipes") for path in (EXAMPLES / room).glob("*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_script_runs(path, monkeypatch):
    needs = {f"import {package}": package for package in ("dask", "pandas", "polars", "torch")}
    for phrase, package in (needs | {"import label_texts": "sentence_transformers"}).items():
        if phrase in path.read_text():
            pytest.importorskip(package, reason="needs all extras")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))
    runpy.run_path(str(path))


def test_there_are_scripts():
    assert len(SCRIPTS) >= 13
