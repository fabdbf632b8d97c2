"""Evidence from checked answers: how good their probabilities were.

An act that labels items carries, in the log, the answers they had just before. So the evidence is a function of the
state: it survives a restart, goes with an undo and comes back with a redo.

A person who looks through the items and corrects wrong answers leaves the right ones unlabelled. Such items are
examples, but no evidence of how often answers are right. Items that the session proposed are evidence: suggestions, the
worklist, an audit. So are all others where people label items that were answered right, too.
"""

from __future__ import annotations

import zlib
from collections.abc import Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.answers.worklist import Evidence
from marginshot.labelling.items.collection import UNKNOWN
from marginshot.labelling.session.acts.act import Act, SlotsOf
from marginshot.labelling.session.answers import SessionAnswers
from marginshot.labelling.session.state import Point, State

# If at least this share of the answers to labelled items was right, people label all that they look at, not wrong
# answers alone. Answers are right more often in any folder that anybody wants labelled.
LEAST_RIGHT = 0.1


def carried(
    act: Act,
    answers: SessionAnswers,
    expected: Point | None,
    proposed: Set[int],
    slots_of: SlotsOf,
) -> dict[str, Any]:
    """What the log keeps with an act: the ``answers`` of items that it checks, the accuracy ``expected`` before it.

    Items that were not among the rows ``proposed`` are marked as picked; if these looked like none of the classes, they
    had no answer to check. Undo and redo carry nothing: they go back to what other acts carried.
    """
    if act.returns:
        return {}
    kept: dict[str, Any] = {} if expected is None else {"expected": expected}
    if act.checks:
        slots = slots_of(act.keys).tolist()
        picked = {row: [] if row in proposed else [1] for row in slots}
        kept["seen"] = {
            "among": _checksum(answers.class_ids),
            "answers": {
                key: [int(answers.codes[row]), round(float(answers.promised[row]), 6), *picked[row]]
                for key, row in zip(act.keys, slots, strict=True)
                if answers.codes[row] != UNKNOWN and not (answers.foreign[row] and picked[row])
            },
        }
    return kept


def given_again(act: Act, state: State, slots_of: SlotsOf) -> dict[int, int]:
    """Class ids, by slot, of labels that a person gave before the act and looks at again in it."""
    slots = slots_of(act.keys if act.checks else ())
    known = slots[slots < len(state.slot_checked)]
    again = known[state.slot_checked[known]]
    return dict(zip(again.tolist(), state.slot_given[again].tolist(), strict=True))


def find_evidence(state: State, class_ids: NDArray[np.int32]) -> Evidence:
    """The answers checked so far that were among the classes ``class_ids`` (n_classes,) and no others.

    A probability among other classes is not comparable, and the first label of a class is no error of answers
    that could not be that class. Items that were picked are left out.
    """
    checked = state.checked & (state.seen["answer"] != UNKNOWN) & (state.seen["among"] == _checksum(class_ids))
    rows = np.flatnonzero(checked & ~picked_rows(state))
    seen = state.seen[rows]
    return Evidence(seen["confidence"].astype(np.float64), np.asarray(seen["answer"] == state.given[rows]))


def picked_rows(state: State) -> NDArray[np.bool_]:
    """Items, (n_items,), that a person picked because their answers were wrong.

    These are the checked items that the session had not proposed, if less than a share `LEAST_RIGHT` of their answers
    was right; else none.
    """
    unasked = state.checked & (state.seen["answer"] != UNKNOWN) & state.seen["picked"]
    was_right = unasked & (state.seen["answer"] == state.given)
    if was_right.sum() >= LEAST_RIGHT * unasked.sum():
        return np.zeros(len(unasked), dtype=bool)
    return np.asarray(unasked)


def _checksum(class_ids: NDArray[np.int32]) -> int:
    return zlib.crc32(class_ids.astype("<i4").tobytes())
