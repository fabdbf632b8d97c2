"""Sources that change between two openings of a session: what was said goes with the picture it was said of."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from marginshot.labelling import Session
from marginshot.labelling.items.contents import Content, Files
from marginshot.labelling.items.kinds import PICTURE
from marginshot.labelling.items.tables import write_table
from marginshot.labelling.session.events import _checksum

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
            "keep the labels of 2 items under new names",
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
    sentence = "1 picture was replaced by another, and its label is set aside (undo brings it back): red-2.png."
    for notes in ([sentence], []):
        with Session.open("photos") as session:
            assert labels(session) == {"blue-2.png": "blue", "trip/day one/green-3.png": "green"}
        assert session.notes == notes
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
        "marginshot.labelling.items.kinds.file_digest", lambda path: read.append(path.name) or Path(path).name
    )
    known = {"a": Content("a", "1 1 1"), "b": Content("b", "2 2 2"), "c": Content("c", "3 3 3")}
    paths = {name: photos.parent / name for name in "abde"}
    for name in paths:
        paths[name].write_bytes(b"x" * (ord(name) - 96))
    files = Files(PICTURE, paths, known)
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
            "1 label in the source differs from the label given here, which is kept: red/green-3.png."
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
            "1 label in the source differs from the label given here, which is kept: sweet pie.",
        ]


def open_table(path: Path, body: list[str], label: list[str], **options) -> Session:
    write_table({"body": body, "label": label}, path)
    return Session.open(path, text="body", **options)


def test_none_of_the_classes_in_a_table_is_an_answer_and_no_class(tmp_path):
    """The command `label` writes and reads these words; a session of its table hears the same."""
    table = tmp_path / "birds.csv"
    columns = {"text": ["a gull", "a tern", "a chair", "a swan"], "label": ["gull", "tern", "None of the classes", ""]}
    write_table(columns, table)
    with Session.open(table, text="text", label="label") as session:
        assert [known.name for known in session.state.classes] == ["gull", "tern"]
        assert session.state.given.tolist() == [0, 1, -2, -1]
        session.clear([2])
    with Session.open(table, text="text", label="label") as session:
        assert session.state.given.tolist() == [0, 1, -1, -1]


def test_a_source_that_spells_a_class_otherwise_means_that_class(tmp_path):
    bodies = ["white bird", "grey bird", "small fish", "large fish"]
    with open_table(tmp_path / "t.csv", bodies, ["", "", "cod", ""]) as session:
        session.label({0: "tern"})
        session.rename("cod", "Kabeljau")
    for _ in range(2):
        with open_table(tmp_path / "t.csv", bodies, ["", "TERN", "", "Cod"], classes=["Tern "]) as session:
            assert labels(session) == {"row 1": "tern", "row 2": "tern", "row 3": "Kabeljau", "row 4": "Kabeljau"}
            assert [known.name for known in session.state.classes] == ["Kabeljau", "tern"]
    with open_table(tmp_path / "t.csv", bodies, ["", "TERN", "", "Cod"]) as session:
        session.clear([1, 3])  # what was taken under another name does not come back either
    with open_table(tmp_path / "t.csv", bodies, ["", "TERN", "", "Cod"]) as session:
        assert labels(session) == {"row 1": "tern", "row 3": "Kabeljau"}


def test_a_label_new_in_the_source_wins_over_answers_accepted_and_labels_merged(tmp_path):
    rng = np.random.default_rng(0)
    X = (np.repeat(np.eye(2, 5), 30, axis=0) + rng.normal(0, 0.1, (60, 5))).astype(np.float32)
    path, said = tmp_path / "rows.npz", [""] * 60
    said[0], said[1], said[30] = "bird", "mammal", "fish"
    np.savez(path, X=X, y=said)
    with Session.open(path) as session:
        session.merge("mammal", "bird")
        session.accept(0.01)
        row = int(np.flatnonzero((session.state.given >= 0) & ~session.state.checked)[0])
    said[1], said[row] = "fox", "new"
    np.savez(path, X=X, y=said)
    with Session.open(path) as session:
        assert [labels(session)[session.items[place]] for place in (1, row)] == ["fox", "new"]
        assert session.notes == [f"2 labels are new in the source and were taken: row 2, row {row + 1}."]


def test_a_class_renamed_and_back_again_keeps_its_name(tmp_path):
    bodies = ["white bird", "grey bird", "small fish"]
    with open_table(tmp_path / "t.csv", bodies, ["bird", "", "fish"]) as session:
        session.rename("bird", "Vogel")
        session.undo()
        session.delete_class("bird")
    with open_table(tmp_path / "t.csv", bodies, ["bird", "bird", "fish"]) as session:
        assert labels(session) == {"row 2": "bird", "row 3": "fish"}


def test_a_label_taken_away_stays_away_when_its_picture_is_renamed(workplace):
    photos = workplace / "photos"
    for colour in ("red", "blue"):
        (photos / colour).mkdir()
        (photos / f"{colour}-2.png").rename(photos / colour / "0.png")
    with Session.open("photos") as session:
        session.clear(["red/0.png"])
    (photos / "red" / "0.png").rename(photos / "red" / "zero.png")
    for _ in range(2):
        with Session.open("photos") as session:
            assert labels(session)["blue/0.png"] == "blue"
            assert "red/zero.png" not in labels(session)


def test_a_picture_replaced_in_its_class_folder_keeps_the_class_whatever_it_is_called(workplace, draw_picture):
    photos = workplace / "photos"
    for colour in ("red", "blue"):
        (photos / colour).mkdir()
        (photos / f"{colour}-2.png").rename(photos / colour / "0.png")
    with Session.open("photos") as session:
        session.rename("red", "crimson")
        session.none_of_these(["green-2.png"])
    draw_picture(photos / "red" / "0.png", "red", 77)
    draw_picture(photos / "green-2.png", "green", 77)
    with Session.open("photos") as session:
        found = labels(session)
        assert (found["red/0.png"], found["blue/0.png"]) == ("crimson", "blue")
        assert "green-2.png" not in found


def test_a_log_that_another_process_holds_does_not_end_the_encoding(workplace, own_sessions, monkeypatch):
    monkeypatch.setattr("marginshot.labelling.session.events._PATIENCE", 0.01)
    held = []

    def hold_log(*_) -> None:
        if not held:
            (path,) = own_sessions.glob("*.sqlite")
            held.append(sqlite3.connect(path, isolation_level=None))
            held[0].execute("BEGIN IMMEDIATE")

    with Session.open("photos", on_progress=hold_log) as session:
        assert session.ready.all()
        (note,) = session.notes
        assert note.startswith("Pictures that are renamed now may be taken for new ones")
        assert "database is locked" in note
        held[0].close()
        session.label(["red-2.png"], "red")


def test_pictures_are_read_before_the_log_is_locked(photos, own_sessions, monkeypatch):
    (path,) = own_sessions.glob("*.sqlite")
    read = []

    def digest(picture: Path) -> str:
        log = sqlite3.connect(path, isolation_level=None, timeout=0)
        log.execute("BEGIN IMMEDIATE")  # raises where another holds the lock
        log.close()
        read.append(Path(picture).name)
        return "another"

    monkeypatch.setattr("marginshot.labelling.items.kinds.file_digest", digest)
    os.utime(photos / "red-2.png")
    with Session.open("photos") as session:
        assert read[:1] == ["red-2.png"]
        assert "red-2.png" not in labels(session)


def test_what_others_say_while_pictures_are_read_is_heard(photos, own_sessions, monkeypatch, draw_picture):
    draw_picture(photos / "red-2.png", "green", 77)
    look, looks = Files.changes, []

    def interrupted(files: Files, said) -> object:
        looks.append(set(said))
        if len(looks) == 1:
            (path,) = own_sessions.glob("*.sqlite")
            with closing(sqlite3.connect(path)) as log, log:
                labels = '{"labels": {"blue": ["blue-4.png"]}}'
                ((seq,),) = log.execute("SELECT MAX(seq) + 1 FROM events")
                row = (seq, 0.0, "label", labels)
                log.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", (*row, _checksum(*row)))
        return look(files, said)

    monkeypatch.setattr(Files, "changes", interrupted)
    with Session.open("photos") as session:
        assert looks[1] - looks[0] == {"blue-4.png"}
        assert labels(session) == {"blue-2.png": "blue", "blue-4.png": "blue", "trip/day one/green-3.png": "green"}


def test_notes_name_embeddings_by_their_row(tmp_path):
    X, path = np.eye(4, dtype=np.float32), tmp_path / "rows.npz"
    np.savez(path, X=X, y=["a", "b", "", ""])
    Session.open(path).close()
    np.savez(path, X=X, y=["a", "b", "a", ""])
    with Session.open(path) as session:
        assert session.notes == ["1 label is new in the source and was taken: row 3."]


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
    row = (1, 0.0, kind, payload)  # as if it had been written so
    log.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", (*row, _checksum(*row)))
    log.commit()
    log.close()
    with pytest.raises(ValueError, match=rf"log.sqlite is damaged.*event 1 \({kind}\) \(.*{reason}.*Move it away"):
        Session.from_embeddings([[0.0, 1.0], [1.0, 0.0]], log=path)
