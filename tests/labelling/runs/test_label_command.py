from __future__ import annotations

import csv
import errno
import json
import os
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from marginshot.data.pictures import UnreadablePictureError
from marginshot.labelling.items.encoders import PictureEncoder
from marginshot.labelling.outputs import transfers
from marginshot.labelling.outputs.earlier import LIST

pytestmark = pytest.mark.usefixtures("encoded")

MOVE = transfers.Job("move", "photos")


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def tree(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_is_labelled_from_class_folders(workplace, run):
    code, out, err = run("label", "photos", "--examples", "examples", "--out", "labelled")
    assert code == 0, err
    rows = read(workplace / "labelled" / "labels.csv")
    assert list(rows[0]) == ["item", "label", "probability", "runner_up", "review"]
    assert len(rows) == 24
    assert {row["item"] for row in rows} >= {"red-2.png", "trip/day one/red-3.png"}
    for row in rows:
        assert row["label"] == Path(row["item"]).name.partition("-")[0]
        assert row["runner_up"] in {"blue", "green", "red"} - {row["label"]}
    assert "green" in out
    assert (workplace / "labelled" / "gallery.html").is_file()


def test_json_summary(workplace, run):
    code, out, _ = run(
        "label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery", "--format", "json"
    )
    assert code == 0
    assert json.loads(out)["counts"] == {"blue": 8, "green": 8, "red": 8}


def test_what_to_check_is_said_and_marked(workplace, run):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(3, 8))[y] + 2.0 * rng.normal(size=(90, 8))
    labels = np.where(np.arange(90) < 12, np.array(["ash", "oak", "yew"])[y], "")
    np.savez(workplace / "trees.npz", X=X, y=labels)
    arguments = ("label", "trees.npz", "--out", "done.csv", "--no-gallery")
    code, out, err = run(*arguments)
    assert code == 0, err
    marked = [row for row in read(workplace / "done.csv") if row["review"] == "check"]
    assert marked
    assert f"To be 95% right, check the {len(marked):,} marked 'check' in the column review." in err
    assert re.search(r"About \d+% of the labels should be right \(\d+% to \d+%\)", err)
    assert re.search(rf"total +90 +{len(marked)}\b", out)
    summary = json.loads(run(*arguments, "--format", "json")[1])
    assert sum(summary["to_check"].values()) == len(marked)
    estimate = summary["expected_accuracy"]
    assert estimate["low"] <= estimate["value"] <= estimate["high"]


def test_class_folders_inside_the_tree(workplace, run):
    for folder in (workplace / "examples").iterdir():
        shutil.move(folder, workplace / "photos" / folder.name)
    shutil.move(workplace / "photos" / "trip", workplace / "photos" / "unlabelled")
    code, _, err = run("label", "photos", "--out", "photos/labelled", "--no-gallery")
    assert code == 0, err
    rows = read(workplace / "photos" / "labelled" / "labels.csv")
    given = [row for row in rows if row["review"] == "example"]
    assert len(given) == 6
    assert len(rows) == 30
    assert all(row["label"] == Path(row["item"]).parent.name for row in given)


@pytest.mark.parametrize("separator", [",", ";"])
def test_examples_as_csv_with_rows_not_filled_in_yet(workplace, run, separator):
    lines = ["path,label", "red-2.png,red", "trip/day one/blue-3.png,blue", "green-4.png,green", "red-4.png,"]
    (workplace / "known.csv").write_text("\n".join(lines).replace(",", separator), encoding="utf-8")
    code, _, err = run("label", "photos", "--examples", "known.csv", "--out", "labelled", "--no-gallery")
    assert code == 0, err
    reviews = {row["item"]: row["review"] for row in read(workplace / "labelled" / "labels.csv")}
    assert [item for item, review in reviews.items() if review == "example"] == [
        "green-4.png",
        "red-2.png",
        "trip/day one/blue-3.png",
    ]


def test_suggestions_come_back_as_examples(workplace, run):
    arguments = ("label", "photos", "--examples", "examples", "--out", "labelled", "--suggest", 5)
    assert run(*arguments)[0] == 0
    suggested = read(workplace / "labelled" / "suggestions.csv")
    assert len({row["path"] for row in suggested}) == 5
    filled = ["path,label", *(f"{row['path']},{Path(row['path']).name.partition('-')[0]}" for row in suggested)]
    (workplace / "more.csv").write_text("\n".join(filled), encoding="utf-8")
    code, _, err = run(*arguments, "--examples", "more.csv")
    assert code == 0, err
    assert sum(row["review"] == "example" for row in read(workplace / "labelled" / "labels.csv")) == 5


def test_second_run_encodes_only_what_is_new(workplace, run, encoded, draw_picture):
    arguments = ("label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery")
    assert run(*arguments)[0] == 0
    assert len(encoded) == 30
    draw_picture(workplace / "examples" / "red" / "another.png", "red", 999)
    assert run(*arguments)[0] == 0
    assert encoded[30:] == ["another.png"]
    code, out, _ = run("cache")
    assert code == 0
    assert out.startswith("31 embeddings")
    assert run("cache", "--clear")[1].startswith("0 embeddings")
    assert run(*arguments)[0] == 0, "the outputs are still known as ours"
    assert len(encoded) == 31 + 31


def test_nothing_new_loads_no_network(workplace, run, monkeypatch):
    arguments = ("label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery")
    assert run(*arguments)[0] == 0

    def load(self):
        raise AssertionError("the network was loaded")

    monkeypatch.setattr(PictureEncoder, "load", load)
    (workplace / "photos" / "red-2.png").rename(workplace / "photos" / "renamed.png")
    assert run(*arguments)[0] == 0
    with pytest.raises(AssertionError, match="the network was loaded"):
        run(*arguments, "--no-cache", "--force")


def test_an_unreadable_file_is_reported_and_skipped(workplace, run):
    (workplace / "photos" / "broken.jpg").write_bytes(b"no picture")
    code, _, err = run("label", "photos", "--examples", "examples", "--out", "labelled")
    assert code == 0
    assert "Left out broken.jpg: cannot be read as a picture" in err
    assert "broken.jpg" not in {row["item"] for row in read(workplace / "labelled" / "labels.csv")}
    assert "broken.jpg" in (workplace / "labelled" / "gallery.html").read_text(encoding="utf-8")


def test_an_unreadable_file_does_not_load_the_encoder_again(workplace, run, monkeypatch):
    (workplace / "photos" / "broken.jpg").write_bytes(b"no picture")
    arguments = ("label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery")
    assert run(*arguments)[0] == 0

    def load(self):
        raise AssertionError("the network was loaded")

    monkeypatch.setattr(PictureEncoder, "load", load)
    code, _, err = run(*arguments)
    assert code == 0
    assert "Left out broken.jpg: cannot be read as a picture" in err
    (workplace / "photos" / "broken.jpg").write_bytes(b"another content")
    with pytest.raises(AssertionError, match="the network was loaded"):
        run(*arguments)


def test_a_disk_at_fault_is_not_remembered(workplace, run, monkeypatch):
    arguments = ("label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery")

    def prepare(self, path):
        raise UnreadablePictureError("cannot be read as a picture") from OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr(PictureEncoder, "prepare", prepare)
        assert run(*arguments)[0] == 2
    assert run(*arguments)[0] == 0


def test_a_name_of_two_lines_is_one_line_of_a_dry_run(workplace, run, draw_picture):
    draw_picture(workplace / "photos" / "two\nlines.png", "red", 99)
    code, out, err = run(
        "label", "photos", "--examples", "examples", "--out", "labelled", "--copy", "--dry-run", "--verbose"
    )
    assert code == 0, err
    assert sum(line.startswith("copy ") for line in out.splitlines()) == 25
    assert "two\\nlines.png -> " in out


@pytest.mark.parametrize(
    ("arrange", "message"),
    [
        (lambda place: (place / "examples" / "empty").mkdir(), "The class 'empty' has no examples"),
        (
            lambda place: shutil.copytree(place / "examples" / "red", place / "examples" / "Red "),
            "differ only in",
        ),
        (
            lambda place: shutil.copy(place / "examples/red/example-0.png", place / "examples/blue/copy.png"),
            "One picture is an example of two classes",
        ),
        (
            lambda place: [path.write_bytes(b"") for path in (place / "examples" / "red").iterdir()],
            "The class 'red' has no examples left: examples/red/example-0.png cannot be read",
        ),
        (
            lambda place: [shutil.rmtree(place / "examples" / name) for name in ("red", "blue")],
            "at least two classes; there is only 'green'",
        ),
        (lambda place: shutil.rmtree(place / "photos"), "photos does not exist"),
        (
            lambda place: (place / "examples" / "red").rename(place / "examples" / " "),
            "The class folder ' ' in examples has no name but spaces; rename it",
        ),
        (
            lambda place: [
                shutil.copytree(place / "examples" / "red", place / "examples" / f"caf{accented}")
                for accented in ("\u00e9", "e\u0301")
            ],
            r"the classes 'cafe\u0301' and 'caf\xe9' differ only in case, spaces or the coding of accents",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(workplace, run, arrange, message):
    arrange(workplace)
    code, _, err = run("label", "photos", "--examples", "examples", "--out", "labelled")
    assert code == 2
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not (workplace / "labelled").exists()


def test_an_example_that_is_also_in_the_folder_keeps_its_label(workplace, run):
    shutil.copy(workplace / "examples/red/example-0.png", workplace / "photos" / "same as an example.png")
    assert run("label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery")[0] == 0
    row = next(row for row in read(workplace / "labelled" / "labels.csv") if row["item"] == "same as an example.png")
    assert (row["label"], row["probability"], row["review"]) == ("red", "1.0", "example")


def test_a_changed_table_is_never_overwritten(workplace, run):
    arguments = ("label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery")
    assert run(*arguments)[0] == 0
    assert run(*arguments)[0] == 0, "our own output is replaced"
    table = workplace / "labelled" / "labels.csv"
    table.write_text(table.read_text(encoding="utf-8") + "mine,red,1,,\n", encoding="utf-8")
    code, _, err = run(*arguments)
    assert code == 2
    assert "labels.csv exists and is not, or no longer, as this command wrote it" in err
    assert "mine" in table.read_text(encoding="utf-8")
    assert run(*arguments, "--force")[0] == 0


def test_dry_run_shows_classes_and_ten_lines_and_writes_nothing(workplace, run):
    before = tree(workplace)
    arguments = ("label", "photos", "--examples", "examples", "--out", "labelled", "--move", "--dry-run")
    code, out, err = run(*arguments)
    assert code == 0
    assert [line.split() for line in out.splitlines() if line.split()[:1] == ["total"]] == [["total", "24", "0"]]
    assert sum(line.startswith("move ") for line in out.splitlines()) == 10
    assert "and 14 more; --verbose lists all" in err
    assert "24 pictures would go into class folders. Nothing was written" in err
    _, out, err = run(*arguments, "--verbose")
    assert sum(line.startswith("move ") for line in out.splitlines()) == 24
    assert "more" not in err
    summary = json.loads(run(*arguments, "--format", "json")[1])
    assert (summary["counts"], len(summary["transfers"])) == ({"blue": 8, "green": 8, "red": 8}, 24)
    assert tree(workplace) == before


def test_dry_run_needs_no_class_folders(workplace, run):
    before = tree(workplace)
    code, out, err = run("label", "photos", "--examples", "examples", "--out", "labelled", "--dry-run")
    assert code == 0
    assert "total" in out
    assert err.strip() == "Dry run: Nothing was written."
    assert tree(workplace) == before


def test_copy_keeps_paths_and_repeats_harmlessly(workplace, run):
    arguments = ("label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery", "--copy")
    for _ in range(2):
        code, _, err = run(*arguments)
        assert code == 0
        assert "Copied 24 pictures" in err
    copied = workplace / "labelled" / "red" / "trip" / "day one" / "red-3.png"
    assert copied.read_bytes() == (workplace / "photos" / "trip" / "day one" / "red-3.png").read_bytes()


def test_copy_never_overwrites(workplace, run):
    mine = workplace / "labelled" / "red" / "red-2.png"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    code, _, err = run("label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery", "--copy")
    assert code == 2
    assert "Left 1 picture in place" in err
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("action", ["copy", "move"])
def test_a_full_disk_loses_nothing_and_the_next_run_completes(workplace, run, monkeypatch, action):
    before = {path.name: path.read_bytes() for path in (workplace / "photos").rglob("*.png")}
    real, calls = shutil.copyfileobj, []

    def copy_until_full(source, target, *size):
        calls.append(source)
        if len(calls) == 8:
            target.write(b"half a fi")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(source, target, *size)

    monkeypatch.setattr(shutil, "copyfileobj", copy_until_full)
    # As across two disks: no renaming, every file is copied.
    monkeypatch.setattr(transfers, "_rename_new", lambda source, target: False)
    arguments = ("label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery", f"--{action}")
    code, _, err = run(*arguments)
    assert code == 2
    assert "No space left on device" in err
    assert "7 of 24 files are in place" in err
    found = [path for folder in ("photos", "labelled") for path in (workplace / folder).rglob("*.png")]
    assert {path.name: path.read_bytes() for path in found} == before
    labels = (workplace / "labelled" / "labels.csv").read_bytes()
    code, _, err = run(*arguments)
    assert code == 0, err
    assert "that is complete now" in err
    placed = {path.name: path.read_bytes() for path in (workplace / "labelled").rglob("*.png")}
    assert placed == before
    assert (workplace / "labelled" / "labels.csv").read_bytes() == labels, "the labels of moved pictures are kept"
    assert len(list((workplace / "photos").rglob("*.png"))) == (24 if action == "copy" else 0)
    assert not [name for name in tree(workplace / "labelled") if ".marginshot" in name and name != LIST]


def test_a_move_cut_off_between_its_two_steps_is_completed(workplace, tmp_path):
    source, target = workplace / "photos" / "red-2.png", workplace / "labelled" / "red" / "red-2.png"
    target.parent.mkdir(parents=True)
    os.link(source, target)
    done = transfers.start_transfers([transfers.Transfer(source, target)], MOVE, workplace / "labelled")
    assert (done.n_done, done.conflicts) == (1, ())
    assert target.is_file()
    assert not source.exists()


def test_moving_a_link_leaves_the_picture_it_points_to(workplace):
    elsewhere = workplace / "elsewhere.png"
    (workplace / "photos" / "red-2.png").rename(elsewhere)
    link = workplace / "photos" / "red-2.png"
    link.symlink_to(elsewhere)
    target = workplace / "red" / "red-2.png"
    transfers.start_transfers([transfers.Transfer(link, target)], MOVE, workplace)
    assert target.read_bytes() == elsewhere.read_bytes()
    assert not target.is_symlink()
    assert not link.is_symlink()


@pytest.mark.parametrize("name", ["a/b", ".hidden", "labels.csv", "x" * 300])
def test_a_class_that_cannot_be_a_folder(workplace, run, encoded, name):
    (workplace / "known.csv").write_text(f"path,label\nred-2.png,{name}\nblue-2.png,c\n", encoding="utf-8")
    code, _, err = run("label", "photos", "--examples", "known.csv", "--out", "labelled", "--copy")
    assert code == 2
    assert f"The class {name!r} cannot be the name of a folder" in " ".join(err.split())
    assert not (workplace / "labelled").exists()
    assert not encoded, "told before the work"


def test_links_point_to_the_pictures(workplace, run):
    arguments = ("label", "photos", "--examples", "examples", "--out", "labelled", "--no-gallery", "--link")
    assert run(*arguments)[0] == 0
    link = workplace / "labelled" / "red" / "red-2.png"
    assert link.is_symlink()
    assert link.resolve() == (workplace / "photos" / "red-2.png").resolve()
    assert run(*arguments)[0] == 0


def test_one_action_at_a_time(workplace, run):
    code, _, err = run("label", "photos", "--examples", "examples", "--out", "labelled", "--copy", "--move")
    assert code == 2
    assert "choose one of --copy and --move" in err


def test_reject_leaves_foreign_items_without_label(workplace, run, draw_picture):
    for seed in range(6):
        draw_picture(workplace / "photos" / f"grey-{seed}.png", (128, 128, 128), 500 + seed)
    arguments = ("label", "photos", "--examples", "examples", "--no-gallery")
    assert run(*arguments, "--out", "plain")[0] == 0
    assert run(*arguments, "--out", "strict", "--reject", "--copy")[0] == 0
    plain, strict = (
        {row["item"]: row for row in read(workplace / name / "labels.csv")} for name in ("plain", "strict")
    )
    grey = [f"grey-{seed}.png" for seed in range(6)]
    assert {strict[item]["label"] for item in grey} == {""}
    assert {strict[item]["review"] for item in grey} == {"none of the classes"}
    assert "" not in {plain[item]["label"] for item in grey}
    assert not [name for name in tree(workplace / "strict") if "grey" in name]


def test_foreign_items_are_counted_by_their_marks(workplace, run):
    rng = np.random.default_rng(0)
    centres = np.vstack((np.eye(3, 16), [[0.6, 0.6, 0.0] + [0.0] * 13]))  # the last is between two classes
    X = np.repeat(centres, 20, axis=0) + rng.normal(0, 0.15, (80, 16))
    labels = [f"class {row // 20}" if row % 20 < 4 and row < 60 else "" for row in range(80)]
    np.savez(workplace / "x.npz", X=X, y=labels)
    code, _, err = run("label", "x.npz", "--lose", "0.3", "--out", "x.csv", "--no-gallery")
    assert code == 0, err
    n_foreign = int(re.search(r"(\d+) look like none of the classes", err)[1])
    n_marked = sum(row["review"] == "none of the classes" for row in read(workplace / "x.csv"))
    assert 0 < n_marked <= n_foreign
    if n_marked < n_foreign:
        assert f"{n_marked} marked so in the column review, {n_foreign - n_marked} marked 'check'." in err
    else:
        assert "are marked so in the column review." in err


def test_saved_planes_label_new_pictures_without_examples(workplace, run, draw_picture):
    assert run("label", "photos", "--examples", "examples", "--out", "labelled", "--save", "model")[0] == 0
    for colour in ("blue", "green", "red"):
        draw_picture(workplace / "new" / f"{colour}.png", colour, 777)
    shutil.rmtree(workplace / "examples")
    code, _, err = run("apply", "model", "new", "--out", "new-labelled", "--copy")
    assert code == 0, err
    rows = read(workplace / "new-labelled" / "labels.csv")
    assert [row["label"] for row in rows] == ["blue", "green", "red"]
    assert (workplace / "new-labelled" / "green" / "green.png").is_file()


def test_a_file_that_is_no_model(workplace, run):
    (workplace / "model").write_text("nothing")
    code, _, err = run("apply", "model", "photos", "--out", "labelled")
    assert code == 2
    assert "is damaged, or not a model saved by `marginshot label --save`" in err


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("kind", '{"format": "marginshot-labeller-2"}', "('kind' is missing)"),
        ("list", "[]", "its format is None"),
        ("method", "", "compression method"),
    ],
)
def test_a_damaged_model_is_one_sentence(workplace, run, name, content, message):
    assert run("label", "photos", "--examples", "examples", "--out", "labelled", "--save", "model")[0] == 0
    with zipfile.ZipFile("model") as whole:
        held = {entry: whole.read(entry) for entry in whole.namelist()}
    with zipfile.ZipFile(name, "w") as archive:
        for entry, data in (held | {"about.json": content.encode()}).items():
            archive.writestr(entry, data)
    if name == "method":
        # The first entry of the directory says that it is packed in a way nobody knows.
        packed = bytearray(Path(name).read_bytes())
        packed[archive.start_dir + 10] = 99
        Path(name).write_bytes(packed)
    code, _, err = run("apply", name, "photos", "--out", "applied")
    assert code == 2
    assert "is damaged, or not a model saved by `marginshot label --save`" in err
    assert message in err


def test_the_model_is_not_overwritten_by_its_answers(workplace, run):
    rng = np.random.default_rng(0)
    np.savez("rows.npz", X=rng.standard_normal((30, 4)), y=np.array(["a", "b", *[""] * 28]))
    assert run("label", "rows.npz", "--out", "labels.csv", "--save", "model.csv", "--no-gallery")[0] == 0
    before = Path("model.csv").read_bytes()
    code, _, err = run("apply", "model.csv", "rows.npz", "--label", "new", "--out", "model.csv", "--force")
    assert code == 2
    assert "the output must not be the input" in err
    assert Path("model.csv").read_bytes() == before


@pytest.mark.parametrize("name", ["nothere", "nothere.csv"])
def test_examples_that_are_not_there(workplace, run, name):
    code, _, err = run("label", "photos", "--examples", name, "--out", "labelled")
    assert code == 2
    assert f"{name} does not exist. Give --examples a folder of class folders, or a table." in " ".join(err.split())


TICKETS = [
    ("my invoice is wrong again", "billing"),
    ("the invoice total is wrong", ""),
    ("wrong amount on my invoice", ""),
    ("the app crashes at start", "bug"),
    ("app crashes when I start it", ""),
    ("crashes at start every time", ""),
]


def write_tickets(path: Path, rows=TICKETS) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "body", "topic"])
        writer.writerows((number, body, topic) for number, (body, topic) in enumerate(rows, start=17))


def test_a_table_of_texts_keeps_its_columns(workplace, run):
    write_tickets(workplace / "tickets.csv")
    code, _, err = run(
        "label", "tickets.csv", "--text", "body", "--label", "topic", "--out", "done.csv", "--suggest", 2
    )
    assert code == 0, err
    rows = read(workplace / "done.csv")
    assert list(rows[0]) == ["id", "body", "topic", "probability", "runner_up", "review"]
    assert [row["id"] for row in rows] == [str(number) for number in range(17, 23)]
    assert [row["topic"] for row in rows] == ["billing"] * 3 + ["bug"] * 3
    assert rows[0]["review"] == "example"
    assert {path.name for path in workplace.glob("done*")} == {
        "done.csv",
        "done-gallery.html",
        "done-suggestions.csv",
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--text", "nobody"), "tickets.csv has no column 'nobody'; it has id, body, topic"),
        ((), "has no column 'embedding'; name the column of texts"),
        (("--text", "body", "--copy"), "only pictures can go into class folders"),
        (("--text", "body", "--export", "fiftyone"), "FiftyOne holds pictures"),
        (("--text", "body", "--lose", "2"), "must lie between 0 and 1; got 2"),
        (("--text", "body", "--examples", "examples"), "fill in some of these"),
    ],
)
def test_bad_table_options(workplace, run, arguments, message):
    write_tickets(workplace / "tickets.csv")
    code, _, err = run("label", "tickets.csv", "--label", "topic", "--out", "done.csv", *arguments)
    assert code == 2
    assert message in err
    assert not list(workplace.glob("done*"))


def test_a_table_without_any_label(workplace, run):
    write_tickets(workplace / "tickets.csv", [(body, "") for body, _ in TICKETS])
    code, _, err = run("label", "tickets.csv", "--text", "body", "--label", "topic", "--out", "done.csv")
    assert code == 2
    assert "labelling needs examples of at least two classes; there is none" in err


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_embeddings_in_and_a_table_out(workplace, run, suffix):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 12))
    y = np.repeat([0, 1, 2], 10)
    X = (centres[y] + 0.2 * rng.normal(size=(30, 12))).astype(np.float32)
    given = np.where(np.isin(np.arange(30), [0, 10, 20]), y, -1)
    names = np.array(["ash", "oak", "yew"])
    if suffix == ".npz":
        np.savez(workplace / "trees.npz", X=X, y=given, classes=names)
    else:
        labels = [names[c] if c >= 0 else None for c in given]
        pq.write_table(pa.table({"embedding": list(X), "y": labels}), workplace / "trees.parquet")
    code, _, err = run("label", f"trees{suffix}", "--label", "y", "--out", "labels.parquet", "--no-gallery")
    assert code == 0, err
    table = pq.read_table(workplace / "labels.parquet").to_pydict()
    assert list(table) == ["item", "y", "probability", "runner_up", "review"]
    assert table["y"] == names[y].tolist()
    assert table["item"][0] == "row 1"


def test_our_columns_never_replace_the_users(workplace, run):
    (workplace / "t.csv").write_text("body,label,review\na,x,keep\nb,y,\nc,,\n", encoding="utf-8")
    code, _, err = run("label", "t.csv", "--text", "body", "--out", "done.csv")
    assert code == 2
    assert "has a column 'review' already" in err
