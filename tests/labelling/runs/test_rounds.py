"""Rounds of corrections: the second run into the same place knows the first, and what was said about it."""

from __future__ import annotations

import csv
import errno
import json
import shutil
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from marginshot.labelling import Session
from marginshot.labelling.items.folders import collect_unlabelled
from marginshot.labelling.items.sources import open_source
from marginshot.labelling.items.tables import read_table
from marginshot.labelling.outputs.records import load_record, record_path
from marginshot.labelling.session.events import EventLog, default_folder
from marginshot.labelling.session.journal import Journal
from marginshot.labelling.session.opening import log_of

pytestmark = pytest.mark.usefixtures("encoded")

FIRST = ("label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery")
AGAIN = ("label", "photos", "--out", "labelled")


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(rows: list[dict[str, str]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def correct(path: Path, labels: dict[str, str], to: Path | None = None, name: str = "item") -> None:
    rows = read(path)
    for row in rows:
        row["label"] = labels.get(row[name], row["label"])
    write(rows, to or path)


def labels_of(path: Path) -> dict[str, tuple[str, str]]:
    return {row["item"]: (row["label"], row["review"]) for row in read(path)}


def said(source: str = "photos") -> dict[str, str]:
    """Labels that a person gave, as the session of a folder has them, gone items included."""
    opened = open_source(Path(source), None)
    log = EventLog(log_of(opened, None, default_folder()), copy=True)
    with closing(Journal(collect_unlabelled(opened.path), log)) as journal:
        return {key: label for key, label in journal.by_hand().items() if label}


@pytest.fixture
def first(workplace, run) -> Path:
    code, _, err = run(*FIRST)
    assert code == 0, err
    return workplace / "labelled" / "labels.csv"


def test_a_table_that_a_european_spreadsheet_saved_is_still_ours(first, run):
    correct(first, {"red-2.png": "pink", "red-4.png": "pink"})
    rows = read(first)
    for row in rows:
        row["probability"] = row["probability"].replace(".", ",")
    with first.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=";", lineterminator="\r\n")
        writer.writeheader()
        writer.writerows(rows)
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert "2 rows differ from what was written here: used as examples; 22 guesses ignored" in err
    assert labels_of(first)["red-2.png"] == ("pink", "example")


def test_decimal_commas_are_read_where_semicolons_part_the_columns(tmp_path):
    (tmp_path / "t.csv").write_text("price;note;code\n1,5;a,b;1,5\n-2;c;x\n;d;2,5\n", encoding="utf-8")
    columns = read_table(tmp_path / "t.csv").columns
    assert columns == {"price": ["1.5", "-2", ""], "note": ["a,b", "c", "d"], "code": ["1,5", "x", "2,5"]}


def test_corrections_in_place_are_examples_and_options_are_remembered(first, run):
    correct(first, {"red-2.png": "pink", "red-4.png": "pink"})
    code, out, err = run(*AGAIN)
    assert code == 0, err
    assert "As in the last run: --examples" in err
    assert "--no-gallery" in err
    assert "2 rows differ from what was written here: used as examples; 22 guesses ignored" in err
    assert labels_of(first)["red-2.png"] == ("pink", "example")
    assert "pink" in out
    n_changed = int(err.split(" labels changed since the last run")[0].split()[-1])
    assert n_changed >= 2
    assert not first.with_name("gallery.html").exists()


def test_what_was_said_stays_said_and_can_be_taken_back(first, run):
    correct(first, {"red-2.png": "pink"})
    assert run(*AGAIN)[0] == 0
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert "0 labels changed since the last run" in err
    assert labels_of(first)["red-2.png"] == ("pink", "example")
    correct(first, {"red-2.png": ""})
    assert run(*AGAIN)[0] == 0
    assert labels_of(first)["red-2.png"][0] == "red"
    assert said() == {}


@pytest.mark.parametrize("place", ["labelled/labels.csv", "elsewhere.csv"])
def test_own_guesses_among_the_examples_are_ignored(first, workplace, run, place):
    correct(first, {"red-2.png": "pink"}, to=workplace / place)
    code, _, err = run("label", "photos", "--examples", place, "--out", "second", "--no-gallery")
    assert code == 0, err
    assert f"{place}: 1 row differs from what was written here: used as examples; 23 guesses ignored" in err
    found = labels_of(workplace / "second" / "labels.csv")
    assert [item for item, (_, review) in found.items() if review == "example"] == ["red-2.png"]
    assert len(found) == 24


def test_a_sorted_and_reformatted_table_is_still_ours(first, run):
    rows = sorted(read(first), key=lambda row: row["item"], reverse=True)
    rows = [{**row, "probability": f"{float(row['probability']):.6f}"} for row in rows[:20]]
    rows[3]["label"] = "pink"
    write(rows, first)
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert "1 row differs from what was written here: used as examples; 19 guesses ignored" in err


def test_other_columns_are_not_overwritten(first, run):
    write([{**row, "note": "mine"} for row in read(first)], first)
    content = first.read_bytes()
    code, _, err = run(*AGAIN)
    assert code == 2
    assert "exists and is not, or no longer, as this command wrote it" in err
    assert first.read_bytes() == content


def edit(path: Path, cells: dict[str, dict[str, str]]) -> None:
    write([{**row, **cells.get(row["item"], {})} for row in read(path)], path)


def test_a_label_is_confirmed_in_the_column_review(first, run):
    edit(first, {"red-2.png": {"review": "Example"}, "red-4.png": {"review": "ok"}, "red-6.png": {"review": "ask Ann"}})
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert "2 rows differ from what was written here: used as examples; 22 guesses ignored." in err
    assert "1 changed cell beside the labels ignored" in err
    assert said() == {"red-2.png": "red", "red-4.png": "red"}
    assert labels_of(first)["red-2.png"] == ("red", "example")


def test_edited_probabilities_are_ignored_unless_the_table_is_another(first, run):
    edit(first, {"red-2.png": {"probability": "0.5"}, "red-4.png": {"probability": "1", "label": "pink"}})
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert said() == {"red-4.png": "pink"}
    edit(first, {"blue-2.png": {"probability": "0.5", "label": "pink"}})
    assert run(*AGAIN)[0] == 2


def test_none_of_the_classes_is_an_answer_and_no_class(first, workplace, run):
    correct(first, {"red-2.png": "None of the classes"})
    for _ in range(2):
        code, out, err = run(*AGAIN, "--copy")
        assert code == 0, err
        assert labels_of(first)["red-2.png"] == ("", "none of the classes")
        assert said() == {"red-2.png": "none of the classes"}
        assert "none of" not in out
    assert not list((workplace / "labelled").rglob("red-2.png"))
    correct(first, {"red-2.png": "red"})
    assert run(*AGAIN)[0] == 0
    assert labels_of(first)["red-2.png"] == ("red", "example")


def test_emptied_cells_are_counted_apart(first, run):
    correct(first, {"red-2.png": "pink", "red-4.png": "pink"})
    assert run(*AGAIN)[0] == 0
    correct(first, {"red-2.png": "", "blue-2.png": "", "blue-4.png": "", "green-2.png": "pink"})
    err = run(*AGAIN)[2]
    told = "1 row differs from what was written here: used as examples; 2 emptied: labelled anew; "
    assert told + "1 emptied: no longer an example; " in err
    correct(first, {"red-4.png": ""})
    assert "labels.csv: 1 emptied: no longer an example; " in run(*AGAIN)[2]


def test_corrections_are_learned_where_a_changed_table_is_replaced_by_force(first, run):
    write([{**row, "note": "mine"} for row in read(first)], first)
    correct(first, {"red-2.png": "pink"})
    assert run(*AGAIN)[0] == 2
    code, _, err = run(*AGAIN, "--force")
    assert code == 0, err
    assert labels_of(first)["red-2.png"] == ("pink", "example")


def test_a_file_in_the_place_of_the_record_stays(first, workplace, run):
    (workplace / "second").mkdir()
    mine = record_path(workplace / "second" / "labels.csv")
    mine.write_text("mine")
    assert run(*FIRST, "--save", "model")[0] == 0
    code, _, err = run("apply", "model", "photos", "--out", "second")
    assert code == 2
    assert "is damaged, or not the record of an earlier run" in err
    assert mine.read_text() == "mine"
    assert [path.name for path in (workplace / "second").iterdir()] == [mine.name]


def test_guesses_that_nothing_tells_from_changes_are_refused(first, workplace, run):
    shutil.move(first, workplace / "mine.csv")
    record_path(first).unlink()
    code, _, err = run("label", "photos", "--examples", "mine.csv", "--out", "second")
    assert code == 2
    assert "mine.csv holds labels that marginshot guessed, and which of them you changed is not known" in err
    assert not (workplace / "second").exists()


def test_a_table_of_an_older_round_is_not_taken_for_corrections(first, workplace, run):
    shutil.copy(first, workplace / "old.csv")
    for colour in ("pink", "violet"):
        correct(first, {"red-2.png": colour, "red-4.png": colour, "blue-2.png": colour})
        assert run(*AGAIN)[0] == 0
    code, _, err = run("label", "photos", "--examples", "old.csv", "--out", "third", "--no-gallery")
    assert code == 2
    assert "which of them you changed is not known" in err


def test_suggestions_filled_in_are_examples(workplace, run):
    assert run(*FIRST, "--suggest", 4)[0] == 0
    table = workplace / "labelled" / "suggestions.csv"
    items = [row["path"] for row in read(table)]
    correct(table, {items[0]: "pink", items[2]: "pink"}, name="path")
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert "--suggest 4" in err
    assert "labelled/suggestions.csv: 2 filled in: used as examples" in err
    found = labels_of(workplace / "labelled" / "labels.csv")
    assert {item for item, answer in found.items() if answer == ("pink", "example")} == {items[0], items[2]}
    assert not {row["path"] for row in read(table)} & {items[0], items[2]}


@pytest.mark.filterwarnings("always")
def test_corrections_to_a_class_called_like_a_missing_value(workplace, run):
    assert run(*FIRST, "--suggest", 4)[0] == 0
    table, suggestions = workplace / "labelled" / "labels.csv", workplace / "labelled" / "suggestions.csv"
    correct(table, {"red-2.png": "NA"})
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert err.count("1 cell 'NA' is taken as no label. If a class is called so, name it among the classes.") == 1
    assert labels_of(table)["red-2.png"][1] != "example"
    filled = next(row["path"] for row in read(suggestions) if row["path"] != "red-2.png")
    correct(suggestions, {filled: "NA"}, name="path")
    correct(table, {"red-2.png": "NA"})
    code, _, err = run(*AGAIN, "--classes", "NA")
    assert code == 0, err
    assert "taken as no label" not in err
    assert {labels_of(table)[item] for item in ("red-2.png", filled)} == {("NA", "example")}
    # A class that is known needs not be named again.
    changed = load_record(record_path(table)).corrections(read_table(table).columns)
    assert (changed.labels, changed.given["red-2.png"]) == ({}, "NA")
    correct(table, {"blue-2.png": "NA"}, to=workplace / "copy.csv")
    changed = load_record(record_path(table)).corrections(read_table(workplace / "copy.csv").columns)
    assert changed.labels == {"blue-2.png": "NA"}


def test_other_pictures_into_the_same_place_know_nothing_of_it(first, workplace, run):
    shutil.copytree(workplace / "photos", workplace / "others")
    code, _, err = run("label", "others", "--out", "labelled")
    assert code == 2
    assert "labelling needs examples of at least two classes" in err


def test_a_correction_of_an_example_in_a_table_holds(workplace, run):
    Path("known.csv").write_text("path,label\nred-2.png,red\nblue-2.png,blue\ngreen-2.png,blue\n")
    code, _, err = run("label", "photos", "--examples", "known.csv", "--out", "labelled", "--no-gallery")
    assert code == 0, err
    correct(Path("labelled/labels.csv"), {"green-2.png": "green"})
    for _ in range(2):
        code, _, err = run(*AGAIN)
        assert code == 0, err
        assert labels_of(Path("labelled/labels.csv"))["green-2.png"] == ("green", "example")


def test_options_given_again_win(first, run):
    code, _, err = run(*AGAIN, "--gallery", "--suggest", 2)
    assert code == 0, err
    assert first.with_name("gallery.html").is_file()
    assert load_record(record_path(first)).options["gallery"] is True
    assert "--no-gallery" not in err


def test_after_a_move_the_table_has_the_new_paths(workplace, run):
    code, _, err = run(*FIRST, "--move", "--suggest", 2, "--export", "bulk")
    assert code == 0, err
    for name, column in (("labels.csv", "item"), ("suggestions.csv", "path"), ("bulk.csv", "path")):
        rows = read(workplace / "labelled" / name)
        assert rows
        assert all((workplace / "labelled" / row[column]).is_file() for row in rows), name
    correct(workplace / "labelled" / "labels.csv", {"red/red-2.png": "pink"}, to=workplace / "mine.csv")
    shutil.copytree(workplace / "labelled" / "blue", workplace / "more")
    code, _, err = run("label", "more", "--examples", "mine.csv", "--out", "second", "--no-gallery")
    assert code == 0, err
    assert "1 row differs" in err


def test_after_a_complete_move_the_next_run_says_where_the_pictures_are(workplace, run):
    assert run(*FIRST, "--move")[0] == 0
    code, _, err = run(*AGAIN, "--move")
    assert code == 2
    assert "The last run moved the pictures of photos into labelled, and there are no new ones." in err


def test_a_killed_run_does_not_make_guesses_look_like_corrections(first, run, monkeypatch):
    from marginshot.labelling.outputs import outputs

    def killed(columns, path):
        raise KeyboardInterrupt

    correct(first, {"red-2.png": "pink", "red-4.png": "pink", "red-6.png": "pink"})
    with monkeypatch.context() as patch:
        patch.setattr(outputs, "write_table", killed)
        assert run(*AGAIN)[0] == 130
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert "3 rows differ from what was written here: used as examples; 21 guesses ignored" in err
    assert sorted(said()) == ["red-2.png", "red-4.png", "red-6.png"]


@pytest.mark.parametrize("stop", ["table", "record"])
def test_a_full_disk_leaves_no_record_of_a_table_that_is_not_there(workplace, run, encoded, monkeypatch, stop):
    from marginshot.labelling.outputs import outputs, records

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        if stop == "table":
            patch.setattr(outputs, "write_table", full)
        else:
            patch.setattr(records, "json", SimpleNamespace(dumps=full))
        code, _, err = run("label", "photos", "--examples", "examples", "--out", "labelled")
    assert code == 2
    name = "labels.csv" if stop == "table" else ".labels.csv-run.json"
    assert err.splitlines()[-1] == f"Error: No space left on device: {Path('labelled', name)}"
    assert list((workplace / "labelled").iterdir()) == []


def test_a_damaged_record_is_one_sentence(first, run):
    content = json.loads(record_path(first).read_text())
    for damage in ("{", json.dumps(content | {"format": "x"}), json.dumps(content | {"said": {"a": 1}})):
        record_path(first).write_text(damage)
        code, _, err = run(*AGAIN)
        assert code == 2
        assert ".labels.csv-run.json is damaged, or not the record of an earlier run" in err
        assert len(err.splitlines()) == 1


TICKETS = ["id,body,topic", "1,pay the bill,billing", "2,bill not paid,", "3,it crashed,bug", "4,crashed again it,"]


def test_corrections_in_a_table_of_texts(workplace, run):
    (workplace / "tickets.csv").write_text("\n".join(TICKETS) + "\n", encoding="utf-8")
    first = ("label", "tickets.csv", "--text", "body", "--label", "topic", "--out", "done.csv", "--no-gallery")
    assert run(*first)[0] == 0
    rows = read(workplace / "done.csv")
    rows[3]["topic"] = "praise"
    write(rows[::-1], workplace / "done.csv")
    code, _, err = run("label", "tickets.csv", "--out", "done.csv")
    assert code == 0, err
    assert "As in the last run: --text body --label topic --no-gallery" in err
    assert "1 row differs from what was written here: used as examples; 1 guess ignored" in err
    rows = read(workplace / "done.csv")
    assert (rows[3]["id"], rows[3]["topic"], rows[3]["review"]) == ("4", "praise", "example")
    (workplace / "tickets.csv").write_text("\n".join(TICKETS) + "bug\n", encoding="utf-8")
    code, _, err = run("label", "tickets.csv", "--out", "done.csv")
    assert code == 2
    assert "row 4 is 'bug' in tickets.csv and was corrected to 'praise'" in err


def test_what_was_said_goes_with_a_renamed_picture(first, workplace, run):
    correct(first, {"red-2.png": "pink", "red-4.png": "pink", "red-6.png": "pink"})
    (workplace / "photos" / "red-2.png").rename(workplace / "photos" / "rose.png")  # before it was used
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert "1 item was renamed, and its label went with it: rose.png." in err
    (workplace / "photos" / "red-4.png").rename(workplace / "photos" / "trip" / "rose.png")  # and after it was
    code, _, err = run(*AGAIN)
    assert code == 0, err
    assert "1 item was renamed, and its label went with it: trip/rose.png." in err
    assert said() == dict.fromkeys(["rose.png", "red-6.png", "trip/rose.png"], "pink")
    labels = {row["item"]: row for row in read(first)}
    assert [labels[name]["review"] for name in said()] == ["example"] * 3


@pytest.mark.parametrize("other", ["red-4.png", "blue-2.png"])
def test_what_was_said_goes_with_pictures_that_exchange_their_names(first, workplace, run, other):
    correct(first, {"red-2.png": "pink", "red-4.png": "violet"})
    assert run(*AGAIN)[0] == 0
    photos = workplace / "photos"
    (photos / "red-2.png").rename(photos / "aside")
    (photos / other).rename(photos / "red-2.png")
    (photos / "aside").rename(photos / other)
    for again in (False, True):
        code, _, err = run(*AGAIN)
        assert code == 0, err
        assert ("renamed, and" in err) != again
        assert "replaced" not in err
        expected = {"red-2.png": "violet"} if other == "red-4.png" else {"red-4.png": "violet"}
        assert said() == expected | {other: "pink"}
        assert labels_of(first)[other] == ("pink", "example")


@pytest.mark.parametrize("how", [shutil.move, shutil.copytree])
def test_a_folder_of_answers_may_be_copied_or_renamed(workplace, run, how):
    assert run("label", "photos", "--examples", "examples", "--out", "labelled")[0] == 0
    how(workplace / "labelled", workplace / "second")
    correct(workplace / "second" / "labels.csv", {"red-2.png": "pink"})
    code, _, err = run("label", "photos", "--out", "second")
    assert code == 0, err
    assert said() == {"red-2.png": "pink"}
    (workplace / "second" / "gallery.html").write_text("mine")
    assert run("label", "photos", "--out", "second")[0] == 2


def test_what_was_said_of_a_replaced_picture_is_kept_but_not_used(first, workplace, run, draw_picture):
    correct(first, {"red-2.png": "pink", "red-4.png": "pink", "red-6.png": "pink"})
    assert run(*AGAIN)[0] == 0
    draw_picture(workplace / "photos" / "red-2.png", "green", 77)
    for again in (False, True):
        code, _, err = run(*AGAIN)
        assert code == 0, err
        told = "1 picture was replaced by another, and its label is set aside (undo brings it back): red-2.png."
        assert (told in err) != again
        (row,) = (row for row in read(first) if row["item"] == "red-2.png")
        assert (row["label"], row["review"] != "example") == ("green", True)
    with Session.open("photos") as session:
        session.undo()
    assert said()["red-2.png"] == "pink"
    with Session.open("photos") as session:
        session.redo()
    correct(first, {"red-2.png": "pink"})  # said of the new one
    for _ in range(2):
        assert "set aside" not in run(*AGAIN)[2]
        (row,) = (row for row in read(first) if row["item"] == "red-2.png")
        assert (row["label"], row["review"]) == ("pink", "example")


def test_a_picture_that_was_labelled_and_is_gone_is_named(first, workplace, run):
    correct(first, {"red-2.png": "pink", "red-4.png": "pink"})
    (workplace / "photos" / "red-2.png").unlink()
    for again in (False, True):
        code, _, err = run(*AGAIN)
        assert code == 0, err
        assert ("1 item that you labelled is gone; its label is kept: red-2.png." in err) != again
        assert said()["red-2.png"] == "pink"


def test_corrections_follow_the_rows_of_a_table_that_is_edited(workplace, run):
    source, out = workplace / "t.csv", workplace / "out.csv"
    texts = ["late train", "late bus", "sweet cake", "sweet pie", "late tram", "sweet tart"]
    rows = [{"body": text, "label": ["go", "", "eat", "", "", ""][n]} for n, text in enumerate(texts)]
    write(rows, source)
    assert run("label", "t.csv", "--text", "body", "--out", "out.csv", "--no-gallery")[0] == 0
    corrected = read(out)
    for row in corrected:
        row["label"] = {"late tram": "rail", "sweet tart": "bake"}.get(row["body"], row["label"])
    write(corrected, out)
    # Sorted, with one more row and one more column, and without the row of one correction.
    edited = [{"body": "new", "label": ""}, *rows[-2::-1]]
    write([{"id": "7", **row} for row in edited], source)
    for again in (False, True):
        code, _, err = run("label", "t.csv", "--out", "out.csv")
        assert code == 0, err
        assert ("1 item that you labelled is gone; its label is kept: 'bake'." in err) != again
        found = {row["body"]: (row["label"], row["review"]) for row in read(out)}
        assert found["late tram"] == ("rail", "example")
