"""The acts of the page by name. Each is one event in the log of the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from marginshot.studio.inputs import Body, Conflict

if TYPE_CHECKING:
    from marginshot.labelling import Session

_MOST_AUDITED = 10_000


def act(session: Session, body: Body, answers_number: int | None) -> dict[str, Any]:
    """Do the act that ``body`` asks for; returns the new version and the act in words.

    A page may send the ``version`` of the state, or the ``answers_number``, that its user looked at. `Conflict` is
    raised where another page or process has changed it since. Otherwise an undo or an acceptance could concern
    something that its user has not seen.
    """
    name = body.text("action")
    if name not in _ACTS:
        raise ValueError(f"There is no action {name!r}; there are {', '.join(_ACTS)}.")
    before = session.refresh()  # reads acts of other processes too
    for field, now in (("version", before.version), ("answers_number", answers_number)):
        if field in body and body.integer(field) != now:
            raise Conflict("Something else has changed in the meantime. Look again, then repeat it.")
    rows = _ACTS[name](session, body)
    after = session.state
    words = {"undo": f"Undone: {before.can_undo}", "redo": f"Redone: {before.can_redo}"}.get(name, after.can_undo)
    done = {"version": after.version, "words": words}
    return done if name != "audit" else done | {"rows": [int(row) for row in rows]}


def _class(session: Session, body: Body, field: str) -> str:
    """Name of the class whose id is in ``field``."""
    number = body.integer(field)
    found = next((known.name for known in session.state.classes if known.id == number), None)
    if found is None:
        raise Conflict(f"There is no class number {number} any more.")
    return found


def _label(session: Session, body: Body) -> None:
    name = _class(session, body, "class_id") if "class_id" in body else body.text("name")
    session.label(body.rows(session.n_items), name)


_ACTS: dict[str, Callable[[Session, Body], Any]] = {
    "label": _label,
    "confirm": lambda session, body: session.confirm(body.rows(session.n_items)),
    "none": lambda session, body: session.none_of_these(body.rows(session.n_items)),
    "clear": lambda session, body: session.clear(body.rows(session.n_items)),
    "accept": lambda session, body: session.accept(body.share("at_least")),
    "add_class": lambda session, body: session.add_class(body.text("name")),
    "rename": lambda session, body: session.rename(_class(session, body, "class_id"), body.text("name")),
    "merge": lambda session, body: session.merge(_class(session, body, "class_id"), _class(session, body, "into")),
    "delete_class": lambda session, body: session.delete_class(_class(session, body, "class_id")),
    "undo": lambda session, _: session.undo(),
    "redo": lambda session, _: session.redo(),
    "audit": lambda session, body: session.audit(body.integer("n", _MOST_AUDITED)),
}
