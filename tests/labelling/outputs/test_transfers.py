"""Pictures into class folders, more than once and into the same place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from marginshot.labelling.outputs import transfers

LABEL = ("label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery")


@pytest.fixture(autouse=True)
def quick_encoder(encoded):
    return encoded


def pictures(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.png"))


@pytest.mark.parametrize("action", ["copy", "move"])
def test_files_take_the_place_of_links_to_them(workplace, run, action):
    assert run(*LABEL, "--link")[0] == 0
    assert all(path.is_symlink() for path in pictures(workplace / "labelled"))
    code, _, err = run(*LABEL, f"--{action}")
    assert code == 0, err
    placed = pictures(workplace / "labelled")
    assert len(placed) == 24
    assert not any(path.is_symlink() for path in placed)
    assert len(pictures(workplace / "photos")) == (24 if action == "copy" else 0)


def test_a_link_to_something_else_is_left_alone(workplace, run):
    other = workplace / "labelled" / "red" / "red-2.png"
    other.parent.mkdir(parents=True)
    other.symlink_to(workplace / "examples" / "red" / "example-0.png")
    code, _, err = run(*LABEL, "--copy")
    assert code == 2
    assert "Left 1 picture in place" in err
    assert other.is_symlink()


def leave_unfinished(workplace, folder):
    (workplace / "labelled").mkdir()
    target = workplace / "labelled" / "red" / "red-2.png"
    plan = [[str(workplace / folder / "red-2.png"), str(target)]]
    journal = workplace / "labelled" / transfers.JOURNAL
    journal.write_text(json.dumps({"action": "move", "folder": str(workplace / folder), "transfers": plan}))
    return journal, target


@pytest.mark.parametrize(("folder", "options"), [("other", ["--move"]), ("photos", []), ("photos", ["--copy"])])
def test_what_another_command_left_unfinished_is_not_done(workplace, run, folder, options):
    journal, target = leave_unfinished(workplace, folder)
    code, _, err = run(*LABEL, *options)
    assert code == 2
    told = " ".join(err.split())
    assert f"put the pictures of {workplace / folder} into labelled. Repeat it with --move" in told
    assert transfers.JOURNAL in told
    assert journal.exists()
    assert not target.exists()


def stop_at(monkeypatch, place):
    """Ctrl-C while the file of this number is transferred."""
    whole, calls = transfers._run, []

    def count(*_):
        calls.append(1)
        if len(calls) == place:
            raise KeyboardInterrupt

    monkeypatch.setattr(transfers, "_run", lambda plan, job, out, _, *more: whole(plan, job, out, count, *more))


def test_a_picture_gone_meanwhile_does_not_hold_up_the_others(workplace, run, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 2)
        assert run(*LABEL, "--move")[0] == 130
    (workplace / "photos" / "red-2.png").unlink()
    code, _, err = run(*LABEL, "--move")
    assert code == 2
    assert "1 picture gone before being reached, the first is" in " ".join(err.split())
    assert not (workplace / "labelled" / transfers.JOURNAL).exists()
    assert not list((workplace / "photos").rglob("*.png"))


@pytest.mark.parametrize(
    ("options", "differing"),
    [
        (("--reject",), "reject"),
        (("--save", "model"), "save"),
        (("--export", "bulk"), "export"),
        (("--examples", "more"), "examples"),
    ],
)
def test_only_the_same_command_goes_on(workplace, run, draw_picture, monkeypatch, options, differing):
    draw_picture(workplace / "more" / "red" / "more.png", "red", 901)
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        assert run(*LABEL, "--copy")[0] == 130
    code, _, err = run(*LABEL, "--copy", *options)
    assert code == 2
    assert f"and all else as it was (differing here: {differing}) to complete that" in " ".join(err.split())
    assert not (workplace / "model").exists()
    code, _, err = run(*LABEL, "--copy", "--format", "json")
    assert code == 0, err
    assert "that is complete now" in err
    assert len(pictures(workplace / "labelled")) == 24


def test_another_example_in_the_folder_is_another_command(workplace, run, draw_picture, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        assert run(*LABEL, "--move")[0] == 130
    more = draw_picture(workplace / "examples" / "red" / "more.png", "red", 901)
    code, _, err = run(*LABEL, "--move")
    assert code == 2
    assert "differing here: examples" in " ".join(err.split())
    more.unlink()
    assert run(*LABEL, "--move")[0] == 0


def test_pictures_moved_out_of_the_examples_make_no_other_command(workplace, run, monkeypatch):
    (workplace / "photos").rename(workplace / "examples" / "unlabelled")
    for source in ("examples/unlabelled", "examples"):
        command = ("label", source, "--examples", "examples", "--out", f"out-{Path(source).name}", "--move")
        with monkeypatch.context() as patch:
            stop_at(patch, 3)
            assert run(*command)[0] == 130
        code, _, err = run(*command)
        assert code == 0, err
        for path in pictures(workplace / "out-unlabelled"):
            path.rename(workplace / "examples" / "unlabelled" / path.name)


def test_what_apply_left_unfinished_is_not_for_label(workplace, run, monkeypatch):
    assert run("label", "photos", "--examples", "examples", "--out", "first", "--save", "model")[0] == 0
    command = ("apply", "model", "photos", "--out", "labelled", "--no-gallery", "--copy")
    with monkeypatch.context() as patch:
        stop_at(patch, 3)
        assert run(*command)[0] == 130
    code, _, err = run(*LABEL, "--copy")
    assert code == 2
    assert "differing here: command" in " ".join(err.split())
    code, _, err = run(*command)
    assert code == 0, err
    assert len(pictures(workplace / "labelled")) == 24


def test_a_picture_left_behind_by_move_is_all_that_the_next_run_does(workplace, run):
    mine = workplace / "labelled" / "red" / "red-2.png"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    code, _, err = run(*LABEL, "--move", "--export", "bulk")
    assert code == 2
    told = " ".join(err.split())
    assert f"run again, or remove labelled/{transfers.JOURNAL} to leave them there" in told
    written = {name: (workplace / "labelled" / name).read_bytes() for name in ("labels.csv", "bulk.csv")}
    code, _, err = run(*LABEL, "--move", "--export", "bulk")
    assert code == 2
    assert "complete now" not in err
    mine.rename(workplace / "mine.png")
    code, _, err = run(*LABEL, "--move", "--export", "bulk")
    assert code == 0, err
    assert {name: (workplace / "labelled" / name).read_bytes() for name in written} == written
    assert len(pictures(workplace / "labelled")) == 24
    assert not pictures(workplace / "photos")


def rows_of(table):
    return set(table.read_text(encoding="utf-8").splitlines()[1:])


@pytest.mark.parametrize("again", [[], ["--move"]])
def test_rows_of_moved_pictures_stay_in_the_table(workplace, run, draw_picture, again):
    assert run(*LABEL, "--move")[0] == 0
    table = workplace / "labelled" / "labels.csv"
    moved = rows_of(table)
    draw_picture(workplace / "photos" / "red-2.png", "blue", 902)  # the name of one that was moved
    for _ in range(1 if again else 2):
        code, _, err = run(*LABEL, *again)
        assert code == 0, err
        assert "It keeps 24 rows of pictures that were moved before." in err
        assert moved < rows_of(table)
        assert len(rows_of(table)) == 25
    assert ("Moved 1 picture into class folders." in err) == bool(again)
    (new,) = rows_of(table) - moved
    assert new.startswith("blue/red-2.png,blue" if again else "red-2.png,blue")


def test_labels_of_moved_pictures_are_corrected_and_taken_back(workplace, run, draw_picture):
    assert run(*LABEL, "--move")[0] == 0
    table = workplace / "labelled" / "labels.csv"
    draw_picture(workplace / "photos" / "new.png", "red", 902)
    (row,) = (row for row in rows_of(table) if row.startswith("red/red-2.png,"))
    table.write_text(table.read_text().replace(row, row.replace(",red,", ",pink,")))
    for _ in range(2):
        assert run(*LABEL)[0] == 0
        assert "red/red-2.png,pink,1.0,,example" in rows_of(table)
    table.write_text(table.read_text().replace("red/red-2.png,pink", "red/red-2.png,"))
    assert run(*LABEL)[0] == 0
    assert "red/red-2.png,,,," in rows_of(table)


def test_examples_that_were_moved_with_the_others_are_still_examples(workplace, run, draw_picture):
    for colour in ("blue", "green", "red"):
        (workplace / "examples" / colour).rename(workplace / "photos" / colour)
    command = ("label", "photos", "--out", "labelled", "--no-gallery")
    shutil.move(workplace / "photos" / "trip", workplace / "photos" / "unlabelled")
    assert run(*command, "--move")[0] == 0
    draw_picture(workplace / "photos" / "new.png", "red", 902)
    for _ in range(2):
        code, _, err = run(*command)
        assert code == 0, err
        found = rows_of(workplace / "labelled" / "labels.csv")
        assert len(found) == 31
        assert [row.split(",")[1] for row in found if row.startswith("new.png,")] == ["red"]


def test_the_table_of_moved_pictures_is_not_replaced_by_that_of_others(workplace, run):
    assert run(*LABEL, "--move")[0] == 0
    table = workplace / "labelled" / "labels.csv"
    content = table.read_bytes()
    shutil.copytree(workplace / "labelled" / "red", workplace / "others")
    code, _, err = run("label", "others", "--examples", "examples", "--out", "labelled")
    assert code == 2
    assert "lists the pictures moved there from" in " ".join(err.split())
    assert len(err.strip().splitlines()) == 1
    assert table.read_bytes() == content
    assert run("label", "others", "--examples", "examples", "--out", "labelled", "--force")[0] == 0


def test_links_among_the_pictures_are_moved_before_what_they_point_to(workplace, run):
    photos = workplace / "photos"
    (photos / "z-link.png").symlink_to("red-2.png")
    (photos / "a-link.png").symlink_to("z-link.png")
    content = (photos / "red-2.png").read_bytes()
    code, _, err = run(*LABEL, "--move")
    assert code == 0, err
    for name in ("red-2.png", "z-link.png", "a-link.png"):
        placed = workplace / "labelled" / "red" / name
        assert placed.read_bytes() == content
        assert not placed.is_symlink()
    assert not pictures(photos)


def test_exports_list_moved_pictures_where_they_are(workplace, run):
    code, _, err = run(*LABEL, "--move", "--export", "fiftyone", "--export", "bulk")
    assert code == 0, err
    listed = (workplace / "labelled" / "bulk.csv").read_text(encoding="utf-8")
    assert str(workplace / "labelled" / "red" / "red-2.png") in listed
    assert str(workplace / "photos") not in listed


def test_exports_list_pictures_that_take_the_place_of_links(workplace, run):
    assert run(*LABEL, "--link")[0] == 0
    code, _, err = run(*LABEL, "--move", "--export", "fiftyone", "--export", "label-studio")
    assert code == 0, err
    listed = json.loads((workplace / "labelled" / "fiftyone" / "data.json").read_text(encoding="utf-8")).values()
    assert len(listed) == 24
    assert all(Path(path).is_file() for path in listed)
    assert str(workplace / "photos") not in (workplace / "labelled" / "label-studio.json").read_text(encoding="utf-8")


def test_answers_that_changed_are_told(workplace, run):
    assert run(*LABEL, "--copy")[0] == 0
    (workplace / "examples" / "red").rename(workplace / "examples" / "crimson")
    code, _, err = run(*LABEL, "--copy")
    assert code == 0, err
    assert "Removed 8 earlier copies from the folder of another class" in " ".join(err.split())
    assert "as well" not in err
    stray = workplace / "labelled" / "blue" / "red-2.png"
    stray.write_bytes((workplace / "photos" / "red-2.png").read_bytes())
    code, _, err = run(*LABEL, "--copy")
    assert code == 0, err
    told = " ".join(err.split())
    assert "1 picture is also in the folder of another class, put there or changed by somebody else; the first" in told
    assert stray.exists()


def test_what_is_written_before_a_stop_is_ours_afterwards(workplace, run, monkeypatch):
    arguments = ("label", "photos", "--examples", "examples", "--out", "labelled")

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("marginshot.labelling.outputs.gallery.render_gallery", stop)
        assert run(*arguments)[0] == 130
    assert (workplace / "labelled" / "labels.csv").exists()
    code, _, err = run(*arguments)
    assert code == 0, err


@pytest.mark.parametrize("across_disks", [False, True])
@pytest.mark.parametrize("copied_before", [False, True])
def test_a_picture_that_cannot_be_removed_is_not_half_moved(workplace, run, monkeypatch, across_disks, copied_before):
    if copied_before:
        assert run(*LABEL, "--copy")[0] == 0
    if across_disks:
        monkeypatch.setattr(transfers, "_rename_new", lambda source, target: False)
    unlink = Path.unlink

    def read_only(path, missing_ok=False):
        if "photos" in path.parts:
            raise PermissionError(13, "Permission denied", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", read_only)
    code, _, err = run(*LABEL, "--move")
    assert code == 2
    assert "the others are untouched where they were" in " ".join(err.split())
    assert len(pictures(workplace / "photos")) == 24
    assert len(pictures(workplace / "labelled")) == (24 if copied_before else 0), "a copy made before is kept"


def test_answers_among_the_examples_are_refused(workplace, run):
    code, _, err = run("label", "photos", "--examples", "examples", "--out", "examples/labelled", "--copy")
    assert code == 2
    assert "answers there would be taken for examples" in " ".join(err.split())


def test_unlabelled_is_no_class_among_the_examples_either(workplace, run):
    (workplace / "photos").rename(workplace / "examples" / "unlabelled")
    code, _, err = run("label", "examples", "--examples", "examples", "--out", "labelled", "--no-gallery")
    assert code == 0, err
    assert ",unlabelled," not in (workplace / "labelled" / "labels.csv").read_text(encoding="utf-8")
