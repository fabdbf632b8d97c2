"""The contents of the page as JSON and typed arrays. Functions here read a session and change nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.collection import NONE, UNKNOWN, Kind
from marginshot.labelling.embed import printable
from marginshot.labelling.names import phrasings_of
from marginshot.studio.worker import Answered, encoding_of

if TYPE_CHECKING:
    from marginshot.labelling import Session
    from marginshot.labelling.session.state import Class, State

UNANSWERED = 0xFFFF

READY, CHECKED, ACCEPTED, SAID_NONE, FOREIGN, UNREADABLE = 1, 2, 4, 8, 16, 32

_MOST_TOLD = 100  # problems and missing items listed
_SHORT, _WHOLE = 400, 20_000  # characters of a text, in a list and alone
_MOST_CLASSES = 10  # probabilities listed for an item


def project(session: Session, answered: Answered | None, run: str) -> dict[str, Any]:
    """Classes with their numbers, progress and expected accuracy: everything but the items."""
    state = session.state
    source = Path("embeddings") if session.source is None else Path(session.source)
    return {
        "name": source.name,
        "folder": str(source.resolve().with_name(f"{source.stem}-labelled")),
        "kind": session.kind,
        "run": run,
        "n_items": session.n_items,
        "version": state.version,
        "answers_version": None if answered is None else answered.answers.version,
        "answers_number": None if answered is None else answered.number,
        "encoding": encoding_of(session),
        "classes": _classes(session, answered),
        "can_undo": state.can_undo,
        "can_redo": state.can_redo,
        "n_labelled": int((state.given >= 0).sum()),
        "n_none": int((state.given == NONE).sum()),
        "n_unread": len(session.problems),
        "problems": list(session.problems.items())[:_MOST_TOLD],
        "notes": session.notes,
        "missing": session.missing[:_MOST_TOLD],
        "expected": None if answered is None else answered.expected,
        "open": _open(session, answered),
        "audit": _audit(session),
        "curve": session.curve,
    }


def _open(session: Session, answered: Answered | None) -> list[float] | None:
    """Number of items that nobody labelled by hand, and the accuracy expected of these; None where there are none."""
    ready = session.ready
    n_open = int((ready & ~session.state.checked).sum())
    if answered is None or answered.expected is None or not n_open:
        return None
    return [n_open, max(0.0, 1.0 - (1.0 - answered.expected[0]) * int(ready.sum()) / n_open)]


def _audit(session: Session) -> dict[str, Any] | None:
    """The audit drawn last: rows, their answers then, how many are checked; the accuracy by the last finished one."""
    state = session.state
    if not state.audits:
        return None
    audit = state.audits[-1]
    there = audit.slots < session.n_items
    rows = audit.slots[there]
    found = session.audit_result()
    result = None if found is None else [found.value, found.low, found.high]
    done = int(state.checked[rows].sum())
    return {"rows": rows.tolist(), "answered": audit.answered[there].tolist(), "done": done, "result": result}


def _classes(session: Session, answered: Answered | None) -> list[dict[str, Any]]:
    """Each class with its number of examples and items, its share and its expected accuracy.

    The accuracy is None where every item of the class was labelled by hand.
    """
    state = session.state
    codes, _ = _current(state, answered)
    n_codes = max((known.id for known in state.classes), default=0) + 1
    n_items = np.bincount(codes[codes >= 0], minlength=n_codes)
    right = np.bincount(codes[codes >= 0], _chances(state, answered, codes)[codes >= 0], minlength=n_codes)
    is_answered = np.bincount(codes[(codes >= 0) & ~state.checked], minlength=n_codes) > 0
    n_examples = np.bincount(state.given[state.given >= 0], minlength=n_codes)
    shares = {}
    if answered is not None and len(answered.answers.classes) > 1:
        shares = dict(zip(answered.answers.class_ids.tolist(), answered.answers.shares.tolist(), strict=True))
    return [
        {
            "id": known.id,
            "name": known.name,
            "description": list(known.description),
            "examples": int(n_examples[known.id]),
            "items": int(n_items[known.id]),
            "needs": _needs(known, session.kind, bool(n_examples[known.id]) or known.id in shares),
            "share": shares.get(known.id),
            "accuracy": float(right[known.id] / n_items[known.id]) if is_answered[known.id] else None,
        }
        for known in state.classes
    ]


def _needs(known: Class, kind: Kind, is_answered: bool) -> str | None:
    """Why no item can have this class yet; None where some can. Texts need no example beside a name in words."""
    if is_answered or (kind == "text" and phrasings_of(known.name, known.description)):
        return None
    return "needs an example: its name is a code" if kind == "text" else "needs an example"


def _current(state: State, answered: Answered | None) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Class id of each row, -1 for no class, and its probability, both (n_items,).

    Labels given and classes deleted since the answers were computed override the answers.
    """
    codes = np.full(state.n_items, UNKNOWN, dtype=np.int64)
    confidence = np.zeros(state.n_items)
    if answered is not None:
        known = np.isin(answered.answers.codes, [entry.id for entry in state.classes])
        codes[known] = answered.answers.codes[known]
        confidence[known] = answered.answers.confidence[known]
    said = state.given != UNKNOWN
    codes[said] = np.where(state.given[said] >= 0, state.given[said], UNKNOWN)
    confidence[said] = state.given[said] >= 0
    return codes, confidence


def _chances(state: State, answered: Answered | None, codes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Probability (n_items,) that the class ``codes`` (n_items,) of each row is right: 1 where somebody checked it."""
    chances = np.zeros(state.n_items)
    if answered is not None:
        same = answered.answers.codes == codes
        chances[same] = answered.answers.chances[same]
    chances[state.checked] = 1.0
    return chances


def answers(session: Session, answered: Answered | None) -> bytes:
    """Version, number of items, class ids, confidences and flags of all rows, as little-endian arrays in that order."""
    state = session.state
    codes, confidence = _current(state, answered)
    if codes.max(initial=0) >= UNANSWERED:
        raise ValueError(f"The page can show class numbers below {UNANSWERED:,}; start a new session.")
    flags = np.where(session.ready, READY, 0)
    flags[(state.given >= 0) & state.checked] |= CHECKED
    flags[(state.given >= 0) & ~state.checked] |= ACCEPTED
    flags[state.given == NONE] |= SAID_NONE
    if answered is not None:
        flags[answered.answers.foreign & (state.given == UNKNOWN)] |= FOREIGN
    problems = session.problems
    if problems:
        flags[[printable(name) in problems for name in session.items]] |= UNREADABLE
    version, number = (0, 0) if answered is None else (answered.answers.version, answered.number)
    header = struct.pack("<III", version, number, session.n_items)
    shown = np.where(codes == UNKNOWN, UNANSWERED, codes).astype("<u2").tobytes()
    return header + shown + np.round(confidence * 255).astype("u1").tobytes() + flags.astype("u1").tobytes()


def items(session: Session, rows: Iterable[int]) -> list[dict[str, Any]]:
    """Name of each of these rows, with the beginning of its text, and what is wrong with it."""
    return [_named(session, row, _SHORT) for row in rows]


def item(session: Session, answered: Answered | None, row: int) -> dict[str, Any]:
    """One row in full: text, label, probabilities, nearest examples and history."""
    state = session.state
    codes, confidence = _current(state, answered)
    ids = {entry.name: entry.id for entry in state.classes}
    probabilities: list[tuple[int, float]] = []
    foreign = False
    if answered is not None:
        values = answered.answers.probabilities[row]
        best = np.argsort(-values, kind="stable")[:_MOST_CLASSES]
        probabilities = [(int(answered.answers.class_ids[place]), float(values[place])) for place in best]
        foreign = bool(answered.answers.foreign[row])
    near = session.nearest_examples(row) if session.ready[row] else []
    return _named(session, row, _WHOLE) | {
        "row": row,
        "given": int(state.given[row]),
        "checked": bool(state.checked[row]),
        "code": int(codes[row]),
        "confidence": float(confidence[row]),
        "foreign": foreign,
        "probabilities": probabilities,
        "nearest": [(int(other), ids.get(name), float(cosine)) for other, name, cosine in near],
        "history": [
            {"version": entry.version, "time": entry.time, "words": entry.words} for entry in session.history(row)
        ],
    }


def search(session: Session, wanted: str, most: int) -> list[int]:
    """The first ``most`` rows whose name or text contains ``wanted``, in any case."""
    wanted = wanted.casefold()
    found = []
    for row, name in enumerate(session.items):
        text = session.contents[row] if session.kind == "text" else ""
        if wanted in name.casefold() or wanted in text.casefold():
            found.append(row)
            if len(found) == most:
                break
    return found


def _named(session: Session, row: int, n_letters: int) -> dict[str, Any]:
    found = {"name": session.items[row], "problem": session.problems.get(printable(session.items[row]))}
    return found | {"text": str(session.contents[row])[:n_letters]} if session.kind == "text" else found


def worklist(session: Session, target: float) -> dict[str, Any]:
    """Rows to check to reach the accuracy ``target``, with the accuracy expected after each."""
    found = session.worklist(target)
    reached = found.expected[-1] if len(found.rows) else session.expected_accuracy().value
    return {
        "rows": found.rows.tolist(),
        "expected": [round(float(value), 5) for value in found.expected],
        "target": target,
        "reached": bool(reached >= target),
    }


def groups(session: Session) -> list[dict[str, Any]]:
    """Groups among the items of no class: all rows of each, and its typical rows."""
    return [{"rows": group.rows.tolist(), "typical": group.typical.tolist()} for group in session.groups_of_none()]
