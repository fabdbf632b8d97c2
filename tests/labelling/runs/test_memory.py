"""One memory: what a run of `label` was told is in the session of its source, and the reverse."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from test_rounds import AGAIN, FIRST, correct, labels_of, read

from marginshot.labelling import Session, label_images, label_table
from marginshot.labelling.items.collection import NONE, UNKNOWN

pytestmark = pytest.mark.usefixtures("encoded")

HEARD = "given in the session of this source, as in the studio: used as examples"


@pytest.fixture
def first(workplace, run) -> Path:
    code, _, err = run(*FIRST)
    assert code == 0, err
    return workplace / "labelled" / "labels.csv"


def said(session: Session, item: str) -> str:
    """The class that was said of an item."""
    names = {known.id: known.name for known in session.state.classes} | {UNKNOWN: "", NONE: "none"}
    return names[int(session.state.given[session.items.index(item)])]


def test_the_studio_sees_what_the_command_was_told(first, run):
    correct(first, {"red-2.png": "pink", "red-4.png": "pink", "blue-2.png": "none of the classes"})
    assert run(*AGAIN)[0] == 0
    with Session.open("photos") as session:
        assert [said(session, f"red-{n}.png") for n in (2, 4, 6)] == ["pink", "pink", ""]
        assert said(session, "blue-2.png") == "none"
        assert {known.name for known in session.state.classes} == {"blue", "green", "red", "pink"}
        assert session.notes == []
        assert "pink" in session.history("red-2.png")[-1].words


def test_the_command_sees_what_the_studio_was_told(workplace, run):
    with Session.open("photos", examples="examples") as session:
        session.label(["red-2.png", "red-4.png"], "pink")
        session.none_of_these(["blue-2.png"])
    code, _, err = run(*FIRST)
    assert code == 0, err
    assert f"3 labels {HEARD}" in err
    labels = labels_of(workplace / "labelled" / "labels.csv")
    assert [labels[f"red-{n}.png"] for n in (2, 4)] == [("pink", "example")] * 2
    assert labels["blue-2.png"] == ("", "none of the classes")
    assert HEARD not in run(*AGAIN)[2]  # they are known by now


def test_all_examples_may_come_from_the_studio(workplace, run):
    shutil.rmtree("examples")
    shutil.rmtree("photos/trip")
    with Session.open("photos") as session:
        session.label({"red-2.png": "red", "blue-2.png": "blue", "green-2.png": "green"})
    code, _, err = run("label", "photos", "--out", "labelled")
    assert code == 0, err
    assert labels_of(Path("labelled/labels.csv"))["red-4.png"][0] == "red"


@pytest.mark.parametrize("act", ["undo", "clear"])
def test_what_the_studio_takes_back_stays_taken_back(first, run, act):
    correct(first, {"red-2.png": "pink", "red-4.png": "pink"})
    assert run(*AGAIN)[0] == 0
    assert labels_of(first)["red-2.png"] == ("pink", "example")
    with Session.open("photos") as session:
        session.undo() if act == "undo" else session.clear(["red-2.png", "red-4.png"])
    for _ in range(2):
        assert run(*AGAIN)[0] == 0
        assert labels_of(first)["red-2.png"][1] != "example"
    with Session.open("photos") as session:
        assert said(session, "red-2.png") == ""


def test_the_last_word_counts_be_it_in_the_table_or_in_the_studio(first, run):
    correct(first, {"red-2.png": "pink", "red-4.png": "pink"})
    assert run(*AGAIN)[0] == 0
    with Session.open("photos") as session:
        session.label(["red-2.png", "red-4.png"], "rose")
    correct(first, {"red-4.png": "crimson"})
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert [labels_of(first)[f"red-{n}.png"][0] for n in (2, 4)] == ["rose", "crimson"]
    with Session.open("photos") as session:
        assert [said(session, f"red-{n}.png") for n in (2, 4)] == ["rose", "crimson"]
    correct(first, {"red-4.png": ""})
    assert run(*AGAIN)[0] == 0
    with Session.open("photos") as session:
        assert [said(session, f"red-{n}.png") for n in (2, 4)] == ["rose", ""]


def test_labels_of_a_picture_that_was_renamed_are_heard(workplace, run):
    with Session.open("photos", examples="examples") as session:
        session.label(["red-2.png", "red-4.png"], "pink")
    Path("photos/red-2.png").rename("photos/other.png")
    code, _, err = run(*FIRST)
    assert code == 0, err
    assert labels_of(Path("labelled/labels.csv"))["other.png"] == ("pink", "example")


def test_a_record_of_before_is_taken_over(first, run):
    correct(first, {"red-2.png": "pink", "red-4.png": "pink"})
    assert run(*AGAIN)[0] == 0
    shutil.rmtree(os.environ["MARGINSHOT_SESSIONS"])  # as after a run of an earlier version
    assert run(*AGAIN)[0] == 0
    assert labels_of(first)["red-2.png"] == ("pink", "example")
    with Session.open("photos") as session:
        assert said(session, "red-2.png") == "pink"


def test_a_class_that_the_studio_renamed_is_that_of_its_folder(first, run):
    with Session.open("photos", examples="examples") as session:
        session.label(["red-2.png"], "red")
        session.rename("red", "crimson")
    assert run(*AGAIN)[0] == 0
    assert labels_of(first)["red-2.png"] == ("red", "example")


def test_no_session_is_heard_or_told_where_none_is_wanted(workplace, run):
    with Session.open("photos", examples="examples") as session:
        session.label(["red-2.png", "red-4.png"], "pink")
        version = session.state.version
    assert HEARD not in run(*FIRST, "--no-session")[2]
    _, _, err = run(*AGAIN)
    assert "As in the last run: --examples" in err
    assert "--no-session" in err
    assert labels_of(Path("labelled/labels.csv"))["red-2.png"][0] == "red"
    with Session.open("photos", examples="examples") as session:
        assert session.state.version == version


def test_a_rehearsal_tells_nothing(workplace, run):
    code, _, err = run(*FIRST, "--dry-run")
    assert code == 0, err
    assert not Path(os.environ["MARGINSHOT_SESSIONS"]).exists()


def test_without_a_place_for_sessions_the_run_goes_on(first, run, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MARGINSHOT_SESSIONS", str(tmp_path / "file" / "sessions"))
    correct(first, {"red-2.png": "pink", "red-4.png": "pink"})
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert "Labels given by hand are kept beside the outputs, but not in the session of the studio." in err
    run(*AGAIN)
    assert labels_of(first)["red-2.png"] == ("pink", "example")


def test_an_interrupted_move_goes_on_with_labels_of_the_studio(workplace, run):
    with Session.open("photos", examples="examples") as session:
        session.label(["red-2.png", "red-4.png"], "pink")
    obstacle = Path("labelled/pink/red-2.png")
    obstacle.parent.mkdir(parents=True)
    obstacle.write_text("somebody's")
    assert run(*FIRST, "--move")[0] == 2
    obstacle.unlink()
    code, _, err = run(*FIRST, "--move")
    assert code == 0, err
    assert {"red-2.png", "red-4.png"} <= {path.name for path in obstacle.parent.iterdir()}
    assert not list(Path("photos").rglob("*.png"))


def test_texts_share_one_memory(workplace, run):
    texts = [f"{word} number {n}" for n in range(8) for word in ("train", "cake")]
    rows = [f"{text},{'travel' if row == 0 else 'food' if row == 1 else ''}" for row, text in enumerate(texts)]
    Path("t.csv").write_text("\n".join(["body,topic", *rows]), encoding="utf-8")
    with Session.open("t.csv", text="body", label="topic") as session:
        session.label({2: "rail", 4: "rail", 1: "pastry"})
    command = ("label", "t.csv", "--text", "body", "--label", "topic", "--no-names", "--out", "out.csv")
    code, _, err = run(*command)
    assert code == 0, err
    out = read(Path("out.csv"))
    assert [out[row]["topic"] for row in (0, 1, 2, 4)] == ["travel", "pastry", "rail", "rail"]
    out[5]["topic"] = "pastry" if out[5]["topic"] != "pastry" else "rail"
    Path("out.csv").write_text(
        "\n".join([",".join(out[0]), *(",".join(row.values()) for row in out)]), encoding="utf-8"
    )
    code, _, err = run(*command)
    assert code == 0, err
    with Session.open("t.csv", text="body", label="topic") as session:
        assert said(session, "row 6") == out[5]["topic"]
        assert said(session, "row 3") == "rail"


def test_corrections_are_examples_from_python_too(workplace):
    label_images("photos", "examples").write("labelled")
    table = Path("labelled/labels.csv")
    correct(table, {"red-2.png": "pink", "red-4.png": "pink"})
    again = label_images("photos", "examples", out="labelled")
    again.write("labelled")  # no force: what was changed there is known
    (note,) = again.collection.notes
    assert "2 rows differ from what was written here: used as examples" in note
    assert labels_of(table)["red-2.png"] == ("pink", "example")
    assert label_images("photos", "examples", out="labelled").classes == ("blue", "green", "pink", "red")


def test_corrections_of_a_table_are_examples_from_python_too(workplace):
    lines = ["body,topic", "late train,travel", "sweet cake,food", "bus train,", "cake cake,", "train train,"]
    Path("t.csv").write_text("\n".join(lines), encoding="utf-8")
    options = {"text": "body", "label": "topic", "names": False}
    label_table("t.csv", **options).write("out.csv", gallery=False)
    text = Path("out.csv").read_text().replace("train train,travel", "train train,rail")
    Path("out.csv").write_text(text)
    again = label_table("t.csv", **options, out="out.csv")
    assert again.labels[4] == "rail"
    again.write("out.csv", gallery=False)


def test_a_quiet_run_prints_nothing_and_json_alone_where_that_is_asked_for(workplace, run):
    assert run(*FIRST, "--quiet") == (0, "", "")
    code, out, err = run(*AGAIN, "--quiet", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["changed"] == 0
    code, out, err = run("label", "nowhere", "--out", "labelled", "--quiet")
    assert (code, out) == (2, "")
    assert "nowhere does not exist" in err
    assert run(*AGAIN, "--json")[1] != ""
