"""Acts are acknowledged at once, answers follow, the newest state wins, and streams are bounded."""

import threading
import time

import pytest
from serving import running

from marginshot.labelling import Session
from marginshot.labelling.items.encoders import PictureEncoder
from marginshot.studio import news


def test_a_page_that_comes_is_told_everything(labelled):
    stream = labelled.events()
    kinds = dict(next(stream) for _ in range(3))
    assert kinds["state"] == {"version": 2}
    assert kinds["encoding"]["phase"] == ""
    assert kinds["answers"]["version"] == 2


def test_an_act_does_not_wait_for_answers_and_makes_older_ones_void(labelled, monkeypatch):
    session, solve = labelled.studio.session, labelled.studio.session.solve
    working, go_on = threading.Event(), threading.Event()

    def slow():
        answers = solve()
        working.set()
        assert go_on.wait(10)
        return answers

    monkeypatch.setattr(session, "solve", slow)
    stream = labelled.events()
    for _ in range(3):
        next(stream)
    first = labelled.act("label", rows=[2], name="yew")["version"]
    assert working.wait(10)
    second = labelled.act("label", rows=[5], name="yew")["version"]  # while the first is being answered
    go_on.set()
    told = []
    while not told or told[-1] < second:
        kind, content = next(stream)
        told += [content["version"]] if kind == "answers" else []
    assert first not in told
    assert told == [second]


def test_a_new_state_is_announced_while_answers_are_computed(labelled, monkeypatch):
    session, solve = labelled.studio.session, labelled.studio.session.solve
    go_on = threading.Event()
    monkeypatch.setattr(session, "solve", lambda: go_on.wait(10) and solve())
    stream = (told for told in labelled.events() if told[0] != "encoding")
    for _ in range(2):
        next(stream)
    for row in (2, 5):
        version = labelled.act("label", rows=[row], name="yew")["version"]
        assert next(stream) == ("state", {"version": version})
    other = session.add_class("of another process")  # which wakes nobody
    assert next(stream) == ("state", {"version": other})
    go_on.set()
    assert next(stream)[1]["version"] == other


def test_every_newest_version_is_announced_even_where_nothing_changes(labelled):
    version = labelled.act("add_class", classes=["yew"])["version"]
    assert labelled.wait_for_answers(version)["version"] == version


def test_listeners_are_bounded_and_leave_their_place(client, monkeypatch):
    monkeypatch.setattr(news, "MOST_LISTENERS", 2)
    streams = [client.request("GET", "/api/events") for _ in range(2)]
    assert [response.status for _, response in streams] == [200, 200]
    assert client.get("/api/events").status == 503
    for connection, response in streams:
        response.close()
        connection.close()
    until = time.monotonic() + 10
    while (status := _ask(client)) == 503 and time.monotonic() < until:
        time.sleep(0.02)
    assert status == 200


def _ask(client):
    connection, response = client.request("GET", "/api/events")
    response.close()
    connection.close()
    return response.status


def test_a_listener_that_reads_no_more_is_cut_off():
    room = news.Newsroom(list)
    listener = news.asyncio.Queue(2)
    room._listeners.add(listener)
    for number in range(3):
        room._deliver(("state", {"version": number}))
    assert room._listeners == set()


def test_a_fault_of_the_answers_is_told_and_the_next_act_answered(labelled, monkeypatch, caplog):
    solve = labelled.studio.session.solve
    monkeypatch.setattr(labelled.studio.session, "solve", lambda: 1 / 0)
    stream = labelled.events()
    version = labelled.act("label", rows=[2], name="yew")["version"]
    told = next(content for kind, content in stream if kind == "error")
    assert "division by zero" in told["message"]
    assert ("error", told) in [next(again) for again in [labelled.events()] for _ in range(4)]
    monkeypatch.setattr(labelled.studio.session, "solve", solve)
    labelled.act("label", rows=[5], name="yew")
    assert next(content["version"] for kind, content in stream if kind == "answers" and content["version"] > version)
    assert "could not be computed" in caplog.text


def test_two_tabs_see_each_other_and_lose_nothing(labelled):
    streams = [labelled.events() for _ in range(2)]
    threads = [
        threading.Thread(
            target=lambda start: [labelled.act("label", rows=[row], name="ash") for row in start], args=(rows,)
        )
        for rows in (range(9, 30, 3), range(30, 51, 3))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    project = labelled.get("/api/project").json
    assert project["version"] == 2 + 14
    assert project["classes"][0]["examples"] == 2 + 14
    for stream in streams:
        assert any(kind == "state" and content["version"] == 16 for kind, content in stream)


def test_an_encoder_that_fails_is_told(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(PictureEncoder, "load", lambda self: 1 / 0)
    with running(Session.open(photos, cache=tmp_path / "cache", background=True), tmp_path / "cache") as client:
        assert any(kind == "encoding" and "division" in content["error"] for kind, content in client.events())
        assert "division" in client.get("/api/project").json["encoding"]["error"]
        client.act("label", rows=[0], name="red")  # what is said is kept all the same


def n_items(client) -> list[int]:
    return [known["items"] for known in client.get("/api/project").json["classes"]]


def test_items_are_answered_as_they_become_ready(photos, tmp_path, monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr(PictureEncoder, "load", lambda self: go_on.wait(10) or pytest.fail("nobody let it go on"))
    with running(Session.open(photos, cache=tmp_path / "cache", background=True), tmp_path / "cache") as client:
        client.act("label", rows=[0], name="red")  # before anything is encoded
        client.act("label", rows=[1], name="blue")
        project = client.get("/api/project").json
        assert project["encoding"]["phase"]
        assert n_items(client) == [1, 1]
        stream = client.events()
        next(stream)
        go_on.set()
        ended = answered = False
        for kind, content in stream:  # in either order
            ended = ended or (kind == "encoding" and not content["phase"])
            answered = answered or (kind == "answers" and n_items(client) == [12, 12])
            if ended and answered:
                break
