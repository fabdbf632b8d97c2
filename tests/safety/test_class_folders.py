"""Pictures into class folders: through no link, by no forged list, and past pictures that vanished."""

import json
import os

import pytest

from marginshot._lib.reading import DamagedFileError
from marginshot.labelling.errors import OutputExistsError, RefusedError
from marginshot.labelling.requests import Job
from marginshot.labelling.transfers import JOURNAL, Transfer, check_folder_names, finish_transfers, start_transfers

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
        ("private/diary.png", "out/cat/diary.png", "is not a picture of"),
        ("photos/../private/diary.png", "out/cat/x.png", "is not a picture of"),
        ("photos/link/diary.png", "out/cat/x.png", "is not a picture of"),
        ("photos/a.png", "private/a.png", "is not in"),
        ("photos/a.png", "out/../private/a.png", "is not in"),
        ("photos/key", "out/cat/key", "is not a picture of"),
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
