"""Random samples of answers to check by hand, and the accuracy of all answers estimated from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.answers.worklist import Estimate, audit_estimate
from marginshot.labelling.session.state import Audit, State


def open_audit(state: State) -> Audit | None:
    """The sample drawn last, while some of its items are not checked yet; items that are gone do not count."""
    if not state.audits or _is_checked(state, state.audits[-1]):
        return None
    return state.audits[-1]


def audit_result(state: State, n_ready: int) -> Estimate | None:
    """Accuracy over ``n_ready`` items by the newest finished audit; None where there is none."""
    finished = [audit for audit in state.audits if len(rows_of(state, audit)) and _is_checked(state, audit)]
    if not finished:
        return None
    there = finished[-1].slots < state.n_items
    right = state.given[finished[-1].slots[there]] == finished[-1].answered[there]
    return audit_estimate(int(right.sum()), len(right), 1.0 - int(state.checked.sum()) / n_ready)


def rows_of(state: State, audit: Audit) -> NDArray[np.int64]:
    """Rows (n,) of the sample that are still in the source."""
    return audit.slots[audit.slots < state.n_items]


def _is_checked(state: State, audit: Audit) -> bool:
    """Whether every item of the sample that is still in the source is checked."""
    return bool(state.checked[rows_of(state, audit)].all())
