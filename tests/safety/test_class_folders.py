"""Pictures into class folders: through no link, by no forged list, and past pictures that vanished."""

import errno
import hashlib
import io
import json
import os
import shutil
from pathlib import Path

import pytest

from marginshot._lib.reading import DamagedFileError
from marginshot.labelling.errors import OutputExistsError, RefusedError
from marginshot.labelling.outputs.requests import Job
from marginshot.labelling.outputs.transfers import (
    JOURNAL,
    Transfer,
    check_folder_names,
    finish_transfers,
    start_transfers,
)

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need rights there")


@pytest.fixture
def place(tmp_path):
    for name in ("photos", "out", "private"):
        (tmp_path / name).mkdir()
    for name in ("a.png", "b.png", "c.png"):
        (tmp_path / "photos" / name).write_text(name)
    (tmp_path / "private" / "diary.png").write_text("secret")
    (tmp_path / "private" / "key").write_text("secret")
    return tmp_path


def transfers(place, *names):
    return [Transfer(place / "photos" / name, place / "out" / "cat" / name) for name in names]


def job(place, action="move"):
    return Job(action, str(place / "photos"), {})


def test_a_class_folder_that_is_a_link_is_refused_and_not_written_through(place):
    (place / "out" / "cat").symlink_to(place / "private")
    with pytest.raises(OutputExistsError, match="is a link, and pictures would go where it points"):
        check_folder_names(["cat", "dog"], place / "out", [])
    with pytest.raises(OSError, match="is a link"):
        start_transfers(transfers(place, "a.png"), job(place), place / "out")
    assert sorted(path.name for path in (place / "private").iterdir()) == ["diary.png", "key"]
    assert (place / "photos" / "a.png").exists()


def test_a_vanished_picture_does_not_hold_up_the_others(place):
    plan = transfers(place, "a.png", "b.png", "c.png")
    (place / "photos" / "b.png").unlink()
    done = start_transfers(plan, job(place), place / "out")
    assert (done.n_done, done.vanished) == (2, (plan[1],))
    assert sorted(path.name for path in (place / "out" / "cat").iterdir()) == ["a.png", "c.png"]
    assert not (place / "out" / JOURNAL).exists()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("private/diary.png", "out/cat/diary.png", "is not a picture or sound of"),
        ("photos/../private/diary.png", "out/cat/x.png", "is not a picture or sound of"),
        ("photos/link/diary.png", "out/cat/x.png", "is not a picture or sound of"),
        ("photos/a.png", "private/a.png", "is not in"),
        ("photos/a.png", "out/../private/a.png", "is not in"),
        ("photos/key", "out/cat/key", "is not a picture or sound of"),
    ],
)
def test_a_forged_list_moves_nothing_from_or_to_elsewhere(place, source, target, message):
    (place / "photos" / "link").symlink_to(place / "private")
    content = {"action": "move", "folder": str(place / "photos"), "request": {}, "out": str(place / "out")}
    content["transfers"] = [[str(place / source), str(place / target)]]
    (place / "out" / JOURNAL).write_text(json.dumps(content))
    with pytest.raises(DamagedFileError, match=message):
        finish_transfers(place / "out")
    assert (place / "private" / "diary.png").exists()
    assert (place / "photos" / "a.png").exists()


def test_a_list_carried_to_another_folder_is_refused(place):
    plan = transfers(place, "a.png")
    content = {"action": "move", "folder": str(place / "photos"), "request": {}, "out": str(place / "elsewhere")}
    content["transfers"] = [[str(item.source), str(item.target)] for item in plan]
    (place / "out" / JOURNAL).write_text(json.dumps(content))
    with pytest.raises(DamagedFileError, match="it was written for"):
        finish_transfers(place / "out")


def test_two_classes_that_would_share_a_folder_are_refused(place):
    check_folder_names(["con", "cat"], place / "out", [])
    with pytest.raises(RefusedError, match="The class 'con_' cannot be the name of a folder"):
        check_folder_names(["con", "con_"], place / "out", [])


def forbid_renaming(monkeypatch, place):
    """As if photos/ were on another file system: a file of it can be copied, not linked."""
    link = os.link

    def elsewhere(source, target, **options):
        if (place / "photos") in Path(source).parents:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        link(source, target, **options)

    monkeypatch.setattr(os, "link", elsewhere)


@pytest.mark.parametrize("action", ["copy", "move"])
def test_a_link_planted_under_a_temporary_name_is_not_written_through(place, monkeypatch, action):
    """Issue 31: the name was a hash of the picture's; the pictures overwrote the file it pointed to, and were gone."""
    forbid_renaming(monkeypatch, place)
    (place / "out" / "cat").mkdir()
    for name in ("a.png", "b.png", "c.png"):
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        (place / "out" / "cat" / f".marginshot-{digest}").symlink_to(place / "private" / "key")
    done = start_transfers(transfers(place, "a.png", "b.png", "c.png"), job(place, action), place / "out")
    assert (place / "private" / "key").read_text() == "secret"
    assert done.n_done == 3
    for name in ("a.png", "b.png", "c.png"):
        assert (place / "out" / "cat" / name).read_text() == name
        assert not (place / "out" / "cat" / name).is_symlink()


def test_temporary_names_cannot_be_known(place, monkeypatch):
    forbid_renaming(monkeypatch, place)
    opened = []
    really = os.open

    def watched(path, flags, *mode, **options):
        if flags & os.O_CREAT:
            opened.append(Path(path).name)
            assert flags & os.O_EXCL
            assert flags & os.O_NOFOLLOW
        return really(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", watched)
    for folder in ("one", "two"):
        plan = [Transfer(place / "photos" / "a.png", place / "out" / folder / "a.png")]
        start_transfers(plan, job(place, "copy"), place / "out")
    pictures = [name for name in opened if name.endswith(".png")]
    assert len(set(pictures)) == 2


def test_a_source_is_not_removed_before_its_copy_is_compared(place, monkeypatch):
    forbid_renaming(monkeypatch, place)
    copy = shutil.copyfileobj
    monkeypatch.setattr(shutil, "copyfileobj", lambda one, other, *size: copy(io.BytesIO(b"torn"), other, *size))
    with pytest.raises(OSError, match=r"did not become a copy of it.*0 of 1 files are in place"):
        start_transfers(transfers(place, "a.png"), job(place), place / "out")
    assert (place / "photos" / "a.png").read_text() == "a.png"
    assert not (place / "out" / "cat" / "a.png").exists()


def test_a_link_to_equal_contents_is_not_taken_for_the_moved_picture(place):
    (place / "private" / "a.png").write_text("a.png")
    (place / "out" / "cat").mkdir()
    (place / "out" / "cat" / "a.png").symlink_to(place / "private" / "a.png")
    done = start_transfers(transfers(place, "a.png"), job(place), place / "out")
    assert len(done.conflicts) == 1
    assert (place / "photos" / "a.png").exists()


def test_what_a_power_cut_left_in_a_class_folder_is_removed(place, monkeypatch):
    forbid_renaming(monkeypatch, place)
    left = place / "out" / "cat" / ".marginshot-0123456789abcdef.tmp.png"
    left.parent.mkdir()
    left.write_text("half")
    assert start_transfers(transfers(place, "a.png"), job(place), place / "out").n_done == 1
    assert not left.exists()
