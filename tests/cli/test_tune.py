"""Tuned settings: never worse on the tasks they were tuned on, and readable by evaluate."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest

QUICK = ("--tasks", 20, "--shot", 1, "--seed", 2)


def test_tuned_settings_feed_evaluate(cli):
    outcome = cli("tune", "digits", *QUICK, "--trials", 4, "--out", "tuned.toml")
    assert outcome.code == 0
    assert "Settings written to tuned.toml" in outcome.err
    tuned = tomllib.loads(Path("tuned.toml").read_text())
    assert tuned["tuned"]["trials"] == 4
    assert tuned["tuned"]["accuracy"] >= tuned["tuned"]["default_accuracy"]
    settings = tuned["methods"]["fs-tmmc"]
    assert settings["lambda2"][0] == 0
    assert settings["lambda2"] == sorted(settings["lambda2"])

    base = ("evaluate", "digits", *QUICK, "--methods", "fs-tmmc", "--format", "json")
    result = json.loads(cli(*base, "--config", "tuned.toml").out)["results"][0]
    assert result["accuracy"] == pytest.approx(tuned["tuned"]["accuracy"], abs=1e-6)
    assert result["settings"]["lambda1"] == settings["lambda1"]
    default = json.loads(cli(*base).out)["results"][0]
    assert default["accuracy"] == pytest.approx(tuned["tuned"]["default_accuracy"], abs=1e-6)


def test_same_seed_same_settings(cli):
    for name in ("one.toml", "two.toml"):
        assert cli("tune", "digits", *QUICK, "--trials", 3, "--method", "fs-mmc", "--out", name).code == 0
    assert Path("one.toml").read_text() == Path("two.toml").read_text()
    tuned = tomllib.loads(Path("one.toml").read_text())
    assert tuned["methods"]["fs-mmc"]["lambda2"] == [0.0]


def test_the_preset_auto_keeps_its_own_rule_for_lambda2(cli):
    arguments = ("--trials", 3, "--method", "fs-tmmc-auto", "--out", "auto.toml")
    assert cli("tune", "digits", *QUICK, *arguments).code == 0
    settings = tomllib.loads(Path("auto.toml").read_text())["methods"]["fs-tmmc-auto"]
    assert settings["lambda2"][0] == 0
    assert cli("evaluate", "digits", *QUICK, "--methods", "fs-tmmc-auto", "--config", "auto.toml").code == 0


def test_interrupted_it_keeps_the_best_so_far(cli, monkeypatch):
    from marginshot.evaluation import tuning

    evaluate, calls = tuning.evaluate, []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return evaluate(*arguments, **options)

    monkeypatch.setattr(tuning, "evaluate", interrupted)
    outcome = cli("tune", "digits", *QUICK, "--trials", 5, "--out", "tuned.toml")
    assert outcome.code == 130
    assert "Interrupted after 2 of 5 trials: the best so far is kept." in outcome.err
    assert "Traceback" not in outcome.err
    assert tomllib.loads(Path("tuned.toml").read_text())["tuned"]["trials"] == 2


def test_only_the_margin_family_is_tuned(fails):
    assert "Only one method of the maximum-margin family can be tuned; got protonet" in fails(
        "tune", "digits", *QUICK, "--method", "protonet"
    )
    assert "at least 1 trial; got 0" in fails("tune", "digits", *QUICK, "--trials", 0)


def test_no_workers_at_all(fails):
    assert "workers are at least 1, or -1 for all cores; got 0" in fails(
        "tune", "digits", "--jobs", 0, "--out", "tuned.toml"
    )


def test_missing_extra_is_named(fails, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    message = fails("tune", "digits", *QUICK)
    assert message == "Error: This needs optuna, which is not installed. Run: pip install 'marginshot[tune]'\n"


def test_other_files_are_left_alone(fails):
    Path("tuned.toml").write_text("[mine]")
    assert "tuned.toml exists and was not written by this command" in fails("tune", "digits", *QUICK)
