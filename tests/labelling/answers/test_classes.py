"""Texts labelled from the names or descriptions of classes, without an example."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from marginshot.labelling import label_table, label_texts
from marginshot.labelling.answers.classes import read_classes

pytestmark = pytest.mark.usefixtures("encoded")

BODIES = ["billing of march", "a billing question", "wrong billing", "bug on start", "this bug again", "one more bug"]
TOPICS = ["billing"] * 3 + ["bug"] * 3


@pytest.fixture
def tickets(workplace) -> Path:
    path = workplace / "tickets.csv"
    path.write_text("\n".join(["body,topic", *(f"{body}," for body in BODIES)]) + "\n", encoding="utf-8")
    return path


def labels_in(path: Path, column: str = "topic") -> list[str]:
    with path.open(encoding="utf-8", newline="") as file:
        return [row[column] for row in csv.DictReader(file)]


@pytest.mark.parametrize("column", ["topic", "subject", None])
def test_names_alone_fill_an_empty_or_a_new_column(tickets, run, column):
    named = () if column is None else ("--label", column)
    code, _, err = run("label", tickets, "--text", "body", "--classes", "billing,bug", *named, "--out", "done.csv")
    assert code == 0, err
    assert labels_in(tickets.with_name("done.csv"), column or "label") == TOPICS
    assert "examples" not in err


def test_the_page_says_where_the_labels_come_from(tickets, run):
    assert run("label", tickets, "--text", "body", "--classes", "billing,bug", "--out", "done.csv")[0] == 0
    assert "from the names of 2 classes" in tickets.with_name("done-gallery.html").read_text(encoding="utf-8")


def test_a_table_of_descriptions(tickets, run, monkeypatch):
    lines = ["class,description", "c1,billing", "c2,bug", "c2,start", ",ignored"]
    (tickets.parent / "topics.csv").write_text("\n".join(lines), encoding="utf-8")
    arguments = ("label", "tickets.csv", "--text", "body", "--label", "topic", "--out", "done.csv", "--no-gallery")
    code, _, err = run(*arguments, "--classes", "topics.csv")
    assert code == 0, err
    assert labels_in(tickets.with_name("done.csv")) == ["c1"] * 3 + ["c2"] * 3
    (tickets.parent / "elsewhere").mkdir()
    monkeypatch.chdir(tickets.parent / "elsewhere")
    code, _, err = run("label", "../tickets.csv", "--out", "../done.csv")
    assert code == 0, err
    assert f"--classes {tickets.parent / 'topics.csv'}" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--classes", "c1,c2"), "the class 'c1' has no examples, and its name is a code"),
        (("--classes", "billing"), "at least two classes; there is only 'billing'"),
        (("--classes", "billing,Billing"), "differ only in case"),
        (("--classes", "none.csv"), "there is no none.csv"),
        (("--classes", "tickets.csv"), "tickets.csv has no column 'class'"),
        (("--classes", "billing,bug", "--no-names"), "the class 'billing' has no examples"),
    ],
)
def test_classes_that_cannot_be(tickets, run, encoded, arguments, message):
    code, _, err = run("label", "tickets.csv", "--text", "body", "--out", "done.csv", *arguments)
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not encoded, "told before the work"
    assert not list(tickets.parent.glob("done*"))


def test_pictures_have_no_names(workplace, run):
    arguments = ("label", "photos", "--examples", "examples", "--classes", "red,heron", "--out", "labelled")
    code, _, err = run(*arguments)
    assert code == 2
    assert "the class 'heron' has no examples, and this encoder cannot read its name instead" in err


def test_classes_are_remembered_with_the_other_options(tickets, run):
    first = ("label", "tickets.csv", "--text", "body", "--label", "topic", "--out", "done.csv", "--no-gallery")
    assert run(*first, "--classes", "billing,bug")[0] == 0
    code, _, err = run("label", "tickets.csv", "--out", "done.csv")
    assert code == 0, err
    assert "--classes billing,bug" in err


def test_in_python(tickets):
    assert list(label_texts(BODIES, classes=["bug", "billing"]).labels) == TOPICS
    found = label_texts(BODIES, classes={"c1": "billing", "c2": ["bug", "start"]})
    assert list(found.labels) == ["c1"] * 3 + ["c2"] * 3
    assert list(label_table(tickets, text="body", classes=["bug", "billing"]).labels) == TOPICS


def test_an_example_and_a_name_go_together(tickets):
    labels = ["billing", "", "", "", "", ""]
    assert list(label_texts(BODIES, labels, classes=["bug"]).labels) == TOPICS


@pytest.mark.parametrize("blank", ["  ", " , "])
def test_blank_names_are_refused(blank):
    with pytest.raises(ValueError, match="names no class; give names with commas between"):
        read_classes(blank)


def test_names_with_commas_and_spaces():
    assert read_classes(" lost card ,bug,, ") == {"lost card": (), "bug": ()}
