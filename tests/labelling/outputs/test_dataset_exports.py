"""Labels as data sets: metadata of Hugging Face's ImageFolder, and YOLO's folders."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marginshot.labelling import RefusedError, label_images
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.kinds import BOX, PICTURE, SOUND
from marginshot.labelling.outputs.datasets import (
    check_folders_of_classes,
    check_pictures,
    check_whole_files,
    portable,
    split,
)
from marginshot.labelling.outputs.exports import EXPORTS
from marginshot.labelling.outputs.formats import SessionExport, Tool

pytestmark = pytest.mark.usefixtures("encoded")

HOSTILE = '<img src=x onerror=alert(1)> "quoted" \\ =1+1.png'


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def packed(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def own_colour(item: str) -> str:
    return Path(item).name.partition("-")[0]


def test_every_tool_has_an_entry_and_a_session_exports_to_it():
    assert set(EXPORTS) == set(Tool)
    assert {tool.value for tool in Tool} < {what.value for what in SessionExport}
    taken = [name for one in EXPORTS.values() for name in one.files]
    assert len(taken) == len(set(taken))


def test_metadata_has_a_line_for_every_picture(workplace, run):
    (workplace / "photos" / "red-2.png").rename(workplace / "photos" / HOSTILE)
    code, _, err = run(
        "label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery", "--export", "huggingface"
    )
    assert code == 0, err
    assert 'datasets.load_dataset("imagefolder"' in err
    rows = lines(workplace / "labelled" / "metadata.jsonl")
    assert all(list(row) == ["file_name", "label"] for row in rows)
    assert {row["file_name"] for row in rows} == {
        path.relative_to("photos").as_posix() for path in Path("photos").rglob("*.png")
    }
    assert all(row["label"] == own_colour(row["file_name"]) for row in rows if row["file_name"] != HOSTILE)
    assert not (workplace / "photos" / "metadata.jsonl").exists()


def test_metadata_of_pictures_without_a_label_is_null(workplace, draw_picture):
    draw_picture(workplace / "photos" / "odd.png", (250, 250, 250), 7)
    result = label_images("photos", "examples", reject=True)
    assert "" in result.labels
    result.write("labelled", exports=["huggingface"], gallery=False)
    rows = lines(Path("labelled/metadata.jsonl"))
    assert [row["label"] for row in rows] == [result.labels[row] or None for row in result.rows]


def test_metadata_of_moved_pictures_lies_beside_them(workplace):
    label_images("photos", "examples").write(
        "labelled", exports=["huggingface", "yolo-cls"], gallery=False, transfer="move"
    )
    rows = lines(Path("labelled/metadata.jsonl"))
    assert len(rows) == 24
    assert all(Path("labelled", row["file_name"]).is_file() for row in rows)
    assert len(packed(Path("labelled/yolo-cls.zip"))) == 24  # packed before they were moved


def test_yolo_has_every_class_in_both_folders(workplace, run):
    code, _, err = run(
        "label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery", "--export", "yolo-cls"
    )
    assert code == 0, err
    assert "unzip labelled/yolo-cls.zip -d DATASET" in err
    held = packed(workplace / "labelled" / "yolo-cls.zip")
    assert len(held) == 24
    for name, content in held.items():
        folder, label, inner = name.split("/", 2)
        assert folder in ("train", "val")
        assert label == own_colour(inner)
        assert content == Path("photos", inner).read_bytes()
    for folder in ("train", "val"):
        assert {name.split("/")[1] for name in held if name.startswith(f"{folder}/")} == {"blue", "green", "red"}


def test_a_picture_stays_in_its_folder_when_others_come(workplace, draw_picture):
    first = label_images("photos", "examples")
    before = {first.collection.items[row]: folders for row, folders in split(first).items()}
    Path("photos/red-2.png").rename("photos/renamed.png")
    before["renamed.png"] = before.pop("red-2.png")
    for seed in range(40, 60):
        draw_picture(workplace / "photos" / f"red-{seed}.png", "red", seed)
    second = label_images("photos", "examples")
    after = {second.collection.items[row]: folders for row, folders in split(second).items()}
    changed = [name for name in before if before[name] != after[name]]
    assert len(changed) <= 1  # one that was needed so that no folder lacked its class


def made(labels, digests, events=None):
    collection = Collection(
        PICTURE, tuple(f"{row}.png" for row in range(len(labels))), [], tuple(labels),
        np.ones(len(labels), dtype=bool), digests=tuple(digests), events=events,
    )  # fmt: skip
    return SimpleNamespace(collection=collection, labels=tuple(labels), rows=np.arange(len(labels)))


def test_copies_and_events_stay_together_and_every_class_is_in_both():
    rng = np.random.default_rng(0)
    labels = [str(name) for name in rng.choice(["ash", "oak", "yew"], 600)]
    digests = [f"{label}-{number}" for label, number in zip(labels, rng.integers(0, 90, 600), strict=True)]
    folders = split(made(labels, digests))
    of_digest = {digest: {folders[row] for row in range(600) if digests[row] == digest} for digest in digests}
    assert all(len(places) == 1 for places in of_digest.values())
    share = np.mean([folders[row] == ("val",) for row in range(600)])
    assert 0.1 < share < 0.3
    events = np.repeat(np.arange(150), 4)
    labels = [("ash", "oak", "yew")[event % 3] for event in events]
    folders = split(made(labels, [str(row) for row in range(600)], events))
    assert all(len({folders[row] for row in np.flatnonzero(events == event)}) == 1 for event in range(150))
    for label in ("ash", "oak", "yew"):
        assert {folders[row] for row in range(600) if labels[row] == label} == {("train",), ("val",)}
    few = split(made(["ash", "oak", "oak", ""], "abcd"))
    assert few[0] == ("train", "val")
    assert {few[1], few[2]} == {("train",), ("val",)}
    assert 3 not in few


def test_names_in_the_archive_lead_nowhere_else(workplace, draw_picture):
    odd = "up\\..\\.. & <away>"
    for seed in range(2):
        draw_picture(workplace / "examples" / odd / f"{seed}.png", (255, 255, 255), seed)
        Path("photos", f"up\\..\\white-{seed}.png").write_bytes(Path("examples", odd, f"{seed}.png").read_bytes())
    label_images("photos", "examples").write("labelled", exports=["yolo-cls"], gallery=False)
    names = list(packed(Path("labelled/yolo-cls.zip")))
    assert not [name for name in names if "\\" in name or "<" in name or ".." in name.split("/")]
    assert {name.split("/")[1] for name in names} == {"blue", "green", "red", "up%5C..%5C.. & %3Caway%3E"}
    assert [name for name in names if name.endswith("/up%5C..%5Cwhite-0.png")]


@given(st.text(min_size=1), st.text(min_size=1))
def test_portable_names_differ_and_are_one_part(one, other):
    for name in (one, other):
        made = portable(name)
        assert not set(made) & set('<>:"/\\|?*\0\n')
        assert made not in (".", "..")
        assert made[-1] not in ". "
    assert (portable(one) == portable(other)) == (one == other)


def test_pictures_that_are_gone_or_no_files_or_unread_are_left_out(workplace, draw_picture):
    draw_picture(workplace / "photos" / "red-20.gif", "red", 20)
    result = label_images("photos", "examples")
    Path("photos/red-2.png").unlink()
    Path("photos/red-4.png").unlink()
    os.mkfifo("photos/red-4.png")
    with pytest.warns(UserWarning, match="are not in the archive") as warned:
        result.write("labelled", exports=["yolo-cls"], gallery=False)
    told = " ".join(str(one.message) for one in warned)
    assert "1 pictures are not in the archive, because YOLO does not read them: 1 .gif." in told
    assert "2 pictures are not in the archive, because they are gone, such as 'red-2.png'." in told
    assert len(packed(Path("labelled/yolo-cls.zip"))) == 22


def test_links_in_the_way_are_not_followed(workplace):
    Path("labelled").mkdir()
    for name in ("metadata.jsonl", "yolo-cls.zip"):
        Path(f"mine-{name}").write_text("mine", encoding="utf-8")
        Path("labelled", name).symlink_to(workplace / f"mine-{name}")
    result = label_images("photos", "examples")
    with pytest.raises(FileExistsError, match="exists and is not"):
        result.write("labelled", exports=["huggingface", "yolo-cls"], gallery=False)
    result.write("labelled", exports=["huggingface", "yolo-cls"], gallery=False, force=True)
    assert [path.read_text(encoding="utf-8") for path in Path().glob("mine-*")] == ["mine", "mine"]
    assert not Path("labelled/metadata.jsonl").is_symlink()
    assert zipfile.is_zipfile("labelled/yolo-cls.zip")


def test_what_has_no_place_is_refused_before_the_work(workplace):
    one = {"items": ("a#0:05-0:10",), "labels": ("",), "listed": np.ones(1, dtype=bool)}
    with pytest.raises(RefusedError, match=r"metadata\.jsonl lists files, and a box is not one"):
        check_whole_files(Collection(BOX, contents=[None], **one))
    with pytest.raises(RefusedError, match="YOLO's folders hold pictures; a sound is not one"):
        check_pictures(Collection(SOUND, contents=[Path("a.wav")], **one))
    with pytest.raises(RefusedError, match="cannot be the name of a folder"):
        check_folders_of_classes(["ash", "é" * 200])
    check_folders_of_classes(["ash", "é" * 100])
