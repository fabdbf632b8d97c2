"""``marginshot regimes`` from the command line to its files, interrupted, continued and misused."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from marginshot.evaluation.regime_table import RegimeTable

METHODS = ("--methods", "simpleshot,protonet,fs-mmc", "--of", "simpleshot")
QUICK = (*METHODS, "--way", 2, "--way", 3, "--shot", 1, "--shot", 2, "--query", 5, "--max-tasks", 20)
N_CELLS = 3 * 2 * 2  # features have eight classes: three regimes of the four have room with so few ways


@pytest.fixture
def features(cli) -> str:
    """Eight clusters that overlap."""
    rng = np.random.default_rng(7)
    y = np.repeat(np.arange(8), 30)
    np.savez("clusters.npz", X=rng.normal(size=(8, 6))[y] + rng.normal(size=(240, 6)), y=y)
    return "clusters.npz"


def read_csv(folder: str = "regimes") -> list[dict[str, str]]:
    with Path(folder, "regimes.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def without_times(table: RegimeTable) -> list[tuple]:
    return [
        (r.cell, r.tasks, r.redrawn_tasks, [(s.method, s.accuracy, s.ci95) for s in r.scores]) for r in table.results
    ]


def test_the_whole_way(cli, features):
    outcome = cli("regimes", features, *QUICK)
    assert outcome.code == 0
    assert sorted(path.name for path in Path("regimes").iterdir()) == [
        f"regimes.{s}" for s in ("csv", "json", "png", "svg")
    ]
    assert "clusters.npz, balanced, 2-way 1-shot: 20 tasks; simpleshot" in outcome.err
    assert "Left out 4 cells: with 5 classes present, all of so few classes would be." in outcome.err
    assert outcome.err.endswith("Table and heat map written to regimes\n")
    table = RegimeTable.load("regimes/regimes.json")
    assert table.complete
    assert len(table.results) == N_CELLS
    assert len(table.left_out) == 4
    rows = read_csv()
    assert len(rows) == 3 * N_CELLS
    assert {row["regime"] for row in rows} == {"balanced", "dirichlet-2", "dirichlet-0.5"}
    assert all(int(row["tasks"]) == 20 and float(row["ms_per_task"]) > 0 for row in rows)
    with Image.open("regimes/regimes.png") as picture:
        assert picture.width > 800
    assert Path("regimes/regimes.svg").read_text().count("-way<") == 2


@pytest.mark.parametrize("of", ["simpleshot", "protonet"])
@pytest.mark.parametrize("interval", [1, 8])
def test_summary_agrees_with_the_csv(cli, features, of, interval):
    outcome = cli("regimes", features, *QUICK, "--of", of, "--interval", interval, "--max-tasks", 60)
    cells: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in read_csv():
        cells.setdefault((row["features"], row["regime"], row["way"], row["shot"]), {})[row["method"]] = row
    ahead = behind = 0
    for rows in cells.values():
        best = max((row for name, row in rows.items() if name != of), key=lambda row: float(row["accuracy"]))
        assert best["difference_to"] == of
        gap, ci95 = float(best["difference"]), float(best["difference_ci95"])
        assert abs(gap - (float(best["accuracy"]) - float(rows[of]["accuracy"]))) < 1e-12
        ahead, behind = ahead + (gap < -ci95), behind + (gap > ci95)
    level = len(cells) - ahead - behind
    told = f"ahead in {ahead}, level in {level}, behind in {behind} of {len(cells)} cells;"
    assert f"{of} against the best other method of each cell, by paired 95 % intervals: {told}" in outcome.out
    counted = [tuple(map(int, found)) for found in re.findall(r"(\d+) / (\d+) / (\d+)", outcome.out)]
    assert tuple(map(sum, zip(*counted, strict=True))) == (ahead, level, behind)
    gap = min(float(rows[of]["accuracy"]) - float(rows["fs-mmc"]["accuracy"]) for rows in cells.values())
    told = f"more than {-100 * gap:.2f} points below" if gap < 0 else "never below fs-mmc"
    assert told in outcome.out


def test_several_methods_are_compared_with_the_best_that_is_none_of_them(cli, features):
    outcome = cli("regimes", features, *QUICK, "--of", "simpleshot,protonet")
    assert outcome.code == 0
    told = " ".join(outcome.out.split())
    assert "Cells with simpleshot ahead / level / behind" in told
    assert "Cells with protonet ahead / level / behind" in told
    named = re.findall(r">(protonet|fs-mmc)<", Path("regimes/regimes.svg").read_text())
    assert named == ["fs-mmc"] * N_CELLS


def test_a_table_of_an_earlier_version_has_no_tasks_to_pair(cli, fails, features):
    assert cli("regimes", features, *QUICK, "--way", 2).code == 0
    path = Path("regimes/regimes.json")
    path.write_text(path.read_text().replace("marginshot-output/regimes-2", "marginshot-output/regimes-1"))
    message = fails("regimes", features, *QUICK, "--way", 2, "--resume")
    assert "is of an earlier version, which did not keep the tasks that paired intervals need" in message


def test_workers_do_not_change_the_table(cli, features):
    for jobs in (1, 2):
        assert cli("regimes", features, *QUICK, "-j", jobs, "--out", f"with-{jobs}").code == 0
    one, two = (RegimeTable.load(f"with-{jobs}/regimes.json") for jobs in (1, 2))
    assert without_times(one) == without_times(two)


def test_interrupted_between_cells_and_resumed(cli, fails, features, monkeypatch):
    assert cli("regimes", features, *QUICK, "--out", "whole").code == 0
    command = ("regimes", features, *QUICK)
    saved = []

    def stop_after_five_cells(table: RegimeTable, path: Path) -> None:
        save(table, path)
        saved.append(path)
        if len(saved) == 6:  # the first is of the empty table
            raise KeyboardInterrupt

    save = RegimeTable.save
    with monkeypatch.context() as patch:
        patch.setattr(RegimeTable, "save", stop_after_five_cells)
        stopped = cli(*command)
    assert stopped.code == 130
    assert "Interrupted. What is finished is in regimes: repeat the command with --resume" in stopped.err
    assert "of 5 cells" in stopped.out
    assert not RegimeTable.load("regimes/regimes.json").complete
    assert len(read_csv()) == 15

    assert "regimes.json is there already. Go on with it by --resume, or start over" in fails(*command)
    assert "made with other seed" in fails(*command, "--resume", "--seed", 1)
    resumed = cli(*command, "--resume")
    assert resumed.code == 0
    assert resumed.err.count(" tasks; ") == N_CELLS - 5
    whole, again = (RegimeTable.load(f"{folder}/regimes.json") for folder in ("whole", "regimes"))
    assert without_times(whole) == without_times(again)
    assert again.complete


def test_resume_draws_again_for_another_method_and_adds_cells(cli, features):
    assert cli("regimes", features, *QUICK, "--way", 2).code == 0
    drawn = Path("regimes/regimes.svg").read_text()
    other = cli("regimes", features, *QUICK, "--of", "fs-mmc", "--resume")
    assert "fs-mmc against the best other method of each cell" in other.out
    assert " tasks; " not in other.err
    assert Path("regimes/regimes.svg").read_text() != drawn
    more = cli("regimes", features, *QUICK, "--way", 6, "--regime", "present-5", "--resume")
    assert more.err.count(" tasks; ") == 2
    assert len(RegimeTable.load("regimes/regimes.json").results) == N_CELLS + 2


def test_a_changed_method_is_measured_again_on_the_same_tasks(cli, fails, features):
    settings = Path("settings.toml")
    settings.write_text('[methods.simpleshot]\ncentre = "none"\n')
    arguments = ("regimes", features, *QUICK, "--config", settings)
    assert cli(*arguments).code == 0
    before = RegimeTable.load("regimes/regimes.json")
    settings.write_text('[methods.simpleshot]\ncentre = "support"\n')
    assert "made with other methods" in fails(*arguments, "--resume")
    assert cli(*arguments, "--resume", "--again", "simpleshot").code == 0
    after = RegimeTable.load("regimes/regimes.json")
    assert cli(*arguments, "--out", "fresh").code == 0
    assert without_times(after) == without_times(RegimeTable.load("fresh/regimes.json"))
    assert without_times(after) != without_times(before)
    assert [r.score("protonet") for r in after.results] == [r.score("protonet") for r in before.results]
    assert "add --resume" in fails(*arguments, "--force", "--again", "simpleshot")
    assert "'tim' is not one of the --methods" in fails(*arguments, "--resume", "--again", "tim")


def test_a_new_method_joins_the_cells_asked_for_on_the_same_tasks(cli, fails, features):
    rest = ("--shot", 1, "--query", 5, "--max-tasks", 20, "--of", "fs-mmc")
    assert cli("regimes", features, "--way", 2, "--way", 3, "--methods", "fs-mmc,protonet", *rest).code == 0
    before = RegimeTable.load("regimes/regimes.json")
    arguments = ("regimes", features, "--way", 3, "--methods", "fs-mmc,ridge,protonet", *rest)
    assert "made with other methods" in fails(*arguments, "--resume")
    assert cli(*arguments, "--resume", "--again", "ridge").code == 0
    after = RegimeTable.load("regimes/regimes.json")
    assert cli(*arguments, "--out", "fresh").code == 0
    assert without_times(after)[1::2] == without_times(RegimeTable.load("fresh/regimes.json"))
    assert without_times(after)[::2] == without_times(before)[::2], "cells of two ways are as they were"


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_killed_and_resumed(cli, features, tmp_path):
    """No time to say goodbye: what was written before the kill is whole and is used."""
    arguments = ["regimes", features, *METHODS, "--interval", "2", "--query", "5"]
    arguments += ["--way", "2", "--regime", "balanced"]
    process = subprocess.Popen(
        [sys.executable, "-m", "marginshot", *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    for line in process.stderr:
        if " tasks; " in line:
            break
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    kept = RegimeTable.load("regimes/regimes.json")
    assert 1 <= len(kept.results) <= 4
    resumed = cli(*arguments, "--resume")
    assert resumed.code == 0
    table = RegimeTable.load("regimes/regimes.json")
    assert table.results[: len(kept.results)] == kept.results
    assert len(table.results) == 4


MARKER = """
from pathlib import Path
from marginshot.methods.base import register
from marginshot.methods.simpleshot import SimpleShot

@register
class Marker(SimpleShot):
    name = "marker"

    def predict_scores(self, *task):
        Path("started").touch()
        return super().predict_scores(*task)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of Unix")
def test_ctrl_c_inside_a_cell(features, tmp_path):
    (tmp_path / "marker.py").write_text(MARKER)
    arguments = ["regimes", features, "--interval", "0.01", "--max-tasks", "1000000", "--query", "5"]
    arguments += ["--plugin", "marker.py", "--methods", "simpleshot,marker", "--of", "simpleshot"]
    process = subprocess.Popen(
        [sys.executable, "-m", "marginshot", *arguments, "--way", "2", "--budget", "100000", "-j", "2"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 90
    while not (tmp_path / "started").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "No cell compares simpleshot with another method." in out
    assert "Interrupted before any cell was finished. What is finished is in" in err


def test_started_over_with_force(cli, features):
    assert cli("regimes", features, *QUICK).code == 0
    assert cli("regimes", features, *QUICK, "--way", 2, "--seed", 3, "--force").code == 0
    assert RegimeTable.load("regimes/regimes.json").arguments["seed"] == 3


def test_files_of_others_are_left_alone(cli, fails, features):
    Path("regimes").mkdir()
    Path("regimes/regimes.csv").write_text("my numbers\n")
    message = fails("regimes", features, *QUICK)
    assert "regimes.csv exists and was not written by this command. Use --force" in message
    Path("regimes/regimes.json").write_text(json.dumps({"mine": True}))
    assert "regimes.json exists and was not written by this command" in fails("regimes", features, *QUICK, "--resume")
    assert cli("regimes", features, *QUICK, "--force").code == 0


def test_config_makes_variants(cli, features):
    Path("my.toml").write_text('[methods.strong]\nmethod = "simpleshot"\n')
    outcome = cli("regimes", features, *QUICK, "--methods", "strong,protonet", "--of", "strong", "--config", "my.toml")
    assert outcome.code == 0
    assert {row["method"] for row in read_csv()} == {"strong", "protonet"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.npz"], "No features at 'nowhere.npz'"),
        (["digits", "--regime", "skewed"], "'skewed' is not a regime. Give balanced, dirichlet-A"),
        (["digits", "--regime", "dirichlet-0"], "'dirichlet-0' is not a regime"),
        (["digits", "--regime", "present-0"], "'present-0' is not a regime"),
        (["digits", "--way", 1], "n_way must be at least 2; got 1"),
        (["digits", "--shot", 0], "digits has no embedded class names, which tasks without shots need"),
        (["digits", "--shot", "1-5"], "Invalid value for '--shot'"),
        (["digits", "--query", 0], "n_query_per_class must be at least 1; got 0"),
        (["digits", "--interval", 0], "The interval must lie between 0 and 100 points; got 0"),
        (["digits", "--max-tasks", 1], "at least 2 tasks; got 1"),
        (["digits", "--budget", 0], "The budget must be a positive number of seconds; got 0"),
        (["digits", "--seed", -1], "seed must be at least 0; got -1"),
        (["digits", "-j", 0], "workers are at least 1, or -1 for all cores; got 0"),
        (["digits", "--methods", "fs-tmcc,fs-mmc"], "did you mean 'fs-tmmc'?"),
        (["digits", "--methods", "fs-mmc,ridge"], "fs-tmmc-auto must be one of the --methods; got fs-mmc"),
        (["digits", "--methods", "fs-tmmc-auto"], "no other method is left to compare with; got fs-tmmc-auto"),
        (["digits", "digits"], "Two sets of features are called 'digits'"),
        (["digits", "--out", "no/such/folder"], "there is no folder no/such"),
        (["digits", "--resume", "--force"], "give one of them"),
        ([], "Missing argument"),
    ],
)
def test_mistakes_get_one_line(fails, arguments, message):
    assert message in fails("regimes", *arguments)


def test_out_is_a_file(fails):
    Path("regimes").write_text("mine")
    assert "Cannot write to regimes: it is a file. Give the name of a folder." in fails("regimes", "digits")
