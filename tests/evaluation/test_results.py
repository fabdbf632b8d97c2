"""What is written is what is read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from doubles import FirstClass, NearestMean
from numpy.testing import assert_array_equal

from marginshot.data.features import load_features
from marginshot.data.sampler import TaskSettings
from marginshot.evaluation.protocol import evaluate
from marginshot.evaluation.results import FORMAT, Evaluation, tasks_path
from marginshot.evaluation.run import Run


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    run = Run(
        banks=[load_features("digits")],
        methods={"fs-tmmc": NearestMean(), "first": FirstClass()},
        settings=[TaskSettings(), TaskSettings(n_shot=(1, 2, 3, 4, 5))],
        n_tasks=5,
        seed=11,
        command="marginshot evaluate digits",
    )
    return evaluate(run)


def test_round_trip(evaluation, tmp_path):
    evaluation.save(tmp_path / "result.json")
    loaded = Evaluation.load(tmp_path / "result.json")
    assert loaded.to_json() == json.loads(json.dumps(evaluation.to_json())) | {
        "results": [r | {"shot": _as_given(r["shot"])} for r in loaded.to_json()["results"]]
    }
    for one, other in zip(loaded.results, evaluation.results, strict=True):
        assert_array_equal(one.per_task, other.per_task)
        assert (one.shot, one.difference, one.calibration) == (other.shot, other.difference, other.calibration)
    assert loaded.features == evaluation.features
    assert sorted(path.name for path in tmp_path.iterdir()) == ["result.json", "result.tasks.npz"]


def _as_given(shot):
    return tuple(shot) if isinstance(shot, list) else shot


def test_json_holds_what_is_needed_to_repeat(evaluation, tmp_path):
    evaluation.save(tmp_path / "result.json")
    content = json.loads((tmp_path / "result.json").read_text())
    assert content["format"] == FORMAT
    assert content["seed"] == content["arguments"]["seed"] == 11
    assert content["features"][0]["sha256"] == load_features("digits").content_hash
    assert {"system", "processor", "cores", "python", "numpy"} <= set(content["machine"])
    assert content["command"] == "marginshot evaluate digits"
    assert len(content["results"]) == 4
    entry = content["results"][1]
    assert {"method", "way", "shot", "accuracy", "ci95", "seconds_per_task", "worst_tenth"} <= set(entry)
    assert entry["difference"]["to"] == "fs-tmmc"
    with np.load(tasks_path(tmp_path / "result.json")) as arrays:
        assert arrays[entry["per_task"]].mean() == pytest.approx(entry["accuracy"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"bad\.json is damaged, or not a result file"),
        ("[]", "it holds a list, not an object"),
        ('{"format": "other"}', "no format"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    (tmp_path / "bad.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        Evaluation.load(tmp_path / "bad.json")


def test_missing_accuracies_are_named(evaluation, tmp_path):
    evaluation.save(tmp_path / "result.json")
    tasks_path(tmp_path / "result.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"result\.tasks\.npz, the accuracies of single tasks, is missing"):
        Evaluation.load(tmp_path / "result.json")
