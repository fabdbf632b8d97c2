"""What people, programs and disks leave in folders and tables; and Ctrl-C."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from marginshot.data.pictures import UnreadablePictureError, read_picture
from marginshot.labelling import Session, label_images
from marginshot.labelling.items.encoders import PictureEncoder
from marginshot.labelling.items.tables import read_labels, read_npz, read_table, stack_embeddings
from marginshot.labelling.outputs import transfers

LABEL = ("label", "photos", "--examples", "examples", "--out", "labelled")


def items(table: Path) -> list[str]:
    with table.open(encoding="utf-8", newline="") as file:
        return [row["item"] for row in csv.DictReader(file)]


@pytest.mark.parametrize(
    "name", ["a,b.png", "q\"uote's.png", "two\nlines.png", "ünï—文字.png", " space.png", "#1?.png"]
)
def test_any_name_survives_the_table_and_the_copy(workplace, run, encoded, name):
    (workplace / "photos" / "red-2.png").rename(workplace / "photos" / name)
    code, _, err = run(*LABEL, "--copy", "--export", "label-studio", "--export", "fiftyone", "--export", "bulk")
    assert code == 0, err
    assert name in items(workplace / "labelled" / "labels.csv")
    assert (workplace / "labelled" / "red" / name).is_file()


def test_a_name_that_is_not_text_is_reported(workplace, run, encoded):
    odd = os.fsencode(workplace / "photos") + b"/bad\xff.png"
    try:
        shutil.copy(os.fsencode(workplace / "photos" / "red-2.png"), odd)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    code, _, err = run(*LABEL)
    assert code == 0, err
    assert "bad\\udcff.png: has a name that is not UTF-8" in err


def test_examples_whose_names_are_not_text_are_named(workplace, run, encoded):
    red = workplace / "examples" / "red"
    try:
        for number in (0, 1):
            (red / f"example-{number}.png").rename(red / os.fsdecode(b"bad-%d\xff.png" % number))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    code, _, err = run(*LABEL)
    assert code == 2
    assert "The class 'red' has no examples left: examples/red/bad-0\\udcff.png has a name that is not UTF-8" in err


def test_a_folder_that_cannot_be_searched_stops_before_the_work(workplace, run, encoded, monkeypatch):
    scan = os.scandir

    def closed(path):
        if Path(path).name == "day one":
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", closed)
    code, _, err = run(*LABEL)
    assert code == 2
    assert "The folder photos/trip/day one cannot be searched (Permission denied)" in " ".join(err.split())
    assert not encoded


def test_embeddings_of_pictures_read_otherwise_before_are_not_taken():
    assert PictureEncoder().identity.startswith("picture 3 ")


@pytest.mark.skipif(os.name == "nt", reason="links and pipes of Unix")
def test_links_to_nowhere_and_in_circles_pipes_and_empty_files(workplace, run, encoded):
    photos = workplace / "photos"
    (photos / "nowhere.png").symlink_to("gone.png")
    (photos / "circle").symlink_to(".")
    (photos / "folder.png").mkdir()
    (photos / "empty.jpg").touch()
    os.mkfifo(photos / "pipe.png")
    code, _, err = run(*LABEL)
    assert code == 0, err
    assert "Left out nowhere.png: cannot be opened (No such file or directory)." in err
    assert "Left out empty.jpg: cannot be read as a picture" in err
    assert "Left out circle: is a link to a folder, and not followed; give that folder itself." in err
    assert "Left out pipe.png: is a pipe or a device, not a file." in err
    assert len(items(workplace / "labelled" / "labels.csv")) == 24


def test_the_output_inside_the_folder_is_no_input(workplace, run, encoded):
    arguments = ("label", "photos", "--examples", "examples", "--out", "photos/labelled", "--copy")
    for _ in range(2):
        assert run(*arguments)[0] == 0
        assert len(items(workplace / "photos" / "labelled" / "labels.csv")) == 24


def test_answers_do_not_go_among_the_examples(workplace, run, encoded):
    code, _, err = run("label", "photos", "--examples", "examples", "--out", "examples", "--copy")
    assert code == 2
    assert "examples holds the examples" in err
    assert len(list((workplace / "examples").rglob("*.png"))) == 6


@pytest.mark.parametrize("name", ["labels.csv", "labels-gallery.html", "rows.npz"])
def test_the_model_is_not_saved_over_something_else(workplace, run, name):
    rng = np.random.default_rng(0)
    np.savez(workplace / "rows.npz", X=rng.standard_normal((30, 4)), y=np.array(["a", "b", *[""] * 28]))
    before = (workplace / "rows.npz").read_bytes()
    code, _, err = run("label", "rows.npz", "--out", "labels.csv", "--save", name, "--force")
    assert code == 2
    assert f"{name} is the input, or where another output goes" in err
    assert (workplace / "rows.npz").read_bytes() == before
    assert not (workplace / "labels.csv").exists()


def test_no_output_goes_over_the_input(workplace, run):
    source = workplace / "labels-suggestions.csv"
    source.write_text("text,label\none,a\ntwo,b\nthree,\n", encoding="utf-8")
    before = source.read_bytes()
    options = ("--text", "text", "--label", "label", "--out", "labels.csv", "--suggest", "1", "--force")
    code, _, err = run("label", source.name, *options)
    assert code == 2
    assert "labels-suggestions.csv is the input" in err
    assert source.read_bytes() == before


def test_interrupted_while_encoding_keeps_what_is_done(workplace, run, encoded, monkeypatch):
    monkeypatch.setattr("marginshot.labelling.items.embed.BATCH_SIZE", 10)
    whole = PictureEncoder.encode
    batches = []

    def interrupted(self, prepared):
        batches.append(len(prepared))
        if len(batches) == 3:
            raise KeyboardInterrupt
        return whole(self, prepared)

    monkeypatch.setattr(PictureEncoder, "encode", interrupted)
    code, _, err = run(*LABEL)
    assert code == 130
    assert err.strip().splitlines() == [
        "Interrupted. Finished embeddings and files are kept; run the same command again to go on."
    ]
    assert not (workplace / "labelled").exists()
    assert run(*LABEL)[0] == 0
    assert batches == [10, 10, 10, 10], "the third batch again, the first two from the cache"


@pytest.mark.parametrize(
    "place", ["marginshot.labelling.items.kinds.file_digest", "marginshot.labelling.outputs.transfers._copy"]
)
def test_interrupted_at_any_time_says_so(workplace, run, encoded, monkeypatch, place):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupted)
    for _ in range(2):  # the second time while it goes on
        code, _, err = run(*LABEL, "--copy")
        assert code == 130
        assert err.strip().splitlines()[-1].startswith("Interrupted. Finished embeddings and files are kept")


def test_a_command_without_a_word_of_its_own_is_interrupted_with_one(run, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("marginshot.labelling.items.store.default_folder", interrupted)
    assert run("cache") == (130, "", "Interrupted.\n")


def arrange_file_above(place):
    (place / "afile").touch()
    return ("--out", "afile/labelled")


def arrange_link_to_nowhere(place):
    (place / "labelled").symlink_to("gone")
    return ("--out", "labelled")


def arrange_file_for_a_class(place):
    (place / "labelled").mkdir()
    (place / "labelled" / "red").write_text("mine")
    return ("--out", "labelled", "--copy")


def arrange_file_for_an_export(place):
    (place / "labelled").mkdir()
    (place / "labelled" / "fiftyone").write_text("mine")
    return ("--out", "labelled", "--export", "fiftyone")


def arrange_model_in_place_of_a_class(place):
    (place / "labelled").mkdir()
    return ("--out", place / "labelled", "--save", "labelled/red", "--copy")


@pytest.mark.parametrize(
    ("arrange", "message"),
    [
        (arrange_file_above, "afile is a file, or a link to nowhere"),
        (arrange_link_to_nowhere, "labelled is a file, or a link to nowhere"),
        (arrange_file_for_a_class, "labelled/red is a file, where the folder of the class 'red' is to be"),
        (arrange_file_for_an_export, "labelled/fiftyone is a file, or a link to nowhere"),
        (arrange_model_in_place_of_a_class, "The class 'red' cannot be the name of a folder"),
    ],
)
def test_an_output_that_cannot_be_is_told_before_the_work(workplace, run, encoded, arrange, message):
    code, _, err = run("label", "photos", "--examples", "examples", *arrange(workplace))
    assert code == 2
    assert message in " ".join(err.split())
    assert len(err.strip().splitlines()) == 1
    assert not encoded


def test_interrupted_while_moving_goes_on_with_the_next_run(workplace, run, encoded, monkeypatch):
    before = {path.name: path.read_bytes() for path in (workplace / "photos").rglob("*.png")}
    move, calls = transfers._move, []

    def interrupted(source, target):
        calls.append(source)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return move(source, target)

    monkeypatch.setattr(transfers, "_move", interrupted)
    assert run(*LABEL, "--move")[0] == 130
    found = [path for folder in ("photos", "labelled") for path in (workplace / folder).rglob("*.png")]
    assert {path.name: path.read_bytes() for path in found} == before
    code, _, err = run(*LABEL, "--move")
    assert code == 0, err
    assert {path.name: path.read_bytes() for path in (workplace / "labelled").rglob("*.png")} == before
    assert not list((workplace / "photos").rglob("*.png"))


def test_kinds_of_pictures(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="pictures need the extra pictures")
    red = image.new("RGB", (8, 8), (200, 30, 30))
    blue = image.new("RGB", (8, 8), (30, 30, 200))
    red.convert("CMYK").save(tmp_path / "print.jpg", quality=95)
    red.save(tmp_path / "moving.gif", save_all=True, append_images=[blue])
    red.save(tmp_path / "moving.webp", save_all=True, append_images=[blue], lossless=True)
    for path in sorted(tmp_path.iterdir()):
        pixel = np.asarray(read_picture(path))[4, 4].astype(int)
        assert abs(pixel - (200, 30, 30)).max() < 12, path.name


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image", reason="pictures need the extra pictures")
    image.new("RGB", (64, 64)).save(tmp_path / "bomb.png")
    monkeypatch.setattr(image, "MAX_IMAGE_PIXELS", 1_000)
    with pytest.raises(UnreadablePictureError, match="exceeds limit"):
        read_picture(tmp_path / "bomb.png")


def test_tables_of_other_programs(tmp_path):
    table = tmp_path / "table.csv"
    long = "word " * 40_000
    table.write_text(f'id;body;topic\n1;"{long}";food\n1;"two\nlines";\n2;NaN;NaN\n', encoding="utf-8-sig")
    held = read_table(table)
    assert list(held.columns) == ["id", "body", "topic"]
    assert held.column("body") == [long, "two\nlines", "NaN"]
    assert read_labels(held.column("topic")) == ("food", "", "")


def test_labels_that_are_missing():
    assert read_labels([None, float("nan"), "", " ", -1, "-1", "nan", "<NA>", "Nan", 0]) == ("",) * 8 + ("Nan", "0")
    assert read_labels(["None", "N/A", "NA", " null ", "-", "none", "Na"]) == ("",) * 5 + ("none", "Na")


@pytest.mark.usefixtures("encoded")
@pytest.mark.filterwarnings("always")
def test_words_for_a_missing_label_are_counted_and_can_be_classes(workplace, run):
    table = workplace / "t.csv"
    table.write_text("body,label\nred ink,ink\nred pen,N/A\nno pen,None\nno ink,None\nbig cup,cup\n")
    ask = ("label", "t.csv", "--text", "body", "--out")
    code, _, err = run(*ask, "out.csv", "--no-gallery")
    assert code == 0
    assert "2 cells 'None' and 1 cell 'N/A' are taken as no label. If a class is called so, name it" in err
    assert set(read_labels(read_table(workplace / "out.csv").column("label"))) == {"ink", "cup"}
    code, _, err = run(*ask, "named.csv", "--classes", "None", "--no-gallery")
    assert code == 0
    assert "1 cell 'N/A' is taken as no label." in err
    written = read_table(workplace / "named.csv").columns
    assert written["label"][2:4] == ["None", "None"]
    # The next run knows the class by the option that it remembers, and takes nothing for a correction.
    code, _, err = run(*ask, "named.csv")
    assert code == 0
    assert "differ" not in err
    assert read_table(workplace / "named.csv").columns == written


@pytest.mark.usefixtures("encoded")
@pytest.mark.filterwarnings("always")
def test_a_table_of_examples_may_hold_named_classes_that_look_like_missing_values(workplace, run, monkeypatch):
    monkeypatch.setenv("MARGINSHOT_SESSIONS", str(workplace / "sessions"))
    examples = workplace / "known.csv"
    examples.write_text("path,label\nred-2.png,NA\nblue-2.png,blue\ngreen-2.png,green\n")
    code, _, err = run("label", "photos", "--examples", "known.csv", "--out", "one", "--no-gallery")
    assert code == 0, err
    assert "1 cell 'NA' is taken as no label." in err
    ask = ("label", "photos", "--examples", "known.csv", "--classes", "NA", "--out", "two", "--no-gallery")
    code, _, err = run(*ask)
    assert code == 0, err
    assert "taken as no label" not in err
    assert "NA" in read_table(workplace / "two" / "labels.csv").column("label")
    assert "NA" in label_images("photos", "known.csv", classes=["NA"]).labels
    with Session.open("photos", examples="known.csv", classes=["NA"]) as session:
        assert "NA" in {known.name for known in session.state.classes}
        assert (session.state.given >= 0).sum() == 3


@pytest.mark.usefixtures("encoded")
def test_rows_without_a_text_are_left_out_and_keep_their_own_label(workplace, run):
    table = workplace / "t.csv"
    table.write_text('id,body,label\n1,red ink,ink\n2,"",\n3,big cup,cup\n4,"  ",ink\n5,small cup,\n')
    for _ in range(2):
        code, out, err = run("label", "t.csv", "--text", "body", "--out", "out.csv", "--no-gallery", "--format", "json")
        assert code == 0
        assert "Left out row 2: has no text." in err
        assert "Left out row 4: has no text." in err
        assert "differ" not in err
        assert json.loads(out)["left_out"] == {"row 2": "has no text", "row 4": "has no text"}
    written = read_table(workplace / "out.csv").columns
    assert written["id"] == ["1", "2", "3", "4", "5"]
    assert written["label"] == ["ink", "", "cup", "ink", "cup"]
    assert written["review"][1] == written["review"][3] == "no text"
    assert written["probability"][1] == ""


@pytest.mark.parametrize(
    "y", [np.array([0.0, -1.0, 2.0]), np.array([b"0", b"", b"2"]), np.array([[0], [-1], [2]]), np.array([0, np.nan, 2])]
)
def test_labels_in_npz_of_any_kind(tmp_path, y):
    np.savez(tmp_path / "rows.npz", X=np.ones((3, 2)), y=y)
    assert read_labels(read_npz(tmp_path / "rows.npz", None).column("y")) == ("0", "", "2")


def test_a_class_folder_may_be_a_link(workplace, run, encoded):
    (workplace / "photos" / "red").symlink_to(workplace / "examples" / "red")
    (workplace / "photos" / "blue").symlink_to(workplace / "examples" / "blue")
    shutil.rmtree(workplace / "photos" / "trip")
    code, _, err = run("label", "photos", "--out", "labelled", "--dry-run")
    assert code == 0
    assert "Left out" not in err


def write_tabs(path: Path) -> None:
    path.write_text("body\tlabel\nred, ink\tink\n")


def write_utf16(path: Path) -> None:
    path.write_text("body,label\nred ink,ink\n", encoding="utf-16")


def write_npz(path: Path, **changed: object) -> None:
    rng = np.random.default_rng(0)
    held = {"X": rng.standard_normal((6, 4)), "y": np.array(["a", "b", *[""] * 4])}
    np.savez(path, **{**held, **changed})


def write_objects(path: Path) -> None:
    write_npz(path, y=np.array(["a", "b", *[None] * 4], dtype=object))


def write_complex(path: Path) -> None:
    write_npz(path, X=np.ones((6, 4)) + 1j)


@pytest.mark.parametrize(
    ("name", "write", "options", "message"),
    [
        ("t.csv", write_tabs, ("--text", "body"), "t.csv is separated by tabs. Rename it to t.tsv."),
        ("t.csv", write_utf16, ("--text", "body"), "t.csv is in UTF-16. Save it as UTF-8"),
        ("t.npz", write_objects, (), "t.npz: y holds Python objects, which are never read, because they can run code."),
        ("t.npz", write_complex, (), "t.npz: embeddings must be real numbers; got complex numbers (complex128)."),
        ("t.npz", write_npz, ("--text", "y"), "Invalid value for --text: t.npz holds embeddings in X, and no texts"),
    ],
)
def test_tables_that_cannot_be_labelled_are_one_sentence(workplace, run, name, write, options, message):
    write(workplace / name)
    before = sorted(workplace.iterdir())
    code, out, err = run("label", name, *options, "--out", "out.csv")
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert sorted(workplace.iterdir()) == before


def test_the_column_of_labels_holds_no_texts(workplace, run):
    (workplace / "t.csv").write_text("body,label\nred ink,ink\n")
    code, _, err = run("label", "t.csv", "--text", "label", "--out", "out.csv")
    assert (code, "'label' is the column of labels; name the column of texts" in err) == (2, True)


@pytest.mark.parametrize("X", [np.float64(1), np.ones(3), np.ones((3, 2, 2))])
def test_rows_of_another_shape_in_npz(tmp_path, X):
    np.savez(tmp_path / "rows.npz", X=X, y=np.array(["a", "b", ""]))
    with pytest.raises(ValueError, match=r"rows\.npz: X must have shape \(rows, features\); got"):
        read_npz(tmp_path / "rows.npz", None)


def test_names_in_npz_may_be_bytes(tmp_path):
    held = {"X": np.ones((3, 2)), "y": np.array([0, 1, -1])}
    np.savez(tmp_path / "rows.npz", **held, classes=np.array([b"yew", "ösp".encode()]), items=[b"a", b"b", b"c"])
    table = read_npz(tmp_path / "rows.npz", None)
    assert table.column("item") == ["a", "b", "c"]
    assert table.column("y") == ["yew", "ösp", ""]
    np.savez(tmp_path / "latin.npz", **held, items=np.array([b"\xf6", b"b", b"c"]))
    with pytest.raises(ValueError, match=r"latin\.npz: items is not UTF-8 text"):
        read_npz(tmp_path / "latin.npz", None)


@pytest.mark.parametrize("rows", [[[1.0, 2.0], [3.0, 4.0]], [["a"], ["b", "c"]]])
def test_a_column_of_lists_holds_no_labels(tmp_path, rows):
    pq.write_table(pa.table({"label": rows}), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match="Every row needs one label; row 1 holds"):
        read_labels(read_table(tmp_path / "rows.parquet").column("label"))


def test_an_embedding_in_a_table_of_text_is_not_printed_whole():
    with pytest.raises(ValueError, match="lists of numbers") as told:
        stack_embeddings([str([0.25] * 1_000)], "rows.csv")
    assert len(str(told.value)) < 150


def test_a_label_that_is_infinite_is_one_like_others(tmp_path):
    np.savez(tmp_path / "rows.npz", X=np.ones((3, 2)), y=np.array([0.0, -1.0, np.inf]))
    assert read_labels(read_npz(tmp_path / "rows.npz", None).column("y")) == ("0", "", "inf")


@pytest.mark.parametrize("name", ["review", "probability", "item"])
def test_labels_under_a_name_of_ours_are_refused(workplace, run, name):
    rng = np.random.default_rng(0)
    np.savez(workplace / "rows.npz", X=rng.standard_normal((30, 4)), y=np.array(["a", "b", *[""] * 28]))
    np.savez(workplace / "new.npz", X=rng.standard_normal((5, 4)))
    assert run("label", "rows.npz", "--out", "labels.csv", "--save", "model", "--no-gallery")[0] == 0
    code, _, err = run("apply", "model", "new.npz", "--out", "new.csv", "--label", name)
    assert code == 2
    assert f"{name!r} is a column that we write" in " ".join(err.split())


def test_a_cache_that_cannot_be_made_names_the_ways_out(workplace, run, encoded):
    (workplace / "file").touch()
    code, _, err = run(*LABEL, "--cache", "file/cache")
    assert code == 2
    assert "file/cache cannot be made (Not a directory). Choose another with --cache, or do without by --no-cache" in (
        " ".join(err.split())
    )


@pytest.mark.parametrize("words", [("studio", "photos"), ("label-studio",)])
def test_a_command_without_no_cache_does_not_name_it(workplace, run, encoded, words):
    pytest.importorskip("uvicorn", reason="needs extra `studio`")
    (workplace / "file").touch()
    code, _, err = run(*words, "--cache", "file/cache")
    told = " ".join(err.split())
    assert code == 2
    assert told.endswith("file/cache cannot be made (Not a directory). Choose another with --cache.")


def test_several_labels_a_row_are_refused(tmp_path):
    np.savez(tmp_path / "rows.npz", X=np.ones((3, 2)), y=np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"rows\.npz: y needs one label a row; got shape \(3, 2\)"):
        read_npz(tmp_path / "rows.npz", None)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, 2.0], [3.0]], "row 2 has 1, the first has 2"),
        ([[1.0, 2.0], None], "row 2 is None"),
        ([["a", "b"], ["c", "d"]], "some are not numbers"),
    ],
)
def test_embeddings_that_do_not_stack(tmp_path, rows, message):
    pq.write_table(pa.table({"embedding": rows}), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=message):
        stack_embeddings(read_table(tmp_path / "rows.parquet").column("embedding"), "rows.parquet")


def test_a_class_called_like_the_mark_of_no_label_is_refused(workplace, run):
    (workplace / "examples" / "red").rename(workplace / "examples" / "-1")
    code, _, err = run("label", "photos", "--examples", "examples", "--out", "labelled")
    assert code == 2
    assert "Examples: a class cannot be called '-1', which stands for no label" in err


def test_two_classes_of_one_name_are_not_merged(tmp_path):
    np.savez(tmp_path / "rows.npz", X=np.ones((3, 2)), y=[0, 1, -1], classes=["elm", "elm"])
    with pytest.raises(ValueError, match=r"rows\.npz: class names must differ; 'elm' occurs twice"):
        read_npz(tmp_path / "rows.npz", None)


def test_pickles_inside_npz_are_refused(tmp_path):
    np.savez(tmp_path / "objects.npz", X=np.ones((2, 2)), y=np.array(["a", None], dtype=object))
    with pytest.raises(ValueError, match="y holds Python objects, which are never read"):
        read_npz(tmp_path / "objects.npz", None)


def test_an_npz_damaged_in_the_middle_is_one_sentence(tmp_path):
    path = tmp_path / "rows.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).standard_normal((200, 20)), y=np.arange(200) % 2)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 500] = bytes(500)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"rows\.npz is damaged, or not a readable \.npz"):
        read_npz(path, None)
