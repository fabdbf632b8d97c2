"""Items get the labels of classes: given by a person, found in the source, or taken from the answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar, Self

import numpy as np

from marginshot.labelling.errors import ChangedMeanwhileError
from marginshot.labelling.items.collection import UNKNOWN
from marginshot.labelling.session.acts.act import Act, Labels, Now, Rows, Saying, count
from marginshot.labelling.session.acts.classes import check_new
from marginshot.labelling.session.answers import SessionAnswers
from marginshot.labelling.session.changes import Draft
from marginshot.labelling.session.state import State


@dataclass(frozen=True)
class Label(Act, kind="label", asked="label"):
    """Give items their labels; a class that is new is created."""

    labels: Labels

    checks: ClassVar[bool] = True
    #: Whether somebody looked at each item.
    looked: ClassVar[bool] = True
    phrase: ClassVar[str] = "label {}"

    def on(self, now: Now) -> Self:
        """The act without spaces around the names, checked."""
        named: dict[str, list[str]] = {}
        for name, keys in self.labels.items():
            named.setdefault(name.strip(), []).extend(keys)
        act = replace(self, labels=named)
        act.check(now.state)
        return act

    def check(self, state: State) -> None:
        """Raise ValueError without items, and where a new class cannot have its name."""
        if not self.keys:
            raise ValueError("No items were given.")
        check_new([name for name in self.labels if state.find_class(name) is None], state)

    def apply(self, draft: Draft) -> None:
        """Label the items, and create what classes are not there."""
        for name, keys in self.labels.items():
            known = draft.state.find_class(name)
            code = draft.add_class(name) if known is None else known.id
            draft.label(draft.slots(keys), code, self.looked)

    @property
    def words(self) -> str:
        """How many items get which labels."""
        names = ", ".join(f'"{name}"' for name in list(self.labels)[:3])
        more = f" and {len(self.labels) - 3} more" if len(self.labels) > 3 else ""
        return f"{self.phrase.format(count(len(self.keys)))} {names}{more}"

    @property
    def keys(self) -> Sequence[str]:
        """The items of all classes."""
        return list(chain.from_iterable(self.labels.values()))


@dataclass(frozen=True)
class Examples(Label, kind="examples"):
    """Take the labels that the source gives."""

    checks = False
    phrase = "take {} of the source as examples:"

    def is_by_hand(self) -> bool:
        """The source says it."""
        return False

    def heard(self, labels: dict[str, str]) -> dict[str, str]:
        """These labels, too."""
        return labels | {key: name for name, keys in self.labels.items() for key in keys}


@dataclass(frozen=True)
class Confirm(Label, kind="confirm"):
    """Say that answers are right."""

    phrase = "confirm {}"


@dataclass(frozen=True)
class Accept(Label, kind="accept"):
    """Take answers without looking at each."""

    checks = looked = False
    phrase = "accept {}"

    def is_by_hand(self) -> bool:
        """Nobody looked at each."""
        return False


@dataclass(frozen=True)
class ConfirmAnswers(Saying, asked="confirm"):
    """Say that the ``answers`` for these rows are right, unless another process said something else meanwhile."""

    rows: Rows
    answers: SessionAnswers

    def on(self, now: Now) -> Act:
        """The act for the names that the classes have now."""
        there = {known.id for known in now.state.classes}
        for row in self.rows.tolist():
            code, given = int(self.answers.codes[row]), int(now.state.given[row])
            if code == UNKNOWN:
                raise ValueError(f"{now.items[row]!r} has no answer to confirm yet; label it instead.")
            if given not in (UNKNOWN, code) or code not in there:
                raise ChangedMeanwhileError(
                    f"Something else was said of {now.items[row]!r}, or of its class, in the meantime. Look again."
                )
        return Confirm(_by_class(self.answers, self.rows, now)).on(now)


@dataclass(frozen=True)
class AcceptAnswers(Saying, asked="accept"):
    """Take the ``answers`` of all unlabelled items of at least this probability."""

    at_least: float
    answers: SessionAnswers

    def on(self, now: Now) -> Act:
        """The act for the items that are `acceptable` now."""
        rows = self.acceptable(now.state)
        if not len(rows):
            raise ValueError(f"No unlabelled item has an answer of probability {self.at_least:g} or more.")
        return Accept(_by_class(self.answers, rows, now)).on(now)

    def acceptable(self, state: State) -> Rows:
        """Rows without a label whose answer, a class that there is, has at least this probability."""
        if not 0 < self.at_least <= 1:
            raise ValueError(f"The least probability to accept lies between 0 and 1; got {self.at_least}.")
        there = np.isin(self.answers.codes, [known.id for known in state.classes])
        sure = there & (self.answers.confidence >= self.at_least) & ~self.answers.foreign
        return np.flatnonzero(sure & (state.given == UNKNOWN))


def _by_class(answers: SessionAnswers, rows: Rows, now: Now) -> dict[str, list[str]]:
    """Keys of the rows by the name that the class answered has now."""
    names = {known.id: known.name for known in now.state.classes}
    found: dict[str, list[str]] = {}
    for row in rows.tolist():
        found.setdefault(names[int(answers.codes[row])], []).append(now.keys[row])
    return found
