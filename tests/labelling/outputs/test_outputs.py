"""What a labelling run writes, marks, resumes and refuses, for users of Python."""

from __future__ import annotations

import csv
import json
import pickle
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from marginshot.cli import _errors
from marginshot.labelling import (
    OutputExistsError,
    Outputs,
    RefusedError,
    label_embeddings,
    label_images,
    label_table,
    label_texts,
    load_model,
    resume,
)
from marginshot.labelling.errors import Option
from marginshot.labelling.items.encoders import PictureEncoder
from marginshot.labelling.items.sources import Source
from marginshot.labelling.outputs import transfers
from marginshot.labelling.outputs.requests import Request


@pytest.fixture(autouse=True)
def quick_encoder(encoded):
    return encoded


@pytest.fixture
def blobs():
    """Two classes in 5 dimensions, 20 rows; the first row of each has a label."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 10)
    X = 6.0 * np.eye(5)[y] + rng.normal(size=(20, 5))
    labels = [""] * 20
    labels[0], labels[10] = "ash", "oak"
    return X, labels


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def pictures(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.png"))


def stop_at(monkeypatch, place):
    """Ctrl-C when the file of this number is to be copied or moved."""
    for name in ("_copy", "_move"):
        whole, calls = getattr(transfers, name), []

        def stopped(source, target, whole=whole, calls=calls):
            calls.append(source)
            if len(calls) == place:
                raise KeyboardInterrupt
            return whole(source, target)

        monkeypatch.setattr(transfers, name, stopped)


def test_all_outputs_of_pictures_by_one_call(workplace):
    result = label_images("photos", "examples", suggest=3)
    written = result.write("labelled", transfer="copy", exports=["bulk", "fiftyone"], model="model")
    names = {path.as_posix() for path in written.files}
    assert names == {
        "labelled/labels.csv",
        "labelled/gallery.html",
        "labelled/suggestions.csv",
        "labelled/bulk.csv",
        "labelled/fiftyone/data.json",
        "labelled/fiftyone/labels.json",
        "model",
    }
    assert all(path.is_file() for path in written.files)
    assert (written.placed.action, written.placed.n_done, written.placed.conflicts) == ("copy", 24, ())
    assert {path.parts[1] for path in (p.relative_to(workplace) for p in pictures(workplace / "labelled"))} == {
        "blue",
        "green",
        "red",
    }
    assert len(pictures(workplace / "photos")) == 24


def test_a_table_and_what_stands_beside_it(tmp_path, blobs):
    written = label_embeddings(*blobs, suggest=2).write(tmp_path / "done.csv")
    assert written.placed is None
    assert {path.name for path in tmp_path.glob("done*")} == {"done.csv", "done-gallery.html", "done-suggestions.csv"}
    assert [row["label"] for row in read(tmp_path / "done.csv")] == ["ash"] * 10 + ["oak"] * 10


def test_a_table_keeps_its_columns(tmp_path):
    (tmp_path / "t.csv").write_text("id,body,topic\n7,red wine,drink\n8,red red wine,\n9,a late train,travel\n")
    label_table(tmp_path / "t.csv", text="body", label="topic").write(tmp_path / "done.csv", gallery=False)
    rows = read(tmp_path / "done.csv")
    assert [(row["id"], row["topic"]) for row in rows] == [("7", "drink"), ("8", "drink"), ("9", "travel")]
    assert list(rows[0]) == ["id", "body", "topic", "probability", "runner_up", "review"]


def test_what_we_wrote_is_replaced_and_what_was_changed_is_not(workplace):
    result = label_images("photos", "examples")
    result.write("labelled", gallery=False)
    result.write("labelled", gallery=False)
    table = workplace / "labelled" / "labels.csv"
    table.write_text("mine", encoding="utf-8")
    with pytest.raises(OutputExistsError, match=r"labels\.csv exists .* or use force=True to replace it") as told:
        result.write("labelled", gallery=False)
    assert isinstance(told.value, FileExistsError)
    assert isinstance(told.value, ValueError)
    assert table.read_text(encoding="utf-8") == "mine"
    result.write("labelled", gallery=False, force=True)
    assert len(read(table)) == 24


def test_nothing_is_written_where_one_output_is_refused(workplace):
    (workplace / "model").write_text("mine")
    with pytest.raises(FileExistsError, match="model exists"):
        label_images("photos", "examples").write("labelled", model="model", transfer="copy")
    assert not (workplace / "labelled").exists()
    assert (workplace / "model").read_text() == "mine"


def test_without_a_cache_nothing_is_known_as_ours(tmp_path, blobs):
    result = label_embeddings(*blobs)
    result.write(tmp_path / "done.csv", gallery=False, cache=False)
    with pytest.raises(FileExistsError, match=r"done\.csv exists"):
        result.write(tmp_path / "done.csv", gallery=False, cache=False)


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("photos", {}, "path: the output must not be the input"),
        ("examples/labelled", {}, "path: examples/labelled holds the examples or is among them"),
        ("labelled", {"model": "known.csv"}, r"model: known\.csv is the input, or where another output goes"),
        ("labelled", {"model": "labelled/labels.csv"}, r"model: labelled/labels\.csv is the input, or where another"),
        ("known.csv", {}, r"path: known\.csv is a file; labels of pictures go to a folder"),
        ("known.csv/deeper", {}, r"known\.csv is a file, or a link to nowhere.* or give another path\."),
    ],
)
def test_no_output_goes_over_an_input_not_even_by_force(workplace, path, options, message):
    known = workplace / "known.csv"
    known.write_text("path,label\nred-2.png,red\nblue-2.png,blue\n", encoding="utf-8")
    result = label_images("photos", ["examples", "known.csv"])
    with pytest.raises(RefusedError, match=message):
        result.write(path, force=True, **options)
    assert known.read_text(encoding="utf-8").startswith("path,label\nred-2")


def test_a_table_is_not_written_over_itself(tmp_path):
    source = tmp_path / "t.csv"
    source.write_text("body,label\nred wine,a\nlate train,b\nred red wine,\n")
    before = source.read_bytes()
    with pytest.raises(RefusedError, match="the output must not be the input"):
        label_table(source, text="body").write(source, force=True)
    assert source.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transfer": "copy"}, 'transfer="copy": only pictures can go into class folders'),
        ({"transfer": "cpy"}, "transfer must be one of copy, move, link; got 'cpy'"),
        ({"exports": ["fiftyone"]}, "exports: FiftyOne holds pictures"),
        ({"exports": ["huggingface"]}, "exports: metadata.jsonl lists files"),
        ({"exports": ["yolo-cls"]}, "exports: YOLO's folders hold pictures"),
        ({"exports": ["boxes"]}, "exports: a detector's file describes pictures"),
        ({"exports": ["camtrap-dp"]}, "exports: Camtrap DP holds pictures of a folder"),
        ({"exports": ["csv"]}, "exports must be among label-studio, fiftyone, bulk, .*, camtrap-dp; got 'csv'"),
    ],
)
def test_outputs_that_a_table_cannot_have(tmp_path, blobs, options, message):
    with pytest.raises(ValueError, match=message):
        label_embeddings(*blobs).write(tmp_path / "done.csv", **options)
    assert not list(tmp_path.glob("done*"))


def test_labels_of_a_table_need_a_name_of_a_table(tmp_path, blobs):
    with pytest.raises(RefusedError, match=r"path: labels of a table are written to \.csv, .*; got 'done'"):
        label_embeddings(*blobs).write(tmp_path / "done")


def test_a_class_that_cannot_be_a_folder_is_told_before_anything_is_written(workplace):
    (workplace / "known.csv").write_text("path,label\nred-2.png,a/b\nblue-2.png,c\n", encoding="utf-8")
    with pytest.raises(RefusedError, match=r"The class 'a/b' cannot be the name of a folder .* or leave out transfer"):
        label_images("photos", "known.csv").write("labelled", transfer="link")
    assert not (workplace / "labelled").exists()


@pytest.mark.parametrize("transfer", ["copy", "move"])
def test_an_interruption_is_completed_without_labelling_again(workplace, monkeypatch, encoded, transfer):
    before = {path.name: path.read_bytes() for path in pictures(workplace / "photos")}
    assert resume("labelled", "photos", transfer) is None
    with monkeypatch.context() as patch:
        stop_at(patch, 5)
        with pytest.raises(KeyboardInterrupt):
            label_images("photos", "examples").write("labelled", transfer=transfer)
    table = (workplace / "labelled" / "labels.csv").read_bytes()
    placed = resume("labelled", "photos", transfer)
    assert (placed.action, placed.n_done) == (transfer, 24)
    assert {path.name: path.read_bytes() for path in pictures(workplace / "labelled")} == before
    assert len(pictures(workplace / "photos")) == (24 if transfer == "copy" else 0)
    assert (workplace / "labelled" / "labels.csv").read_bytes() == table
    assert resume("labelled", "photos", transfer) is None


def test_the_same_lines_again_go_on_and_keep_the_whole_table(workplace, monkeypatch):
    def lines(**options):
        return label_images("photos", "examples", **options).write("labelled", transfer="move", gallery=False)

    with monkeypatch.context() as patch:
        stop_at(patch, 5)
        with pytest.raises(KeyboardInterrupt):
            lines()
    with pytest.raises(
        RefusedError, match=r'Repeat it with transfer="move" and all else as it was \(differing here: reject\)'
    ):
        lines(reject=True)
    written = lines()
    assert written.files == ()
    assert written.placed.n_done == 24
    assert len(read(workplace / "labelled" / "labels.csv")) == 24, "the pictures moved before the stop are listed"
    assert not pictures(workplace / "photos")


def test_the_command_line_goes_on_with_what_python_left(workplace, run, monkeypatch):
    with monkeypatch.context() as patch:
        stop_at(patch, 5)
        with pytest.raises(KeyboardInterrupt):
            label_images("photos", "examples").write("labelled", transfer="copy", gallery=False)
    code, _, err = run("label", "photos", "--examples", "examples", "--out", "labelled", "--copy", "--no-gallery")
    assert code == 0, err
    assert "that is complete now" in err


def test_examples_added_during_the_work_are_another_request(workplace, draw_picture, monkeypatch):
    result = label_images("photos", "examples")
    draw_picture(workplace / "examples" / "red" / "more.png", "red", 901)
    with monkeypatch.context() as patch:
        stop_at(patch, 5)
        with pytest.raises(KeyboardInterrupt):
            result.write("labelled", transfer="copy")
    with pytest.raises(RefusedError, match="differing here: examples"):
        label_images("photos", "examples").write("labelled", transfer="copy")
    assert result.write("labelled", transfer="copy").placed.n_done == 24


def test_a_list_that_is_damaged_is_named(workplace):
    (workplace / "labelled").mkdir()
    journal = workplace / "labelled" / transfers.JOURNAL
    journal.write_text(json.dumps({"action": "burn", "folder": "photos", "transfers": []}))
    with pytest.raises(ValueError, match=r"is damaged.*\(its action 'burn' is unknown\)"):
        resume("labelled", "photos", "move")
    assert journal.exists()


def test_pictures_left_behind_are_an_error_and_stay(workplace):
    mine = workplace / "labelled" / "red" / "red-2.png"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(FileExistsError, match="Left 1 picture in place"):
        label_images("photos", "examples").write("labelled", transfer="move")
    assert mine.read_text() == "mine"
    with pytest.raises(FileExistsError, match="Left 1 picture in place"):
        resume("labelled", "photos", "move")
    mine.unlink()
    assert resume("labelled", "photos", "move").n_done == 1


def test_rows_of_moved_pictures_stay_in_the_table(workplace, draw_picture):
    label_images("photos", "examples").write("labelled", transfer="move")
    draw_picture(workplace / "photos" / "new.png", "red", 902)
    label_images("photos", "examples").write("labelled", transfer="move")
    shutil.copytree(workplace / "labelled" / "red", workplace / "others")
    with pytest.raises(OutputExistsError, match=r"moved there from .* 25 in all.* another path, or use force=True"):
        label_images("others", "examples").write("labelled")


def test_the_output_inside_the_folder_is_left_out(workplace):
    for _ in range(2):
        result = label_images("photos", "examples", leave_out="photos/labelled")
        assert len(result.labels) == 30
        assert result.write("photos/labelled", transfer="copy").placed.n_done == 24


def test_the_checks_can_come_before_the_work(workplace, encoded):
    (workplace / "labelled").mkdir()
    (workplace / "labelled" / "labels.csv").write_text("mine")
    outputs = Outputs(path=Path("labelled"), pictures=True, transfer="copy")
    request = Request(Source(Path("photos")), {"examples": (Path("examples"),)})
    with pytest.raises(OutputExistsError, match=r"labels\.csv exists"):
        outputs.check(request, None)
    assert not encoded


def test_a_model_labels_and_writes_new_items(workplace, draw_picture):
    label_images("photos", "examples").write("labelled", model="model", gallery=False)
    for colour in ("blue", "green", "red"):
        draw_picture(workplace / "new" / f"{colour}.png", colour, 777)
    model = load_model("model")
    written = model.label_images("new").write("new-labelled", transfer="copy", gallery=False)
    assert [row["label"] for row in read(written.files[0])] == ["blue", "green", "red"]
    assert (workplace / "new-labelled" / "green" / "green.png").is_file()
    with pytest.raises(RefusedError, match="model: model is the input"):
        model.label_images("new").write("other", model="model", force=True)
    with pytest.raises(ValueError, match="The model labels pictures; got texts"):
        model.label_texts(["red"])


def test_a_model_labels_texts_embeddings_and_tables(tmp_path, blobs):
    X, labels = blobs
    model = label_embeddings(X, labels).model
    assert model.label_embeddings(X, items=[f"tree {i}" for i in range(20)]).columns()["item"][3] == "tree 3"
    with pytest.raises(ValueError, match="X and items need equal lengths; got 20 and 1"):
        model.label_embeddings(X, items=["tree"])
    np.savez(tmp_path / "new.npz", X=X)
    model.label_table(tmp_path / "new.npz", label="tree").write(tmp_path / "new.csv", gallery=False)
    rows = read(tmp_path / "new.csv")
    assert list(rows[0]) == ["item", "tree", "probability", "runner_up", "review"]
    assert [row["tree"] for row in rows] == ["ash"] * 10 + ["oak"] * 10
    with pytest.raises(RefusedError, match="label: 'review' is a column that we write"):
        model.label_table(tmp_path / "new.npz", label="review")
    words = label_texts(["red wine", "late train", "red red wine"], ["a", "b", ""]).model
    assert words.label_texts(["a train, late", "wine red"]).labels == ("b", "a")


def test_another_model_in_memory_is_another_request(workplace):
    first = label_images("photos", "examples").model
    second = label_images("photos", ["examples", Path("examples")], reject=True).model
    third = label_images("photos", make_two_classes(workplace)).model
    jobs = [model.request(Source(Path("photos")), reject=False).job("copy") for model in (first, second, third)]
    assert jobs[0] == jobs[1]
    assert jobs[0].differences(jobs[2]) == ["model"]


def make_two_classes(workplace: Path) -> Path:
    (workplace / "two.csv").write_text("path,label\nred-2.png,red\nblue-2.png,blue\n", encoding="utf-8")
    return workplace / "two.csv"


def test_another_version_of_the_encoder_is_told(workplace, monkeypatch, run):
    label_images("photos", "examples").write("labelled", model="model", gallery=False)
    monkeypatch.setattr(PictureEncoder, "identity", "picture 4")
    with pytest.warns(RuntimeWarning, match="the model was fitted with 'picture 3 .*'; here is 'picture 4'"):
        load_model("model").label_images("photos")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, _, err = run("apply", "model", "photos", "--out", "applied", "--no-gallery")
    assert code == 0
    assert err.startswith("Warning: the model was fitted with 'picture 3 ")


def test_the_command_line_spells_options_its_own_way(workplace, run):
    arguments = ("label", "photos", "--examples", "examples", "--no-gallery", "--out")
    assert run(*arguments, "photos")[2] == "Error: Invalid value for --out: the output must not be the input.\n"
    (workplace / "labelled").mkdir()
    (workplace / "labelled" / "labels.csv").write_text("mine")
    assert run(*arguments, "labelled")[2] == (
        "Error: labelled/labels.csv exists and is not, or no longer, as this command wrote it. Move it elsewhere if it "
        "holds your work, or use --force to replace it.\n"
    )


def test_every_option_has_a_name_on_the_command_line():
    assert set(_errors._OPTIONS) == set(Option)


def test_a_refusal_survives_the_way_between_processes():
    error = OutputExistsError("{file} exists.", file="{odd}.csv")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "{odd}.csv exists."
    assert again.spell({}) == "{odd}.csv exists."
