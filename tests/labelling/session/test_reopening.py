"""Sources that change between two openings of a session: what was said goes with the picture it was said of."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from marginshot.labelling import Session
from marginshot.labelling.contents import Content, Files
from marginshot.labelling.tables import write_table

pytestmark = pytest.mark.usefixtures("encoded")


@pytest.fixture
def photos(workplace):
    """Pictures with three labels: red-2.png, blue-2.png, and green-3.png below."""
    with Session.open("photos") as session:
        session.label({"red-2.png": "red", "blue-2.png": "blue", "trip/day one/green-3.png": "green"})
    return workplace / "photos"


def labels(session: Session) -> dict[str, str]:
    names = {known.id: known.name for known in session.state.classes} | {-2: "none"}
    return {session.items[row]: names[code] for row, code in enumerate(session.state.given.tolist()) if code != -1}


def test_labels_go_with_renamed_and_moved_pictures(photos):
    (photos / "red-2.png").rename(photos / "heron.png")
    (photos / "trip" / "day one").rename(photos / "trip" / "day two")
    with Session.open("photos") as session:
        assert labels(session) == {"heron.png": "red", "blue-2.png": "blue", "trip/day two/green-3.png": "green"}
        assert session.missing == ()
        assert session.notes == [
            "2 items were renamed, and their labels went with them: heron.png, trip/day two/green-3.png."
        ]
        assert [entry.words for entry in session.history("heron.png")] == [
            'label 3 items "red", "blue", "green"',
            "follow 2 items to other names",
        ]
        session.undo()  # the label, not the name
        assert labels(session) == {}
        session.redo()
    (photos / "heron.png").rename(photos / "red-2.png")
    with Session.open("photos") as session:
        assert labels(session)["red-2.png"] == "red"
        assert session.notes == ["1 item was renamed, and its label went with it: red-2.png."]
    with Session.open("photos") as session:
        assert session.notes == []


def test_labels_of_replaced_pictures_are_set_aside_until_undone(photos, draw_picture):
    draw_picture(photos / "red-2.png", "green", 77)
    for _ in range(2):
        with Session.open("photos") as session:
            assert labels(session) == {"blue-2.png": "blue", "trip/day one/green-3.png": "green"}
        assert session.notes in (
            ["1 picture was replaced by another, and its label is set aside (undo brings it back): red-2.png."],
            [],
        )
    with Session.open("photos") as session:
        session.undo()
    with Session.open("photos") as session:
        assert labels(session)["red-2.png"] == "red"
        assert session.notes == []


def test_two_pictures_that_change_places_keep_their_labels(photos):
    (photos / "red-2.png").rename(photos / "aside")
    (photos / "blue-2.png").rename(photos / "red-2.png")
    (photos / "aside").rename(photos / "blue-2.png")
    with Session.open("photos") as session:
        assert labels(session) == {"red-2.png": "blue", "blue-2.png": "red", "trip/day one/green-3.png": "green"}


def test_a_picture_renamed_over_another_brings_its_label_along(photos):
    (photos / "red-2.png").rename(photos / "blue-2.png")
    with Session.open("photos") as session:
        assert labels(session) == {"blue-2.png": "red", "trip/day one/green-3.png": "green"}
        assert [note.partition(",")[0] for note in session.notes] == [
            "1 item was renamed",
            "1 picture was replaced by another",
        ]
        assert session.missing == ()


def test_a_picture_copied_twice_is_followed_to_neither(photos):
    shutil.copy(photos / "red-2.png", photos / "one.png")
    (photos / "red-2.png").rename(photos / "two.png")
    with Session.open("photos") as session:
        assert session.missing == ("red-2.png",)
        assert session.notes == ["1 item with a label is gone from the source; the label is kept: red-2.png."]


def test_a_new_date_alone_changes_nothing_and_only_labelled_pictures_are_read(photos, monkeypatch):
    read = []
    monkeypatch.setattr(
        "marginshot.labelling.contents.file_digest", lambda path: read.append(path.name) or Path(path).name
    )
    known = {"a": Content("a", "1 1 1"), "b": Content("b", "2 2 2"), "c": Content("c", "3 3 3")}
    paths = {name: photos.parent / name for name in "abde"}
    for name in paths:
        paths[name].write_bytes(b"x" * (ord(name) - 96))
    files = Files(paths, known)
    assert files.changes(["a"]).replaced == []
    assert sorted(set(read)) == ["a"]
    assert files.changes(["c"]).renamed == {}
    assert sorted(set(read)) == ["a"]  # no new file is as long as the one that is gone


def test_an_audit_goes_with_its_pictures(photos):
    with Session.open("photos") as session:
        drawn = [session.items[row] for row in session.audit(4)]
    (photos / drawn[0]).rename(photos / "elsewhere.png")
    with Session.open("photos") as session:
        assert [session.items[row] for row in session.audit(4)] == ["elsewhere.png", *drawn[1:]]


def test_a_log_of_before_contents_were_kept_is_read(photos, own_sessions):
    (path,) = own_sessions.glob("*.sqlite")
    log = sqlite3.connect(path)
    log.execute("DROP TABLE contents")
    log.execute("PRAGMA user_version = 1")
    log.close()
    os.utime(photos / "red-2.png")
    for _ in range(2):
        with Session.open("photos") as session:
            assert len(labels(session)) == 3
            assert session.notes == []


def test_pictures_sorted_into_class_folders_since_are_labelled(photos):
    for colour in ("red", "blue"):
        (photos / colour).mkdir()
        for number in (4, 6):
            (photos / f"{colour}-{number}.png").rename(photos / colour / f"{number}.png")
    (photos / "trip" / "day one" / "green-3.png").rename(photos / "red" / "green-3.png")
    with Session.open("photos") as session:
        found = labels(session)
        assert {found["red/4.png"], found["red/6.png"]} == {"red"}
        assert {found["blue/4.png"], found["blue/6.png"]} == {"blue"}
        assert found["red/green-3.png"] == "green"
        assert "4 labels are new in the source and were taken" in session.notes[1]
        assert session.notes[2] == (
            "1 label in the source differs from what was said here, which holds: red/green-3.png."
        )
        # "trip" has been a folder all along.
        assert "trip" not in found.values()
        session.label(["red/4.png"], "blue")
    with Session.open("photos") as session:
        assert labels(session)["red/4.png"] == "blue"
        assert [note for note in session.notes if "taken" in note] == []


def test_labels_new_in_a_table_are_taken_unless_something_else_was_said(tmp_path):
    bodies = ["late train", "late bus", "sweet cake", "sweet pie", "deep sleep"]
    write_table({"body": bodies, "label": ["go", "", "eat", "", ""]}, tmp_path / "t.csv")
    with Session.open(tmp_path / "t.csv", text="body") as session:
        session.rename("go", "travel")
        session.label({3: "dessert"})
        session.clear([2])
    write_table({"body": bodies[::-1], "label": ["rest", "eat", "eat", "go", "go"]}, tmp_path / "t.csv")
    for round_ in range(2):
        with Session.open(tmp_path / "t.csv", text="body") as session:
            names = {known.id: known.name for known in session.state.classes} | {-1: ""}
            assert [names[code] for code in session.state.given] == ["rest", "dessert", "", "travel", "travel"]
        taken = ["2 labels are new in the source and were taken: deep sleep, late bus."]
        assert session.notes == [
            *([] if round_ else taken),
            "1 label in the source differs from what was said here, which holds: sweet pie.",
        ]


def test_a_text_that_was_edited_is_another(tmp_path):
    write_table({"body": ["late train", "sweet cake"]}, tmp_path / "t.csv")
    with Session.open(tmp_path / "t.csv", text="body") as session:
        session.label({0: "go", 1: "eat"})
    write_table({"body": ["new", "sweet cake", "late tram"]}, tmp_path / "t.csv")
    with Session.open(tmp_path / "t.csv", text="body") as session:
        assert session.state.given.tolist() == [-1, 1, -1]
        assert session.notes == ["1 item with a label is gone from the source; the label is kept: late train."]


@pytest.mark.parametrize(
    ("kind", "payload", "reason"),
    [
        ("label", "{}", "'labels' is missing"),
        ("label", '{"labels": {"cat": "abc"}}', "'abc' is not a list of items"),
        ("label", "[1]", "list indices"),
        ("label", "{", "Expecting property name"),
        ("merge", '{"old": "a", "into": "b"}', "no class 'a'"),
        ("rename", '{"old": "a", "new": "b"}', "no class 'a'"),
        ("audit", '{"items": ["a"], "answered": []}', "1 item were drawn with 0 answers"),
        ("undo", "{}", "nothing to undo"),
        ("tickle", "{}", "does not know"),
    ],
)
def test_a_damaged_event_is_one_sentence_with_its_number(tmp_path, kind, payload, reason):
    path = tmp_path / "log.sqlite"
    Session.from_embeddings([[0.0, 1.0], [1.0, 0.0]], log=path).close()
    log = sqlite3.connect(path)
    log.execute("INSERT INTO events VALUES (1, 0, ?, ?)", (kind, payload))
    log.commit()
    log.close()
    with pytest.raises(ValueError, match=rf"log.sqlite is damaged.*event 1 \({kind}\) \(.*{reason}.*Move it away"):
        Session.from_embeddings([[0.0, 1.0], [1.0, 0.0]], log=path)
