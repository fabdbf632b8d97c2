"""A second run, or export, to the same folders (issue 31): our copies follow the answers, nothing else goes."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest

from marginshot.labelling import Session, label_images, resume
from marginshot.labelling.items.store import Store
from marginshot.labelling.outputs import transfers
from marginshot.labelling.outputs.earlier import LIST
from marginshot.labelling.outputs.formats import SessionExport
from marginshot.studio.exports import Wish, export

LABEL = ("label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery")

pytestmark = [
    pytest.mark.usefixtures("encoded"),
    pytest.mark.skipif(os.name == "nt", reason="links need rights there"),
]


def say(table: Path, **labels: str) -> None:
    """Correct the table as a user does."""
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["label"] = labels.get(Path(row["item"]).stem.replace("-", "_"), row["label"])
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def places(workplace: Path, name: str) -> list[str]:
    out = workplace / "labelled"
    return sorted(path.relative_to(out).parts[0] for path in out.rglob(f"{name}.png"))


@pytest.fixture
def first(workplace, run):
    def go(action: str) -> Path:
        code, _, err = run(*LABEL, f"--{action}")
        assert code == 0, err
        return workplace

    return go


@pytest.mark.parametrize("action", ["copy", "link"])
def test_a_changed_answer_takes_our_copy_along(first, run, action):
    place = first(action)
    assert places(place, "red-2") == ["red"]
    say(place / "labelled" / "labels.csv", red_2="blue", red_4="pink")
    code, _, err = run(*LABEL, f"--{action}")
    assert code == 0, err
    assert places(place, "red-2") == ["blue"]
    assert places(place, "red-4") == ["pink"]
    assert "earlier copies from the folder of another class, because the answer has changed" in " ".join(err.split())
    assert (place / "photos" / "red-2.png").exists()
    assert len(list((place / "labelled").rglob("*.png"))) == 24


def test_links_give_way_to_copies_and_both_are_ours(first, run):
    place = first("link")
    say(place / "labelled" / "labels.csv", red_2="blue")
    assert run(*LABEL, "--copy")[0] == 0
    assert places(place, "red-2") == ["blue"]
    say(place / "labelled" / "labels.csv", red_2="green")
    assert run(*LABEL, "--copy")[0] == 0
    assert places(place, "red-2") == ["green"]


def test_a_copy_that_was_changed_or_that_a_user_made_is_kept_and_told(first, run):
    place = first("copy")
    (place / "labelled" / "red" / "red-2.png").write_text("drawn over")
    mine = place / "labelled" / "green" / "red-4.png"
    mine.write_bytes((place / "photos" / "red-4.png").read_bytes())
    say(place / "labelled" / "labels.csv", red_2="blue")
    code, _, err = run(*LABEL, "--copy")
    assert code == 0, err
    assert (place / "labelled" / "red" / "red-2.png").read_text() == "drawn over"
    assert places(place, "red-2") == ["blue", "red"]
    assert mine.exists()
    assert "2 pictures are also in the folder of another class" in " ".join(err.split())


def test_what_a_user_put_where_ours_would_go_is_theirs(workplace, run):
    mine = workplace / "labelled" / "red" / "red-2.png"
    mine.parent.mkdir(parents=True)
    mine.write_bytes((workplace / "photos" / "red-2.png").read_bytes())
    assert run(*LABEL, "--copy")[0] == 0
    say(workplace / "labelled" / "labels.csv", red_2="blue")
    assert run(*LABEL, "--copy")[0] == 0
    assert places(workplace, "red-2") == ["blue", "red"]


def test_a_moved_picture_is_never_taken_for_a_copy(first, run):
    place = first("copy")
    assert run(*LABEL, "--move")[0] == 0
    assert len(list((place / "labelled").rglob("*.png"))) == 24
    assert not (place / "labelled" / LIST).exists()


def test_a_copy_whose_picture_is_gone_is_kept(first, run):
    place = first("copy")
    (place / "photos" / "red-2.png").unlink()
    code, _, err = run(*LABEL, "--copy")
    assert code == 0, err
    assert places(place, "red-2") == ["red"]


def test_a_dry_run_says_what_would_go_and_removes_nothing(first, run):
    place = first("copy")
    say(place / "labelled" / "labels.csv", red_2="blue")
    code, out, err = run(*LABEL, "--copy", "--dry-run", "--verbose")
    assert code == 0, err
    assert "1 earlier copy would be removed from other class folders" in " ".join(err.split())
    assert f"remove {place / 'labelled' / 'red' / 'red-2.png'}" in out.replace("\n", "")
    assert places(place, "red-2") == ["red"]


def test_an_interrupted_second_run_tidies_when_it_is_completed(first, run, monkeypatch):
    place = first("copy")
    say(place / "labelled" / "labels.csv", red_2="blue")
    whole = transfers._run
    with monkeypatch.context() as patch:
        patch.setattr(transfers, "_run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert run(*LABEL, "--copy")[0] == 130
    assert transfers._run is whole
    placed = resume("labelled", "photos", "copy")
    assert [path.name for path in placed.removed] == ["red-2.png"]
    assert places(place, "red-2") == ["blue"]


def test_a_list_that_names_other_files_is_refused_and_removes_nothing(first, run):
    place = first("copy")
    forged = {"format": "marginshot-placed-1", "pictures": {"../photos/red-4.png": str(place / "photos" / "red-2.png")}}
    (place / "labelled" / LIST).write_text(json.dumps(forged))
    code, _, err = run(*LABEL, "--copy")
    assert code == 2
    assert "'../photos/red-4.png' is not in a class folder" in " ".join(err.split())
    assert (place / "photos" / "red-4.png").exists()


def test_a_forged_list_removes_no_last_copy(first, run):
    place = first("copy")
    only = place / "labelled" / "red" / "only.png"
    only.write_text("the only one")
    listed = json.loads((place / "labelled" / LIST).read_text())
    listed["pictures"]["red/only.png"] = str(place / "photos" / "blue-2.png")
    (place / "labelled" / LIST).write_text(json.dumps(listed))
    code, _, err = run(*LABEL, "--copy")
    assert code == 0, err
    assert only.read_text() == "the only one"


def test_a_second_export_of_a_session_follows_its_labels(workplace, tmp_path):
    with Session.open("photos", examples="examples", folder=tmp_path / "sessions") as session:
        wish, store = Wish(SessionExport.FOLDERS, Path("labelled")), Store(tmp_path / "cache")
        export(session, wish, store)
        assert places(workplace, "red-2") == ["red"]
        session.label(["red-2.png"], "blue")
        done = export(session, wish, store)
        assert places(workplace, "red-2") == ["blue"]
        assert "Removed 1 earlier copy from the folder of another class" in done.report["words"]


def test_a_picture_without_a_label_now_leaves_its_class_folder(workplace, tmp_path):
    with Session.open("photos", examples="examples", folder=tmp_path / "sessions") as session:
        wish, store = Wish(SessionExport.FOLDERS, Path("labelled")), Store(tmp_path / "cache")
        export(session, wish, store)
        session.none_of_these(["red-2.png"])
        export(session, wish, store)
        assert places(workplace, "red-2") == []
    assert (workplace / "photos" / "red-2.png").exists()


def test_a_class_folder_with_nothing_left_goes_too(workplace):
    result = label_images("photos", "examples")
    result.write("labelled", transfer="copy", gallery=False)
    (workplace / "examples" / "red").rename(workplace / "examples" / "crimson")
    label_images("photos", "examples").write("labelled", transfer="copy", gallery=False)
    assert not (workplace / "labelled" / "red").exists()
    assert len(list((workplace / "labelled" / "crimson").rglob("*.png"))) == 8
