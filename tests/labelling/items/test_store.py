from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from marginshot.labelling.items.store import Store, clear_folder, default_folder


def vectors(n: int) -> np.ndarray:
    return np.arange(n * 4, dtype=np.float32).reshape(n, 4)


def test_embeddings_come_back_bit_for_bit(tmp_path):
    Store(tmp_path).keep(["a", "b"], vectors(2))
    found = Store(tmp_path).load(["b", "missing"])
    assert list(found) == ["b"]
    np.testing.assert_array_equal(found["b"], vectors(2)[1])


def test_many_keys_at_once(tmp_path):
    keys = [f"key {number}" for number in range(1203)]
    store = Store(tmp_path)
    store.keep(keys, vectors(1203))
    assert len(store.load(keys)) == 1203


def test_those_unused_longest_go_first(tmp_path, monkeypatch):
    clock = iter(range(0, 1_000_000, 3600))  # uses within an hour count as one
    monkeypatch.setattr("time.time", lambda: float(next(clock)))
    store = Store(tmp_path, limit=3 * 16)
    for key in "abcd":
        store.keep([key], vectors(1))
    store.load(["a"])
    store.trim()
    assert set(store.load(list("abcd"))) == {"a", "c", "d"}
    assert store.count() == (3, 48)


def test_a_use_soon_after_the_last_writes_nothing(tmp_path):
    store = Store(tmp_path)
    store.keep(["a", "b"], vectors(2))
    before = store.path.read_bytes()
    assert set(store.load(["a", "b"])) == {"a", "b"}
    assert store.path.read_bytes() == before


def test_clearing_shrinks_the_file_and_keeps_the_marks(tmp_path):
    output = tmp_path / "labels.csv"
    store = Store(tmp_path)
    store.keep([str(number) for number in range(2000)], vectors(2000))
    with store.own_output(output) as temporary:
        temporary.write_text("item,label\n")
    before = store.path.stat().st_size
    store.clear()
    assert store.path.stat().st_size < before / 4
    assert store.is_own_output(output)
    output.write_text("changed")
    assert not store.is_own_output(output)


def test_a_damaged_cache_is_named_and_can_be_cleared(tmp_path):
    store = Store(tmp_path)
    store.path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(ValueError, match="marginshot cache --clear"):
        store.load(["a"])
    clear_folder(tmp_path)
    assert Store(tmp_path).count() == (0, 0)


def test_a_busy_cache_is_not_taken_for_a_damaged_one(tmp_path, monkeypatch):
    Store(tmp_path).keep(["a"], vectors(1))
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, timeout: connect(path, timeout=0.01))
    with closing(connect(tmp_path / "labelling.sqlite")) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ValueError, match=r"database is locked.*Try again later"):
            clear_folder(tmp_path)
        other.rollback()
    assert Store(tmp_path).count()[0] == 1


def test_a_cache_that_cannot_be_written_does_not_end_the_work(tmp_path, monkeypatch):
    store = Store(tmp_path)

    def full(*arguments, **options):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite3, "connect", full)
    with pytest.warns(RuntimeWarning, match="not kept for the next run: .*disk is full"):
        store.keep(["a"], vectors(1))


def test_the_folder_can_be_chosen(monkeypatch, tmp_path):
    monkeypatch.setenv("MARGINSHOT_CACHE", str(tmp_path / "mine"))
    assert default_folder() == tmp_path / "mine"
    monkeypatch.delenv("MARGINSHOT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "marginshot"


def test_a_negative_limit(tmp_path):
    with pytest.raises(ValueError, match="must not be negative; got -1"):
        Store(tmp_path, -1)
