"""The tutorial runs as printed."""

from __future__ import annotations

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")


def test_the_tutorial_runs():
    path = Path(__file__).parents[2] / "examples" / "tutorial.ipynb"
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    printed = "".join(
        output.get("text", "") for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    )
    shares = [
        float(line.rpartition(" right")[0].split()[-1].rstrip("%"))
        for line in printed.splitlines()
        if "% right" in line and "items" not in line
    ]
    before, suggested, at_random = shares[-3:]
    assert suggested > before
    assert suggested > at_random
