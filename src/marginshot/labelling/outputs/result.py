"""The result of labelling: data alone, which all outputs are made from."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.answers.classify import Answers
from marginshot.labelling.answers.worklist import (
    Correction,
    Estimate,
    Worklist,
    expected_accuracy,
    fit_correction,
    worklist,
)
from marginshot.labelling.items.collection import FOREIGN, Collection, describe_labels
from marginshot.labelling.outputs.requests import Request

if TYPE_CHECKING:
    from marginshot.labelling.outputs.model import LabelModel

PathLike = str | os.PathLike[str]

COLUMNS = ("item", "label", "probability", "runner_up", "review")

GIVEN = "example"
ACCEPTED = "accepted"
EVENT = "event"
CHECK = "check"

#: Share of labels to be right once the items marked `CHECK` are checked.
TARGET = 0.95


@dataclass(frozen=True)
class Result:
    """A label for every item, how sure it is, and what deserves a second look.

    Parameters
    ----------
    collection : Collection
        The readable items, examples included.
    X : ndarray of float32 of shape (n_items, n_features)
        Their embeddings.
    answers : Answers
        Answers of the classifier for the items.
    rejected : bool
        Whether items of none of the classes have no label.
    model : LabelModel
        Labels new items: see `LabelModel.save`.
    request : Request
        What was read, and what decided the answers.
    problems : dict of str to str
        What was wrong with each item left out.
    seconds : dict of str to float
        Where the time went.
    correction : Correction, optional
        Correction of the probabilities by answers that were checked before.
    tell : callable, optional
        Writes the labels given by hand into the session of the source, and returns notes; None where there is no
        session.
    """

    collection: Collection
    X: NDArray[np.float32]
    answers: Answers
    rejected: bool
    model: LabelModel
    request: Request = field(default_factory=Request)
    problems: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    correction: Correction | None = None
    tell: Callable[[], list[str]] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe_labels(self.labels[row] for row in self.rows.tolist())})"

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names."""
        return self.answers.classes

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Label of each item; empty where rejected, or labelled as none of the classes."""
        said = self.answers.none
        outside = (self.answers.foreign & self.rejected) | (False if said is None else said)
        return tuple("" if outside[row] else self.classes[best] for row, best in enumerate(self.answers.best.tolist()))

    @cached_property
    def probabilities(self) -> tuple[float, ...]:
        """Probability of the label of each item, to four digits."""
        return tuple(round(float(value), 4) for value in self.answers.confidence)

    @cached_property
    def runners_up(self) -> tuple[str, ...]:
        """Second most probable class of each item; empty for examples."""
        given = self.answers.given >= 0
        return tuple(
            "" if given[row] else self.classes[second] for row, second in enumerate(self.answers.runner_up.tolist())
        )

    @cached_property
    def reviews(self) -> tuple[str, ...]:
        """Why an item deserves a look: ``check`` if it is on the worklist, else ``none of the classes``.

        ``example`` if its label was given, ``event`` if it was given to another of its event, ``accepted`` if it was
        accepted in bulk, without a look at it.
        """
        accepted = self.answers.accepted
        unseen = "" if accepted is None else np.where(accepted >= 0, ACCEPTED, "")
        marks = np.where(self.to_check, CHECK, np.where(self.answers.foreign, FOREIGN, unseen))
        lent = self.collection.lent
        source = GIVEN if lent is None else np.where(lent, EVENT, GIVEN)
        return tuple(np.where(self.answers.given >= 0, source, marks).tolist())

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows that belong in the output, (n_listed,); examples kept elsewhere do not."""
        return np.flatnonzero(self.collection.listed)

    def columns(self) -> dict[str, list[Any]]:
        """The table, column by column: item, label, probability, runner_up, review."""
        values = (self.collection.items, self.labels, self.probabilities, self.runners_up, self.reviews)
        return {name: [column[row] for row in self.rows] for name, column in zip(COLUMNS, values, strict=True)}

    def to_pandas(self) -> Any:
        """The table as a data frame; needs pandas."""
        import pandas as pd

        return pd.DataFrame(self.columns())

    def counts(self) -> dict[str, int]:
        """Listed items per class; rejected ones are in none."""
        found = Counter(self.labels[row] for row in self.rows)
        return {name: found[name] for name in self.classes}

    def counts_to_check(self) -> dict[str, int]:
        """Listed items per class that are to be checked."""
        found = Counter(self.labels[row] for row in self.rows if self.to_check[row])
        return {name: found[name] for name in self.classes}

    def worklist(self, target: float = TARGET) -> Worklist:
        """The fewest listed items to check for a share ``target`` of the labels to be right, the least sure first."""
        rows, confidence, checked = self._promises()
        work = worklist(confidence, checked, target, self._correction())
        return Worklist(rows[work.rows], work.expected)

    def expected_accuracy(self) -> Estimate | None:
        """Share of the labels of listed items that should be right, by their probabilities; None without a label."""
        rows, confidence, checked = self._promises()
        return expected_accuracy(confidence, checked, self._correction()) if len(rows) else None

    @cached_property
    def to_check(self) -> NDArray[np.bool_]:
        """Rows, (n_items,), on the worklist for `TARGET`."""
        mask = np.zeros(len(self.labels), dtype=bool)
        mask[self.worklist().rows] = True
        return mask

    def _correction(self) -> Correction:
        """Correction of the probabilities by checked answers; while nothing was checked, their uncertainty alone."""
        n_classes = max(len(self.classes), 1)
        of_new = None if self.collection.old is None else self.n_own_labels / n_classes
        n_labels = int((self.answers.given >= 0).sum())
        return self.correction or fit_correction(None, n_labels / n_classes, of_new)

    @property
    def n_own_labels(self) -> int:
        """Number of listed items that a person labelled, with a class or as none of the classes."""
        said = (self.answers.given >= 0) | (False if self.answers.none is None else self.answers.none)
        lent = self.collection.lent
        return int((said if lent is None else said & ~lent)[self.rows].sum())

    def _promises(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
        """Listed rows that are not rejected, (n,), the chance of each label, and which of them a person gave."""
        none = self.answers.none if self.answers.none is not None else np.zeros(len(self.labels), dtype=bool)
        answered = none | ~(self.answers.foreign & self.rejected)
        rows = self.rows[answered[self.rows]]
        return rows, self.answers.promised[rows], (none | (self.answers.given >= 0))[rows]

    @property
    def n_unlike(self) -> int:
        """Number of items that look unlike all examples, as by another camera or light.

        Beside an earlier source: number of new items that look less like the old ones than nearly all of these do.
        """
        return 0 if self.answers.unlike is None else int(self.answers.unlike.sum())

    @property
    def doubts(self) -> list[tuple[str, str, str, float]]:
        """Labels that look wrong: item, its label, the class by the other labels and its probability; worst first."""
        items, names = self.collection.items, self.classes
        doubts = self.answers.doubts
        return [(items[each.row], names[each.label], names[each.other], each.probability) for each in doubts]

    @property
    def may_lack_classes(self) -> bool:
        """Whether more items look like none of the classes than where all classes have a name."""
        chances = self.answers.chance_of_known
        return chances is not None and bool((chances < 1.0).any())

    @property
    def n_foreign(self) -> int:
        """Number of listed items of none of the classes."""
        return int(self.answers.foreign[self.rows].sum())

    @property
    def n_foreign_to_check(self) -> int:
        """Number of these that are marked ``check``, and not ``none of the classes``."""
        return int((self.answers.foreign & self.to_check)[self.rows].sum())

    def suggestions(self) -> dict[str, list[str]]:
        """Items to label next, the most useful first, with an empty label to fill in and our guess."""
        rows = self.answers.suggested
        return {
            "path" if self.collection.kind.in_files else "item": [self.collection.items[row] for row in rows],
            "label": [""] * len(rows),
            "guess": [self.classes[self.answers.best[row]] for row in rows],
        }
