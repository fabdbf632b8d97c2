"""Answers that somebody has checked: what their probabilities were worth.

An act that labels items carries, in the log, the answers they had just before. So the evidence is a function of the
state: it survives a restart, goes with an undo and comes back with a redo.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.collection import UNKNOWN
from marginshot.labelling.session.answers import SessionAnswers
from marginshot.labelling.session.events import Act
from marginshot.labelling.session.state import Point, Slots, State
from marginshot.labelling.worklist import Evidence

_CHECKING = ("label", "confirm", "none")


def with_answers(
    act: Act, answers: SessionAnswers, expected: Point | None, slots_of: Callable[[Sequence[str]], Slots]
) -> Act:
    """The act with the ``answers`` of the items that it checks, and the accuracy ``expected`` before it.

    Undo and redo carry nothing: they go back to what other acts carried.
    """
    kind, payload = act
    if kind in ("undo", "redo"):
        return act
    carried = dict(payload) if expected is None else {**payload, "expected": expected}
    if kind in _CHECKING:
        keys = [*payload.get("items", ()), *chain(*payload.get("labels", {}).values())]
        carried["seen"] = {
            "among": _checksum(answers.class_ids),
            "answers": {
                key: [int(answers.codes[row]), round(float(answers.confidence[row]), 6)]
                for key, row in zip(keys, slots_of(keys).tolist(), strict=True)
                if answers.codes[row] != UNKNOWN
            },
        }
    return kind, carried


def find_evidence(state: State, class_ids: NDArray[np.int32]) -> Evidence:
    """The answers checked so far that were among the classes ``class_ids`` (n_classes,) and no others.

    A probability among other classes says nothing of those now, and the first label of a class is no error of answers
    that could not be that class.
    """
    rows = np.flatnonzero(
        state.checked & (state.seen["answer"] != UNKNOWN) & (state.seen["among"] == _checksum(class_ids))
    )
    seen = state.seen[rows]
    return Evidence(seen["confidence"].astype(np.float64), np.asarray(seen["answer"] == state.given[rows]))


def _checksum(class_ids: NDArray[np.int32]) -> int:
    return zlib.crc32(class_ids.astype("<i4").tobytes())
