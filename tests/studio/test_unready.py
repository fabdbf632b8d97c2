"""A studio whose examples are embedded and whose items are not yet (issue 31): no number comes of 0 of 0."""

from __future__ import annotations

import json
import sqlite3
import threading

import numpy as np
import pytest
from serving import running

from marginshot.labelling import Session
from marginshot.labelling.items.encoders import PictureEncoder
from marginshot.labelling.session.acts.classes import DeleteClass
from marginshot.labelling.session.acts.items import Clear
from marginshot.labelling.session.events import _checksum


@pytest.fixture
def examples(photos, tmp_path):
    for number, name in enumerate(("red", "blue")):
        (tmp_path / "examples" / name).mkdir(parents=True)
        for path in sorted(photos.iterdir())[number:4:2]:
            path.rename(tmp_path / "examples" / name / path.name)
    return tmp_path / "examples"


@pytest.fixture
def waiting(photos, examples, tmp_path, monkeypatch):
    """A session in which the examples came from the cache, and the encoder loads until the event is set."""
    Session.open(examples, cache=tmp_path / "cache", folder=tmp_path / "first").close()
    go_on = threading.Event()
    monkeypatch.setattr(PictureEncoder, "load", lambda self: go_on.wait(20))
    session = Session.open(photos, examples=examples, cache=tmp_path / "cache", background=True)
    while session.encoding.phase == "reading":
        pass
    assert int(session.ready.sum()) == 4
    yield session, go_on
    go_on.set()
    session.close()


def payloads(session: Session) -> list[str]:
    with sqlite3.connect(session.save()) as connection:
        return [text for (text,) in connection.execute("SELECT payload FROM events")]


def test_the_page_is_served_and_a_click_is_kept_as_numbers(waiting, tmp_path):
    session, go_on = waiting
    with running(session, tmp_path / "cache") as client:
        client.wait_for_answers(session.state.version)
        answer = client.get("/api/project")
        assert answer.status == 200, answer.content
        assert answer.json["expected"] is None
        assert client.get("/api/worklist?target=0.95").status in (200, 400)
        client.act("label", rows=[0], name="red")
        assert not [text for text in payloads(session) if "NaN" in text]
        go_on.set()
        client.wait_for_answers(client.act("label", rows=[1], name="blue")["version"])
        assert client.get("/api/project").status == 200


def test_a_log_that_holds_such_numbers_opens(photos, examples, tmp_path):
    with Session.open(photos, examples=examples) as session:
        session.label([0], "red")
        path = session.save()
    with sqlite3.connect(path) as connection:
        ((seq, text),) = connection.execute("SELECT seq, payload FROM events ORDER BY seq DESC LIMIT 1").fetchall()
        key = json.loads(text)["labels"]["red"][0]
        broken = {"labels": {"red": [key]}, "expected": [4, float("nan")]}
        broken["seen"] = {"among": 0, "answers": {key: [0, float("nan")]}}
        ((moment, kind),) = connection.execute("SELECT time, kind FROM events WHERE seq = ?", (seq,)).fetchall()
        text = json.dumps(broken)
        written = (text, _checksum(seq, moment, kind, text), seq)
        connection.execute("UPDATE events SET payload = ?, checksum = ? WHERE seq = ?", written)
    with Session.open(photos, examples=examples) as session:
        assert session.state.given[0] >= 0
        assert np.isfinite([value for _, value in session.curve]).all()
        with running(session, tmp_path / "cache") as client:
            client.wait_for_answers(session.state.version)
            assert client.get("/api/project").status == 200


class Unchecked(DeleteClass, kind="unchecked"):
    """An act that is found to be impossible only once it is tried."""

    def check(self, state):
        pass


def test_an_event_that_could_not_be_read_back_is_not_written(tmp_path):
    session = Session.from_embeddings(np.eye(4), log=tmp_path / "log.sqlite")
    session.label([0], "red")
    with pytest.raises(ValueError, match="not JSON compliant"):
        session._said.do(Clear(["row 1"]), carried=lambda act, state: {"expected": [1, float("nan")]})
    with pytest.raises(ValueError, match="There is no class 'blue'"):
        session.do(Unchecked("blue"))
    assert len(payloads(session)) == 1
    assert session.label([1], "blue") == 2
    session.close()
