"""From a state to its answers: the classifier and the rule for foreign items, fitted to what was checked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.threads import giving_way
from marginshot.classifier.estimator import TransductiveMaxMarginClassifier
from marginshot.labelling.answers.classify import Answers, LabelSettings, NamedRows, of_domains_without_examples
from marginshot.labelling.answers.doubts import Doubt, find_doubts
from marginshot.labelling.answers.names import Names, embed_names
from marginshot.labelling.answers.rejection import Rejection, chance_of_known
from marginshot.labelling.answers.sketch import EmbeddingView
from marginshot.labelling.answers.together import pooled
from marginshot.labelling.answers.worklist import (
    Correction,
    Worklist,
    expected_accuracy,
    fit_correction,
    worklist,
)
from marginshot.labelling.items.collection import NONE, UNKNOWN, Collection
from marginshot.labelling.items.encoders import ItemEncoder
from marginshot.labelling.items.sources import Source
from marginshot.labelling.items.store import Store
from marginshot.labelling.outputs.labelling import Labelling
from marginshot.labelling.outputs.model import LabelModel
from marginshot.labelling.outputs.requests import Request
from marginshot.labelling.session.answers import SessionAnswers, examples_of, make_answers
from marginshot.labelling.session.checks import find_evidence, picked_rows
from marginshot.labelling.session.state import Class, Point, State

Rows = NDArray[np.int64]
Embeddings = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Solved:
    """Answers, what they were computed from, and what they promise.

    Parameters
    ----------
    state : State
        The labels that they follow from.
    answers : SessionAnswers
    rows : ndarray of int64 of shape (n_ready,)
        The embedded items they know.
    listed : ndarray of bool of shape (n_ready,)
        Items of the source. The others are examples kept elsewhere, which accuracy and worklist leave out.
    view : EmbeddingView
        Embeddings of these, and after them those of class names.
    correction : Correction
        Correction of the probabilities by the answers checked so far.
    fitted : pair of TransductiveMaxMarginClassifier and Rejection, optional
        What labels new items; None while there are fewer than two classes.
    drift : float
        Share of the labels that are not those of a complete fit; 0 for one.
    """

    state: State
    answers: SessionAnswers
    rows: Rows
    listed: NDArray[np.bool_]
    view: EmbeddingView
    correction: Correction = field(default_factory=fit_correction)
    fitted: tuple[TransductiveMaxMarginClassifier, Rejection] | None = None
    drift: float = 0.0

    def knows(self, state: State, rows: Rows) -> bool:
        """Whether they are the answers for this state, and for all these embedded items."""
        return self.answers.version == state.version and len(self.rows) == len(rows)

    def padded(self, values: NDArray[np.integer]) -> NDArray[np.integer]:
        """Numbers (n_ready,) for the rows of the view, 0 for names."""
        return np.pad(values, (0, len(self.view) - len(values)))

    @property
    def point(self) -> Point | None:
        """Number of checked labels and the accuracy expected with them."""
        expected = self.answers.expected
        return None if expected is None else (int(self.state.checked.sum()), expected.value)

    def worklist(self, target: float) -> Worklist:
        """What to check for a share ``target`` of the listed items to be right."""
        rows = self.rows[self.listed]
        found = worklist(self.answers.promised[rows], self.state.checked[rows], target, self.correction)
        return Worklist(rows[found.rows], found.expected)


class Solver:
    """Answers one state after the other; threads may share it.

    Parameters
    ----------
    encoder : ItemEncoder or None
        What embedded the items; it embeds the names of classes where it reads texts.
    store : Store or None
        The cache of embeddings.
    listed : ndarray of bool of shape (n_items,)
        Items of the source. The others are examples kept elsewhere.
    events : ndarray of int64 of shape (n_items,), optional
        Event of each item: those of one have one answer, unless it was split.
    domains : callable, optional
        Returns the domain of each item, (n_items,), or None; asked for once some are embedded.
    """

    def __init__(
        self,
        encoder: ItemEncoder | None,
        store: Store | None,
        listed: NDArray[np.bool_],
        events: NDArray[np.int64] | None = None,
        domains: Callable[[], NDArray[np.int64] | None] = lambda: None,
    ) -> None:
        self._encoder, self._store, self._listed, self._events = encoder, store, listed, events
        self._domains = domains
        self._lock = threading.Lock()
        self._classes: tuple[Class, ...] = ()
        self._names: Names | None = None
        self._table: NamedRows | None = None
        self._doubts: tuple[Doubt, ...] = ()
        #: Class id of each item whose label somebody saw and gave again: it is not asked about any more.
        self.confirmed: dict[int, int] = {}

    def solve(
        self, state: State, rows: Rows, X: Embeddings, *, complete: bool = False, wait: Callable[[], object] = int
    ) -> Solved:
        """Answers for a ``state`` from the embeddings ``X`` (n_ready, n_features) of ``rows`` (n_ready,).

        They start from the last answers, where there are any for the same embeddings, unless a ``complete`` fit is
        asked for. The fit calls ``wait`` between its blocks; other fits may run while ``wait`` blocks.
        """
        if not len(rows):
            answers = make_answers(state, rows, np.empty(0, dtype=np.int32), np.zeros((0, 0)), np.zeros(0, dtype=bool))
            return Solved(state, answers, rows, self._listed[rows], EmbeddingView(X))
        table, given = self._prepare(state.classes, rows, X), examples_of(state, rows)
        known, of_rows = table.examples(given)
        ids = np.array([own.id for place, own in enumerate(state.classes) if (known == place).any()], dtype=np.int32)
        if len(ids) < 2:
            nothing = np.zeros((len(rows), len(ids)))
            answers = make_answers(state, rows, ids, nothing, np.zeros(len(rows), dtype=bool))
            return Solved(state, answers, rows, self._listed[rows], table.view)
        y, refitter = np.array([*(own.id for own in state.classes), UNKNOWN])[known], table.refitter
        with giving_way(wait):
            fit = refitter.fit if complete else refitter.refit
            picked = np.pad(picked_rows(state)[rows], (0, len(y) - len(rows)))
            classifier = fit(y, picked=picked, **of_rows)
        rejection, foreign = table.find_foreign(known, given, LabelSettings().lose)
        correction, found = (
            fit_correction(find_evidence(state, ids), np.sum((known >= 0) & ~picked) / len(ids)),
            classifier.label_distributions_[: len(rows)],
        )
        found = pooled(found, table.events, given)
        answers = make_answers(state, rows, ids, found, foreign, correction)
        unlike = of_domains_without_examples(classifier.domains_, known, len(rows))
        answers = replace(answers, doubts=self._doubts_of(classifier, state, rows, ids), unlike=rows[unlike])
        listed = rows[self._listed[rows]]
        if len(listed):
            expected = expected_accuracy(answers.promised[listed], state.checked[listed], correction)
            answers = replace(answers, expected=expected)
        return Solved(
            state,
            answers,
            rows,
            self._listed[rows],
            table.view,
            correction,
            (classifier, rejection),
            refitter.drift(y),
        )

    def _doubts_of(
        self, classifier: TransductiveMaxMarginClassifier, state: State, rows: Rows, ids: NDArray[np.int32]
    ) -> tuple[Doubt, ...]:
        """Labels that look wrong and were not confirmed. A fit that hid none returns what stands of the last list."""
        given = np.where(state.checked[rows], state.given[rows], UNKNOWN)
        found = find_doubts(classifier, given, np.sort(ids))
        with self._lock:
            if len(classifier.hidden_rows_):
                self._doubts = tuple(replace(doubt, row=int(rows[doubt.row])) for doubt in found)
            standing = (doubt for doubt in self._doubts if state.checked[doubt.row] and doubt.other in ids)
            return tuple(
                doubt
                for doubt in standing
                if state.given[doubt.row] == doubt.label != self.confirmed.get(doubt.row, UNKNOWN)
            )

    def _prepare(self, classes: tuple[Class, ...], rows: Rows, X: Embeddings) -> NamedRows:
        """The embeddings of items and of all class names; the last table is returned while neither has changed."""
        with self._lock:
            if classes != self._classes:
                described = [own.description for own in classes]
                names = embed_names([own.name for own in classes], self._encoder, self._store, described)
                self._classes, self._names = classes, names
            if self._table is None or self._table.X is not X or self._table.names is not self._names:
                events = None if self._events is None else self._events[rows]
                domains = self._domains()
                self._table = NamedRows(X, self._names, events, None if domains is None else domains[rows])
            return self._table

    def labelling(self, solved: Solved, readable: Collection, X: Embeddings, source: Source | None) -> Labelling:
        """The answers of a complete fit to the ``readable`` items, of embeddings ``X``, with writers and a model.

        What was accepted in bulk keeps its label, and the probability that it has.
        """
        if solved.fitted is None:
            raise ValueError("There is nothing to write yet: label examples of at least two classes.")
        found, rows, said = solved.answers, solved.rows, solved.state.given[solved.rows]
        order = np.argsort(np.array(found.classes, dtype=object), kind="stable")
        rank = np.full(solved.state.next_id + 2, UNKNOWN)  # the last two are for UNKNOWN and NONE
        rank[found.class_ids[order]] = np.arange(len(order))
        checked = solved.state.checked[rows]
        given = np.where(checked, rank[said], UNKNOWN)
        answers = Answers(
            classes=tuple(found.classes[place] for place in order),
            given=given,
            probabilities=found.probabilities[rows][:, order].astype(np.float64),
            foreign=found.foreign[rows],
            none=said == NONE,
            named=tuple(found.classes[place] for at, place in enumerate(order) if at not in given),
            accepted=np.where(checked, UNKNOWN, rank[said]),
            chance_of_known=chance_of_known(found.foreign[rows], said == UNKNOWN, LabelSettings().lose),
        )
        name, identity = ("", "") if self._encoder is None else (self._encoder.name, self._encoder.identity)
        classifier, rejection = copy(solved.fitted[0]), solved.fitted[1]
        classifier.classes_ = np.array(found.classes)  # fitted to ids, which outlive a change of names
        model = LabelModel(classifier, rejection, readable.kind, name, identity)
        request = Request(source, {} if source is None else source.others, {"command": "session", "encoder": name})
        return Labelling(readable, X, answers, False, model, request, correction=solved.correction)
