"""A thread that answers the newest state, and one that watches for news.

Acts never wait for answers, and a newer act makes an older answer void.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marginshot.labelling.errors import RefusedError
from marginshot.studio.news import News, Newsroom

if TYPE_CHECKING:
    from marginshot.labelling import Session, SessionAnswers

_log = logging.getLogger(__name__)

_TICK = 0.5  # seconds between two looks at the progress of encoding and at acts of other processes
_GROWTH = 1.25  # during encoding, answers are computed again when this many times as many items are ready
_LAST_WORDS = 5.0  # seconds that a running computation gets when the server stops


@dataclass(frozen=True)
class Answered:
    """Answers with their expected accuracy.

    Parameters
    ----------
    answers : SessionAnswers
        Answers of the session.
    expected : tuple of float, optional
        Expected accuracy with its interval: value, low, high.
    number : int
        Counts the answers announced: a complete fit gives others of the same version.
    """

    answers: SessionAnswers
    expected: tuple[float, float, float] | None
    number: int

    def news(self) -> News:
        """The event that announces these answers."""
        return "answers", {"version": self.answers.version}


class Worker:
    """Answers the newest state of a session again and again, and announces what is new to the pages.

    Parameters
    ----------
    session : Session
        The session to answer.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.newsroom = Newsroom(self._greeting)
        self.answered: Answered | None = None
        self._problem: str | None = None
        self._faults: set[str] = set()  # reported since the last answers
        self._error = ""
        self._telling = threading.Lock()
        self._told: dict[str, dict[str, Any]] = {}
        self._tried: tuple[int, int, bool] | None = None
        self._wake, self._stopped = threading.Event(), threading.Event()
        loops = {"marginshot-studio": self._run, "marginshot-watch": self._watch}
        self._threads = [threading.Thread(target=loop, name=name, daemon=True) for name, loop in loops.items()]

    def start(self) -> None:
        """Start both threads; called in the thread of the event loop."""
        self.newsroom.open()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop both threads after the running computation."""
        self._stopped.set()
        self._wake.set()
        for thread in self._threads:
            thread.join(_LAST_WORDS)

    def wake(self) -> None:
        """Announce the newest state, and have it answered."""
        self._tell("state", {"version": self.session.state.version})
        self._wake.set()

    def reopen(self, session: Session, run: str) -> None:
        """Go on with another session on the same log: its rows may be others, so all pages load anew."""
        with self._telling:
            self.session, self.answered, self._tried, self._problem, self._told = session, None, None, None, {}
            self._faults.clear()
        self.newsroom.publish("reopened", {"run": run})
        self._wake.set()

    def _run(self) -> None:
        """Answer whenever something is new."""
        while not self._stopped.is_set():
            self._wake.clear()
            with self._faults_told("The answers could not be computed"):
                while self._is_due() and not self._stopped.is_set():
                    self._answer()
            self._wake.wait(_TICK)

    def _watch(self) -> None:
        """Announce acts of other processes and items encoded, also while answers are computed."""
        while not self._stopped.wait(_TICK):
            with self._faults_told("The session could not be read"):
                self.session.refresh()
                self._tell("encoding", encoding_of(self.session))
                self._say_error(self.session.encoding.error)
                self.wake()

    def _say_error(self, error: str) -> None:
        """Log, once, why items have no embeddings; pages show it by themselves."""
        if error != self._error:
            self._error = error
            if error:
                _log.error("%s", error)

    @contextmanager
    def _faults_told(self, what: str) -> Iterator[None]:
        """Log any fault and report it to the pages; the next act is answered again."""
        session = self.session
        try:
            yield
        except Exception as error:
            if self._stopped.is_set() or session is not self.session:
                return  # the session was closed, or replaced by another, during the computation
            self._problem = f"{what}: {error}"
            if str(error) in self._faults:
                return  # it comes back with every tick
            self._faults.add(str(error))
            if isinstance(error, RefusedError):
                _log.error("%s", self._problem)
            else:
                _log.exception("%s.", what)
            self.newsroom.publish("error", {"message": self._problem})

    def _now(self) -> tuple[int, int, bool]:
        """Inputs of the answers: the version, the number of items encoded, and whether encoding has ended."""
        return self.session.state.version, int(self.session.ready.sum()), not self.session.encoding.phase

    def _is_due(self) -> bool:
        """Whether there are new acts, many more items, or a complete fit to announce; never without an encoder."""
        if self.session.encoding.error:
            return False
        now, tried = self._now(), self._tried
        if tried is None or now[0] != tried[0] or now[2] != tried[2]:
            return True
        if self.answered is not None and self.answered.answers is not self.session.latest:
            return True  # a complete fit has replaced quick answers
        return now[1] > tried[1] and (now[2] or now[1] >= _GROWTH * tried[1])

    def _answer(self) -> None:
        session, self._tried = self.session, self._now()
        answers = session.solve()
        if answers.version < session.state.version:
            return  # outdated: the next round answers the newest state
        found = answers.expected
        expected = None if found is None else (found.value, found.low, found.high)
        with self._telling:
            if session is not self.session:
                return  # the source was opened anew meanwhile, and rows are others
            number = 1 if self.answered is None else self.answered.number + 1
            self.answered = Answered(answers, expected, number)
            self._problem = None
            self._faults.clear()
        self.newsroom.publish(*self.answered.news())

    def _tell(self, kind: str, content: dict[str, Any]) -> None:
        """Publish ``content`` unless it was the last of its kind."""
        with self._telling:
            if self._told.get(kind) != content:
                self._told[kind] = content
                self.newsroom.publish(kind, content)

    def _greeting(self) -> list[News]:
        """The first events for a page that connects."""
        news: list[News] = [
            ("state", {"version": self.session.state.version}),
            ("encoding", encoding_of(self.session)),
        ]
        news += [] if self.answered is None else [self.answered.news()]
        return news if self._problem is None else [*news, ("error", {"message": self._problem})]


def encoding_of(session: Session) -> dict[str, Any]:
    """Progress of the encoding: phase (empty when finished), done, total, seconds left, and what ended it early."""
    now = session.encoding
    return {
        "phase": now.phase,
        "done": now.done,
        "total": now.total,
        "seconds_left": now.seconds_left,
        "error": now.error,
    }
