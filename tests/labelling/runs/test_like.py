"""Next month's folder: the labels of an earlier source are examples for a new one, and promise little by themselves."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from marginshot.labelling import Session, label_images, label_table
from marginshot.labelling.items.collection import describe_labels

SHAPES = {
    "bar": (slice(7, 9), slice(2, 14)),
    "post": (slice(2, 14), slice(7, 9)),
    "block": (slice(3, 7), slice(3, 7)),
}
NARROWING = "these 12 of the new items and run again"


def draw(folder: Path, numbers: Sequence[int], *, other_camera: bool = False) -> None:
    """Pictures of the shapes in turn; another camera has a bright half that is larger than any of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        shape, rng = list(SHAPES)[number % 3], np.random.default_rng(number)
        pixels = 80 + rng.normal(0, 25, (16, 16)) + 90 * (np.arange(16)[:, None] > 7) * other_camera
        pixels[SHAPES[shape]] += 60
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / f"{shape}-{number}.png")


def shape_of(item: str) -> str:
    return Path(item).name.partition("-")[0]


def read(path: str | Path) -> dict[str, dict[str, str]]:
    with Path(path).open(newline="") as file:
        return {row["item"]: row for row in csv.DictReader(file)}


def share_right(rows: dict[str, dict[str, str]]) -> float:
    return float(np.mean([row["label"] == shape_of(item) for item, row in rows.items()]))


def snapshot(*folders: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for name in folders for path in Path(name).rglob("*") if path.is_file()}


@pytest.fixture
def months(tmp_path, monkeypatch, own_cache) -> Path:
    """may/ by one camera, june/ by another in two folders, and may-examples.csv with three of each shape in may/."""
    monkeypatch.chdir(tmp_path)
    draw(Path("may"), range(60))
    draw(Path("june/creek"), range(100, 130), other_camera=True)
    draw(Path("june/ridge"), range(130, 160), other_camera=True)
    rows = "".join(f"{list(SHAPES)[number % 3]}-{number}.png,{list(SHAPES)[number % 3]}\n" for number in range(9))
    Path("may-examples.csv").write_text(f"path,label\n{rows}")
    return tmp_path


@pytest.fixture
def labelled(months, run) -> Path:
    """may-labelled/, which a run wrote from may/ and the examples."""
    words = ["--examples", "may-examples.csv", "--encoder", "pixels", "--out", "may-labelled", "--no-gallery"]
    code, _, err = run("label", "may", *words)
    assert code == 0, err
    return months / "may-labelled"


LIKE = ("label", "june", "--like", "may-labelled", "--out", "june-labelled", "--no-gallery")


def test_labels_of_what_a_run_wrote_are_examples_for_a_new_folder(labelled, run):
    before = snapshot("may", "may-labelled")
    code, out, err = run(*LIKE, "--json")
    assert code == 0, err
    rows = read("june-labelled/labels.csv")
    assert len(rows) == 60
    assert all(item.startswith(("creek/", "ridge/")) for item in rows)
    assert share_right(rows) > 0.9
    assert not {"example", "event"} & {row["review"] for row in rows.values()}
    told = json.loads(out)
    assert told["notes"][-1].startswith("Like may-labelled: 9 labels of 3 classes there are examples. Its 60 items")
    assert told["unlike_examples"] > 15  # the other camera
    assert sum(told["counts"].values()) == 60
    assert told["own_labels"] == 0
    assert len(told["label_next"]) == 12
    assert set(told["label_next"]) <= set(rows)
    assert snapshot("may", "may-labelled") == before


def test_both_are_domains_and_the_encoder_is_that_of_then(labelled):
    found = label_images("june", like="may-labelled")
    assert found.model.encoder == "pixels"
    old = found.collection.old
    assert old.sum() == 60
    np.testing.assert_array_equal(found.model.classifier.domains_, old)
    assert found.collection.items[int(old.argmax())].startswith(f"{Path.cwd()}/may/")
    right = share_right(
        {item: {"label": label} for item, label in zip(*list(found.columns().values())[:2], strict=True)}
    )
    alone = label_images("june", "may-examples-copied", encoder="pixels") if copy_examples() else None
    of_june = dict(zip(alone.collection.items, alone.labels, strict=True))
    assert right > np.mean([of_june[item] == shape_of(item) for item in found.columns()["item"]])


def copy_examples() -> bool:
    for number in range(9):
        shape = list(SHAPES)[number % 3]
        Path("may-examples-copied", shape).mkdir(parents=True, exist_ok=True)
        shutil.copy(f"may/{shape}-{number}.png", f"may-examples-copied/{shape}")
    return True


def test_a_line_on_the_result_counts_new_items_alone(labelled):
    result = label_images("june", like="may-labelled", cache=False)
    assert repr(result) == f"Labelling({describe_labels(result.columns()['label'])})"
    assert len(result.columns()["label"]) == 60


def test_old_labels_alone_promise_little_until_new_ones_are_given(labelled, run):
    _, out, _ = run(*LIKE, "--json")
    first = json.loads(out)["expected_accuracy"]
    code, _, err = run(*LIKE)
    assert code == 0, err
    assert NARROWING in " ".join(err.split())
    assert "look unlike the old ones; of as many old ones 3 would." in " ".join(err.split())

    suggestions = Path("june-labelled/suggestions.csv")
    with suggestions.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    assert all(row["path"].startswith(("creek/", "ridge/")) for row in rows)
    suggestions.write_text(
        "path,label,guess\n" + "".join(f"{r['path']},{shape_of(r['path'])},{r['guess']}\n" for r in rows)
    )
    code, _, err = run("label", "june", "--out", "june-labelled")
    assert code == 0, err
    assert f"--like {labelled}" in err.replace("\n", "")
    assert NARROWING not in " ".join(err.split())
    _, out, _ = run("label", "june", "--out", "june-labelled", "--json")
    second = json.loads(out)["expected_accuracy"]
    assert first["high"] - first["low"] > 0.03
    assert second["high"] - second["low"] < 0.6 * (first["high"] - first["low"])
    with Session.open("june", encoder="pixels") as session:  # knows the new labels alone
        assert session.state.checked.sum() == 12


def test_labels_of_a_session_are_examples(months, run):
    with Session.open("may", encoder="pixels") as session:
        session.label({item: shape_of(item) for item in session.items[::5]})
        session.solve()
        session.accept(0.5)  # nobody looked at these
    Path("may/bar-0.png").rename("may/bar-000.png")
    before = snapshot("may")
    found = label_images("june", like="may", encoder="pixels")
    assert found.n_own_labels == 0
    assert int((found.answers.given >= 0).sum()) == 12
    assert (
        share_right({i: {"label": label} for i, label in zip(*list(found.columns().values())[:2], strict=True)}) > 0.8
    )
    code, _, err = run("label", "june", "--like", "may", "--encoder", "pixels", "--out", "june-labelled")
    assert code == 0, err
    assert "12 labels of 3 classes" in err
    assert snapshot("may") == before


def test_more_of_the_same_is_as_like_as_it_should_be(labelled):
    draw(Path("later"), range(200, 260))
    assert label_images("later", like="may-labelled").n_unlike <= 10
    assert label_images("june", like="may-labelled").n_unlike > 15


def test_what_was_corrected_and_moved_is_known(labelled, run):
    lines = Path("may-labelled/labels.csv").read_text().splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("bar-30.png"))
    lines[place] = "bar-30.png,rod,1,,"
    Path("may-labelled/labels.csv").write_text("\n".join(lines) + "\n")
    found = label_images("june", like="may-labelled")
    assert found.classes == ("bar", "block", "post", "rod")
    code, _, err = run("label", "may", "--out", "may-labelled", "--move")
    assert code == 0, err
    found = label_images("june", like="may-labelled")
    assert found.classes == ("bar", "block", "post", "rod")
    assert int((found.answers.given >= 0).sum()) == 10


def test_tables(months, run):
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(3, 12))
    truth = np.arange(90) % 3
    for name, shift in (("may", 0.0), ("june", 6.0)):
        y = np.where(np.arange(90) < (9 if name == "may" else 0), [list(SHAPES)[c] for c in truth], "")
        np.savez(f"{name}.npz", X=centres[truth] + rng.normal(size=(90, 12)) + shift, y=y)
    assert run("label", "may.npz", "--out", "may-out.csv")[0] == 0
    for old in ("may-out.csv", "may.npz"):
        found = label_table("june.npz", like=old)
        assert np.mean(np.array(found.labels)[:90] == [list(SHAPES)[c] for c in truth]) > 0.95
    code, _, err = run("label", "june.npz", "--like", "may.npz", "--out", "june-out.csv")
    assert code == 0, err
    with Path("june-out.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 90


@pytest.mark.usefixtures("encoded")
def test_texts(months, run):
    Path("may.csv").write_text("body,topic\n" + "train late,travel\nsweet cake,food\nbus train,\ncake pie,\n" * 3)
    Path("june.csv").write_text("body\n" + "late bus train\npie sweet\n" * 3)
    assert run("label", "may.csv", "--text", "body", "--label", "topic", "--out", "may-out.csv")[0] == 0
    found = label_table("june.csv", text="body", label="topic", like="may-out.csv")
    assert found.columns()["label"] == ["travel", "food"] * 3


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["june", "--like", "gone"], "gone does not exist"),
        (["june", "--like", "never"], "never was not labelled before"),
        (["june", "--like", "opened"], "no person has labelled an item of opened"),
        (["may", "--like", "may-labelled"], "one source, or one lies in the other"),
        (["around/june", "--like", "around"], "one source, or one lies in the other"),
        (
            ["june", "--like", "may-labelled", "--out", "may/labelled"],
            "may/labelled holds the examples or is among them",
        ),
        (["june", "--like", "may-labelled", "--out", "may-labelled"], "may-labelled holds the examples"),
        (["june", "--like", "table.npz"], "'embedding', and the new ones are of the kind 'picture'"),
        (["wide.npz", "--like", "table.npz", "--out", "wide.csv"], "have 3 features, and the new ones 4"),
        (
            ["june", "--like", "may-labelled", "--boxes", "boxes.json"],
            "of the kind 'picture', and the new ones are of the kind",
        ),
        (["june", "--like", "may", "--boxes", "boxes.json"], "which boxes were labelled in may"),
    ],
)
def test_errors_are_one_sentence_and_touch_nothing(labelled, run, words, sentence):
    shutil.copytree("may", "never")
    shutil.copytree("may", "opened")
    Session.open("opened", encoder="pixels").close()
    shutil.copytree("june", "around/june")
    with Session.open("around", encoder="pixels") as session:
        session.label([0], "bar")
    for name, n in (("table", 3), ("wide", 4)):
        np.savez(f"{name}.npz", X=np.random.default_rng(0).normal(size=(20, n)), y=np.array(["a", "b"] + [""] * 18))
    assert run("label", "table.npz", "--out", "table.csv")[0] == 0
    boxes = [
        {"file": "creek/bar-102.png", "detections": [{"category": "1", "conf": 0.9, "bbox": [0.1, 0.1, 0.8, 0.8]}]}
    ]
    content = {"info": {"format_version": "1.4"}, "detection_categories": {"1": "animal"}, "images": boxes}
    Path("boxes.json").write_text(json.dumps(content))
    before = snapshot(".")
    words = words if "--out" in words else [*words, "--out", "new-out"]
    code, out, err = run("label", *words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert {name for name in snapshot(".") if "cache" not in name} == {name for name in before if "cache" not in name}


def test_a_record_chooses_among_our_encoders_only(labelled, run):
    record = labelled / ".labels.csv-run.json"
    record.write_text(record.read_text().replace('"encoder": "pixels"', '"encoder": "resnet18"'))
    code, _, err = run(*LIKE)
    assert code == 2
    assert "does not come with marginshot" in err
    assert run(*LIKE, "--encoder", "pixels")[0] == 0
