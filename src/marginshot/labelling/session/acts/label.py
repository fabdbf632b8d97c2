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
        """The act without spaces around the names of classes, after `check`."""
        named: dict[str, list[str]] = {}
        for name, keys in self.labels.items():
            named.setdefault(name.strip(), []).extend(keys)
        act = replace(self, labels=named)
        act.check(now.state)
        return act

    def check(self, state: State) -> None:
        """Raise ValueError where no items are given, and where a new class cannot have its name."""
        if not self.keys:
            raise ValueError("No items were given.")
        check_new([name for name in self.labels if state.find_class(name) is None], state)

    def apply(self, draft: Draft) -> None:
        """Label the items, and create the classes that do not exist yet."""
        for name, keys in self.labels.items():
            known = draft.state.find_class(name)
            code = draft.add_class(name) if known is None else known.id
            draft.label(draft.slots(keys), code, self.looked)

    @property
    def words(self) -> str:
        """The number of items and their classes, in words."""
        names = ", ".join(f'"{name}"' for name in list(self.labels)[:3])
        more = f" and {len(self.labels) - 3} more" if len(self.labels) > 3 else ""
        return f"{self.phrase.format(count(len(self.keys)))} {names}{more}"

    @property
    def keys(self) -> Sequence[str]:
        """Keys of the items of all classes."""
        return list(chain.from_iterable(self.labels.values()))


@dataclass(frozen=True)
class Examples(Label, kind="examples"):
    """Import labels from the source as examples."""

    checks = False
    phrase = "take {} of the source as examples:"

    def is_by_hand(self) -> bool:
        """False: the labels come from the source."""
        return False

    def heard(self, labels: dict[str, str]) -> dict[str, str]:
        """The ``labels`` read from the source before, updated by those of this act."""
        return labels | {key: name for name, keys in self.labels.items() for key in keys}


@dataclass(frozen=True)
class Confirm(Label, kind="confirm"):
    """Confirm answers: items get the labels that they were answered."""

    phrase = "confirm {}"


@dataclass(frozen=True)
class Accept(Label, kind="accept"):
    """Accept answers in bulk, without looking at each."""

    checks = looked = False
    phrase = "accept {}"

    def is_by_hand(self) -> bool:
        """False: nobody looked at each answer."""
        return False


@dataclass(frozen=True)
class ConfirmAnswers(Saying, asked="confirm"):
    """Confirm the ``answers`` for these rows, unless their labels or classes were changed meanwhile."""

    rows: Rows
    answers: SessionAnswers

    def on(self, now: Now) -> Act:
        """The act with the present names of the classes; raises ChangedMeanwhileError if a label or class differs."""
        there = {known.id for known in now.state.classes}
        for row in self.rows.tolist():
            code, given = int(self.answers.codes[row]), int(now.state.given[row])
            if code == UNKNOWN:
                raise ValueError(f"{now.items[row]!r} has no answer to confirm yet; label it instead.")
            if given not in (UNKNOWN, code) or code not in there:
                raise ChangedMeanwhileError(
                    f"{now.items[row]!r} has another label now, or its class is gone. Look again, then repeat it."
                )
        return Confirm(_by_class(self.answers, self.rows, now)).on(now)


@dataclass(frozen=True)
class AcceptAnswers(Saying, asked="accept"):
    """Accept the ``answers`` of all unlabelled items of at least this probability."""

    at_least: float
    answers: SessionAnswers

    def on(self, now: Now) -> Act:
        """The act that labels the items that are `acceptable` in the newest state."""
        rows = self.acceptable(now.state)
        if not len(rows):
            raise ValueError(f"No unlabelled item has an answer of probability {self.at_least:g} or more.")
        return Accept(_by_class(self.answers, rows, now)).on(now)

    def acceptable(self, state: State) -> Rows:
        """Unlabelled rows that do not look foreign, answered with an existing class of at least this probability."""
        if not 0 < self.at_least <= 1:
            raise ValueError(f"The least probability to accept lies between 0 and 1; got {self.at_least}.")
        there = np.isin(self.answers.codes, [known.id for known in state.classes])
        sure = there & (self.answers.confidence >= self.at_least) & ~self.answers.foreign
        return np.flatnonzero(sure & (state.given == UNKNOWN))


def _by_class(answers: SessionAnswers, rows: Rows, now: Now) -> dict[str, list[str]]:
    """Keys of the rows by the present name of the class that was answered."""
    names = {known.id: known.name for known in now.state.classes}
    found: dict[str, list[str]] = {}
    for row in rows.tolist():
        found.setdefault(names[int(answers.codes[row])], []).append(now.keys[row])
    return found
