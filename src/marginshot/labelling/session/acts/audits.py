"""A random sample of answers is drawn, to be checked by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marginshot.labelling.session.acts.act import Act, Keys, Now, Saying, count
from marginshot.labelling.session.answers import SessionAnswers
from marginshot.labelling.session.audits import open_audit
from marginshot.labelling.session.changes import Draft
from marginshot.labelling.session.state import Audit


@dataclass(frozen=True)
class Drawn(Act, kind="audit"):
    """A random sample was drawn: its items, and the class that was answered for each."""

    items: Keys
    answered: Sequence[str]

    def apply(self, draft: Draft) -> None:
        """Add the sample to the audits of the state."""
        answered = [draft.state.class_id(name) for name in self.answered]
        slots = draft.slots(self.items)
        if len(slots) != len(answered):
            raise ValueError(f"{count(len(slots))} were drawn with {len(answered)} answers")
        draft.audits.append(Audit(slots, np.array(answered, dtype=np.int32)))

    @property
    def words(self) -> str:
        """The number of items drawn, in words."""
        return f"draw {count(len(self.items))} to check"


@dataclass(frozen=True)
class DrawSample(Saying, asked="audit"):
    """Draw at most ``n`` of the ``answers`` that nobody has checked, unless a sample waits to be checked."""

    n: int
    answers: SessionAnswers

    def on(self, now: Now) -> Act | None:
        """The sample, drawn with the version of the state as seed; None while another waits to be checked."""
        if self.n < 1:
            raise ValueError(f"An audit needs at least one item; got {self.n}.")
        if open_audit(now.state) is not None:
            return None
        names = {known.id: known.name for known in now.state.classes}
        codes = self.answers.codes
        pool = np.flatnonzero(~now.state.checked & np.isin(codes, list(names)))
        if not len(pool):
            raise ValueError("There is no unchecked answer to draw a sample from.")
        rows = np.random.default_rng(now.state.version).permutation(pool)[: self.n].tolist()
        return Drawn([now.keys[row] for row in rows], [names[int(codes[row])] for row in rows])
