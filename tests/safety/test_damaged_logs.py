"""Damaged logs and caches (issue 31): what is damaged is told and left out, and the rest is used; never in silence.

``MARGINSHOT_FUZZ=700 python -m pytest tests/safety/test_damaged_logs.py`` damages as many copies.
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from marginshot.labelling import Session
from marginshot.labelling.errors import RefusedError
from marginshot.labelling.items.store import Store

N_DAMAGED = int(os.environ.get("MARGINSHOT_FUZZ", "60"))
X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    """A log of 60 acts, among them undo, redo, and classes renamed, merged and given a key."""
    path = tmp_path_factory.mktemp("log") / "log.sqlite"
    with Session.from_embeddings(X, log=path) as session:
        for row in range(40):
            session.label([row], f"class {row % 6}")
            if row % 7 == 3:
                session.undo()
            if row % 14 == 3:
                session.redo()
        session.rename("class 1", "one")
        session.merge("class 2", "one")
        session.set_key("one", "z")
        session.none_of_these([3, 4])
        session.clear([5])
        session.save()
    return path


def labels(session: Session) -> list[str]:
    names = {known.id: known.name for known in session.state.classes}
    return [names.get(code, str(code)) for code in session.state.given.tolist()]


def damage(content: bytes, seed: int) -> bytes:
    """A copy with bytes changed, a stretch zeroed, or the end cut off."""
    rng = np.random.default_rng(seed)
    found = bytearray(content)
    place = int(rng.integers(100, len(found)))
    if seed % 5 == 3:
        found[place : place + 200] = bytes(len(found[place : place + 200]))
    elif seed % 5 == 4:
        del found[place:]
    else:
        for at in rng.integers(100, len(found), size=1 + seed % 3):
            found[at] ^= 1 << int(rng.integers(8))
    return bytes(found)


def test_no_damage_to_a_log_is_silent(log, tmp_path):
    with Session.from_embeddings(X, log=log) as session:
        whole, content = labels(session), log.read_bytes()
        assert session.notes == []
    silent, told = [], 0
    for seed in range(N_DAMAGED):
        path = tmp_path / f"{seed}.sqlite"
        path.write_bytes(damage(content, seed))
        try:
            with Session.from_embeddings(X, log=path) as session:
                if session.notes:
                    told += 1
                    assert str(path) in session.notes[0]
                elif labels(session) != whole:
                    silent.append(seed)
        except RefusedError:
            told += 1
    assert silent == []
    assert told > N_DAMAGED // 4, "most damage is found"


def change(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE events SET payload = replace(payload, 'class 3', 'class 4') WHERE seq = 4", "event 4 is damaged"),
        ("UPDATE events SET kind = 'clear' WHERE seq = 9", "event 9 is damaged"),
        ("UPDATE events SET payload = x'00ff' WHERE seq = 9", "event 9 is damaged"),
        ("DELETE FROM events WHERE seq = 12", "events 12 to 12 are missing"),
        ("DELETE FROM events WHERE seq > 40", "the last event is 40, and should be '5"),
    ],
)
def test_the_event_is_named_and_the_others_hold(log, tmp_path, statement, told):
    with Session.from_embeddings(X, log=log) as session:
        whole = labels(session)
    path = tmp_path / "log.sqlite"
    path.write_bytes(log.read_bytes())
    change(path, statement)
    with Session.from_embeddings(X, log=path) as session:
        assert told in session.notes[0]
        assert "Look over your labels" in session.notes[0]
        assert len(session.notes) == 1
        kept = sum(mine == other for mine, other in zip(labels(session), whole, strict=True))
        assert kept > 15
        version = session.label([0], "after")
    with Session.from_embeddings(X, log=path) as session:
        assert session.state.version == version
        assert labels(session)[0] == "after"


ODD = [
    ("rename", {"old": "a", "new": 5}),
    ("rename", {"old": "a", "new": ["b"]}),
    ("add_class", {"classes": [[5, []]]}),
    ("add_class", {"classes": [["c", [5]]]}),
    ("merge", {"old": "a", "into": "a"}),
    ("label", {"labels": {"c": ["k"]}, "expected": ["x", 2]}),
    ("label", {"labels": {"c": ["k"]}, "seen": {"among": 1e14, "answers": {"k": [0, 0.5]}}}),
]


@pytest.mark.parametrize(("kind", "payload"), ODD)
def test_an_event_that_no_act_of_ours_writes_is_a_sentence(tmp_path, kind, payload):
    path = tmp_path / "log.sqlite"
    with Session.from_embeddings(X, log=path) as session:
        session.label({0: "a", 1: "b"})
        session._said._log.add(lambda: (kind, payload), lambda event: None)
    with pytest.raises(RefusedError, match=rf"is damaged, or not the log of a session: event 2 \({kind}\)"):
        Session.from_embeddings(X, log=path)


def test_undo_after_a_damaged_act_takes_back_nothing_else(tmp_path):
    path = tmp_path / "log.sqlite"
    with Session.from_embeddings(X, log=path) as session:
        session.label([0], "a")
        session.label([1], "b")
        session.undo()
    change(path, "UPDATE events SET payload = '{}' WHERE seq = 2")
    with Session.from_embeddings(X, log=path) as session:
        assert labels(session)[0] == "a"


@pytest.mark.parametrize("earlier", [2, 3])  # builds of format 3 with keys of classes came before checksums
def test_a_log_of_before_checksums_is_read(log, tmp_path, earlier):
    path = tmp_path / "log.sqlite"
    path.write_bytes(log.read_bytes())
    change(path, "ALTER TABLE events DROP COLUMN checksum")
    change(path, "DELETE FROM about WHERE name = 'last'")
    change(path, f"PRAGMA user_version = {earlier}")
    with Session.from_embeddings(X, log=log) as session, Session.from_embeddings(X, log=path) as older:
        assert labels(older) == labels(session)
        assert older.state.classes == session.state.classes
        assert older.notes == []
    change(path, "UPDATE events SET kind = 'clear' WHERE seq = 9")
    with Session.from_embeddings(X, log=path) as session:
        assert "event 9 is damaged" in session.notes[0]


def test_a_damaged_embedding_is_told_and_computed_again(tmp_path):
    store = Store(tmp_path)
    store.keep(["a", "b", "c"], X[:3])
    for key, value in (("a", np.full(4, np.nan, dtype="<f4").tobytes()), ("b", X[5].tobytes())):
        connection = sqlite3.connect(store.path)
        with connection:
            connection.execute("UPDATE embeddings SET vector = ? WHERE key = ?", (value, key))
        connection.close()
    with pytest.warns(RuntimeWarning, match=r"labelling.sqlite is damaged: 2 of its embeddings .* computed again"):
        assert list(store.load(["a", "b", "c"])) == ["c"]
    store.keep(["a", "b"], X[:2])
    assert list(store.load(["a", "b", "c"])) == ["a", "b", "c"]


@pytest.mark.filterwarnings("ignore:The cache")
def test_no_damage_to_a_cache_gives_another_embedding(tmp_path):
    store = Store(tmp_path / "whole")
    keys = [f"key {row}" for row in range(40)]
    store.keep(keys, X)
    content = store.path.read_bytes()
    for seed in range(N_DAMAGED):
        folder = tmp_path / str(seed)
        folder.mkdir()
        (folder / store.path.name).write_bytes(damage(content, seed))
        try:
            found = Store(folder).load(keys)
        except RefusedError:
            continue
        for key, vector in found.items():
            assert np.array_equal(vector, X[keys.index(key)]), (seed, key)


def test_a_cache_of_before_checksums_is_used(tmp_path):
    connection = sqlite3.connect(tmp_path / "labelling.sqlite")
    with connection:
        connection.execute("CREATE TABLE embeddings (key TEXT PRIMARY KEY, vector BLOB, used REAL) WITHOUT ROWID")
        connection.execute("INSERT INTO embeddings VALUES ('a', ?, 0)", (X[0].tobytes(),))
    connection.close()
    store = Store(tmp_path)
    assert np.array_equal(store.load(["a"])["a"], X[0])
    store.keep(["b"], X[1:2])
    assert list(store.load(["a", "b"])) == ["a", "b"]
