"""One memory: what a run of `label` was told is in the session of its source, and the reverse."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from test_rounds import AGAIN, FIRST, correct, labels_of, read, write
from test_rounds import said as said_in_session

from marginshot.labelling import Session, label_images, label_table
from marginshot.labelling.items.collection import NONE, UNKNOWN
from marginshot.labelling.items.kinds import PICTURE
from marginshot.labelling.outputs.records import record_path

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


def test_the_session_alone_holds_what_was_said(first, run):
    correct(first, {"red-2.png": "pink", "red-4.png": "pink"})
    assert run(*AGAIN)[0] == 0
    record = json.loads(record_path(first).read_text())
    assert (record["said"], record["said_of"]) == ({}, {})
    assert sorted(record["written"][0]["by_hand"]) == ["red-2.png", "red-4.png"]


def test_labels_come_back_from_the_table_where_the_session_is_lost(first, run):
    correct(first, {"red-2.png": "pink", "red-4.png": "pink", "blue-2.png": "none of the classes"})
    assert run(*AGAIN)[0] == 0
    shutil.rmtree(os.environ["MARGINSHOT_SESSIONS"])
    Path("photos/red-2.png").rename("photos/rose.png")
    for _ in range(2):
        code, _, err = run(*AGAIN)
        assert code == 0, err
        assert "given in the session" not in err
        labels = labels_of(first)
        assert {item for item, (_, review) in labels.items() if review == "example"} == {"rose.png", "red-4.png"}
        assert labels["blue-2.png"][0] == ""
    with Session.open("photos") as session:
        items = ["rose.png", "red-4.png", "blue-2.png", "red-6.png"]
        assert [said(session, item) for item in items] == ["pink", "pink", "none", ""]


def as_before(table: Path, said: dict[str, str], said_of: dict[str, str] | None = None) -> None:
    """Make the record of ``table`` one of an earlier version, which kept what was ``said``."""
    content = json.loads(record_path(table).read_text())
    for written in content["written"]:
        del written["by_hand"]
    content |= {"format": "marginshot-run-1", "said": said, "said_of": said_of or {}}
    record_path(table).write_text(json.dumps(content))
    shutil.rmtree(os.environ["MARGINSHOT_SESSIONS"])


def test_an_old_record_is_read_once_and_taken_over(first, run):
    digest = PICTURE.digest(Path("photos/red-2.png"))
    as_before(first, {"red-2.png": "pink", "red-4.png": "pink", "gone.png": "violet"}, {"red-2.png": digest})
    Path("photos/red-2.png").rename("photos/rose.png")
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert "1 item was renamed, and its label went with it: rose.png." in err
    assert labels_of(first)["rose.png"] == labels_of(first)["red-4.png"] == ("pink", "example")
    assert said_in_session() == {"rose.png": "pink", "red-4.png": "pink", "gone.png": "violet"}
    record = json.loads(record_path(first).read_text())
    assert (record["format"], record["said"]) == ("marginshot-run-2", {})
    with Session.open("photos") as session:
        session.clear(["rose.png"])
    assert run(*AGAIN)[0] == 0
    assert labels_of(first)["rose.png"][1] != "example"


def test_what_no_run_has_read_stays_in_the_record(first, run):
    as_before(first, {"red-2.png": "pink", "red-4.png": "pink", "gone.png": "violet"})
    label_images("photos", "examples").write("labelled", force=True)  # knows nothing of earlier runs
    assert labels_of(first)["red-2.png"] == ("red", "")
    assert not Path(os.environ["MARGINSHOT_SESSIONS"]).exists()
    assert run(*AGAIN)[0] == 0
    assert labels_of(first)["red-2.png"] == ("pink", "example")
    assert said_in_session() == {"red-2.png": "pink", "red-4.png": "pink", "gone.png": "violet"}


def test_rows_of_an_old_record_that_are_gone_are_labelled_when_they_are_back(workplace, run):
    texts = ["late train", "late bus", "sweet cake", "sweet pie", "late tram", "sweet tart"]
    lines = [f"{text},{('go', '', 'eat', '', '', '')[row]}" for row, text in enumerate(texts)]
    Path("t.csv").write_text("\n".join(["body,label", *lines]))
    command = ("label", "t.csv", "--text", "body", "--out", "out.csv", "--no-gallery", "--no-names")
    assert run(*command)[0] == 0
    as_before(Path("out.csv"), {"late tram": "rail", "sweet tart": "bake"})
    Path("t.csv").write_text("\n".join(["body,label", *lines[:-1]]))
    code, _, err = run(*command)
    assert code == 0, err
    assert "1 item that you labelled is gone; its label is kept: 'bake'." in err
    Path("t.csv").write_text("\n".join(["body,label", *lines]))
    assert run(*command)[0] == 0
    found = {row["body"]: row["label"] for row in read(Path("out.csv"))}
    assert (found["late tram"], found["sweet tart"]) == ("rail", "bake")
    with Session.open("t.csv", text="body") as session:
        assert [said(session, f"row {row}") for row in (5, 6)] == ["rail", "bake"]
        assert session.missing == ()


def test_texts_that_are_alike_have_labels_of_their_own(workplace, run):
    rows = [(1, "late train", "go"), (2, "sweet cake", "eat"), (3, "odd one", ""), (4, "odd one", ""), (5, "cake", "")]
    Path("t.csv").write_text("\n".join(["id,body,label", *(",".join(map(str, row)) for row in rows)]))
    command = ("label", "t.csv", "--text", "body", "--out", "out.csv", "--no-gallery", "--no-names")
    assert run(*command)[0] == 0
    text = Path("out.csv").read_text().splitlines()
    text[4] = "4,odd one,strange,,,"
    Path("out.csv").write_text("\n".join(reversed(text[1:])).join([text[0] + "\n", "\n"]))
    for _ in range(2):
        code, _, err = run(*command)
        assert code == 0, err
        found = {row["id"]: (row["label"], row["review"]) for row in read(Path("out.csv"))}
        assert found["4"] == ("strange", "example")
        assert found["3"][1] != "example"


def test_labels_of_moved_pictures_stay_theirs_when_the_names_come_again(workplace, run, draw_picture):
    assert run(*FIRST, "--move")[0] == 0
    table = Path("labelled/labels.csv")
    correct(table, {"red/red-2.png": "pink", "red/red-4.png": "pink"})
    draw_picture(Path("photos/red-2.png"), "green", 70)  # the camera counts from the start again
    draw_picture(Path("photos/new.png"), "blue", 71)
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert {place for place, label in said_in_session().items() if label == "pink"} == {
        f"{Path('labelled').resolve()}/red/red-{n}.png" for n in (2, 4)
    }
    assert labels_of(table)["red/red-2.png"] == ("pink", "example")
    assert labels_of(table)["red-2.png"][0] == "green"
    correct(table, {"red-2.png": "lime"})
    draw_picture(Path("photos/other.png"), "blue", 72)
    assert run(*AGAIN, "--move")[0] == 0
    draw_picture(Path("photos/red-2.png"), "green", 73)
    assert run(*AGAIN)[0] == 0
    labels = labels_of(table)
    assert [labels[item][0] for item in ("lime/red-2.png", "red/red-2.png", "red-2.png")] == ["lime", "pink", "green"]
    correct(table, {"red/red-2.png": ""})
    assert run(*AGAIN)[0] == 0
    assert labels_of(table)["red/red-2.png"][0] == ""
    assert labels_of(table)["lime/red-2.png"] == ("lime", "example")


def test_a_moved_picture_that_comes_back_brings_its_label(workplace, run, draw_picture):
    with Session.open("photos", examples="examples") as session:
        session.label(["red-2.png", "red-4.png"], "pink")
    assert run(*FIRST, "--move")[0] == 0
    draw_picture(Path("photos/new.png"), "blue", 71)
    assert run(*AGAIN)[0] == 0
    shutil.move("labelled/pink/red-2.png", "photos/back.png")
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert labels_of(Path("labelled/labels.csv"))["back.png"] == ("pink", "example")


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


def test_labels_of_a_run_without_the_session_are_kept_beside_its_outputs(first, run):
    shutil.rmtree(os.environ["MARGINSHOT_SESSIONS"])
    command = (*AGAIN, "--no-session")
    correct(first, {"red-2.png": "pink", "red-4.png": "pink"})
    assert run(*command)[0] == 0
    assert not Path(os.environ["MARGINSHOT_SESSIONS"]).exists()
    kept = shutil.move("photos/red-2.png", "kept.png")
    assert "1 item that you labelled is gone; its label is kept: red-2.png." in run(*command)[2]
    assert "red-2.png" not in labels_of(first)
    shutil.move(kept, "photos/another.png")
    assert run(*command)[0] == 0
    assert labels_of(first)["another.png"] == labels_of(first)["red-4.png"] == ("pink", "example")
    kept = shutil.move("photos/red-4.png", "kept.png")
    assert run(*command)[0] == 0
    assert run(*AGAIN, "--session")[0] == 0
    shutil.move(kept, "photos/red-4.png")
    with Session.open("photos") as session:
        assert [said(session, item) for item in ("another.png", "red-4.png")] == ["pink", "pink"]


def test_a_rehearsal_follows_what_was_renamed_and_changes_nothing(first, run):
    correct(first, {"red-2.png": "pink", "red-4.png": "pink"})
    assert run(*AGAIN)[0] == 0
    Path("photos/red-2.png").rename("photos/rose.png")
    correct(first, {"red-4.png": "violet"})
    before = {path: path.read_bytes() for path in Path(os.environ["MARGINSHOT_SESSIONS"]).iterdir()}
    code, out, err = run(*AGAIN, "--dry-run")
    assert code == 0, err
    assert "its label went with it: rose.png." in err
    assert "violet" in out
    assert {path: path.read_bytes() for path in Path(os.environ["MARGINSHOT_SESSIONS"]).iterdir()} == before
    assert said_in_session() == {"red-2.png": "pink", "red-4.png": "pink"}


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


def test_python_shares_the_session_when_it_is_told_where_labels_go(workplace):
    label_images("photos", "examples").write("labelled")
    assert not Path(os.environ["MARGINSHOT_SESSIONS"]).exists()
    with Session.open("photos", examples="examples") as session:
        session.label(["red-2.png", "red-4.png"], "pink")
    table = Path("labelled/labels.csv")
    correct(table, {"blue-2.png": "violet"})
    assert "pink" not in label_images("photos", "examples").classes
    alone = label_images("photos", "examples", out="labelled", session=False)
    assert alone.classes == ("blue", "green", "red", "violet")
    found = label_images("photos", "examples", out="labelled")
    assert f"2 labels {HEARD}" in found.collection.notes[1]
    assert {"pink", "violet"} <= set(found.classes)
    assert said_in_session() == {"red-2.png": "pink", "red-4.png": "pink"}
    found.write("labelled")
    assert said_in_session() == {"red-2.png": "pink", "red-4.png": "pink", "blue-2.png": "violet"}
    assert not list(Path("labelled").glob("*.sqlite"))


def test_python_keeps_labels_beside_the_outputs_where_no_session_is_wanted(workplace):
    lines = ["body,topic", "late train,travel", "sweet cake,food", "bus train,", "cake cake,", "train train,"]
    Path("t.csv").write_text("\n".join(lines), encoding="utf-8")
    options = {"text": "body", "label": "topic", "names": False, "out": "out.csv", "session": False}
    label_table("t.csv", **options).write("out.csv", gallery=False)
    Path("out.csv").write_text(Path("out.csv").read_text().replace("train train,travel", "train train,rail"))
    label_table("t.csv", **options).write("out.csv", gallery=False)
    assert label_table("t.csv", **options).labels[4] == "rail"
    assert Path(".out.csv-session.sqlite").is_file()
    assert not Path(os.environ["MARGINSHOT_SESSIONS"]).exists()


@pytest.mark.parametrize("transfer", ["copy", "move", "link"])
def test_outputs_are_written_when_every_item_is_labelled(first, run, transfer):
    correct(first, {item: item.rpartition("/")[2].partition("-")[0] for item in labels_of(first)})
    rows = [{**row, "review": "example"} for row in read(first)]
    write(rows, first)
    code, _, err = run(*AGAIN, f"--{transfer}")
    assert code == 0, err
    assert "Every item has a label, so no answer was needed." in err
    assert {review for _, review in labels_of(first).values()} == {"example"}
    assert len([path for path in Path("labelled").rglob("*.png") if path.exists()]) == 24
    if transfer != "move":
        found = label_images("photos", "examples", out="labelled")
        assert found.counts() == dict.fromkeys(("blue", "green", "red"), 8)
        found.write("labelled", transfer=transfer)


def test_a_table_is_written_when_every_row_is_labelled(workplace, run):
    Path("t.csv").write_text("body,topic\nlate train,travel\nsweet cake,food\nodd one,none of the classes\n")
    code, _, err = run("label", "t.csv", "--text", "body", "--label", "topic", "--out", "out.csv")
    assert code == 0, err
    assert [row["topic"] for row in read(Path("out.csv"))] == ["travel", "food", ""]
    assert label_table("t.csv", text="body", label="topic").labels == ("travel", "food", "")


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
