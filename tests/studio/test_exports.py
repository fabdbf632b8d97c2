"""The result leaves as `marginshot label` would write it: checked first, nothing replaced that is not ours."""

import csv
import json
import re
import shlex
import zipfile
from importlib.resources import files

import pytest
from serving import running

from marginshot.cli.app import main
from marginshot.labelling import Session, load_model
from marginshot.labelling.outputs.formats import SessionExport


@pytest.fixture
def client(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with running(Session.open(photos), tmp_path / "cache", source=["photos"]) as client:
        client.act("label", rows=[0], name="red")
        client.act("label", rows=[1], name="blue")
        yield client


def export(client, what, path, **fields):
    return client.post("/api/export", {"what": what, "path": str(path), **fields})


def test_a_table_is_written_where_the_user_typed(client, tmp_path):
    for name in ("labels.csv", "labels.parquet"):
        answer = export(client, "table", name)
        assert (answer.status, answer.json["files"]) == (200, [name])
        assert str(tmp_path / name) in answer.json["words"]
        assert answer.json["command"] == f"marginshot studio photos --export table --out {name}"
    rows = list(csv.DictReader((tmp_path / "labels.csv").read_text().splitlines()))
    assert [row["label"] for row in rows] == ["red", "blue"] * 12


def test_folders_are_planned_then_filled(client, tmp_path, photos):
    plan = export(client, "folders", "out", dry_run=True).json
    assert (plan["n_pictures"], len(plan["plan"])) == (24, 20)
    assert not (tmp_path / "out").exists()
    done = export(client, "folders", "out", transfer="copy").json
    assert done["plan"] == plan["plan"]
    assert done["command"] == "marginshot studio photos --export folders --out out --copy"
    assert len(list((tmp_path / "out" / "red").iterdir())) == 12
    assert len(list(photos.iterdir())) == 24


def test_a_model_is_one_file(client, tmp_path):
    answer = export(client, "model", tmp_path / "model")
    assert (answer.status, answer.json["files"]) == (200, [str(tmp_path / "model")])
    assert sorted(load_model(tmp_path / "model").classifier.classes_) == ["blue", "red"]


@pytest.mark.parametrize("tool", ["label-studio", "fiftyone", "bulk"])
def test_other_tools_are_written_for(client, tmp_path, tool):
    assert export(client, tool, "out").status == 200
    assert len(list((tmp_path / "out").rglob("*.*"))) >= 2


def test_the_dialog_offers_every_form():
    page = files("marginshot.studio").joinpath("static", "export.js").read_text(encoding="utf-8")
    assert sorted(re.findall(r'\{ id: "([^"]+)", words: ', page)) == sorted(SessionExport)


def test_data_sets_are_written_and_downloaded(client, tmp_path):
    assert export(client, "huggingface", "out").status == 200
    rows = [json.loads(line) for line in (tmp_path / "out" / "metadata.jsonl").read_text().splitlines()]
    assert [row["label"] for row in rows] == ["red", "blue"] * 12
    assert export(client, "yolo-cls", "out").status == 200
    with zipfile.ZipFile(tmp_path / "out" / "yolo-cls.zip") as archive:
        assert {name.split("/")[1] for name in archive.namelist()} == {"red", "blue"}
        assert len(archive.namelist()) == 24
    for what, file in (("huggingface", "metadata.jsonl"), ("yolo-cls", "yolo-cls.zip")):
        told = client.post("/api/download", {"what": what}).json
        fetched = tmp_path / "fetched.zip"
        fetched.write_bytes(client.get(f"/{told['address']}").content)
        with zipfile.ZipFile(fetched) as archive:
            assert sorted(archive.namelist()) == sorted(["labels.csv", file])


def test_what_is_not_ours_is_not_replaced(client, tmp_path):
    (tmp_path / "labels.csv").write_text("mine")
    for fields in ({}, {"dry_run": True}):
        answer = export(client, "table", "labels.csv", **fields)
        assert answer.status == 409
        assert "“replace”" in answer.json["error"]
        assert (tmp_path / "labels.csv").read_text() == "mine"
    assert export(client, "table", "labels.csv", force=True).status == 200
    assert export(client, "table", "labels.csv").status == 200  # ours by now


def test_inputs_are_never_written_over(client, photos):
    for what in ("folders", "bulk"):
        assert export(client, what, photos, force=True).status == 400
    answer = export(client, "table", photos / "00.png")
    assert answer.status == 400
    assert len(list(photos.iterdir())) == 24


def test_a_folder_that_cannot_be_written_is_told(client, tmp_path):
    (tmp_path / "file").write_text("")
    answer = export(client, "folders", "file/out")
    assert answer.status == 400
    assert "cannot be a folder" in answer.json["error"]


def test_the_command_repeats_it_without_a_page(client, tmp_path):
    told = export(client, "folders", "shown").json
    words = shlex.split(told["command"].replace("shown", "repeated"))
    with pytest.raises(SystemExit, match="0"):
        main([*words[1:], "--cache", str(tmp_path / "cache")])
    shown, repeated = (
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.*")}
        for name in ("shown", "repeated")
    )
    assert shown == repeated
    assert len(shown) >= 25


def test_what_and_where_belong_together(photos):
    with pytest.raises(SystemExit, match="2"):
        main(["studio", str(photos), "--export", "table"])
