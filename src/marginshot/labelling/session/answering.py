"""The newest answers of a session: quick ones after every act, and complete fits in the background where they pay."""

from __future__ import annotations

import threading

from marginshot.labelling.session.encoding import Encoding
from marginshot.labelling.session.journal import Journal
from marginshot.labelling.session.solving import Solved, Solver

# `Refitter.drift` from which on a complete fit pays: until then 99 % of the items have the label it would give
# (benchmarks/session.py, CLINC150 and Tiny-ImageNet, 1 to 5 examples a class). Flat: 0.2 on CLINC150.
_DRIFT = 0.1


class _ClosedError(Exception):
    """The session was closed while a complete fit ran."""


class Answering:
    """Computes the newest answers for all items that are embedded; any thread may ask.

    Parameters
    ----------
    said : Journal
    encoding : Encoding
    solver : Solver
    """

    def __init__(self, said: Journal, encoding: Encoding, solver: Solver) -> None:
        self._said, self._encoding, self._solver = said, encoding, solver
        #: The newest answers there are.
        self.latest: Solved | None = None
        self._solving = threading.Lock()
        self._completing: threading.Thread | None = None
        self._quiet, self._closed = threading.Event(), False  # no act is being answered
        self._quiet.set()

    def solve(self, *, complete: bool = False) -> Solved:
        """Answers for the newest state, which start from the last ones unless a ``complete`` fit is asked for.

        One thread solves at a time. Where many labels are new, a complete fit is made in a thread, and takes their
        place.
        """
        with self._solving:
            state = self._said.refresh()
            rows, X = self._encoding.snapshot()
            before = self.latest
            if before is not None and before.knows(state, rows) and not (complete and before.drift):
                return before
            self._quiet.clear()
            try:
                self.latest = solved = self._solver.solve(state, rows, X, complete=complete)
            finally:
                self._quiet.set()
        if solved.drift > _DRIFT and (self._completing is None or not self._completing.is_alive()):
            self._completing = threading.Thread(target=self._complete, name="marginshot-fit", daemon=True)
            self._completing.start()
        return solved

    def close(self) -> None:
        """End the complete fit that runs."""
        self._closed = True
        if self._completing is not None:
            self._completing.join()

    def _complete(self) -> None:
        """Make a complete fit in the background: it replaces quick answers of the same state."""
        state = self._said.state
        rows, X = self._encoding.snapshot()
        try:
            solved = self._solver.solve(state, rows, X, complete=True, wait=self._wait_for_acts)
        except _ClosedError:
            return
        with self._solving:
            if solved.knows(self._said.state, self._encoding.snapshot()[0]):
                self.latest = solved

    def _wait_for_acts(self) -> None:
        """Pause a complete fit while an act is answered; raise where the session was closed."""
        self._quiet.wait()
        if self._closed:
            raise _ClosedError
