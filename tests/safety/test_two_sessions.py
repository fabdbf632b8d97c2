"""Two sessions, or two studios, on one log (issue 31): no act undoes what its user never saw."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from marginshot.labelling import Session
from marginshot.labelling.errors import ChangedMeanwhileError
from marginshot.labelling.items.collection import UNKNOWN
from marginshot.labelling.session.acts.label import Label
from marginshot.labelling.session.events import EventLog

X = np.concatenate([np.random.default_rng(k).normal(6 * np.eye(3)[k], 0.3, size=(20, 3)) for k in range(3)])


@pytest.fixture
def two(tmp_path):
    """Two sessions on one log, with answers of all classes."""
    first, second = (Session.from_embeddings(X, log=tmp_path / "log.sqlite") for _ in range(2))
    first.label({0: "a", 20: "b", 40: "c"})
    first.solve()
    second.solve()
    yield first, second
    first.close()
    second.close()


def between(monkeypatch, session: Session, act) -> None:
    """Let ``act`` happen after the session has looked, and just before it locks the log."""
    add = EventLog.add

    def late(log, *given):
        if log is session._said._log and act:
            monkeypatch.setattr(EventLog, "add", add)
            act()
        return add(log, *given)

    monkeypatch.setattr(EventLog, "add", late)


def name_of(session: Session, row: int) -> str:
    session.refresh()
    return next((known.name for known in session.state.classes if known.id == session.state.given[row]), "")


def test_accept_takes_no_label_given_by_hand_meanwhile(two, monkeypatch):
    first, second = two
    between(monkeypatch, first, lambda: second.label([1], "c"))
    first.accept(0.5)
    assert name_of(first, 1) == "c"
    assert first.state.checked[1]


def test_accept_brings_back_no_class(two, monkeypatch):
    first, second = two
    between(monkeypatch, first, lambda: second.delete_class("b"))
    first.accept(0.5)
    assert [known.name for known in first.state.classes] == ["a", "c"]


@pytest.mark.parametrize(
    "act", [lambda s: s.delete_class("a"), lambda s: s.label([1], "c"), lambda s: s.merge("a", "c")]
)
def test_confirm_is_of_what_was_seen(two, monkeypatch, act):
    first, second = two
    between(monkeypatch, first, lambda: act(second))
    with pytest.raises(ChangedMeanwhileError, match="'row 2' has another label now, or its class is gone"):
        first.confirm([1])
    assert first.refresh().version == 2
    assert name_of(first, 1) in ("", "c")


def test_confirm_follows_a_class_to_its_new_name(two, monkeypatch):
    first, second = two
    between(monkeypatch, first, lambda: second.rename("a", "ash"))
    first.confirm([1])
    assert [known.name for known in first.state.classes] == ["ash", "b", "c"]
    assert name_of(first, 1) == "ash"


@pytest.mark.parametrize("act", ["undo", "redo"])
def test_undo_takes_back_nothing_that_was_not_seen(two, monkeypatch, act):
    first, second = two
    first.label([5], "a")
    if act == "redo":
        first.undo()
    between(monkeypatch, first, lambda: second.label([6], "b"))
    with pytest.raises(ChangedMeanwhileError, match="Something else has changed in the meantime"):
        getattr(first, act)()
    assert name_of(first, 6) == "b"
    if act == "undo":
        first.undo()  # now that it is known
        assert first.state.given[6] == UNKNOWN


def test_an_act_made_on_an_older_version_is_not_written(two):
    first, second = two
    seen = first.state.version
    second.label([5], "b")
    with pytest.raises(ChangedMeanwhileError):
        first.do(Label({"a": first.keys_of([6])}), seen)
    assert first.state.given[6] == UNKNOWN
    first.label([6], "a")
    assert name_of(first, 6) == "a"


def test_hand_labels_survive_bulk_acceptance_from_two_threads(tmp_path):
    """30 hand labels against acceptances of another session, as they come."""
    with (
        Session.from_embeddings(X, log=tmp_path / "l") as first,
        Session.from_embeddings(X, log=tmp_path / "l") as other,
    ):
        first.label({0: "a", 20: "b", 40: "c"})
        other.solve()
        done = threading.Event()

        def accept() -> None:
            while not done.is_set():
                try:
                    other.accept(0.4)
                    other.undo()
                except ValueError:
                    other.refresh()

        thread = threading.Thread(target=accept)
        thread.start()
        by_hand = {row: "abc"[(row // 20 + 1) % 3] for row in (*range(1, 11), *range(21, 31), *range(41, 51))}
        for row, name in by_hand.items():
            first.label([row], name)
        done.set()
        thread.join()
        overwritten = [row for row, name in by_hand.items() if name_of(first, row) != name]
    assert overwritten == []
