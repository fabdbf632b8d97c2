"""The acts of the page: each is read from the fields of its object, and is one event in the log of the session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, get_type_hints

from marginshot.labelling.errors import ChangedMeanwhileError
from marginshot.labelling.session.acts.act import ASKED, Keys, KnownClass, Labels, Rows, Saying
from marginshot.labelling.session.acts.classes import NewClasses
from marginshot.labelling.session.answers import SessionAnswers
from marginshot.studio.inputs import Body, Conflict

if TYPE_CHECKING:
    from marginshot.labelling import Session

_MOST_COUNTED = 10_000  # items that an act may ask for by their number


def act(session: Session, body: Body, answers_number: int | None) -> dict[str, Any]:
    """Do the act that ``body`` asks for; returns the new version and the act in words.

    A page may send the ``version`` of the state, or the ``answers_number``, that its user looked at. `Conflict` is
    raised where another page or process has changed it since. Otherwise an undo or an acceptance could concern
    something that its user has not seen.
    """
    name = body.text("action")
    if name not in ASKED:
        raise ValueError(f"There is no action {name!r}; there are {', '.join(sorted(ASKED))}.")
    while True:
        before = session.refresh()  # reads acts of other processes too
        for field, now in (("version", before.version), ("answers_number", answers_number)):
            if field in body and body.integer(field) != now:
                raise Conflict("Something else has changed in the meantime. Look again, then repeat it.")
        saying = _read(ASKED[name], session, body)
        try:
            version = session.do(saying, before.version)
        except ChangedMeanwhileError as error:
            if "version" in body or session.refresh().version == before.version:
                raise Conflict(str(error)) from error
            continue  # the page sent no version: the act is read again for the newest state
        return {"version": version, "words": saying.told(before, session.state)}


def _read(kind: type[Saying], session: Session, body: Body) -> Saying:
    """The act whose fields are in ``body``, each read by its type."""
    hints = get_type_hints(kind, include_extras=True)
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: _READERS[hints[name]](session, body, name) for name in names})


def _class(session: Session, body: Body, field: str) -> str:
    """Name of the class whose id is in ``field``."""
    number = body.integer(field)
    found = next((known.name for known in session.state.classes if known.id == number), None)
    if found is None:
        raise Conflict(f"There is no class number {number} any more.")
    return found


def _keys(session: Session, body: Body) -> list[str]:
    """Keys of the ``rows``."""
    return session.keys_of(body.rows(session.n_items))


def _labels(session: Session, body: Body, _: str) -> Mapping[str, list[str]]:
    """One class, by the id of one there is or by name, and the keys of its ``rows``."""
    name = _class(session, body, "class_id") if "class_id" in body else body.text("name")
    return {name: _keys(session, body)}


#: How a field of an act is read, by its type.
_READERS: Mapping[Any, Callable[[Session, Body, str], Any]] = {
    Keys: lambda session, body, _: _keys(session, body),
    Rows: lambda session, body, _: body.rows(session.n_items),
    Labels: _labels,
    KnownClass: _class,
    NewClasses: lambda _, body, name: [(each.strip(), []) for each in body.texts(name)],
    SessionAnswers: lambda session, *_: session.latest or session.solve(),
    str: lambda _, body, name: body.text(name),
    float: lambda _, body, name: body.share(name),
    int: lambda _, body, name: body.integer(name, _MOST_COUNTED),
}
