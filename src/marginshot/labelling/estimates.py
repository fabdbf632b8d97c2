"""How many answers are right: expected from their probabilities, or counted in a random sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from marginshot.labelling.state import Audit, State

_Z = 1.96  # of an interval of 95 %


@dataclass(frozen=True)
class Estimate:
    """A number, and the ends of its interval of 95 %."""

    value: float
    low: float
    high: float


def expected_accuracy(confidence: NDArray[np.floating]) -> Estimate:
    """Share of right answers to expect from their probabilities (n_items,), 1 for those that were checked.

    The number of right ones is a sum of independent yes or no, of variance Σ p (1 − p).
    """
    wide = confidence.astype(np.float64)
    value = float(wide.mean())
    error = _Z * float(np.sqrt((wide * (1.0 - wide)).sum())) / len(wide)
    return Estimate(value, max(value - error, 0.0), min(value + error, 1.0))


def open_audit(state: State) -> Audit | None:
    """The sample drawn last, while some of its items are not checked yet; items that are gone do not count."""
    return None if not state.audits or _is_finished(state, state.audits[-1]) else state.audits[-1]


def audit_result(state: State, n_ready: int) -> Estimate | None:
    """Accuracy over ``n_ready`` items from the newest finished audit; None where there is none.

    The sample was drawn from the items not checked until then, so its share of right answers is an unbiased estimate of
    theirs (Clopper and Pearson's interval); what is checked now is right.
    """
    finished = [audit for audit in state.audits if _is_finished(state, audit)]
    if not finished:
        return None
    slots = _present(state, finished[-1])
    n_right = int((state.given[slots] == finished[-1].answered[finished[-1].slots < state.n_items]).sum())
    n_wrong = len(slots) - n_right
    low = float(beta.ppf(0.025, n_right, n_wrong + 1)) if n_right else 0.0
    high = float(beta.ppf(0.975, n_right + 1, n_wrong)) if n_wrong else 1.0
    unchecked = 1.0 - int(state.checked.sum()) / n_ready
    return Estimate(*(1.0 - unchecked * (1.0 - share) for share in (n_right / len(slots), low, high)))


def _present(state: State, audit: Audit) -> NDArray[np.int64]:
    return audit.slots[audit.slots < state.n_items]


def _is_finished(state: State, audit: Audit) -> bool:
    slots = _present(state, audit)
    return len(slots) > 0 and bool(state.checked[slots].all())
