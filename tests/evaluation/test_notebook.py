"""The notebook "Evaluate from Python" runs, and prints the accuracies it was saved with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("torch")


def accuracies(notebook) -> list[float]:
    outputs = (output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs)
    printed = "".join(output.get("text", "") for output in outputs)
    return [float(number) for number in re.findall(r"([\d.]+)% ± ", printed)]


def test_the_notebook_runs_and_prints_what_is_saved_in_it():
    path = Path(__file__).parents[2] / "examples" / "evaluate.ipynb"
    saved, notebook = (nbformat.read(path, as_version=4) for _ in range(2))
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    assert len(accuracies(saved)) > 8
    # Up to rounding on another machine.
    assert accuracies(notebook) == pytest.approx(accuracies(saved), abs=0.3)
