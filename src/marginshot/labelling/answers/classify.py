"""From embeddings and a few labels to a label for every row: the classifier, and what its answers are worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from marginshot.classifier.estimator import TransductiveMaxMarginClassifier
from marginshot.classifier.refit import Refitter
from marginshot.labelling.answers.doubts import Doubt, find_doubts
from marginshot.labelling.answers.experts import with_expert_of_old
from marginshot.labelling.answers.names import Names
from marginshot.labelling.answers.rejection import Rejection, chance_of_known, fit_rejection, rule_at
from marginshot.labelling.answers.sketch import EmbeddingView
from marginshot.labelling.answers.suggestions import suggest_rows
from marginshot.labelling.answers.together import certain, one_example_each, one_of_each, pooled
from marginshot.labelling.items.collection import NONE, UNKNOWN
from marginshot.model.transforms import differ_in_length

Array = NDArray[np.float64]
Codes = NDArray[np.integer]
OfRows = dict[str, NDArray[Any] | None]

# Suggestions computed per suggestion wanted: where items have events, only one of each event is kept.
_SPARE = 5

#: Share of an earlier source's own items that fall below the threshold of `NamedRows.unlike_old`.
UNLIKE = 0.05

# An example counts 1 minus this times the weight of its class's name. Chosen on the even-numbered intents of CLINC150,
# 15 to 40 of them, with random examples and with corrections of answers. Flat: 0.5 to 0.8.
_TAKEN_BY_NAME = 2 / 3


def make_classifier(X: NDArray[np.floating]) -> TransductiveMaxMarginClassifier:
    """The classifier of all labelling: real folders are unbalanced and have many classes, hence the preset."""
    options: dict[str, Any] = {"feature_transform": "cl2n"} if differ_in_length(X) else {}
    return TransductiveMaxMarginClassifier.from_preset("auto", **options)


class NamedRows:
    """Items and, after them, the names of classes: rows that stay the same while labels change.

    Parameters
    ----------
    X : ndarray of shape (n_items, n_features)
    names : Names or None
        Embeddings of class names, which become labelled rows after the items, and beliefs about these.
    events : ndarray of int64 of shape (n_items,), optional
        Event of each item: those of one are one example, and have one answer.
    domains : ndarray of int64 of shape (n_items,), optional
        Domain of each item, such as its light, where that is known. Names belong to none: beside them the classifier
        has to find domains by itself.
    old : ndarray of bool of shape (n_items,), optional
        Items of an earlier source: they and the new ones are each centred on their own mean. For items without names.
    """

    def __init__(
        self,
        X: NDArray[np.floating],
        names: Names | None,
        events: NDArray[np.int64] | None = None,
        domains: NDArray[np.int64] | None = None,
        old: NDArray[np.bool_] | None = None,
    ) -> None:
        self.X, self.names, self.events, self.old = X, names, events, old
        self.domains = domains if names is None else None
        self._placed = None if names is None else names.among(X)
        self.rows = X if self._placed is None else np.concatenate((X, self._placed.rows.astype(X.dtype, copy=False)))
        self.view = EmbeddingView(self.rows)
        if old is not None:
            self._origin_of_new = X[~old].mean(axis=0, dtype=np.float64).astype(X.dtype)
            origin_of_old = X[old].mean(axis=0, dtype=np.float64).astype(X.dtype)
            self.domains = old.astype(np.int64) + (0 if domains is None else 2 * domains)
            self.view = EmbeddingView(X - np.where(old[:, None], origin_of_old, self._origin_of_new))

    @cached_property
    def refitter(self) -> Refitter:
        """What fits the classifier to all rows."""
        return Refitter(make_classifier(self.rows), self.rows)

    @cached_property
    def groups(self) -> NDArray[np.int64] | None:
        """Event of each row, (n_rows,); each name is an event by itself. None where no items share an event."""
        if self.events is None:
            return None
        n_names = len(self.rows) - len(self.X)
        return np.concatenate((self.events, self.events.max(initial=-1) + 1 + np.arange(n_names)))

    def examples(self, given: Codes) -> tuple[Codes, OfRows]:
        """Class of each row, (n_rows,), UNKNOWN where it is no example, and the arguments that fit it to them.

        ``given`` (n_items,) has the classes of items, negative where an item is no example. The arguments are
        those of the classifier's `fit`, each of them None where there is nothing to say. Names of weight 0 are no
        examples. Names are beliefs about the items, too, once an item has a label.
        """
        known = np.maximum(one_example_each(given, self.events), UNKNOWN)
        of_rows: OfRows = {"groups": self.groups, "domains": self.domains, "sample_weight": None, "class_prior": None}
        if self._placed is None:
            return known, of_rows
        classes, weights = self._placed.classes, self._placed.weights(self.X, known)
        taken = _TAKEN_BY_NAME * np.bincount(classes, weights, max(classes.max(), known.max(initial=0)) + 1)
        of_items = 1.0 - np.where(known >= 0, taken[known], 0.0)
        rows = np.concatenate((known, np.where(weights > 0, classes, UNKNOWN)))
        of_rows["sample_weight"] = np.concatenate((of_items, weights))
        if (known >= 0).any():
            beliefs = self._placed.beliefs(self._likeness, np.unique(rows[rows >= 0]))
            of_rows["class_prior"] = np.pad(beliefs, ((0, len(classes)), (0, 0)))  # nothing is believed of names
        return rows, of_rows

    @cached_property
    def _likeness(self) -> NDArray[np.floating]:
        """Cosines (n_items, n_named) of the items with the names."""
        return cast(Names, self._placed).likeness(self.X - self.X.mean(axis=0))

    def find_foreign(self, known: Codes, given: Codes, lose: float) -> tuple[Rejection, NDArray[np.bool_]]:
        """Rule that rejects a share ``lose`` of known classes' items at most, and the foreign items, (n_items,).

        ``given`` (n_items,) has the labels, NONE for items of none of the classes; ``known`` (n_rows,) has the classes
        that `examples` returns for them.
        """
        is_name = np.arange(len(known)) >= len(given)
        # Where a class has examples, these alone decide what is foreign to it: its name may lie apart from its items.
        examples = np.where(is_name & np.isin(known, given), UNKNOWN, known)
        none = np.pad(given == NONE, (0, len(known) - len(given)))
        rejection, foreign = fit_rejection(self.view, examples, lose, none)
        if self.old is not None:
            # Later items resemble the new ones, and are not centred before the rule is applied.
            rejection = replace(rejection, mean=rejection.mean + self._origin_of_new)
        together = pooled(foreign[: len(given), None].astype(np.float64), self.events, given)[:, 0]
        return rejection, together >= 0.5

    def unlike_old(self, known: Codes, given: Codes) -> NDArray[np.bool_]:
        """Mask (n_items,) of new items less like the examples than all but a share `UNLIKE` of the old items.

        Old and new items are not centred on their own means here, so that another camera or light shows. ``known``
        and ``given`` are as in `find_foreign`.
        """
        unlike = np.zeros(len(self.X), dtype=bool)
        if self.old is not None and (known[self.old] >= 0).any():
            none = (given == NONE)[self.old]
            rule = rule_at(UNLIKE, EmbeddingView(self.X[self.old]), np.where(none, UNKNOWN, known[self.old]), none)
            unlike[~self.old] = rule.foreign(self.X[~self.old])
        return unlike

    def with_expert_of_old(self, known: Codes, probabilities: Array) -> Array:
        """The ``probabilities`` (n_items, n_classes) with what the old items alone say of the new ones."""
        if self.old is None or self.domains is None:
            return probabilities
        template = self.refitter.classifier
        return with_expert_of_old(template, self.X, self.old, known, self.domains, self.groups, probabilities)

    def suggest(self, probabilities: Array, given: Codes, wanted: int) -> NDArray[np.int64]:
        """Items to label next, (at most ``wanted``,), the most useful first, each of another event; no old ones.

        ``probabilities`` (n_rows, n_classes) are the answers to all rows, ``given`` (n_items,) as in `find_foreign`.
        """
        asked = np.pad(given, (0, len(self.rows) - len(given)))  # names are not asked about
        searched = wanted if self.events is None else _SPARE * wanted
        if self.old is None:
            return one_of_each(suggest_rows(self.view, probabilities, asked, searched), self.events, wanted)
        rows = np.flatnonzero(~self.old | (asked != UNKNOWN))
        found = suggest_rows(EmbeddingView(self.view.X[rows]), probabilities[rows], asked[rows], searched)
        return one_of_each(rows[found], self.events, wanted)


@dataclass(frozen=True, kw_only=True)
class LabelSettings:
    """Settings of a labelling run.

    Parameters
    ----------
    reject : bool, default=False
        Give no label to items far from every class, instead of only marking them for review.
    lose : float, default=0.05
        Share of items of the known classes one is willing to lose that way; sets the threshold.
    suggest : int, default=0
        Number of unlabelled items to suggest for labelling by hand.
    names : bool, default=True
        Take the names of classes for examples where the encoder reads texts: see `marginshot.labelling.answers.names`.
    """

    reject: bool = False
    lose: float = 0.05
    suggest: int = 0
    names: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.lose < 1:
            raise ValueError(f"The share of known items to lose must lie between 0 and 1; got {self.lose:g}.")
        if self.suggest < 0:
            raise ValueError(f"The number of suggestions must not be negative; got {self.suggest}.")


@dataclass(frozen=True)
class Answers:
    """A label for every row.

    Parameters
    ----------
    classes : tuple of str
        Class names, sorted.
    given : ndarray of int64 of shape (n_rows,)
        Index of the given label, -1 where there was none.
    probabilities : ndarray of shape (n_rows, n_classes)
        Certainty where the label was given.
    foreign : ndarray of bool of shape (n_rows,)
        Rows far from every class.
    suggested : tuple of int
        Rows worth labelling next, the most useful first.
    none : ndarray of bool of shape (n_rows,), optional
        Rows that somebody labelled as none of the classes; they never get a class.
    named : tuple of str
        Classes known by their names alone.
    unlike : ndarray of bool of shape (n_rows,), optional
        Rows that look unlike all examples whatever their class, as by another camera or light.
    accepted : ndarray of int64 of shape (n_rows,), optional
        Index of a label that somebody accepted without looking at the row, -1 where there is none.
    doubts : tuple of Doubt
        Given labels that look wrong, the most doubtful first.
    chance_of_known : ndarray of shape (n_rows,), optional
        Probability that the row is of one of the classes, 1 without it.
    """

    classes: tuple[str, ...]
    given: NDArray[np.int64]
    probabilities: Array
    foreign: NDArray[np.bool_]
    suggested: tuple[int, ...] = ()
    none: NDArray[np.bool_] | None = None
    named: tuple[str, ...] = ()
    accepted: NDArray[np.int64] | None = None
    unlike: NDArray[np.bool_] | None = None
    doubts: tuple[Doubt, ...] = ()
    chance_of_known: Array | None = None

    @cached_property
    def best(self) -> NDArray[np.int64]:
        """Index of the class that was accepted for each row, else of the most probable one, (n_rows,)."""
        most_probable = self.probabilities.argmax(axis=1)
        return most_probable if self.accepted is None else np.where(self.accepted >= 0, self.accepted, most_probable)

    @cached_property
    def confidence(self) -> Array:
        """Probability of the class `best` of each row, (n_rows,)."""
        return np.take_along_axis(self.probabilities, self.best[:, None], axis=1)[:, 0]

    @cached_property
    def promised(self) -> Array:
        """Probability that the answer of each row is right, (n_rows,): less where the row may be of no class."""
        return self.confidence if self.chance_of_known is None else self.confidence * self.chance_of_known

    @cached_property
    def runner_up(self) -> NDArray[np.int64]:
        """Index of the most probable class of each row besides `best`, (n_rows,)."""
        return second_best(self.probabilities, self.best)


def second_best(probabilities: NDArray[np.floating], best: NDArray[np.integer]) -> NDArray[np.int64]:
    """Index of the most probable class of each row besides ``best``, (n_rows,); -1 there excludes none.

    ``probabilities`` has shape (n_rows, n_classes), with at least two classes.
    """
    first, second = np.argsort(-probabilities, axis=1, kind="stable")[:, :2].T
    return np.where(first == best, second, first)


def label_rows(
    X: NDArray[np.floating],
    given: NDArray[np.int64],
    classes: Sequence[str],
    settings: LabelSettings,
    names: Names | None = None,
    events: NDArray[np.int64] | None = None,
) -> tuple[Answers, TransductiveMaxMarginClassifier, Rejection]:
    """Label all rows of ``X`` (n_rows, n_features) from the ``given`` class indices (n_rows,).

    -1 stands for unknown, -2 for none of the classes.
    The ``names`` of classes are examples beside these; a class without any other needs one. Rows of one of the
    ``events`` (n_rows,) have one answer.
    """
    return label_named_rows(NamedRows(X, names, events), given, classes, settings)


def label_named_rows(
    table: NamedRows, given: NDArray[np.int64], classes: Sequence[str], settings: LabelSettings
) -> tuple[Answers, TransductiveMaxMarginClassifier, Rejection]:
    """Label all items of a ``table`` as `label_rows` does, with all that is known of them."""
    n_items, events = len(table.X), table.events
    known, of_rows = table.examples(given)
    classifier = table.refitter.fit(np.array([*classes, ""], dtype=object)[known], **of_rows)
    rejection, foreign = table.find_foreign(known, given, settings.lose)
    probabilities = classifier.label_distributions_
    unlabelled = (given < 0) & (given != NONE)
    if table.old is None:
        unlike = of_domains_without_examples(classifier.domains_, known, n_items)
    else:
        probabilities = table.with_expert_of_old(known, probabilities)
        unlike = table.unlike_old(known, given)
        unlabelled &= ~table.old
    named = tuple(name for place, name in enumerate(classes) if place not in given)
    answers = Answers(
        tuple(classes),
        np.maximum(given, -1),
        certain(pooled(probabilities[:n_items], events, given), given),
        foreign & (given < 0),
        tuple(table.suggest(probabilities, given, settings.suggest).tolist()),
        none=given == NONE,
        named=named,
        unlike=unlike,
        doubts=find_doubts(classifier, known[:n_items], np.searchsorted(list(classes), classifier.classes_)),
        chance_of_known=chance_of_known(foreign, unlabelled, settings.lose),
    )
    return answers, classifier, rejection


def of_domains_without_examples(domains: NDArray[np.int64] | None, known: Codes, n_items: int) -> NDArray[np.bool_]:
    """Items, (n_items,), of domains none of whose items is ``known`` (n_rows,) to be of a class.

    Names are the last of the n_rows rows. Where names alone say what the classes are, nothing is unlike the examples.
    """
    examples = known[:n_items] >= 0
    if domains is None or not examples.any():
        return np.zeros(n_items, dtype=bool)
    return ~np.isin(domains[:n_items], domains[:n_items][examples])


def apply_rows(classifier: TransductiveMaxMarginClassifier, rejection: Rejection, X: NDArray[np.floating]) -> Answers:
    """Label new rows (n_rows, n_features) one by one by fitted planes."""
    given = np.full(len(X), -1, dtype=np.int64)
    classes = tuple(str(name) for name in classifier.classes_)
    return Answers(classes, given, classifier.predict_proba(X), rejection.foreign(X))
