"""The page: complete, self-contained, safe whatever the names."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from marginshot.data.features import load_features
from marginshot.data.sampler import TaskSettings
from marginshot.evaluation.protocol import evaluate
from marginshot.evaluation.results import Evaluation
from marginshot.evaluation.run import Run
from marginshot.methods import get_method
from marginshot.reporting.report import render_report, write_report
from marginshot.reporting.tables import duration, full_table, numbers_table, paper_table, percent

NASTY = "<script>alert('$x$ & \"y\"')</script>.npz"


def make(methods: tuple[str, ...], source: str = "digits") -> Evaluation:
    return evaluate(
        Run(
            banks=[replace(load_features("digits"), source=source)],
            methods={name: get_method(name) for name in methods},
            settings=[TaskSettings(n_shot=1), TaskSettings(n_shot=5)],
            n_tasks=6,
            command=f"marginshot evaluate {source}",
        )
    )


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return make(("protonet", "simpleshot", "laplacianshot"))


class _Tags(HTMLParser):
    """Checks that tags are closed in order and notes what they are."""

    VOID = frozenset({"meta", "br", "img", "link", "hr", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict]] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parse(page: str) -> _Tags:
    tags = _Tags()
    tags.feed(page)
    assert tags.open == []
    return tags


def test_page_is_whole_and_needs_nothing_else(evaluation):
    page = render_report(evaluation)
    tags = parse(page)
    names = [tag for tag, _ in tags.seen]
    assert "script" not in names
    assert "img" not in names
    assert names.count("svg") == 2 * 5
    outside = [a for _, attrs in tags.seen for k, a in attrs.items() if k in ("src", "href") and not a.startswith("#")]
    assert outside == []
    assert "@import" not in page
    for title in ("Results", "Accuracy", "Paired differences", "Accuracy against time", "Calibration", "Settings"):
        assert f"<h2>{title}</h2>" in page
    for result in evaluation.results:
        assert f"± {percent(result.ci95)}" in page
    assert "mathdefault" not in page, "ticks are plain numbers, whatever the range of times"
    assert evaluation.features[0].sha256 in page


def test_names_are_escaped_everywhere():
    page = render_report(make(("protonet", "simpleshot"), source=NASTY))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    parse(page)


def test_one_method_has_nothing_to_compare():
    page = render_report(make(("simpleshot",)))
    parse(page)
    assert "<h2>Paired differences</h2>" not in page
    assert "<h2>Calibration</h2>" not in page


def test_missing_tasks_are_told(evaluation):
    page = render_report(replace(evaluation, complete=False))
    assert "Interrupted: the numbers are over the tasks finished so far." in page


def test_written_page_is_the_rendered_one(evaluation, tmp_path):
    write_report(evaluation, tmp_path / "report.html")
    strip_ids = re.compile(r'(id|href|url)[=(]"?#?[\w.]+')
    written = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert strip_ids.sub("", written) == strip_ids.sub("", render_report(evaluation))
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_tables_hold_the_numbers_best_first(evaluation):
    full = full_table(evaluation)
    wide = paper_table(evaluation)
    assert wide.headers == ("Method", "Setting", "5-way 1-shot", "Δ", "ECE", "5-way 5-shot", "Δ", "ECE", "ms/task")
    for place, block in enumerate(evaluation.blocks()):
        ranked = sorted(block, key=lambda result: -result.accuracy)
        section = full.sections[place]
        assert [row[2].text for row in section] == [percent(result.accuracy, result.ci95) for result in ranked]
        assert [row[3].text for row in section] == [
            "●" if result is ranked[0] else "○" if result.among_best else "" for result in ranked
        ]
        assert {row[4].text for row in section if row[5].text == ""} == {"reference"}
        bold = {row[0].text: row[2 + 3 * place].bold for row in wide.sections[0]}
        assert bold == {result.title: result.among_best for result in block}


def test_spreadsheets_get_the_regime(evaluation):
    uneven = replace(evaluation, arguments={**evaluation.arguments, "dirichlet": 0.5})
    rows = list(csv.DictReader(io.StringIO(numbers_table(uneven).render("csv"))))
    assert {(row["dirichlet"], row["present"], row["seed"]) for row in rows} == {("0.5", "", "0")}
    accuracies = [float(row["accuracy"]) for row in rows if row["shot"] == "1"]
    assert accuracies == sorted(accuracies, reverse=True)


def test_numbers_are_written_for_reading():
    assert percent(0.81064, 0.0023) == "81.06 ± 0.23"
    assert percent(-0.0516, signed=True) == "−5.16"
    assert percent(0.0174, signed=True) == "+1.74"
    assert [duration(s) for s in (0.0000724, 0.00137, 0.0625, 1.4)] == ["0.072", "1.37", "62.5", "1,400"]
