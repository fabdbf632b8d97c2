"""Methods of one's own on the command line."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from marginshot.methods import METHODS

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_method.py"


@pytest.fixture(autouse=True)
def table_of_methods():
    """As before afterwards."""
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


def test_a_method_of_ones_own(cli):
    run = cli("evaluate", "digits", "--tasks", 20, "--methods", "nearest-row,simpleshot", "--plugin", EXAMPLE)
    assert run.code == 0, run.err
    assert "Nearest row" in run.out


def write_method(body):
    """mine.py, whose method works out its scores by ``body``."""
    text = [
        "from marginshot.methods.base import register",
        "class Mine:",
        "    name, title, reference, transductive = 'mine', 'Mine', '', False",
        "    def predict_scores(self, support, labels, query):",
        f"        {body}",
        "        return scores",
        "    def probabilities(self, scores):",
        "        return None",
        "register(Mine)",
    ]
    if body.startswith("import"):
        text.insert(-1, body)
    if body == "def predict_scores":
        text[3:6] = []
    Path("mine.py").write_text("\n".join(text))


def test_a_run_is_not_continued_with_a_changed_method(cli, fails):
    command = ("evaluate", "digits", "--tasks", 10, "--methods", "mine", "--plugin", "mine.py", "--json", "r.json")
    write_method("scores = query[:, :, :5]")
    assert cli(*command).code == 0
    METHODS.pop("mine")
    assert "r.json is already complete" in cli(*command, "--resume").err
    METHODS.pop("mine")
    write_method("scores = -query[:, :, :5]")
    assert "The stored result has 'mine' with other settings" in fails(*command, "--resume")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import sys; sys.exit(0)", "mine.py stopped with SystemExit: 0"),
        ("import no_such_module", "stopped with ModuleNotFoundError: No module named 'no_such_module'"),
        ("scores = [[0.0]]", "must give scores of shape (tasks, queries, classes), (10, 75, 5) here; got (1, 1)"),
        ("scores = query[:, :, 0]", "got (10, 75)"),
        ("query -= 1.0; scores = query", "Method 'mine': output array is read-only"),
        ("labels[:] = labels[:, ::-1]; scores = query", "Method 'mine': assignment destination is read-only"),
        ("def predict_scores", "stopped with TypeError: Mine is not a method yet: it lacks predict_scores"),
    ],
)
def test_what_is_wrong_with_it_is_told(fails, body, message):
    write_method(body)
    told = fails("evaluate", "digits", "--tasks", 10, "--methods", "mine", "--plugin", "mine.py")
    assert message in " ".join(told.split())


TENSORS = """
import torch
from marginshot.methods.base import register

@register
class Tensors:
    name, title, reference, transductive = "tensors", "Tensors", "", False

    def predict_scores(self, support, labels, query):
        weights = torch.ones(64, 5, requires_grad=True)
        return torch.tensor(query) @ weights
"""


def test_tensors_are_taken_and_probabilities_are_optional(cli):
    """Issue 36: a tensor ended in a traceback of joblib."""
    pytest.importorskip("torch")
    Path("tensors.py").write_text(TENSORS)
    run = cli("evaluate", "digits", "--tasks", 10, "--shot", 1, "--methods", "tensors", "--plugin", "tensors.py")
    assert run.code == 0, run.err
    assert "Tensors" in run.out


def test_tensors_of_a_type_that_numpy_has_not_are_taken(cli):
    pytest.importorskip("torch")
    Path("tensors.py").write_text(
        TENSORS.replace("@ weights", "@ weights).bfloat16()").replace("return torch", "return (torch")
    )
    run = cli("evaluate", "digits", "--tasks", 10, "--shot", 1, "--methods", "tensors", "--plugin", "tensors.py")
    assert run.code == 0, run.err


@pytest.mark.parametrize("given", ["scores * 0 + 1.5", "scores * 0 - 0.1", "scores * float('nan')"])
def test_probabilities_that_are_none_are_named(fails, given):
    """A result with them could be written, and not be read again."""
    write_method("scores = query[:, :, :5]")
    Path("mine.py").write_text(Path("mine.py").read_text().replace("return None", f"return {given}"))
    command = ("evaluate", "digits", "--tasks", 10, "--methods", "mine", "--plugin", "mine.py", "--json", "r.json")
    assert "Method 'mine' must give probabilities between 0 and 1; got" in fails(*command)


def test_probabilities_of_another_shape_are_named(fails):
    write_method("scores = query[:, :, :5]")
    text = Path("mine.py").read_text().replace("return None", "return scores[:, :, 0]")
    Path("mine.py").write_text(text)
    told = fails("evaluate", "digits", "--tasks", 10, "--methods", "mine", "--plugin", "mine.py")
    assert "must give probabilities of shape (tasks, queries, classes), (10, 75, 5) here; got (10, 75)" in told


def test_an_edit_is_run_and_no_byte_code_is_left(cli, monkeypatch):
    """Issue 17: byte code, which Python trusts by second and size, was written beside the file and run again."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    command = ("evaluate", "digits", "--tasks", 10, "--methods", "mine", "--plugin", "mine.py", "--format", "json")
    accuracies = []
    for body in ("scores = query[:, :, :5]+0", "scores = query[:, :, 5:10]"):
        write_method(body)
        os.utime("mine.py", (1_700_000_000, 1_700_000_000))
        accuracies.append(json.loads(cli(*command).out)["results"][0]["accuracy"])
        METHODS.pop("mine")
    assert accuracies[0] != accuracies[1]
    assert [path.name for path in Path().iterdir()] == ["mine.py"]
