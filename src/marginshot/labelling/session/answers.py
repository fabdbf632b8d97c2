"""Answers of a session for every item: given labels, and the answers of the classifier for all others."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.answers.classify import LabelSettings, second_best
from marginshot.labelling.answers.doubts import Doubt
from marginshot.labelling.answers.rejection import chance_of_known
from marginshot.labelling.answers.worklist import Correction, Estimate, fit_correction
from marginshot.labelling.items.collection import NONE, UNKNOWN, describe_labels
from marginshot.labelling.session.state import State

Array = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SessionAnswers:
    """A class for every item, and how sure it is.

    Parameters
    ----------
    version : int
        Number of the last event they know.
    classes : tuple of str
        Names of the classes answered, those with an example.
    class_ids : ndarray of int32 of shape (n_classes,)
        Their ids.
    codes : ndarray of int32 of shape (n_items,)
        Class id of each answer; -1 where there is none: items not embedded yet, labelled as none of the classes, or all
        unlabelled ones while there are fewer than two classes with examples.
    probabilities : ndarray of float32 of shape (n_items, n_classes)
        Zero for items without an answer.
    confidence : ndarray of float32 of shape (n_items,)
        Probability of the answer; 1 where somebody checked it.
    promised : ndarray of shape (n_items,)
        The confidence, less where the item may be of no class.
    chances : ndarray of shape (n_items,)
        Probability that the answer is right, by what was promised and by the answers checked so far.
    foreign : ndarray of bool of shape (n_items,)
        Items that look like none of the classes, or were labelled so.
    shares : ndarray of shape (n_classes, 3)
        Share of each class among the answered items: low, estimate and high of an interval of 95 %.
    expected : Estimate, optional
        Share of right answers over all items of the source that are embedded; None before there are answers.
    doubts : tuple of Doubt
        Labels that look wrong, by class ids, the most doubtful first; found by complete fits.
    unlike : ndarray of int64 of shape (n_unlike,)
        Items that look unlike all examples whatever their class, as by another camera or light.
    """

    version: int
    classes: tuple[str, ...]
    class_ids: NDArray[np.int32]
    codes: NDArray[np.int32]
    probabilities: NDArray[np.float32]
    confidence: NDArray[np.float32]
    promised: Array
    chances: Array
    foreign: NDArray[np.bool_]
    shares: Array
    expected: Estimate | None = None
    doubts: tuple[Doubt, ...] = ()
    unlike: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({describe_labels(self.labels)})"

    @cached_property
    def labels(self) -> list[str]:
        """Class name of each answer, "" where there is none."""
        return self._named(self.codes)

    @cached_property
    def runners_up(self) -> list[str]:
        """Name of the second most probable class of each item, "" where there is none."""
        if len(self.classes) < 2:
            return [""] * len(self.codes)
        place = np.where(np.isin(self.codes, self.class_ids), np.searchsorted(self.class_ids, self.codes), -1)
        second = second_best(self.probabilities, place)
        return self._named(np.where(self.codes >= 0, self.class_ids[second], UNKNOWN))

    def _named(self, codes: NDArray[np.int32]) -> list[str]:
        names = dict(zip(self.class_ids.tolist(), self.classes, strict=True)) | {UNKNOWN: ""}
        return [names.get(code, "") for code in codes.tolist()]


def examples_of(state: State, rows: Rows) -> Rows:
    """Place among the classes (n_ready,) of each of ``rows`` (n_ready,) that was checked, or its code NONE or UNKNOWN.

    Labels accepted in bulk are answers, not examples: to learn from them would make their errors certain.
    """
    places = np.full(state.next_id + 2, UNKNOWN)  # the last two are for UNKNOWN and NONE
    places[[*(known.id for known in state.classes), NONE]] = [*range(len(state.classes)), NONE]
    return np.where(state.checked[rows], places[state.given[rows]], UNKNOWN)


def make_answers(
    state: State,
    rows: Rows,
    ids: NDArray[np.int32],
    probabilities: Array,
    foreign: NDArray[np.bool_],
    correction: Correction | None = None,
) -> SessionAnswers:
    """Answers for all items from the ``probabilities`` (n_ready, n_classes) and foreignness (n_ready,) of ``rows``.

    With fewer than two classes there are no probabilities, (n_ready, 0) or (n_ready, 1), and nothing is answered but
    what was given. The ``correction`` is that of the answers checked so far; none changes nothing.
    """
    given, names = state.given, {known.id: known.name for known in state.classes}
    codes = np.full(state.n_items, UNKNOWN, dtype=np.int32)
    spread = np.zeros((state.n_items, len(ids)), dtype=np.float32)
    if len(ids) >= 2:
        spread[rows] = probabilities
        codes[rows] = ids[probabilities.argmax(axis=1)]
    said = given >= 0
    codes = np.where(said, given, np.where(given == NONE, np.int32(UNKNOWN), codes))
    spread[given == NONE] = 0.0
    place = np.searchsorted(ids, codes) if len(ids) else np.zeros(len(codes), dtype=np.int64)
    answered = np.isin(codes, ids)
    own = spread[np.flatnonzero(answered), place[answered]]
    confidence = np.zeros(state.n_items, dtype=np.float32)
    confidence[answered] = own
    confidence[state.checked] = 1.0
    outside = given == NONE
    outside[rows] |= foreign & ~said[rows]
    is_open = np.zeros(state.n_items, dtype=bool)
    is_open[rows] = given[rows] == UNKNOWN
    promised = confidence * chance_of_known(outside, is_open, LabelSettings().lose)
    return SessionAnswers(
        version=state.version,
        classes=tuple(names[code] for code in ids.tolist()),
        class_ids=ids,
        codes=codes,
        probabilities=spread,
        confidence=confidence,
        promised=promised,
        chances=np.where(state.checked | ~answered, confidence, (correction or fit_correction())(promised)),
        foreign=outside,
        shares=class_shares(spread[codes >= 0]),
    )


def class_shares(probabilities: NDArray[np.floating]) -> Array:
    """Low, estimate and high (n_classes, 3) of the share of each class among items of these ``probabilities``.

    The number of items of a class is a sum of independent yes or no, of variance Σ p (1 − p).
    """
    n_items = max(len(probabilities), 1)
    wide = probabilities.astype(np.float64)
    estimate = wide.sum(axis=0) / n_items
    error = 1.96 * np.sqrt((wide * (1.0 - wide)).sum(axis=0)) / n_items
    return np.stack((np.maximum(estimate - error, 0.0), estimate, np.minimum(estimate + error, 1.0)), axis=1)
