"""The contents of the page as JSON and typed arrays. Functions here read a session and change nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.answers.names import phrasings_of
from marginshot.labelling.items.collection import NONE, UNKNOWN
from marginshot.labelling.items.embed import printable
from marginshot.labelling.items.kind import Kind
from marginshot.labelling.items.tables import as_text
from marginshot.labelling.session.state import CLASS_KEYS
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
        "source": str(source.resolve()),
        "folder": str(source.resolve().with_name(f"{source.stem}-labelled")),
        "shows": _shows(session.kind),
        "plays": session.kind.has_sound,
        "kind": session.kind.name,
        "in_files": session.kind.in_files,
        "in_boxes": session.kind.in_boxes,
        "run": run,
        "n_items": session.n_items,
        "version": state.version,
        "encoding": encoding_of(session),
        "classes": _classes(session, answered),
        "class_keys": CLASS_KEYS,
        "reads_words": session.lookup.reads_words,
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
        "n_doubts": 0 if answered is None else len(answered.answers.doubts),
        "n_unlike": 0 if answered is None else len(answered.answers.unlike),
        "audit": _audit(session),
        "curve": session.curve,
    }


def _shows(kind: Kind) -> str:
    """What an item of this kind is on the page: an ``image``, its ``text``, or only its ``name``."""
    return "image" if kind.has_image else "text" if kind.has_text else "name"


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
            "key": known.key,
            "examples": int(n_examples[known.id]),
            "items": int(n_items[known.id]),
            "needs": _needs(known, session.lookup.reads_words, bool(n_examples[known.id]) or known.id in shares),
            "share": shares.get(known.id),
            "accuracy": float(right[known.id] / n_items[known.id]) if is_answered[known.id] else None,
        }
        for known in state.classes
    ]


def _needs(known: Class, reads_words: bool, is_answered: bool) -> str | None:
    """Why no item can have this class yet; None where some can. An encoder that reads words needs a name in words."""
    if is_answered or (reads_words and phrasings_of(known.name, known.description)):
        return None
    return "needs an example: its name is a code" if reads_words else "needs an example"


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


def doubts(answered: Answered | None) -> list[dict[str, Any]]:
    """Labels that look wrong, the most doubtful first: the row, and the id of the class by the other labels."""
    found = () if answered is None else answered.answers.doubts
    return [{"row": doubt.row, "other": doubt.other} for doubt in found]


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
        "nearest": [(int(other), ids.get(name)) for other, name, _ in near],
        "columns": _cells(session, row),
        "history": [
            {"version": entry.version, "time": entry.time, "words": entry.words} for entry in session.history(row)
        ],
    }


def _cells(session: Session, row: int) -> list[tuple[str, str]]:
    """Names and values of the table's columns in one row, but for that of the texts and empty ones."""
    text = session.kind.text(session.contents[row])
    rows = {name: values[row] for name, values in session.columns.items() if len(values) == session.n_items}
    shown = {name: as_text(value) for name, value in rows.items() if value not in (text, session.items[row])}
    return [(name, value[:_SHORT]) for name, value in shown.items() if value]


def search(session: Session, wanted: str, most: int) -> list[int]:
    """The first ``most`` rows whose name or text contains ``wanted``, or another column of the table, in any case."""
    wanted = wanted.casefold()
    searched: list[Any] = [
        session.items,
        *(values for values in session.columns.values() if len(values) == session.n_items),
    ]
    searched.append([session.kind.text(content) for content in session.contents])
    found = []
    for row, cells in enumerate(zip(*searched, strict=True)):
        if any(wanted in as_text(cell).casefold() for cell in cells):
            found.append(row)
            if len(found) == most:
                break
    return found


def _named(session: Session, row: int, n_letters: int) -> dict[str, Any]:
    found = {"name": session.items[row], "problem": session.problems.get(printable(session.items[row]))}
    text = session.kind.text(session.contents[row])
    return found | {"text": text[:n_letters]} if text else found


def worklist(session: Session, target: float) -> dict[str, Any]:
    """Rows to check to reach the accuracy ``target``, with the accuracy expected after each; none without answers."""
    found, expected = session.worklist(target), session.expected_accuracy()
    if expected is None:  # a page may ask just when classes are merged into one
        return {"rows": [], "expected": [], "target": target, "reached": False}
    reached = found.expected[-1] if len(found.rows) else expected.value
    return {
        "rows": found.rows.tolist(),
        "expected": [round(float(value), 5) for value in found.expected],
        "target": target,
        "reached": bool(reached >= target),
    }


def groups(session: Session) -> list[dict[str, Any]]:
    """Groups among the items of no class: all rows of each, and its typical rows."""
    return [{"rows": group.rows.tolist(), "typical": group.typical.tolist()} for group in session.groups_of_none()]
