"""``marginshot evaluate`` from the command line to files, and every way a user can get it wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics import roc_auc_score

from marginshot.data.features import load_features
from marginshot.evaluation.results import Evaluation

QUICK = ("--tasks", 12, "--methods", "protonet,simpleshot")


def test_the_whole_way(cli):
    outcome = cli("evaluate", "digits", *QUICK, "--json", "result.json", "--report", "report.html")
    assert outcome.code == 0
    assert "5-way 1-shot" in outcome.out
    assert "ProtoNet" in outcome.out
    assert outcome.err == "Result written to result.json\nReport written to report.html\n"
    assert sorted(path.name for path in Path().iterdir()) == ["report.html", "result.json", "result.tasks.npz"]
    evaluation = Evaluation.load("result.json")
    assert [(r.method, r.way, r.shot, r.tasks) for r in evaluation.results] == [
        ("protonet", 5, 1, 12),
        ("simpleshot", 5, 1, 12),
        ("protonet", 5, 5, 12),
        ("simpleshot", 5, 5, 12),
    ]
    assert "SimpleShot" in Path("report.html").read_text()


def test_base_classes_whiten_the_features(cli):
    digits = load_features("digits")
    for name, kept in (("base.npz", digits.y < 4), ("novel.npz", digits.y >= 4)):
        names = np.array(digits.classes)[digits.y[kept]]
        np.savez(name, X=digits.X[kept], y=names)
    outcome = cli("evaluate", "novel.npz", "--base", "base.npz", *QUICK)
    assert outcome.code == 0
    assert "novel.npz, whitened by base.npz" in " ".join(outcome.out.split())
    refused = cli("evaluate", "digits", "--base", "base.npz", *QUICK)
    assert refused.code == 2
    assert "Base classes must not occur among the novel ones; 4 of base.npz are also in digits" in refused.err


def test_workers_do_not_change_the_result(cli):
    methods = "fs-tmmc,fs-mmc,laplacianshot,bd-cspn"
    for jobs, name in ((1, "one.json"), (2, "two.json")):
        code = cli("evaluate", "digits", "--methods", methods, "--tasks", 40, "-j", jobs, "--json", name).code
        assert code == 0
    one, two = Evaluation.load("one.json"), Evaluation.load("two.json")
    for a, b in zip(one.results, two.results, strict=True):
        assert_array_equal(a.per_task, b.per_task)
        assert a.calibration == b.calibration


@pytest.mark.filterwarnings("ignore:.*did not converge:sklearn.exceptions.ConvergenceWarning")
def test_every_method_runs(cli):
    outcome = cli("evaluate", "digits", "--methods", "all", "--tasks", 3, "--shot", 2, "--query", 4, "--format", "csv")
    assert outcome.code == 0
    rows = list(csv.DictReader(io.StringIO(outcome.out)))
    listed = json.loads(cli("methods", "--format", "json").out)
    assert {row["method"] for row in rows} == {entry["name"] for entry in listed}
    assert len(rows) == len(listed)
    # Ten digits, five of them in a task: every method beats guessing by far.
    assert all(float(row["accuracy"]) > 0.4 for row in rows), rows


def test_predictions(cli, fails):
    command = ("evaluate", "digits", "--methods", "protonet", "--tasks", 4, "--shot", 1)
    outcome = cli(*command, "--predictions", "scores.parquet", "--json", "result.json")
    assert outcome.code == 0
    assert "Predictions written to scores.parquet" in outcome.err
    table = pq.read_table("scores.parquet").to_pandas()
    right = table["scores"].map(np.argmax) == table["truth"]
    assert_array_equal(right.groupby(table["task"]).mean(), Evaluation.load("result.json").results[0].per_task)
    assert cli(*command, "--predictions", "scores.parquet").code == 0  # its own earlier file is replaced
    assert "predictions are a .parquet file; got 'scores.csv'" in fails(*command, "--predictions", "scores.csv")
    resumed = fails(*command, "--predictions", "scores.parquet", "--json", "result.json", "--resume")
    assert "were not kept: leave out --resume" in resumed


def test_several_features_and_tasks_make_several_blocks(cli):
    load_features("digits").save("copy.parquet")
    outcome = cli(
        *("evaluate", "digits", "copy.parquet", "--way", 3, "--way", 5, "--shot", "1-3", "--shot", 2),
        *("--tasks", 4, "--methods", "protonet", "--format", "json"),
    )
    results = json.loads(outcome.out)["results"]
    blocks = [(r["features"], r["way"], r["shot"]) for r in results]
    spread = {3: [1, 2, 3], 5: [1, 2, 2, 2, 3]}
    assert blocks == [
        (source, way, shot) for source in ("digits", "copy.parquet") for way in (3, 5) for shot in (spread[way], 2)
    ]
    # The same features under another name are the same tasks.
    assert [r["accuracy"] for r in results[:4]] == [r["accuracy"] for r in results[4:]]


def test_other_protocols_reach_the_sampler(cli):
    base = ("evaluate", "digits", "--tasks", 30, "--methods", "protonet", "--shot", 1, "--format", "json")
    plain = json.loads(cli(*base).out)
    unbalanced = json.loads(cli(*base, "--dirichlet", 2).out)
    present = json.loads(cli(*base, "--present", 2).out)
    unequal = json.loads(cli(*base[:-4], "--shot", "1,5,5,3,2", "--format", "json").out)
    accuracies = {entry["results"][0]["accuracy"] for entry in (plain, unbalanced, present, unequal)}
    assert len(accuracies) == 4
    assert unbalanced["arguments"]["dirichlet"] == 2
    assert present["arguments"]["present"] == 2
    assert unequal["results"][0]["shot"] == [1, 5, 5, 3, 2]


def test_redrawn_shares_are_told(cli):
    outcome = cli(
        *("evaluate", "digits", "--tasks", 20, "--methods", "protonet", "--shot", 1),
        *("--dirichlet", 0.1, "--query", 60, "--format", "csv"),
    )
    assert "the class shares asked for more queries than a class has, and were drawn again" in outcome.err


@pytest.mark.parametrize(
    ("form", "start"),
    [("markdown", "**digits; 12 tasks"), ("latex", "% digits; 12 tasks"), ("csv", "features,way,shot"), ("json", "{")],
)
def test_formats_go_to_stdout_alone(cli, form, start):
    outcome = cli("evaluate", "digits", *QUICK, "--format", form)
    assert outcome.out.startswith(start)
    assert outcome.err == ""


def test_config_sets_methods_and_makes_variants(cli):
    Path("my.toml").write_text('[methods.laplacianshot]\nsmoothing = 0.0\n[methods.strong]\nmethod = "laplacianshot"\n')
    outcome = cli(
        *("evaluate", "digits", "--methods", "laplacianshot,strong", "--config", "my.toml"),
        *("--tasks", 20, "--shot", 1, "--format", "json"),
    )
    weak, strong = json.loads(outcome.out)["results"]
    assert weak["settings"]["smoothing"] == 0.0
    assert strong["method"] == "strong"
    assert strong["settings"]["method"] == "laplacianshot"
    assert strong["settings"]["smoothing"] == 0.7
    assert strong["accuracy"] != weak["accuracy"]


def test_pickle_needs_permission(cli, fails):
    digits = load_features("digits")
    rows = {name: digits.X[digits.y == c] for c, name in enumerate(digits.classes)}
    Path("digits.pkl").write_bytes(pickle.dumps(rows))
    assert "digits.pkl is a pickle, which can run any code" in fails("evaluate", "digits.pkl", *QUICK)
    allowed = cli("evaluate", "digits.pkl", *QUICK, "--format", "csv", "--allow-pickle")
    assert allowed.code == 0


def test_own_results_are_replaced_others_are_not(cli, fails):
    outputs = ("--json", "result.json", "--report", "report.html")
    assert cli("evaluate", "digits", *QUICK, *outputs).code == 0
    assert cli("evaluate", "digits", *QUICK, *outputs).code == 0
    Path("report.html").write_text("my diary")
    message = fails("evaluate", "digits", *QUICK, *outputs)
    assert "report.html exists and was not written by this command. Use --force to replace it." in message
    assert cli("evaluate", "digits", *QUICK, *outputs, "--force").code == 0
    assert "my diary" not in Path("report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.npz"], "No features at 'nowhere.npz'. Give a file"),
        (["digits", "--methods", "fs-tmcc"], "Unknown method 'fs-tmcc'; did you mean 'fs-tmmc'?"),
        (["digits", "--way", 11], "n_way=11 is more than the 10 classes of digits. Lower n_way."),
        (["digits", "--query", 170, "--shot", 5], "of digits has 174 examples but 5 shots + 170 queries need 175."),
        (["digits", "--shot", "many"], "'many' is not a number of shots. Give a number (5)"),
        (["digits", "--shot", "1,2"], "one number per class: 5 for n_way=5; got (1, 2)"),
        (["digits", "--shot", 0], "digits has no embedded class names, which tasks without shots need"),
        (["digits", "--tasks", 1], "at least 2 tasks; got 1"),
        (["digits", "--tasks", "ten"], "Invalid value for '--tasks'"),
        (["digits", "--dirichlet", -1], "dirichlet must be a positive number; got -1.0"),
        (["digits", "--present", 9], "present must lie in 1..n_way=5; got 9"),
        (["digits", "--seed", -3], "seed must be at least 0; got -3"),
        (["digits", "-j", 0], "workers are at least 1, or -1 for all cores; got 0"),
        (["digits", "--methods", ","], "no method given"),
        (["digits", "digits"], "Two sets of features are called 'digits'"),
        (["digits", "--json", "no/such/folder/result.json"], "there is no folder no/such/folder"),
        (["digits", "--json", "."], "Cannot write .: it is a folder. Give the name of a file."),
        (["."], "a folder of features needs one .npy per class"),
        (["digits", "--seed", 2**128], "seed must be less than 2**128; got 340282366920938463463374607431768211456"),
        (["digits", "--report", "."], "it is a folder. Give the name of a file."),
        (["digits", "--report", "/proc/report.html"], "Cannot write /proc/report.html: No such file or directory"),
        (["digits", "--resume"], "there is nothing to continue without --json"),
        (["digits", "--resume", "--force", "--json", "r.json"], "give one of them"),
        (["digits", "--format", "word"], "'word' is not one of"),
        (["digits", "--no-such-option"], "No such option"),
        ([], "Missing argument"),
    ],
)
def test_mistakes_get_one_line(fails, arguments, message):
    assert message in fails("evaluate", *arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[methods", "my.toml is damaged, or not valid TOML"),
        ("way = 5", "a config file holds tables [methods.NAME] with settings; it has 'way'"),
        ("[methods.protonet]\nsize = 3", "Method 'protonet' has no setting 'size'"),
    ],
)
def test_mistakes_in_the_config_get_one_line(fails, text, message):
    Path("my.toml").write_text(text)
    assert message in fails("evaluate", "digits", "--methods", "protonet", "--config", "my.toml")


def test_mistakes_in_the_features_get_one_line(fails):
    np.savez("short.npz", X=np.ones((4, 2)))
    assert "short.npz: array 'y' is missing; the file holds X." in fails("evaluate", "short.npz")
    pd.DataFrame({"embedding": [[1.0]], "topic": ["a"]}).to_parquet("topics.parquet")
    assert "topics.parquet: column 'label' is missing" in fails("evaluate", "topics.parquet")
    np.savez("nan.npz", X=np.full((4, 2), np.nan), y=np.arange(4))
    assert "nan.npz: 4 of 4 rows hold NaN or infinity" in fails("evaluate", "nan.npz")


class _Stop:
    """A progress bar at which somebody presses Ctrl-C."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, unit: str) -> _Stop:
        return self

    def __enter__(self):
        return self.update

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, done: int, total: int) -> None:
        if done >= self.at:
            raise KeyboardInterrupt


def test_interrupted_and_resumed(cli, fails, monkeypatch):
    command = ("evaluate", "digits", "--tasks", 300, "--methods", "protonet,fs-mmc", "--json")
    assert cli(*command, "whole.json").code == 0
    with monkeypatch.context() as patch:
        patch.setattr("marginshot.cli.evaluate.progress_bar", _Stop(at=310))
        stopped = cli(*command, "result.json")
    assert stopped.code == 130
    assert "Interrupted: the numbers are over the tasks finished so far." in stopped.out
    assert "What is finished is in result.partial.npz: repeat the command with --resume" in stopped.err
    assert not Path("result.json").exists()

    assert "result.partial.npz holds the finished tasks of an interrupted run" in fails(*command, "result.json")
    other = fails(*command, "result.json", "--resume", "--seed", 1)
    assert "result.partial.npz belongs to another run: its seed is 0, not 1" in other

    assert cli(*command, "result.json", "--resume").code == 0
    assert not Path("result.partial.npz").exists()
    whole, resumed = Evaluation.load("whole.json"), Evaluation.load("result.json")
    for a, b in zip(whole.results, resumed.results, strict=True):
        assert_array_equal(a.per_task, b.per_task)
        assert (a.accuracy, a.ci95, a.difference, a.calibration) == (b.accuracy, b.ci95, b.difference, b.calibration)

    again = cli(*command, "result.json", "--resume")
    assert again.code == 0
    assert "result.json is already complete." in again.err
    other = fails(*command, "result.json", "--resume", "--seed", 1)
    assert "result.json cannot be continued by this command. The stored result has seed 0, not 1" in other


def test_a_result_of_other_arguments_is_not_replaced_unasked(cli, fails):
    """Issue 36: a run of 100 tasks silently replaced one of 20,000."""
    command = ("evaluate", "digits", "--methods", "protonet,simpleshot", "--json", "result.json", "--shot", 1)
    predictions = ("--predictions", "p.parquet")
    assert cli(*command, "--tasks", 60, *predictions).code == 0
    before = Path("result.json").read_bytes(), Path("p.parquet").read_bytes()
    message = fails(*command, "--tasks", 20)
    assert "result.json is the result of a run with other arguments (60 tasks of protonet, simpleshot)." in message
    assert "Add tasks or methods to it with --resume, give another --json, or replace it with --force." in message
    message = fails(*command[:-2], "--shot", 1, "--tasks", 20, "--json", "other.json", *predictions)
    assert "p.parquet holds predictions of a run with other arguments" in message
    assert (Path("result.json").read_bytes(), Path("p.parquet").read_bytes()) == before
    assert cli(*command, "--tasks", 20, "--force").code == 0
    assert Evaluation.load("result.json").arguments["tasks"] == 20


def test_a_finished_result_gains_tasks_methods_and_shots(cli, fails):
    command = ("evaluate", "digits", "--query", 5, "--dirichlet", 2, "--json")
    small = ("--tasks", 40, "--methods", "protonet,fs-mmc", "--shot", 1)
    large = ("--tasks", 70, "--methods", "simpleshot,protonet,fs-mmc", "--shot", 1, "--shot", 2)
    assert cli(*command, "whole.json", *large).code == 0
    assert cli(*command, "result.json", *small).code == 0
    first = Evaluation.load("result.json")
    for lost, message in (
        (("--tasks", 30, *small[2:]), "The stored result has 40 tasks; ask for at least as many."),
        ((*small[:2], "--methods", "protonet", "--shot", 1), "The stored result has the method 'fs-mmc' too"),
        ((*small[:4], "--shot", 2), "The stored result also has digits, 5 ways, 1 shots: ask for them too."),
    ):
        assert message in fails(*command, "result.json", *lost, "--resume")
    assert cli(*command, "result.json", *large, "--resume").code == 0
    whole, grown = Evaluation.load("whole.json"), Evaluation.load("result.json")
    assert [(r.method, r.shot) for r in grown.results] == [(r.method, r.shot) for r in whole.results]
    for one, other in zip(whole.results, grown.results, strict=True):
        assert_array_equal(one.per_task, other.per_task)
        assert_array_equal(one.reliability, other.reliability)
        assert (one.difference, one.calibration, one.redrawn_tasks) == (
            other.difference,
            other.calibration,
            other.redrawn_tasks,
        )
    assert_array_equal(grown.results[1].per_task[:40], first.results[0].per_task)


def test_the_reference_can_be_chosen(cli, fails):
    command = ("evaluate", "digits", *QUICK, "--methods", "protonet,simpleshot,ridge", "--json", "result.json")
    assert cli(*command, "--reference", "ridge").code == 0
    gaps = {r.method: r.difference for r in Evaluation.load("result.json").results}
    assert gaps["ridge"] is None
    assert gaps["protonet"].to == gaps["simpleshot"].to == "ridge"
    again = cli(*command, "--reference", "simpleshot", "--resume")
    assert "already complete" in again.err
    assert Evaluation.load("result.json").results[0].difference.to == "simpleshot"
    assert "The reference 'svm' is not one of the methods: protonet, simpleshot, ridge." in fails(
        *command, "--reference", "svm", "--resume"
    )


def test_intervals_over_classes_are_printed_on_demand(cli, fails):
    command = ("evaluate", "digits", "--tasks", 400, "--methods", "protonet,simpleshot", "--json", "result.json")
    outcome = cli(*command, "--shot", 1, "--intervals", "classes", "--report", "report.html")
    assert "Intervals are for other classes of this kind" in Path("report.html").read_text()
    assert "± 95 % interval over classes;" in outcome.out
    result = Evaluation.load("result.json").results[0]
    assert result.ci95_classes > 1.5 * result.ci95
    assert f"{100 * result.accuracy:.2f} ± {100 * result.ci95_classes:.2f}" in outcome.out
    assert "± 95 % interval over tasks;" in cli(*command, "--shot", 1).out


def test_intervals_over_classes_that_there_cannot_be_are_refused_before_the_work(fails, monkeypatch):
    monkeypatch.setattr("marginshot.cli.evaluate.run_tasks", None)
    message = fails("evaluate", "digits", *QUICK, "--way", 10, "--intervals", "classes", "--json", "result.json")
    assert "There is no interval over classes for digits, 10 ways: it needs more classes than ways." in message


def test_the_result_is_kept_where_tasks_are_too_few_for_intervals_over_classes(cli):
    command = ("evaluate", "digits", "--tasks", 2, "--shot", 1, "--methods", "protonet", "--json", "result.json")
    outcome = cli(*command, "--intervals", "classes")
    assert outcome.code == 2
    assert "at least two tasks of every class" in outcome.err
    assert Evaluation.load("result.json").complete


def test_interrupted_without_a_file(cli, monkeypatch):
    monkeypatch.setattr("marginshot.cli.evaluate.progress_bar", _Stop(at=0))
    stopped = cli("evaluate", "digits", *QUICK)
    assert stopped.code == 130
    assert stopped.err == "Interrupted. Nothing was kept: give --json to make a run that can be continued.\n"


def test_started_over_with_force(cli, monkeypatch):
    command = ("evaluate", "digits", "--tasks", 300, "--methods", "protonet", "--json", "result.json")
    with monkeypatch.context() as patch:
        patch.setattr("marginshot.cli.evaluate.progress_bar", _Stop(at=310))
        assert cli(*command).code == 130
    assert cli(*command, "--force", "--seed", 5).code == 0
    assert Evaluation.load("result.json").arguments["seed"] == 5


def test_ctrl_c_at_the_terminal(cli, tmp_path, monkeypatch):
    """The real thing: a process group with workers gets SIGINT."""
    program = (
        "import marginshot.evaluation.checkpoint as c; c._INTERVAL = 0.0\n"
        "from marginshot.cli.app import main; import sys; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", program, "evaluate", "digits", "--tasks", "2000", "--shot", "1", "-j", "2"]
    command += ["--methods", "laplacianshot", "--json", "result.json"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    partial = tmp_path / "result.partial.npz"
    deadline = time.monotonic() + 90
    while not partial.exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "LaplacianShot" in out
    assert "Traceback" not in err
    assert "repeat the command with --resume to continue" in err

    monkeypatch.chdir(tmp_path)
    assert cli(*command[3:], "--resume").code == 0
    assert cli(*command[3:-1], "whole.json").code == 0
    result, whole = (Evaluation.load(name).results[0] for name in ("result.json", "whole.json"))
    assert_array_equal(result.per_task, whole.per_task)
    assert result.calibration == whole.calibration


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (
            "efficientnet_lite0-test.npz",
            {
                "simpleshot": (65.6, 82.5),
                "fs-mmc": (65.8, 82.6),
                "fs-tmmc": (74.7, 85.4),
                "laplacianshot": (72.9, 84.5),
            },
        ),
        (
            "small_resnet-test.npz",
            {
                "simpleshot": (52.1, 68.7),
                "fs-mmc": (51.9, 67.7),
                "fs-tmmc": (56.6, 69.5),
                "laplacianshot": (57.0, 70.5),
            },
        ),
    ],
)
def test_known_numbers_come_out(cli, shared_data, features, expected):
    """Measured before on other tasks of the same files, 1,000 of them: the two intervals must meet."""
    outcome = cli(
        *("evaluate", shared_data / "features" / features, "--methods", ",".join(expected)),
        *("--tasks", 1000, "-j", 2, "--format", "json"),
    )
    for entry in json.loads(outcome.out)["results"]:
        known = expected[entry["method"]][0 if entry["shot"] == 1 else 1]
        known_ci95 = 0.7 if entry["shot"] == 1 else 0.5
        assert abs(100 * entry["accuracy"] - known) < 100 * entry["ci95"] + known_ci95, entry["method"]


def test_page_and_result_under_one_name(fails):
    told = fails("evaluate", "digits", "--tasks", 10, "--json", "o.json", "--report", "o.json")
    assert "is another output of this command" in told
    assert not Path("o.json").exists()


@pytest.mark.parametrize("option", ["--json", "--report"])
def test_no_output_goes_over_the_features_even_by_force(fails, option):
    np.savez("mine.npz", X=np.eye(4), y=np.array([0, 0, 1, 1]))
    before = Path("mine.npz").read_bytes()
    assert "mine.npz is an input of this command" in fails("evaluate", "mine.npz", option, "mine.npz", "--force")
    assert Path("mine.npz").read_bytes() == before


def test_results_that_share_a_stem_keep_their_tasks(cli):
    for seed, name in enumerate(("run.1", "run.2")):
        assert cli("evaluate", "digits", *QUICK, "--seed", seed, "--json", name).code == 0
    for name in ("run.1", "run.2"):
        for result in Evaluation.load(name).results:
            assert result.accuracy == pytest.approx(result.per_task.mean())


def test_a_config_table_that_is_no_method(fails):
    Path("c.toml").write_text("[methods.fs-tmc]\nlambda1 = 0.1\n")
    told = fails("evaluate", "digits", "--tasks", 10, "--methods", "fs-tmmc", "--config", "c.toml")
    assert "[methods.fs-tmc] is not a method, and does not say" in told


def test_a_config_table_of_a_misspelt_method(fails):
    Path("c.toml").write_text('[methods.mine]\nmethod = "fs-tmcc"\n')
    told = fails("evaluate", "digits", "--tasks", 10, "--methods", "fs-tmmc", "--config", "c.toml")
    assert "Unknown method 'fs-tmcc'; did you mean 'fs-tmmc'?" in told


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("[methods.x]\nmethod = 1", "Unknown method 1. Known: "),
        ("[methods.y]\nmethod = {a = 1}", "Unknown method {'a': 1}. Known: "),
        ("[methods.simpleshot]\ncentre = {a = 1}", "centre must be 'task', 'support', 'none' or a vector"),
    ],
)
def test_settings_of_a_wrong_kind(fails, table, words):
    Path("c.toml").write_text(table)
    name = table.partition("]")[0].removeprefix("[methods.")
    assert words in fails("evaluate", "digits", "--tasks", 10, "--methods", name, "--config", "c.toml")


def test_a_whole_number_as_tolerance(cli):
    Path("c.toml").write_text("[methods.fs-tmmc]\ntol = 1\n")
    assert cli("evaluate", "digits", "--tasks", 10, "--methods", "fs-tmmc", "--config", "c.toml").code == 0


def test_damaged_results_are_named(cli, fails):
    command = ("evaluate", "digits", "--tasks", 10, "--methods", "protonet", "--json", "r.json")
    assert cli(*command).code == 0
    Path("r.tasks.npz").write_bytes(Path("r.tasks.npz").read_bytes()[:50])
    assert "r.tasks.npz is damaged, or not the accuracies of single tasks" in fails(*command, "--resume")


def test_results_damaged_in_the_middle_are_named(cli, fails):
    command = ("evaluate", "digits", "--tasks", 500, "--methods", "protonet", "--json", "r.json")
    assert cli(*command).code == 0
    content = bytearray(Path("r.tasks.npz").read_bytes())
    middle = len(content) // 2
    content[middle - 50 : middle + 50] = bytes(100)
    Path("r.tasks.npz").write_bytes(content)
    assert "r.tasks.npz is damaged, or not the accuracies of single tasks" in fails(*command, "--resume")


def save_with_names(name, **more):
    """Digits with the means of the classes for embedded names."""
    digits = load_features("digits")
    means = [digits.X[digits.y == c].mean(axis=0) for c in range(10)]
    np.savez(name, X=digits.X, y=digits.y, names=np.array(means), **more)
    return digits


def test_class_names_are_the_support_of_tasks_without_shots(cli):
    digits = save_with_names("named.npz")
    outcome = cli(
        *("evaluate", "named.npz", "--shot", 0, "--tasks", 6, "--methods", "zlap,protonet,fs-mmc"),
        *("--json", "r.json", "--predictions", "p.parquet"),
    )
    assert outcome.code == 0
    assert "5-way 0-shot" in outcome.out
    assert all(result.accuracy > 0.85 for result in Evaluation.load("r.json").results)
    tasks = pd.read_parquet("p.tasks.parquet")
    for names, rows in zip(tasks["classes"], tasks["support_rows"], strict=True):
        assert_array_equal(rows, len(digits.y) + names.astype(int))
    refused = cli("evaluate", "digits", "--shot", 0, *QUICK)
    assert refused.code == 2
    assert "digits has no embedded class names" in refused.err


def test_a_prior_is_given_to_methods_that_take_one(cli):
    truth = np.eye(10)[load_features("digits").y]
    save_with_names("named.npz", prior=truth)
    asked = ("evaluate", "named.npz", "--shot", 1, "--tasks", 6, "--methods", "zero-shot,protonet")
    plain, table, names = (
        cli(*asked, "--json", f"{prior}.json", *(("--prior", prior) if prior else ()))
        for prior in ("", "table", "names")
    )
    assert (plain.code, table.code, names.code) == (0, 0, 0)
    assert "Prior alone [P]" in table.out
    assert "[P] given the prior" in " ".join(table.out.split())
    assert "prior of [P]: names, sharpness 100" in " ".join(names.out.split())
    assert "[P]" not in plain.out
    scores = {prior: Evaluation.load(f"{prior}.json").results for prior in ("", "table", "names")}
    alone, other = ({prior: results[i].accuracy for prior, results in scores.items()} for i in (0, 1))
    assert alone["table"] == 1.0 > alone["names"] > alone[""]
    assert len(set(other.values())) == 1
    assert [(one.method, one.given_prior) for one in scores["table"]] == [("zero-shot", True), ("protonet", False)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--prior", "names"), "digits has no array names of shape (classes, features), which --prior names needs"),
        (("--prior", "table"), "digits has no array prior of shape (rows, classes), which --prior table needs"),
        (("--sharpness", "0"), "a positive number; got 0."),
    ],
)
def test_a_prior_that_is_not_there_is_named(cli, options, message):
    outcome = cli("evaluate", "digits", *QUICK, *options)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())


def test_a_result_with_a_prior_is_not_continued_without(cli):
    save_with_names("named.npz")
    asked = ("evaluate", "named.npz", "--shot", 1, "--tasks", 4, "--methods", "zero-shot", "--json", "r.json")
    assert cli(*asked, "--prior", "names").code == 0
    assert cli(*asked, "--prior", "names", "--resume").code == 0
    outcome = cli(*asked, "--resume")
    assert outcome.code == 2
    assert "The stored result has prior names, sharpness 100, not None" in outcome.err


def test_foreign_queries_are_counted_apart(cli):
    arguments = ("evaluate", "digits", "--way", 4, "--shot", 2, "--foreign", 3, "--methods", "simpleshot,ostim")
    outcome = cli(*arguments, "--tasks", 12, "--jobs", 1, "--json", "open.json", "--predictions", "answers.parquet")
    assert outcome.code == 0
    assert "and of 3 foreign classes" in " ".join(outcome.out.split())
    assert "AUROC" in outcome.out
    stored = Evaluation.load("open.json")
    answers = pd.read_parquet("answers.parquet").query("method == 'simpleshot'")
    known = answers[answers["truth"] >= 0]
    assert (len(answers), len(known)) == (12 * 7 * 15, 12 * 4 * 15)
    right = np.stack(known["scores"]).argmax(axis=1) == known["truth"]
    assert right.mean() == pytest.approx(stored.results[0].accuracy)
    areas = [
        roc_auc_score(task["truth"] < 0, -np.stack(task["scores"]).max(axis=1)) for _, task in answers.groupby("task")
    ]
    assert np.mean(areas) == pytest.approx(stored.results[0].open_set.auroc, abs=1e-4)
    assert stored.results[0].foreign.shape == (12, 2)
    assert cli(*arguments, "--tasks", 20, "--jobs", 1, "--json", "open.json", "--resume").code == 0
    assert cli(*arguments, "--tasks", 20, "--jobs", 1, "--json", "whole.json").code == 0
    for grown, fresh in zip(Evaluation.load("open.json").results, Evaluation.load("whole.json").results, strict=True):
        assert grown.open_set == fresh.open_set
        assert_array_equal(grown.foreign, fresh.foreign)
    other = cli("evaluate", "digits", "--foreign", 6, *QUICK)
    assert other.code == 2
    assert "n_way=5 and 6 foreign classes are more than the 10 classes of digits. Lower one of them." in other.err
