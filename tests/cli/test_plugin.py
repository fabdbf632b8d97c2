"""Methods of one's own on the command line."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import no_such_module", "stopped with ModuleNotFoundError: No module named 'no_such_module'"),
        ("scores = [[0.0]]", "must give scores of shape (tasks, queries, classes), (10, 75, 5) here; got (1, 1)"),
        ("scores = query[:, :, 0]", "got (10, 75)"),
        ("query -= 1.0; scores = query", "read-only"),
    ],
)
def test_what_is_wrong_with_it_is_told(fails, body, message):
    Path("mine.py").write_text(
        "from marginshot.methods.base import register\n"
        "class Mine:\n"
        "    name, title, reference, transductive = 'mine', 'Mine', '', False\n"
        "    def predict_scores(self, support, labels, query):\n"
        f"        {body}\n"
        "        return scores\n"
        "    def probabilities(self, scores):\n"
        "        return None\n" + ("import no_such_module\n" if "no_such" in body else "") + "register(Mine)\n"
    )
    told = fails("evaluate", "digits", "--tasks", 10, "--methods", "mine", "--plugin", "mine.py")
    assert message in " ".join(told.split())
