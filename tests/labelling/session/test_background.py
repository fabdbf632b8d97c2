"""A complete fit in the background lets acts pass, and ends with the session."""

import threading

import numpy as np
import pytest

from marginshot.labelling import Session


@pytest.fixture
def fitting(monkeypatch):
    """A session whose complete fit has begun, and calls what it was told to wait by whenever ``step`` is set."""
    session = Session.from_embeddings(np.random.default_rng(0).normal(size=(60, 8)))
    session.label({row: "ab"[row % 2] for row in range(4)})
    session.solve()
    solve = session._solver.solve
    began, step = threading.Event(), threading.Event()

    def slowly(*given, wait=int, **options):
        if options.get("complete"):
            began.set()
            assert step.wait(10)
            wait()
        return solve(*given, **options)

    monkeypatch.setattr(session._solver, "solve", slowly)
    session._answering._completing = threading.Thread(target=session._answering._complete)
    session._answering._completing.start()
    assert began.wait(10)
    yield session, step
    step.set()
    session.close()


def test_a_complete_fit_waits_while_an_act_is_answered(fitting, monkeypatch):
    session, step = fitting
    solve = session._solver.solve
    monkeypatch.setattr(session._solver, "solve", lambda *given, **options: _during(session, step) or solve(*given))
    session.label({5: "a"})
    session.solve()
    session._answering._completing.join(10)
    assert not session._answering._completing.is_alive()


def _during(session, step):
    """While an act is answered the fit takes its step, and stays there."""
    step.set()
    session._answering._completing.join(0.2)
    assert session._answering._completing.is_alive()


def test_a_complete_fit_ends_with_the_session(fitting):
    session, step = fitting
    before = session._answering.latest
    session._answering._closed = True
    step.set()
    session._answering._completing.join(10)
    assert session._answering.latest is before
