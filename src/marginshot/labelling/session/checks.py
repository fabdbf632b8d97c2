"""Answers that somebody has checked: what their probabilities were worth."""

from __future__ import annotations

import numpy as np

from marginshot.labelling.collection import NONE
from marginshot.labelling.session.answers import SessionAnswers
from marginshot.labelling.session.state import State
from marginshot.labelling.worklist import Correction, Evidence, fit_correction


class Checks:
    """The answers that items had just before somebody labelled them, by row.

    They are forgotten where classes come or go: probabilities among other classes say nothing of those now. The first
    label of a class is not counted, because no answer could have been that class.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[float, bool]] = {}
        self._classes: tuple[int, ...] = ()

    def compare(self, before: State, after: State, answers: SessionAnswers | None) -> None:
        """Keep the ``answers`` to items checked between two states; forget those whose labels were taken back."""
        for row in np.flatnonzero(before.checked & ~after.checked).tolist():
            self._found.pop(row, None)
        if answers is None:
            return
        classes = tuple(answers.class_ids.tolist())
        if classes != self._classes:
            self._found, self._classes = {}, classes
        could_be_right = np.isin(after.given, (*classes, NONE)) & (answers.codes >= 0)
        for row in np.flatnonzero(~before.checked & after.checked & could_be_right).tolist():
            self._found[row] = float(answers.confidence[row]), bool(after.given[row] == answers.codes[row])

    def correction(self) -> Correction:
        """What they say of the probabilities of all others."""
        found = list(self._found.values())
        confidence = np.array([each for each, _ in found], dtype=np.float64)
        return fit_correction(Evidence(confidence, np.array([right for _, right in found], dtype=bool)))
