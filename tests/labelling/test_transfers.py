"""Pictures into class folders, more than once and into the same place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marginshot.labelling import transfers

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
    assert "Left 1 pictures where they are" in err
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


def test_a_picture_gone_meanwhile_names_the_way_out(workplace, run):
    journal, _ = leave_unfinished(workplace, "photos")
    (workplace / "photos" / "red-2.png").unlink()
    code, _, err = run(*LABEL, "--move")
    assert code == 2
    assert f"or remove labelled/{transfers.JOURNAL} to leave it" in " ".join(err.split())
    journal.unlink()
    assert run(*LABEL, "--move")[0] == 0


def test_exports_list_moved_pictures_where_they_are(workplace, run):
    code, _, err = run(*LABEL, "--move", "--export", "fiftyone", "--export", "bulk")
    assert code == 0, err
    listed = (workplace / "labelled" / "bulk.csv").read_text(encoding="utf-8")
    assert str(workplace / "labelled" / "red" / "red-2.png") in listed
    assert str(workplace / "photos") not in listed


def test_answers_that_changed_are_told(workplace, run):
    assert run(*LABEL, "--copy")[0] == 0
    (workplace / "examples" / "red").rename(workplace / "examples" / "crimson")
    code, _, err = run(*LABEL, "--copy")
    assert code == 0, err
    assert "in the folder of another class" not in err, "red is no class any more"
    stray = workplace / "labelled" / "blue" / "red-2.png"
    stray.write_bytes((workplace / "photos" / "red-2.png").read_bytes())
    code, _, err = run(*LABEL, "--copy")
    assert code == 0, err
    told = " ".join(err.split())
    assert "1 pictures are in the folder of another class as well, from earlier answers; the first is" in told
    assert stray.exists()


def test_what_is_written_before_a_stop_is_ours_afterwards(workplace, run, monkeypatch):
    arguments = ("label", "photos", "--examples", "examples", "--out", "labelled")

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("marginshot.labelling.gallery.render_gallery", stop)
        assert run(*arguments)[0] == 130
    assert (workplace / "labelled" / "labels.csv").exists()
    code, _, err = run(*arguments)
    assert code == 0, err


def test_answers_among_the_examples_are_refused(workplace, run):
    code, _, err = run("label", "photos", "--examples", "examples", "--out", "examples/labelled", "--copy")
    assert code == 2
    assert "answers there would be taken for examples" in " ".join(err.split())


def test_unlabelled_is_no_class_among_the_examples_either(workplace, run):
    (workplace / "photos").rename(workplace / "examples" / "unlabelled")
    code, _, err = run("label", "examples", "--examples", "examples", "--out", "labelled", "--no-gallery")
    assert code == 0, err
    assert ",unlabelled," not in (workplace / "labelled" / "labels.csv").read_text(encoding="utf-8")
