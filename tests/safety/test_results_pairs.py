"""The two files of a result belong to each other, and numbers that cannot be are not believed."""

import json

import numpy as np
import pytest
from mutations import results

from marginshot._lib.reading import DamagedFileError
from marginshot.evaluation.checkpoint import BlockProgress, Checkpoint
from marginshot.evaluation.regime_table import RegimeTable
from marginshot.evaluation.results import Evaluation


@pytest.fixture
def saved(tmp_path):
    list(results(tmp_path))
    return tmp_path


def change(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def test_the_summary_of_one_run_beside_the_tasks_of_another_is_refused(saved):
    """Both files are whole: a kill between writing them leaves such a pair."""
    path = saved / "r.json"
    first = path.read_bytes()
    evaluation = Evaluation.load(path)
    Evaluation(arguments={"seed": 1}, features=evaluation.features, results=evaluation.results[:1]).save(path)
    Evaluation.load(path)
    path.write_bytes(first)
    with pytest.raises(DamagedFileError, match=r"r\.json and r\.tasks\.npz are of two different runs.*Evaluate again"):
        Evaluation.load(path)


def test_a_result_of_an_earlier_version_is_bound_by_its_numbers(saved):
    path = saved / "r.json"
    change(path, lambda content: content.pop("per_task_sha256"))
    assert len(Evaluation.load(path).results) == 2
    change(path, lambda content: content["results"][0].update(accuracy=0.1))
    with pytest.raises(DamagedFileError, match="the accuracy of a is not the mean of its 40 tasks"):
        Evaluation.load(path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("accuracy", 9.0),
        ("accuracy", "0.5"),
        ("ci95", -1),
        ("worst_tenth", 2.0),
        ("seconds_per_task", float("nan")),
        ("tasks", 41),
        ("difference", {"to": "a", "mean": 7.0, "ci95": 0.0}),
    ],
)
def test_numbers_that_cannot_be_are_refused(saved, name, value):
    change(saved / "r.json", lambda content: content["results"][1].update({name: value}))
    with pytest.raises(DamagedFileError, match=r"r\.json is damaged, or not a result file"):
        Evaluation.load(saved / "r.json")


def test_an_accuracy_of_nine_in_a_table_of_regimes_is_refused(saved):
    change(saved / "t.json", lambda content: content["results"][0]["scores"][0].update(accuracy=9.0))
    with pytest.raises(DamagedFileError, match="are not all between 0 and 1"):
        RegimeTable.load(saved / "t.json")


def _forge(name, index, value):
    block = BlockProgress.empty(2, 20)
    block.done[:] = True
    getattr(block, name)[index] = value
    return block


@pytest.mark.parametrize(
    "block",
    [
        _forge("accuracy", (0, 3), 9.0),
        _forge("accuracy", (1, 3), np.nan),
        _forge("seconds", 0, -1.0),
        _forge("reliability", (0, 0, 0), -5),
        BlockProgress.empty(3, 20),
        BlockProgress.empty(2, 21),
    ],
    ids=["accuracy 9", "accuracy nan", "negative time", "negative count", "more methods", "more tasks"],
)
def test_forged_progress_is_refused(tmp_path, block):
    identity = {"tasks": 20, "methods": {"a": {}, "b": {}}}
    checkpoint = Checkpoint(tmp_path / "r.partial.npz")
    checkpoint.save([block], identity, at_once=True)
    with pytest.raises(DamagedFileError, match=r"cannot be continued\. Start over with --force"):
        checkpoint.load(identity)
