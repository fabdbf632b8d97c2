"""Pictures reach the page re-encoded and small, kept by content, and never by path."""

import io
import os
import stat

import numpy as np
import pytest
from serving import running

from marginshot.labelling import Session
from marginshot.studio.thumbnails import Thumbnails

image = pytest.importorskip("PIL.Image", reason="pictures need the extra pictures")


@pytest.fixture
def client(photos, tmp_path):
    (photos / "90-broken.png").write_bytes(b"<svg onload=alert(1)>")
    (photos / "91-page.jpg").write_bytes(b"<html><script>alert(1)</script>")
    with running(Session.open(photos, cache=tmp_path / "cache"), tmp_path / "cache") as client:
        yield client


def test_thumbnails_are_small_webp_with_fixed_types(client):
    for place, size in (("thumb", (160, 120)), ("picture", (400, 300))):
        answer = client.get(f"/api/{place}/0")
        assert (answer.status, answer.headers["Content-Type"]) == (200, "image/webp")
        shown = image.open(io.BytesIO(answer.content))
        assert (shown.format, shown.size) == ("WEBP", size)


def test_what_is_no_picture_is_not_sent(client):
    for row in (24, 25):
        for place in ("thumb", "picture"):
            answer = client.get(f"/api/{place}/{row}")
            assert (answer.status, answer.headers["Content-Type"]) == (404, "application/json")
            assert b"alert" not in answer.content
    project = client.get("/api/project").json
    assert project["n_unread"] == 2
    assert client.get("/api/item/24").json["problem"] == project["problems"][0][1]


def test_a_browser_keeps_the_thumbnails_of_this_run_only(client):
    run = client.get("/api/project").json["run"]
    assert client.get(f"/api/thumb/0?v={run}").headers["Cache-Control"] == "private, max-age=86400, immutable"
    answer = client.get("/api/thumb/0?v=another")
    assert answer.headers["Cache-Control"] == "private, no-cache"
    again = client.get("/api/thumb/0", If_None_Match=answer.headers["ETag"])
    assert (again.status, again.content) == (304, b"")
    assert client.get("/api/picture/0", If_None_Match=answer.headers["ETag"]).status == 200


def test_a_picture_that_vanishes_is_not_found(client, photos):
    assert client.get("/api/thumb/0").status == 200
    (photos / "00.png").unlink()
    assert client.get("/api/thumb/0").status == 404


@pytest.mark.skipif(os.name == "nt", reason="pipes of Unix")
def test_a_picture_replaced_by_a_pipe_is_not_waited_for(client, photos):
    (photos / "00.png").unlink()
    os.mkfifo(photos / "00.png")
    assert client.get("/api/thumb/0").status == 404


def test_names_that_are_not_utf8_are_told_as_they_can_be(photos, tmp_path):
    odd = photos / os.fsdecode(b"\xff<b>.png")
    (photos / "00.png").rename(odd)
    with running(Session.open(photos, cache=tmp_path / "cache"), tmp_path / "cache") as client:
        rows = client.get("/api/items?start=0&stop=24").json
        row = next(number for number, item in enumerate(rows) if item["name"] == odd.name)
        assert "not UTF-8" in client.get(f"/api/item/{row}").json["problem"]
        flags = np.frombuffer(client.get("/api/answers").content, "u1")[-24:]
        assert np.flatnonzero(flags & 32).tolist() == [row]


def test_moved_pictures_are_still_shown(client, tmp_path):
    client.act("label", rows=[0], name="red")
    client.act("label", rows=[1], name="blue")
    answer = client.post("/api/export", {"what": "folders", "path": str(tmp_path / "out"), "transfer": "move"})
    assert answer.status == 200
    assert client.get("/api/thumb/5").status == 200


def test_pictures_moved_before_a_conflict_are_still_shown(client, photos, tmp_path):
    client.act("label", rows=[0], name="red")
    client.act("label", rows=[1], name="blue")
    (tmp_path / "out" / "red").mkdir(parents=True)
    (tmp_path / "out" / "red" / "00.png").write_bytes(b"somebody else's")
    answer = client.post("/api/export", {"what": "folders", "path": str(tmp_path / "out"), "transfer": "move"})
    assert answer.status == 409
    assert (photos / "00.png").exists()
    assert not (photos / "01.png").exists()
    assert [client.get(f"/api/thumb/{row}").status for row in (0, 1)] == [200, 200]


def test_thumbnails_are_kept_by_content(photos, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(Thumbnails, "_encoded", lambda self, path, side: made.append(path.name) or b"webp")
    (photos / "copy.png").write_bytes((photos / "00.png").read_bytes())
    for _ in range(2):  # the second time as another run
        thumbnails = Thumbnails(tmp_path)
        assert thumbnails.thumbnail(photos / "00.png") == thumbnails.thumbnail(photos / "copy.png") == b"webp"
    assert made == ["00.png"]
    (photos / "00.png").write_bytes((photos / "01.png").read_bytes() + b" ")
    thumbnails.thumbnail(photos / "00.png")
    assert made == ["00.png", "00.png"]


def test_thumbnails_are_private_bounded_and_made_again(photos, tmp_path):
    thumbnails = Thumbnails(tmp_path)
    sizes = [len(thumbnails.thumbnail(photos / f"{number:02d}.png")) for number in range(6)]
    assert stat.S_IMODE(thumbnails.path.stat().st_mode) == 0o600
    kept = Thumbnails(tmp_path, limit=sum(sizes[-2:]))
    with kept._open() as connection:
        assert connection.execute("SELECT COUNT(*) FROM thumbnails").fetchone() == (2,)
    thumbnails.path.write_bytes(b"not a database" * 1000)
    assert Thumbnails(tmp_path).thumbnail(photos / "00.png")


def test_a_large_picture_takes_little(tmp_path):
    image.new("RGB", (6000, 4000), "red").save(tmp_path / "large.jpg")
    assert image.open(io.BytesIO(Thumbnails(tmp_path).thumbnail(tmp_path / "large.jpg"))).size == (160, 107)
