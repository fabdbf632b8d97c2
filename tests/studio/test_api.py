"""What the page is told, and what it can do."""

import struct

import numpy as np
import pytest
from serving import rows_of_three_classes, running

from marginshot.labelling import Session
from marginshot.labelling.session.events import EventLog
from marginshot.labelling.session.state import Class
from marginshot.studio import views


def decode(content):
    version, _, n_items = struct.unpack_from("<III", content)
    codes = np.frombuffer(content, "<u2", n_items, 12)
    confidence = np.frombuffer(content, "u1", n_items, 12 + 2 * n_items)
    flags = np.frombuffer(content, "u1", n_items, 12 + 3 * n_items)
    assert len(content) == 12 + 4 * n_items
    return version, codes, confidence, flags


def test_an_empty_session_is_told(client):
    project = client.get("/api/project").json
    assert (project["shows"], project["in_files"]) == ("name", False)
    assert (project["n_items"], project["version"]) == (60, 0)
    assert project["classes"] == []
    _, codes, _, flags = decode(client.get("/api/answers").content)
    assert set(codes.tolist()) == {0xFFFF}
    assert set(flags.tolist()) == {1}


def test_the_page_is_told_what_changed_in_the_source(photos, tmp_path):
    with Session.open(photos) as session:
        session.label({"00.png": "red", "01.png": "blue"})
    (photos / "00.png").rename(photos / "rose.png")
    with running(Session.open(photos), tmp_path / "cache") as client:
        assert client.get("/api/project").json["notes"] == ["1 item was renamed, and its label went with it: rose.png."]


def test_the_page_lists_more_labelled_items_that_are_gone_than_a_sentence_names(photos, tmp_path):
    with Session.open(photos) as session:
        gone = list(session.items[:7])
        session.label(gone, "red")
    for name in gone:
        (photos / name).unlink()
    with running(Session.open(photos), tmp_path / "cache") as client:
        assert client.get("/api/project").json["missing"] == gone


def test_a_label_is_acknowledged_and_all_items_answered(labelled):
    project = labelled.get("/api/project").json
    assert [(known["name"], known["examples"]) for known in project["classes"]] == [("ash", 2), ("oak", 1)]
    assert sum(known["items"] for known in project["classes"]) == 60
    ash, oak = (known["id"] for known in project["classes"])
    answer = labelled.get("/api/answers")
    version, codes, confidence, flags = decode(answer.content)
    assert version == project["version"] == 2
    assert (codes[::3] == ash).all()
    assert (codes[1::3] == oak).all()
    assert flags[[0, 1, 3]].tolist() == [3, 3, 3]
    assert confidence[[0, 1, 3]].tolist() == [255, 255, 255]
    assert not flags[4] & 2


def test_what_was_said_shows_before_it_is_answered(labelled, monkeypatch):
    monkeypatch.setattr(labelled.studio.worker, "wake", lambda: None)
    monkeypatch.setattr(labelled.studio.worker, "_is_due", lambda: False)
    labelled.act("none", rows=[2])
    version, codes, _, flags = decode(labelled.get("/api/answers").content)
    assert (version, codes[2], flags[2] & 8) == (2, 0xFFFF, 8)


def test_every_act_and_its_undoing(labelled):
    ash, oak = (known["id"] for known in labelled.get("/api/project").json["classes"])
    before = labelled.get("/api/project").json["version"]
    done = [
        labelled.act("label", rows=[6], class_id=ash),
        labelled.act("confirm", rows=[4, 7]),
        labelled.act("none", rows=[2]),
        labelled.act("clear", rows=[2]),
        labelled.act("accept", at_least=0.5),
        labelled.act("add_class", classes=["yew"]),
        labelled.act("rename", old=oak, new="Oak"),
        labelled.act("merge", old=oak, into=ash),
        labelled.act("delete_class", name=ash),
        labelled.act("undo"),
        labelled.act("redo"),
    ]
    assert [one["version"] for one in done] == list(range(before + 1, before + 12))
    assert done[1]["words"].startswith("confirm 2")
    assert done[-2]["words"] == f"Undone: {done[-3]['words']}"
    for _ in range(9):
        labelled.act("undo")
    project = labelled.get("/api/project").json
    assert [(known["name"], known["examples"]) for known in project["classes"]] == [("ash", 2), ("oak", 1)]


def test_items_are_named_by_number(client):
    assert [item["name"] for item in client.get("/api/items?start=58&stop=100").json] == ["row 59", "row 60"]
    assert [item["name"] for item in client.get("/api/items?rows=9,0,9").json] == ["row 10", "row 1", "row 10"]
    assert client.get("/api/items?rows=60").status == 400
    assert client.get("/api/items?start=0&stop=60").status == 200
    assert client.get("/api/search?q=ROW%2059").json == [58]


def test_an_item_tells_why(labelled):
    item = labelled.get("/api/item/4").json
    assert item["name"] == "row 5"
    assert item["code"] == item["probabilities"][0][0]
    assert item["nearest"][0][:2] == [1, item["code"]]
    labelled.act("label", rows=[4], name="yew")
    assert labelled.get("/api/item/4").json["history"][0]["words"] == 'label 1 item "yew"'


def test_what_to_do_next_is_told(labelled):
    assert len(labelled.get("/api/next?n=5").json) == 5
    work = labelled.get("/api/worklist?target=0.999").json
    assert len(work["rows"]) == len(work["expected"])
    assert labelled.get("/api/accept?at_least=0.5").json["n_items"] > 10
    assert isinstance(labelled.get("/api/groups").json, list)
    version = labelled.act("audit", n=5)["version"]
    audit = labelled.get("/api/project").json["audit"]
    assert (len(set(audit["rows"])), audit["result"]) == (5, None)
    assert labelled.act("audit", n=5)["version"] == version  # a sample waits to be checked
    labelled.act("confirm", rows=audit["rows"])
    assert labelled.get("/api/project").json["audit"]["done"] == 5


def test_what_to_do_next_is_computed_once_for_all_pages(labelled, monkeypatch):
    asked = []
    following = labelled.studio.session.next
    monkeypatch.setattr(labelled.studio.session, "next", lambda n: asked.append(n) or following(n))
    first = labelled.get("/api/next?n=5").json
    assert labelled.get("/api/next?n=5").json == first
    assert len(labelled.get("/api/next?n=3").json) == 3
    labelled.act("label", rows=first[:1], name="ash")
    assert first[0] not in labelled.get("/api/next?n=5").json
    assert asked == [5, 3, 5]


def test_the_map_comes_when_it_is_drawn(client):
    while (answer := client.get("/api/map")).status == 202:
        assert answer.headers["Retry-After"] == "1"
    points = np.frombuffer(answer.content, "<f4").reshape(60, 2)
    assert np.isfinite(points).all()


def test_answers_are_announced_once_they_are_there(labelled):
    before = decode(labelled.get("/api/answers").content)[1]
    told = labelled.wait_for_answers(labelled.act("label", rows=[2], name="yew")["version"])
    after = decode(labelled.get("/api/answers").content)[1]
    assert told["version"] == decode(labelled.get("/api/answers").content)[0]
    assert (before != after).sum() > 10


def test_an_act_on_what_was_not_seen_is_refused(labelled):
    seen = labelled.get("/api/project").json
    number = struct.unpack_from("<III", labelled.get("/api/answers").content)[1]
    labelled.act("label", rows=[5], name="yew")
    for body in (
        {"action": "undo", "version": seen["version"]},
        {"action": "confirm", "rows": [4], "answers_number": number - 1},
        {"action": "label", "rows": [4], "class_id": 99},
    ):
        answer = labelled.post("/api/act", body)
        assert answer.status == 409, body
        assert answer.json["error"]
    assert labelled.get("/api/project").json["version"] == seen["version"] + 1


@pytest.mark.parametrize(
    "path",
    ["/api/thumb/0", "/api/picture/0", "/api/item/60", "/api/item/-1", "/static/../api.py", "/static/nothing.js", "/x"],
)
def test_what_is_not_there_is_not_found(client, path):
    assert client.get(path).status == 404


def test_a_class_that_no_item_can_have_yet_says_why(client):
    client.act("add_class", classes=["ash"])
    assert client.get("/api/project").json["classes"][0]["needs"] == "needs an example"
    client.act("label", rows=[0], name="ash")
    assert client.get("/api/project").json["classes"][0]["needs"] is None


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("w2", "text", "needs an example: its name is a code"),
        ("billing", "text", None),
        ("w2", "picture", "needs an ex"),
    ],
)
def test_only_a_name_in_words_stands_for_texts(name, kind, reason):
    needs = views._needs(Class(0, name), kind, is_answered=False)
    assert needs is None if reason is None else needs.startswith(reason)
    assert views._needs(Class(0, name), kind, is_answered=True) is None


def test_expected_accuracy_says_over_which_items(labelled):
    project = labelled.get("/api/project").json
    n_open, value = project["open"]
    n_items = len(rows_of_three_classes())
    assert n_open == n_items - 3
    assert 3 + n_open * value == pytest.approx(n_items * project["expected"][0])


def test_classes_of_nothing_but_labels_given_have_no_accuracy(labelled):
    assert None not in [known["accuracy"] for known in labelled.get("/api/project").json["classes"]]
    first, second = (known["name"] for known in labelled.get("/api/project").json["classes"])
    n_items = labelled.get("/api/project").json["n_items"]
    labelled.act("label", rows=list(range(1, n_items)), name=first)
    labelled.wait_for_answers(labelled.act("label", rows=[0], name=second)["version"])
    assert [known["accuracy"] for known in labelled.get("/api/project").json["classes"]] == [None, None]


def test_accuracies_of_the_classes_know_the_answers_checked_too(labelled):
    names = {known["id"]: known["name"] for known in labelled.get("/api/project").json["classes"]}
    codes = decode(labelled.get("/api/answers").content)[1]
    for row in (2, 5, 8, 11):  # of a class that nobody has named: each answer was wrong
        (other,) = (name for code, name in names.items() if code != codes[row])
        labelled.act("label", rows=[row], name=other)
    labelled.wait_for_answers(labelled.act("accept", at_least=0.5)["version"])
    project = labelled.get("/api/project").json
    confidence = decode(labelled.get("/api/answers").content)[2] / 255
    right = sum(known["items"] * known["accuracy"] for known in project["classes"])
    assert right == pytest.approx(project["n_items"] * project["expected"][0])
    assert right < confidence.sum() - 0.1


def test_an_undo_never_takes_back_what_another_process_said_meanwhile(labelled, monkeypatch):
    """Issue 31: the version was compared before the log was locked."""
    session = labelled.studio.session
    version = labelled.act("label", rows=[2], name="ash")["version"]
    add = EventLog.add

    def late(log, *given):
        monkeypatch.setattr(EventLog, "add", add)
        session.label([5], "oak")  # as by another page
        return add(log, *given)

    monkeypatch.setattr(EventLog, "add", late)
    answer = labelled.post("/api/act", {"action": "undo", "version": version})
    assert answer.status == 409
    assert session.state.given[5] >= 0
    assert session.state.given[2] >= 0


def test_an_act_without_a_version_is_repeated_on_the_newest_state(labelled, monkeypatch):
    session = labelled.studio.session
    add = EventLog.add

    def late(log, *given):
        monkeypatch.setattr(EventLog, "add", add)
        session.rename("ash", "rowan")
        return add(log, *given)

    monkeypatch.setattr(EventLog, "add", late)
    labelled.act("label", rows=[5], class_id=0)
    assert [known.name for known in session.state.classes] == ["rowan", "oak"]
    assert session.state.given[5] == 0
