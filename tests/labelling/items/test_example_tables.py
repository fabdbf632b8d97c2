"""Labels that come from elsewhere: tables with any columns, and exports of Label Studio."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from unicodedata import normalize
from urllib.parse import quote

import pytest

from marginshot._lib.reading import DamagedFileError
from marginshot.labelling import RefusedError, Session, label_images, label_table
from marginshot.labelling.items.example_tables import FileNames, parts_of
from marginshot.labelling.items.folders import collect_files, find_files
from marginshot.labelling.items.kinds import PICTURE
from marginshot.labelling.items.label_studio import read_tasks
from marginshot.labelling.items.sources import open_source
from marginshot.labelling.items.tables import read_table
from marginshot.labelling.items.xmp import with_keyword

pytestmark = pytest.mark.usefixtures("encoded")

KNOWN = {"red-2.png": "red", "trip/day one/blue-3.png": "blue", "green-4.png": "green"}


def write_csv(path: Path, header: list[str], rows: list[list[str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def write_json(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def task(number: int, data: dict[str, object], *annotations: dict[str, object]) -> dict[str, object]:
    return {"id": number, "data": data, "annotations": list(annotations), "predictions": []}


def chose(*choices: str, name: str = "label", **about: object) -> dict[str, object]:
    value = {"choices": list(choices)}
    return {"result": [{"from_name": name, "to_name": "image", "type": "choices", "value": value}], **about}


def served(path: Path) -> str:
    return f"/data/local-files/?d={quote(path.absolute().as_posix().lstrip('/'))}"


def examples_of(examples: str) -> dict[str, str]:
    collection = collect_files(Path("photos"), [Path(examples)])
    return {item: label for item, label in zip(collection.items, collection.labels, strict=True) if label}


# Tables with any columns.


def test_columns_are_found_by_what_is_in_them(workplace, run):
    write_csv(Path("known.csv"), ["Photo", "Species"], [[name, label] for name, label in KNOWN.items()])
    code, _, err = run("label", "photos", "--examples", "known.csv", "--out", "labelled", "--no-gallery")
    assert code == 0, err
    assert "known.csv: files are taken from the column 'Photo', labels from 'Species'." in err
    with Path("labelled/labels.csv").open(encoding="utf-8", newline="") as file:
        given = {row["item"]: row["label"] for row in csv.DictReader(file) if row["review"] == "example"}
    assert given == KNOWN


def test_a_session_says_which_columns_it_took(workplace):
    write_csv(Path("known.csv"), ["Photo", "Species"], [[name, label] for name, label in KNOWN.items()])
    with Session.open("photos", examples="known.csv") as session:
        assert session.notes == ["known.csv: files are taken from the column 'Photo', labels from 'Species'."]
        assert sorted(known.name for known in session.state.classes) == ["blue", "green", "red"]


def test_columns_called_path_and_label_need_no_words(workplace):
    write_csv(Path("known.csv"), ["path", "label", "by"], [[name, label, "ann"] for name, label in KNOWN.items()])
    assert collect_files(Path("photos"), [Path("known.csv")]).notes == ()


def test_a_column_called_label_is_that_of_labels(workplace):
    rows = [["7", name, label, "a long text. " * 90] for name, label in KNOWN.items()]
    write_csv(Path("known.csv"), ["id", "photo", "label", "remark"], rows)
    assert examples_of("known.csv") == KNOWN


@pytest.mark.parametrize(
    "head", ["/home/bo/photos/", "C:\\Users\\bo\\photos\\", "s3://bucket/photos/", "https://x.org/p/"]
)
def test_paths_of_another_machine_mean_the_files_that_end_alike(workplace, head):
    rows = [[head + (name.replace("/", "\\") if "\\" in head else quote(name) if ":" in head else name), label]
            for name, label in KNOWN.items()]  # fmt: skip
    write_csv(Path("known.csv"), ["path", "label"], rows)
    assert examples_of("known.csv") == KNOWN


@pytest.mark.parametrize(("there", "named"), [("NFC", "NFD"), ("NFD", "NFC")])
@pytest.mark.parametrize("prefix", ["", "/Users/ann/photos/"])
def test_accents_are_found_however_they_are_coded(workplace, draw_picture, there, named, prefix):
    name = "Bäch/Möwe.png"
    draw_picture(Path("photos", normalize(there, name)), "red", 1)
    rows = [[prefix + normalize(named, name), "red"], [prefix + "green-4.png", "green"]]
    write_csv(Path("known.csv"), ["path", "label"], rows)
    assert examples_of("known.csv") == {normalize(there, name): "red", "green-4.png": "green"}


def test_a_name_alone_means_the_only_file_of_that_name(workplace):
    write_csv(Path("known.csv"), ["file", "label"], [[Path(name).name, label] for name, label in KNOWN.items()])
    assert examples_of("known.csv") == KNOWN


@pytest.mark.parametrize(
    ("header", "rows", "words"),
    [
        (["photo", "species", "sex"], [["red-2.png", "red", "f"]],
         r"which of the columns species, sex holds the labels\? Call that one label; 'photo' has the files"),
        (["photo"], [["red-2.png"]], "need a column label beside 'photo'"),
        (["a", "b"], [["nothing.png", "red"]], r"no column names pictures of photos; it has a, b\. Examples need"),
        (["a", "b", "label"], [["red-2.png", "red-4.png", "red"]], "the columns 'a' and 'b' both name pictures"),
        (["path", "label"], [["gone.png", "red"]], r"there is no picture 'gone.png', neither in photos nor beside"),
        (["path", "label"], [["red-2.png", "red"], ["gone.png", "red"]], r"there is no picture 'gone.png'"),
        (["path", "label"], [["elsewhere/blue-3.png", "blue"]], "there is no picture 'elsewhere/blue-3.png'"),
        (["path", "label"], [["../photo/red-2.png", "red"]], "there is no picture '../photo/red-2.png'"),
        (["path", "label"], [["same.png", "red"]], "'same.png' may be one/same.png or two/same.png in photos"),
        (["path", "label"], [["x/red-2.png", "red"], ["y/red-2.png", "red"]],
         "'x/red-2.png' and 'y/red-2.png' both match red-2.png in photos"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_one_sentence(workplace, draw_picture, run, header, rows, words):
    for place, folder in enumerate(("one", "two")):
        draw_picture(Path("photos", folder, "same.png"), "red", 70 + place)
    write_csv(Path("known.csv"), header, rows)
    with pytest.raises(ValueError, match=words):
        collect_files(Path("photos"), [Path("known.csv")])
    code, _, err = run("label", "photos", "--examples", "known.csv", "--out", "labelled")
    assert (code, err.count("\n")) == (2, 1)


def test_copies_in_the_output_are_not_meant(workplace):
    write_csv(Path("known.csv"), ["file", "label"], [[Path(name).name, label] for name, label in KNOWN.items()])
    result = label_images("photos", "known.csv")
    result.write("photos/labelled", gallery=False, transfer="copy")
    assert label_images("photos", "known.csv", leave_out="photos/labelled").labels == result.labels


# Exports of Label Studio.


def test_an_export_of_label_studio_is_examples(workplace, run):
    tasks = [
        task(1, {"image": served(Path("photos/red-2.png"))}, chose("red")),
        task(2, {"image": "/data/upload/3/1a2b3c4d-blue-3.png"}, chose("blue")),
        task(3, {"image": "s3://bucket/green-4.png"}, chose("red", updated_at="1"), chose("green", updated_at="2")),
        task(4, {"image": served(Path("photos/red-4.png"))}),
        task(5, {"image": served(Path("photos/red-6.png"))}, chose("blue", was_cancelled=True)),
    ]
    write_json(Path("export.json"), tasks)
    code, _, err = run("label", "photos", "--examples", "export.json", "--out", "labelled", "--no-gallery")
    assert code == 0, err
    assert "files are taken from the column 'image', labels from 'label'" in err
    assert examples_of("export.json") == KNOWN


def test_json_min_is_examples(workplace):
    about = {"annotator": 1, "lead_time": 2.5, "created_at": "1"}
    rows = [
        {"id": 1, "image": "red-2.png", "species": "blue", "annotation_id": 1, "updated_at": "1", **about},
        {"id": 1, "image": "red-2.png", "species": "red", "annotation_id": 2, "updated_at": "2", **about},
        {"id": 2, "image": "blue-3.png", "species": "blue", "annotation_id": 3, "updated_at": "1", **about},
        {"id": 3, "image": "green-4.png", "species": "green", "annotation_id": 4, "updated_at": "1", **about},
        {"id": 4, "image": "green-6.png", "species": {"choices": ["red", "green"]}, "annotation_id": 5, **about},
    ]
    write_json(Path("min.json"), rows)
    with pytest.warns(UserWarning, match="1 answers with several choices are taken as no label"):
        assert examples_of("min.json") == KNOWN


def test_uploaded_names_lost_their_spaces(workplace, draw_picture):
    draw_picture(Path("photos/a red (one).png"), "red", 50)
    tasks = [task(1, {"image": "/data/upload/1/00ff00ff-a_red_one.png"}, chose("red"))]
    tasks += [task(2, {"image": "blue-3.png"}, chose("blue"))]
    write_json(Path("export.json"), tasks)
    assert examples_of("export.json") == {"a red (one).png": "red", "trip/day one/blue-3.png": "blue"}


def test_an_export_never_leads_out_of_the_folder(workplace, draw_picture):
    own = draw_picture(workplace / "private" / "own.png", "red", 60)
    Path("photos/link").symlink_to(own.parent, target_is_directory=True)
    Path("own.png").write_bytes(own.read_bytes())  # beside the export
    for name in (
        str(own),
        "../private/own.png",
        served(own),
        own.as_uri(),
        "link/own.png",
        "own.png",
        "\ud800.png",
        "\0",
    ):
        write_json(Path("export.json"), [task(1, {"image": name}, chose("red")), task(2, {"image": "red-2.png"})])
        with pytest.raises(ValueError, match="there is no picture"):
            collect_files(Path("photos"), [Path("export.json")])
    write_csv(Path("known.csv"), ["path", "label"], [[str(own), "red"], ["blue-4.png", "blue"]])
    assert examples_of("known.csv") == {"blue-4.png": "blue", str(own): "red"}  # in a table of one's own it may


def test_an_export_of_texts_is_a_table(workplace, run):
    texts = ["late train", "train is late", "sweet cake", "cake is sweet"]
    tasks = [
        task(number, {"text": text, "words": len(text.split()), "tokens": text.split()}, *given)
        for number, (text, given) in enumerate(
            zip(texts, [[chose("travel")], [], [chose("food")], []], strict=True), start=1
        )
    ]
    write_json(Path("tasks.json"), tasks)
    code, _, err = run("label", "tasks.json", "--text", "text", "--out", "out.csv", "--no-gallery")
    assert code == 0, err
    table = read_table(Path("out.csv"))
    assert list(table.columns)[:3] == ["text", "words", "label"]
    assert table.column("label") == ["travel", "travel", "food", "food"]
    assert label_table("tasks.json", text="text").labels == ("travel", "travel", "food", "food")
    with Session.open("tasks.json", text="text") as session:
        assert sorted(known.name for known in session.state.classes) == ["food", "travel"]


def test_several_questions_are_columns_of_their_names(workplace, run):
    answers = [
        {"from_name": name, "value": {"choices": [choice]}} for name, choice in (("topic", "travel"), ("tone", "angry"))
    ]
    tasks = [task(1, {"text": "late train"}, {"result": answers}), task(2, {"text": "cake"})]
    path = write_json(workplace / "tasks.json", tasks)
    assert read_tasks(path) == {"text": ["late train", "cake"], "topic": ["travel", ""], "tone": ["angry", ""]}
    source = open_source(path, "tone")
    assert source.rows().column(source.label) == ["angry", ""]


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[1]", b"null", b"\xff\xfe[", b'[{"data": ', b"[" * 100_000, b'[{"id": 1e999999}, 3]'],
)
def test_files_that_are_no_export_are_one_sentence(workplace, run, content):
    Path("export.json").write_bytes(content)
    with pytest.raises(DamagedFileError, match="Export the project as JSON"):
        read_tasks(Path("export.json"))
    code, _, err = run("label", "photos", "--examples", "export.json", "--out", "labelled")
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(
    "content",
    [
        [],
        [{}],
        [{"data": {}, "annotations": [{"result": 3}]}],
        [{"data": {"image": ["red-2.png"]}, "annotations": [None, 3, {"result": [{"value": {"choices": [{}]}}]}]}],
        [{"data": {"image": {"a": 1}}, "annotations": {"result": []}}],
        [{"id": [1], "annotation_id": 2, "image": "red-2.png", "label": []}],
        [{"data": {"image": "red-2.png"}, "annotations": [{"result": [{"value": {"choices": ["\ud800"]}}]}]}],
        [{"data": {"image": "red-2.png"}, "annotations": [{"result": [{"value": {"choices": ["x" * 2000]}}]}]}],
        [{"data": {"image": "http://[", "label": "x"}}],
    ],
)
def test_odd_exports_are_one_sentence(workplace, run, content):
    write_json(Path("export.json"), content)
    code, _, err = run("label", "photos", "--examples", "export.json", "--out", "labelled")
    assert (code, err.count("\n")) == (2, 1), err
    assert not Path("labelled").exists()


@pytest.mark.parametrize("name", ["http://[", "", "/", "..", "a/../b.png", "//", "\\"])
def test_odd_addresses_have_no_file(workplace, name):
    names = FileNames(PICTURE, Path("photos"), Path(), find_files(Path("photos"), (), [PICTURE]), trusted=False)
    assert names.find(name) == []
    assert ".." not in parts_of(name)


# Keywords of the pictures themselves.


def tag(item: str, *keywords: str) -> None:
    """Write a sidecar with these keywords beside a picture of ``photos``."""
    content, picture = None, Path("photos", item)
    for keyword in keywords:
        content = with_keyword(content, keyword, picture)
    picture.with_name(f"{picture.name}.xmp").write_bytes(content or b"")


def test_the_only_keyword_of_a_picture_is_its_class(workplace, run):
    for item, label in KNOWN.items():
        tag(item, label)
    tag("red-4.png", "red", "holidays")
    tag("red-6.png")
    words = ["label", "photos", "--out", "labelled", "--no-gallery"]
    code, _, err = run(*words, "--examples", "xmp")
    assert code == 0, err
    assert "Keywords: 3 pictures have one, and are examples; 1 has several, and is not" in err
    assert "The XMP of photos/red-6.png.xmp cannot be used" in err
    with Path("labelled/labels.csv").open(encoding="utf-8", newline="") as file:
        given = {row["item"]: row["label"] for row in csv.DictReader(file) if row["review"] == "example"}
    assert given == KNOWN
    code, _, err = run(*words)
    assert code == 0, err
    assert "--examples xmp" in err


def test_of_several_keywords_the_class_that_was_named_counts(workplace):
    for item, label in KNOWN.items():
        tag(item, "holidays", label)
    tag("red-4.png", "red", "blue")
    with pytest.raises(RefusedError, match="no picture of photos has one keyword alone, and 4 have several"):
        collect_files(Path("photos"), [Path("xmp")])
    found = collect_files(Path("photos"), [Path("xmp")], classes={"red", "green", "blue"})
    assert {item: label for item, label in zip(found.items, found.labels, strict=True) if label} == KNOWN
    with Session.open("photos", examples="xmp", classes=["red", "green", "blue"]) as session:
        assert all(f"1 {label}" in repr(session) for label in KNOWN.values())


def test_pictures_without_keywords_are_no_examples(workplace):
    with pytest.raises(RefusedError, match=r"no picture of photos has a keyword of a person. There is no keyword in"):
        collect_files(Path("photos"), [Path("xmp")])


def test_a_folder_called_xmp_holds_class_folders(workplace):
    Path("examples").rename("xmp")
    assert len(collect_files(Path("photos"), [Path("xmp")])) == 24 + 6
