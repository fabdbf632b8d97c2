"""The paper's tables as printed, and ours beside them."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from marginshot.data.features import load_features
from marginshot.evaluation.results import Evaluation
from marginshot.reporting.paper import paper_tables


def test_tables_hold_every_row():
    sizes = [[len(group) for group in table.groups] for table in paper_tables()]
    assert sizes == [[21, 12, 3], [7, 1], [2, 2, 2]]
    assert all(len(row.cells) == 4 for table in paper_tables() for group in table.groups for row in group)


def test_numbers_are_the_printed_ones(shared_data):
    """Every number between the tabular's rules is in our data, in order, and no other."""
    source = (shared_data.parent / "paper.tex").read_text()
    tabulars = re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", source, re.DOTALL)
    for table, tabular in zip(paper_tables(), tabulars, strict=True):
        body = tabular[tabular.index(r"\midrule") :]
        body = re.sub(r"\\cite\{[^}]*\}|\\cline\{[^}]*\}|ResNet-\d+", "", body)
        printed = [float(number) for number in re.findall(r"\d+\.\d+", body)]
        ours = []
        for cell in (cell for group in table.groups for row in group for cell in row.cells if cell):
            ours += [cell.accuracy] + ([] if cell.ci95 is None else [cell.ci95])
        assert ours == printed


def test_ablation_agrees_with_the_main_table():
    main, _, ablation = paper_tables()
    full = {(row.network): row for group in main.groups for row in group if row.method == "FS-TMMC"}
    for row in (row for group in ablation.groups for row in group if row.method == "FS-TMMC"):
        assert [cell.accuracy for cell in row.cells] == [cell.accuracy for cell in full[row.network].cells]


def test_printing(cli):
    outcome = cli("paper")
    assert outcome.code == 0
    assert all(f"Table {number}." in outcome.out for number in (1, 2, 3))
    assert "71.96 ± 0.26" in outcome.out
    latex = cli("paper", "--table", 2, "--format", "latex").out
    assert r"miniImageNet $\rightarrow$ CUB" in latex
    assert r"\textbf{81.53}" in latex


@pytest.fixture
def result(cli) -> Evaluation:
    load_features("digits").save("mini-resnet18-test.npz")
    methods = "fs-tmmc,fs-mmc,simpleshot,tim-gd"
    cli("evaluate", "mini-resnet18-test.npz", "--tasks", 5, "--methods", methods, "--json", "result.json")
    return Evaluation.load("result.json")


def test_ours_beside(cli, result):
    rows = json.loads(cli("paper", "result.json", "--table", 3, "--format", "json").out)
    found = {(row["method"], row["network"], row["dataset"], row["shot"]): row for row in rows}
    mine = next(r for r in result.results if (r.method, r.shot) == ("fs-tmmc", 1))
    row = found["FS-TMMC", "ResNet-18", "miniImageNet", 1]
    assert row["printed"] == 71.96
    assert row["ours"] == pytest.approx(100 * mine.accuracy)
    assert row["ours_ci95"] == pytest.approx(100 * mine.ci95)
    assert row["difference"] == pytest.approx(100 * mine.accuracy - 71.96)
    assert found["FS-TMMC", "WRN", "miniImageNet", 1]["ours"] is None
    assert found["FS-TMMC", "ResNet-18", "tieredImageNet", 1]["ours"] is None


def test_every_printed_number_is_a_number_in_csv(cli, result):
    rows = list(csv.DictReader(io.StringIO(cli("paper", "result.json", "--format", "csv").out)))
    printed = [
        cell for table in paper_tables() for group in table.groups for row in group for cell in row.cells if cell
    ]
    assert [float(row["printed"]) for row in rows] == [cell.accuracy for cell in printed]
    assert {row["table"] for row in rows} == {"1", "2", "3"}
    assert sum(row["ours"] != "" for row in rows) == sum(row["difference"] != "" for row in rows) > 0


def test_features_are_measured_beside_the_printed_numbers(cli, fails):
    load_features("digits").save("mini-resnet18-test.npz")
    measured = ("--measure", "mini-resnet18-test.npz", "--tasks", 4, "--format", "json")
    rows = json.loads(cli("paper", "--table", 1, *measured).out)
    ours = {(row["method"], row["shot"]): row["ours"] for row in rows if row["ours"] is not None}
    methods = ["MatchingNet", "ProtoNet", "SimpleShot", "LaplacianShot", "FS-TMMC"]
    assert list(ours) == [(method, shot) for method in methods for shot in (1, 5)]
    names = "matchingnet,protonet,simpleshot,laplacianshot,fs-tmmc"
    cli("evaluate", "mini-resnet18-test.npz", "--tasks", 4, "--methods", names, "--json", "result.json")
    again = json.loads(cli("paper", "result.json", "--table", 1, "--format", "json").out)
    assert again == rows
    # Without --table: those that have a number of this dataset and network, FS-MMC of Table 3 among them.
    every = json.loads(cli("paper", *measured).out)
    assert {row["table"] for row in every} == {1, 3}
    assert {row["method"] for row in every if row["ours"]} == {*methods, "FS-MMC"}
    told = ("--dataset", "CUB", "--network", "WRN")
    assert "Table 1 of the paper has no numbers for CUB with WRN" in fails("paper", "--table", 1, *measured, *told)
    assert "at least 2 tasks; got 0" in fails("paper", *measured[:3], 0)
    assert "give --measure FILE" in fails("paper", "--tasks", 10)


def test_dataset_and_network_can_be_told(cli, result):
    told = ("--dataset", "miniimagenet->cub", "--network", "resnet-18")
    assert "ours" in cli("paper", "result.json", "--table", 2, *told).out.splitlines()[3]


def test_mistakes(cli, fails, result):
    assert "the paper has tables 1, 2 and 3; got 4" in fails("paper", "--table", 4)
    assert "The paper has no network 'AlexNet'; it has ResNet-18, WRN, DenseNet" in fails(
        "paper", "result.json", "--network", "AlexNet"
    )
    cli("evaluate", "digits", "--tasks", 2, "--methods", "protonet", "--json", "digits.json")
    assert "The name 'digits' does not say the dataset. Say it with --dataset" in fails("paper", "digits.json")
    cli("evaluate", "mini-resnet18-test.npz", "--tasks", 2, "--way", 3, "--methods", "protonet", "--json", "3way.json")
    assert "No result stands in the paper's tables" in fails("paper", "3way.json")
    cli(
        "evaluate", "mini-resnet18-test.npz", "--tasks", 2, "--dirichlet", 2, "--methods", "fs-tmmc", "--json", "d.json"
    )
    assert "15 queries of every class" in fails("paper", "d.json")
    Path("other.json").write_text("{}")
    assert "other.json is not a result file of `marginshot evaluate`" in fails("paper", "other.json")
    assert "No such file or directory: missing.json" in fails("paper", "missing.json")
