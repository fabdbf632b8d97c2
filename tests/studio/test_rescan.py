"""The source read again while the studio runs, what items can be filtered by, downloads, and old pages."""

import csv
import io
import shutil
import zipfile

import pytest
from serving import running

from marginshot.labelling import Session
from marginshot.studio.api import Studio


@pytest.fixture
def client(photos, tmp_path, monkeypatch):
    def reopen():
        return Session.open(photos, cache=tmp_path / "cache")

    monkeypatch.setattr(
        Studio, "__init__", lambda self, *given, start=Studio.__init__: start(self, *given, reopen=reopen)
    )
    with running(reopen(), tmp_path / "cache", source=["photos"]) as client:
        client.act("label", rows=[0], name="red")
        client.act("label", rows=[1], name="blue")
        yield client


def test_new_and_lost_pictures_are_found_and_labels_stay(client, photos):
    shutil.copy(photos / "00.png", photos / "a new one.png")
    (photos / "05.png").unlink()
    before = client.get("/api/project").json
    answer = client.post("/api/rescan", {})
    assert (answer.status, answer.json) == (200, {"new": 1, "gone": 1})
    after = client.get("/api/project").json
    assert (after["n_items"], after["n_labelled"], after["n_new"]) == (24, 2, 1)
    assert after["run"] != before["run"]  # pages load anew: rows are others
    (row,) = client.get("/api/new").json
    assert client.get(f"/api/items?rows={row}").json[0]["name"] == "a new one.png"
    client.wait_for_answers(client.act("label", rows=[row], name="red")["version"])


def test_rows_of_before_label_nothing(client, photos):
    before = client.get("/api/project").json["run"]
    (photos / "00.png").unlink()
    client.post("/api/rescan", {})
    act = {"action": "label", "rows": [1], "name": "red"}
    stale = client.post("/api/act", act | {"run": before})
    assert stale.status == 409
    assert "was read again in the meantime" in stale.json["error"]
    assert client.post("/api/act", act | {"run": client.get("/api/project").json["run"]}).status == 200


def test_items_are_filtered_by_folder(client, photos):
    (photos / "trip").mkdir()
    for number in range(4):
        (photos / f"{number:02d}.png").rename(photos / "trip" / f"{number:02d}.png")
    client.post("/api/rescan", {})
    folder = next(field for field in client.get("/api/fields").json if field["name"] == "Folder")
    assert folder["values"] == [["(top)", 20], ["trip", 4]]
    assert sorted(folder["codes"]) == [0] * 20 + [1] * 4


def test_what_is_alike_comes_first(client):
    rows = client.get("/api/like?rows=4").json
    assert rows[0] == 4
    assert all(row % 2 == 0 for row in rows[:12])
    assert client.get("/api/meaning?q=red").status == 400  # this encoder reads no words


def test_a_table_and_folders_are_downloaded(client, photos):
    made = client.post("/api/download", {"what": "table"}).json
    answer = client.get(f"/{made['address']}")
    assert made["name"] == "labels.csv"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="labels.csv"'
    assert [row["label"] for row in csv.DictReader(io.StringIO(answer.content.decode()))] == ["red", "blue"] * 12
    folders = client.post("/api/download", {"what": "folders"}).json
    packed = zipfile.ZipFile(io.BytesIO(client.get(f"/{folders['address']}").content))
    assert {"labels.csv", "red/00.png", "blue/01.png"} <= set(packed.namelist())
    assert packed.read("red/00.png") == (photos / "00.png").read_bytes()
    assert client.get(f"/{made['address']}").status == 404  # a newer one has taken its place
    assert client.post("/api/download", {"what": "nothing"}).status == 400
    assert len(list(photos.iterdir())) == 24


def test_an_old_page_that_is_loaded_anew_is_told_what_to_do(client):
    client.place = "/" + 32 * "0"
    answer = client.get("/", Accept="text/html,application/xhtml+xml")
    assert answer.status == 403
    assert b"belongs to a studio that was stopped" in answer.content
    assert client.get("/api/project", Accept="*/*").json["error"] == "Open the printed address first."
