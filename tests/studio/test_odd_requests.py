"""Whatever is sent, the answer is a sentence and a status below 500, and nothing changes."""

import json

import pytest
from serving import rows_of_three_classes, running

from marginshot.labelling import Session
from marginshot.studio import inputs


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """One for all: what is refused changes nothing."""
    with running(Session.from_embeddings(rows_of_three_classes()), tmp_path_factory.mktemp("cache")) as client:
        client.act("label", rows=[0], name="ash")
        client.wait_for_answers(client.act("label", rows=[1], name="oak")["version"])
        yield client


BODIES = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"1",
    b'"undo"',
    b"\xff\xfe",
    b"{}",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"action": NaN}',
    b'{"action": null}',
    b'{"action": ["undo"]}',
    b'{"action": "__class__"}',
    b'{"action": "label", "name": "x"}',
    b'{"action": "label", "rows": [], "name": "x"}',
    b'{"action": "label", "rows": [60], "name": "x"}',
    b'{"action": "label", "rows": [-1], "name": "x"}',
    b'{"action": "label", "rows": [1.0], "name": "x"}',
    b'{"action": "label", "rows": [true], "name": "x"}',
    b'{"action": "label", "rows": ["1"], "name": "x"}',
    b'{"action": "label", "rows": {"0": 1}, "name": "x"}',
    b'{"action": "label", "rows": [NaN], "name": "x"}',
    b'{"action": "label", "rows": [' + b"9" * 30 + b'], "name": "x"}',
    b'{"action": "label", "rows": [' + b"9" * 5_000 + b'], "name": "x"}',
    b'{"action": "label", "rows": [1]}',
    b'{"action": "label", "rows": [1], "name": ""}',
    b'{"action": "label", "rows": [1], "name": "  "}',
    b'{"action": "label", "rows": [1], "name": 7}',
    b'{"action": "label", "rows": [1], "name": "\\ud800"}',
    b'{"action": "label", "rows": [1], "name": "' + b"x" * 1_001 + b'"}',
    b'{"action": "label", "rows": [1], "class_id": 1.5}',
    b'{"action": "label", "rows": [1], "class_id": -1}',
    b'{"action": "label", "rows": [1], "class_id": 1e400}',
    b'{"action": "confirm", "rows": "all"}',
    b'{"action": "accept", "at_least": NaN}',
    b'{"action": "accept", "at_least": Infinity}',
    b'{"action": "accept", "at_least": 1e400}',
    b'{"action": "accept", "at_least": -0.1}',
    b'{"action": "accept", "at_least": "0.5"}',
    b'{"action": "accept", "at_least": true}',
    b'{"action": "audit", "n": 0}',
    b'{"action": "audit", "n": -1}',
    b'{"action": "audit", "n": 1e9}',
    b'{"action": "rename", "old": 0, "new": "oak"}',
    b'{"action": "merge", "old": 0, "into": 0}',
    b'{"action": "redo"}',
    b'{"action": "undo", "version": "1"}',
]

EXPORTS = [
    b"{}",
    b'{"what": "everything", "path": "x.csv"}',
    b'{"what": "table", "path": 1}',
    b'{"what": "table", "path": ""}',
    b'{"what": "table", "path": "x\\u0000.csv"}',
    b'{"what": "table", "path": "x.exe"}',
    b'{"what": "table", "path": "/nowhere/at/all/x.csv"}',
    b'{"what": "table", "path": "x.csv", "force": "yes"}',
    b'{"what": "table", "path": "x.csv", "dry_run": 1}',
    b'{"what": "folders", "path": "x", "transfer": "burn"}',
    b'{"what": "folders", "path": "x", "transfer": "copy"}',
    b'{"what": "fiftyone", "path": "x.csv"}',
    b'{"what": "model", "path": "/nowhere/at/all/model"}',
]

QUERIES = [
    "/api/items",
    "/api/items?start=0",
    "/api/items?start=a&stop=3",
    "/api/items?start=-1&stop=3",
    "/api/items?start=1e1&stop=3",
    "/api/items?start=1_0&stop=30",
    "/api/items?start=0&stop=" + "9" * 5_000,
    "/api/items?rows=",
    "/api/items?rows=1,,2",
    "/api/items?rows=1,x",
    "/api/items?rows=" + ",".join(["1"] * 501),
    "/api/next?n=1.5",
    "/api/next?n=99999999",
    "/api/worklist?target=nan",
    "/api/worklist?target=inf",
    "/api/worklist?target=1.01",
    "/api/worklist?target=-1",
    "/api/worklist?target=1e-3",
    "/api/accept?at_least=NaN",
    "/api/search",
    "/api/search?q=",
    "/api/search?q=" + "x" * 1_001,
]

ROWS = ["60", "-1", "1.0", "1e3", "%20", "0x0", "9" * 5_000, "٣", "..%2f..%2fetc%2fpasswd", "%00"]


def assert_refused(answer, statuses=(400,)):
    assert answer.status in statuses, (answer.status, answer.content)
    assert answer.json["error"]
    assert "Traceback" not in answer.json["error"]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:60].decode("latin-1"))
def test_an_odd_act_is_refused_and_changes_nothing(client, body):
    before = client.get("/api/project").json["version"]
    assert_refused(client.post("/api/act", body), (400, 409))
    assert client.get("/api/project").json["version"] == before


@pytest.mark.parametrize("body", EXPORTS, ids=lambda body: body.decode())
def test_an_odd_export_is_refused_and_writes_nothing(client, body, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_refused(client.post("/api/export", body))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", QUERIES, ids=lambda path: path[:60])
def test_an_odd_query_is_refused(client, path):
    assert_refused(client.get(path))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[:20])
@pytest.mark.parametrize("place", ["item", "thumb", "picture"])
def test_items_are_asked_for_by_number_only(client, place, row):
    assert_refused(client.get(f"/api/{place}/{row}".replace("٣", "%D9%A3")), (404,))


@pytest.mark.parametrize(
    ("wrong", "path"),
    [("POST", path) for path in ("/", "/api/project", "/api/events", "/static/x.js")]
    + [("GET", path) for path in ("/api/act", "/api/export")],
)
def test_other_methods_are_refused(client, wrong, path):
    for method in (wrong, "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
        connection, response = client.request(method, path, b"{}")
        assert response.status == 405, method
        connection.close()


def test_a_long_body_is_refused_before_it_is_kept(client):
    answer = client.post("/api/act", b" " * (inputs.MOST_BYTES + 1))
    assert_refused(answer, (413,))


def test_a_million_rows_fit():
    assert len(json.dumps(list(range(10**6)))) < inputs.MOST_BYTES


def test_hostile_names_are_text_and_nothing_else(client):
    name = "</script><img src=x onerror=alert(1)> \u202e \u2028 🦆 'x' \"y\""
    answer = client.post("/api/act", {"action": "add_class", "classes": [name]})
    if answer.status == 400:  # the session takes no characters that act on what is around them
        name = "</script><img src=x onerror=alert(1)> 🦆 'x' \"y\""
        answer = client.post("/api/act", {"action": "add_class", "classes": [name]})
    assert answer.status == 200
    project = client.get("/api/project")
    assert name in [known["name"] for known in project.json["classes"]]
    assert project.headers["Content-Type"] == "application/json"
    client.act("undo")
