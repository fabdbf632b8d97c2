"""Cells get the tasks their interval needs, the same for all methods, and say what was left out."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from doubles import FirstClass, NearestMean
from numpy.testing import assert_allclose

from marginshot.data.features import load_features, make_bank
from marginshot.data.sampler import TaskSettings
from marginshot.evaluation import regimes
from marginshot.evaluation.protocol import evaluate
from marginshot.evaluation.regime_table import CellResult, LeftOut, RegimeTable
from marginshot.evaluation.regimes import Regime, RegimePlan, find_shortage, run_regimes
from marginshot.evaluation.run import Run


@dataclass(frozen=True, kw_only=True)
class Slow(FirstClass):
    """Takes its time."""

    name: ClassVar[str] = "slow"

    def predict_scores(self, support, support_labels, query):
        end = time.thread_time() + 0.003 * len(query)
        while time.thread_time() < end:
            pass
        return super().predict_scores(support, support_labels, query)


def make_plan(**changes) -> RegimePlan:
    settings = {
        "banks": [load_features("digits")],
        "methods": {"mean": NearestMean(), "first": FirstClass()},
        "regimes": [Regime()],
        "ways": [5],
        "shots": [1],
        "ci95": 0.02,
    }
    return RegimePlan(**(settings | changes))


def test_cell_is_what_evaluate_gives_on_as_many_tasks():
    (result,) = run_regimes(make_plan(regimes=[Regime(dirichlet=2.0)], seed=4))
    assert result.tasks > 50
    run = Run(
        banks=[load_features("digits")],
        methods=make_plan().methods,
        settings=[TaskSettings(n_shot=1, dirichlet=2.0)],
        n_tasks=result.tasks,
        seed=4,
    )
    expected = evaluate(run).results
    assert [(s.method, s.accuracy, s.ci95) for s in result.scores] == [(r.method, r.accuracy, r.ci95) for r in expected]
    assert all(score.seconds_per_task > 0 for score in result.scores)


@pytest.mark.parametrize("ci95", [0.03, 0.015])
def test_tasks_are_added_until_every_interval_is_narrow(ci95):
    (result,) = run_regimes(make_plan(ci95=ci95))
    widest = max(score.ci95 for score in result.scores)
    assert widest <= ci95
    # And not for much longer: the batches before were too few.
    assert widest > ci95 / np.sqrt((result.tasks + 100) / (result.tasks - 50)) * 0.8


@pytest.mark.parametrize("max_tasks", [7, 60])
def test_never_more_than_the_most_tasks(max_tasks):
    (result,) = run_regimes(make_plan(ci95=0.001, max_tasks=max_tasks))
    assert result.tasks == max_tasks
    assert max(score.ci95 for score in result.scores) > 0.001


def test_slow_method_leaves_and_the_others_stay():
    methods = {"slow": Slow(), "mean": NearestMean()}
    alone = next(run_regimes(make_plan(methods={"mean": NearestMean()})))
    (result,) = run_regimes(make_plan(methods=methods, budget=0.1))
    assert [score.method for score in result.scores] == ["mean"]
    assert list(result.too_slow) == ["slow"]
    assert_allclose(result.too_slow["slow"], 0.003, rtol=0.5)
    assert (result.tasks, result.scores[0].accuracy) == (alone.tasks, alone.scores[0].accuracy)
    (patient,) = run_regimes(make_plan(methods=methods, budget=1000, max_tasks=60))
    assert not patient.too_slow


def test_all_methods_too_slow():
    (result,) = run_regimes(make_plan(budget=1e-9))
    assert (result.scores, set(result.too_slow)) == ((), {"mean", "first"})


@pytest.mark.parametrize(
    ("regime", "n_way", "n_examples", "reason"),
    [
        ("balanced", 10, 174, None),
        ("balanced", 11, 16, "digits has 10 classes"),
        ("balanced", 5, 175, "the smallest class of digits has 174 examples"),
        ("present-5", 6, 16, None),
        ("present-5", 5, 16, "with 5 classes present, all of so few classes would be"),
    ],
)
def test_shortage(regime, n_way, n_examples, reason):
    assert find_shortage(load_features("digits"), Regime.parse(regime), n_way, n_examples) == reason


def test_shares_that_never_fit_leave_the_cell_out():
    X = np.random.default_rng(0).normal(size=(64, 4))
    bank = make_bank(X, np.repeat(np.arange(4), 16), source="small")
    entries = list(run_regimes(make_plan(banks=[bank], ways=[4], regimes=[Regime(dirichlet=0.01), Regime()])))
    assert [type(entry) for entry in entries] == [LeftOut, CellResult]
    assert "1000 draws did not fit" in entries[0].reason


def test_known_cells_are_not_run_again():
    plan = make_plan(ways=[2, 5], regimes=[Regime(), Regime(present=2)], max_tasks=10)
    entries = list(run_regimes(plan))
    assert [str(entry.cell) for entry in entries] == [
        "digits, balanced, 2-way 1-shot",
        "digits, balanced, 5-way 1-shot",
        "digits, present-2, 2-way 1-shot",
        "digits, present-2, 5-way 1-shot",
    ]
    rest = list(run_regimes(plan, known={entry.cell for entry in entries[:3]}))
    assert [entry.cell for entry in rest] == [entries[3].cell]


def test_tasks_are_reported(monkeypatch):
    seen = []
    monkeypatch.setattr(regimes, "_BATCH", 20)
    (result,) = run_regimes(make_plan(), on_tasks=lambda done, needed: seen.append((done, needed)))
    assert seen[0][1] == 20
    assert seen[-1] == (result.tasks, result.tasks)


def test_table_is_saved_and_loaded(tmp_path):
    plan = make_plan(ways=[5, 11], methods={"mean": NearestMean(), "slow": Slow()}, budget=0.1)
    table = plan.start_table("marginshot regimes digits")
    for entry in run_regimes(plan):
        table = table.add(entry)
    table.save(tmp_path / "regimes.json")
    loaded = RegimeTable.load(tmp_path / "regimes.json")
    assert loaded == table
    assert loaded.cells() == {cell for cell, _, _ in plan.cells()}
    assert plan.continue_table(loaded).results == table.results


def test_table_of_other_settings_is_not_continued():
    table = make_plan().start_table()
    with pytest.raises(ValueError, match="made with other seed: repeat them"):
        make_plan(seed=1).continue_table(table)
    with pytest.raises(ValueError, match="made with other methods"):
        make_plan(methods={"mean": NearestMean(temperature=2.0), "first": FirstClass()}).continue_table(table)
    digits = load_features("digits")
    with pytest.raises(ValueError, match="made with another 'digits': write to a new folder"):
        make_plan(banks=[make_bank(digits.X + 1, digits.y, source="digits")]).continue_table(table)
    # Cells do not depend on each other: other ways and more features go into the same table.
    more = make_bank(digits.X + 1, digits.y, source="more")
    assert list(make_plan(banks=[more], ways=[3]).continue_table(table).features) == ["digits", "more"]


@pytest.mark.parametrize("text", ["[1]", '{"format": "marginshot-output/1"}', "{"])
def test_other_files_are_not_read(tmp_path, text):
    (tmp_path / "regimes.json").write_text(text)
    with pytest.raises(ValueError, match=r"regimes\.json (is damaged, or not a table|was not written)"):
        RegimeTable.load(tmp_path / "regimes.json")


def test_arguments_are_json():
    arguments = make_plan().arguments()
    assert json.loads(json.dumps(arguments)) == arguments
