"""One thread that answers the newest state: acts never wait for answers, and a newer act makes an older answer void."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginshot.studio.news import News, Newsroom

if TYPE_CHECKING:
    from marginshot.labelling import Session, SessionAnswers

_log = logging.getLogger(__name__)

_TICK = 0.5  # seconds between looks at how far the encoding is, and at what another process did
_GROWTH = 1.25  # while items are encoded, all are answered anew whenever there are this many times as many
_LAST_WORDS = 5.0  # seconds that an answer at work gets when the server stops
_MOST_ROWS = 5_000  # changed rows that are listed


@dataclass(frozen=True)
class Answered:
    """Answers, with the numbers that go with them.

    Parameters
    ----------
    answers : SessionAnswers
        What the session says.
    expected : tuple of float, optional
        Expected accuracy with its interval: value, low, high.
    changed : ndarray of int64 of shape (n_changed,)
        Rows whose label differs from the answers announced before.
    """

    answers: SessionAnswers
    expected: tuple[float, float, float] | None
    changed: NDArray[np.int64]

    def news(self) -> News:
        """What the pages are told."""
        rows = self.changed[:_MOST_ROWS].tolist()
        return "answers", {"version": self.answers.version, "changed": len(self.changed), "changed_rows": rows}


class Worker:
    """Answers the newest state of a session, again and again, in a thread of its own.

    Parameters
    ----------
    session : Session
        What is labelled.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.newsroom = Newsroom(self._greeting)
        self.answered: Answered | None = None
        self._problem: str | None = None
        self._told: dict[str, dict[str, Any]] = {}
        self._tried: tuple[int, int, bool] | None = None
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="marginshot-studio", daemon=True)

    def start(self) -> None:
        """Begin; called in the thread of the event loop."""
        self.newsroom.open()
        self._thread.start()

    def stop(self) -> None:
        """End after the answer at work."""
        self._stopped.set()
        self._wake.set()
        self._thread.join(_LAST_WORDS)

    def wake(self) -> None:
        """Say that there is something new."""
        self._wake.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            try:
                self._look()
                if self._is_due():
                    self._answer()
                    continue
            except Exception as error:  # whatever it is, pages must hear of it, and the next act is answered again
                if self._stopped.is_set():
                    return  # the session was closed under an answer that took too long
                _log.exception("The answers could not be computed.")
                self._problem = f"The answers could not be computed: {error}"
                self.newsroom.publish("error", {"message": self._problem})
            self._wake.wait(_TICK)

    def _look(self) -> None:
        """Tell what is new: acts, of other processes too, and items encoded."""
        self._tell("state", {"version": self.session.refresh().version})
        self._tell("encoding", encoding_of(self.session))

    def _now(self) -> tuple[int, int, bool]:
        """What answers depend on: the version, the number of items encoded, and whether these are all."""
        return self.session.state.version, int(self.session.ready.sum()), not self.session.encoding.phase

    def _is_due(self) -> bool:
        """Whether there are acts, or many more items, that the answers do not know."""
        now, tried = self._now(), self._tried
        if tried is None or now[0] != tried[0] or now[2] != tried[2]:
            return True
        if self.answered is not None and self.answered.answers is not self.session.latest:
            return True  # a complete fit has taken the place of quick answers
        return now[1] > tried[1] and (now[2] or now[1] >= _GROWTH * tried[1])

    def _answer(self) -> None:
        self._tried = self._now()
        answers = self.session.solve()
        if answers.version < self.session.state.version:
            return  # void: the next round answers the newest state
        expected = None
        if (answers.probabilities > 0).any():
            found = self.session.expected_accuracy()
            expected = (found.value, found.low, found.high)
        before = np.full(self.session.n_items, -1) if self.answered is None else self.answered.answers.codes
        changed = np.flatnonzero(answers.codes != before)
        self.answered = Answered(answers, expected, changed)
        self._problem = None
        self.newsroom.publish(*self.answered.news())

    def _tell(self, kind: str, content: dict[str, Any]) -> None:
        """Publish what is not as it was when it was last told."""
        if self._told.get(kind) != content:
            self._told[kind] = content
            self.newsroom.publish(kind, content)

    def _greeting(self) -> list[News]:
        """What a page that has just come must know."""
        news: list[News] = [
            ("state", {"version": self.session.state.version}),
            ("encoding", encoding_of(self.session)),
        ]
        news += [] if self.answered is None else [self.answered.news()]
        return news if self._problem is None else [*news, ("error", {"message": self._problem})]


def encoding_of(session: Session) -> dict[str, Any]:
    """How far the encoding is: phase (empty when finished), done, total, seconds left."""
    now = session.encoding
    return {"phase": now.phase, "done": now.done, "total": now.total, "seconds_left": now.seconds_left}
