"""Tables of text in every form, whatever is in the cells."""

from __future__ import annotations

import csv
import io

import pytest

from marginshot.reporting.grid import Cell, Grid

GRID = Grid(
    headers=("Method", "Accuracy %"),
    sections=(((Cell("a_b & c|d"), Cell("81.06 ± 0.23", bold=True)),), ((Cell("x, y"), Cell("−1")),)),
    title="50 % of $5",
)


def test_markdown():
    assert GRID.render("markdown").splitlines() == [
        "**50 % of $5**",
        "",
        "| Method | Accuracy % |",
        "| --- | ---: |",
        r"| a\_b & c\|d | **81.06 ± 0.23** |",
        "| x, y | −1 |",
    ]


def test_latex():
    assert GRID.render("latex").splitlines() == [
        "% 50 % of $5",
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"Method & Accuracy \% \\",
        r"\midrule",
        r"a\_b \& c|d & \textbf{81.06 $\pm$ 0.23} \\",
        r"\midrule",
        r"x, y & $-$1 \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]


def test_csv_reads_back():
    rows = list(csv.reader(io.StringIO(GRID.render("csv"))))
    assert rows == [["Method", "Accuracy %"], ["a_b & c|d", "81.06 ± 0.23"], ["x, y", "−1"]]


def test_unknown_form():
    with pytest.raises(ValueError, match="printed as markdown, latex, csv; got 'word'"):
        GRID.render("word")
