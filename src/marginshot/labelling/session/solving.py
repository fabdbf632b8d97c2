"""From a state to its answers: the classifier and the rule for foreign items, fitted to what was checked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.threads import giving_way
from marginshot.classifier.refit import Refitter
from marginshot.labelling.classify import LabelSettings, label_rows, make_classifier
from marginshot.labelling.collection import NONE, UNKNOWN, Collection
from marginshot.labelling.encoders import ItemEncoder
from marginshot.labelling.labelling import Labelling
from marginshot.labelling.model import LabelModel
from marginshot.labelling.names import Names, embed_names
from marginshot.labelling.rejection import fit_rejection
from marginshot.labelling.requests import Request
from marginshot.labelling.session.answers import SessionAnswers, examples_of, make_answers
from marginshot.labelling.session.state import Class, State
from marginshot.labelling.sketch import EmbeddingView
from marginshot.labelling.sources import Source
from marginshot.labelling.store import Store

Rows = NDArray[np.int64]
Embeddings = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Solved:
    """Answers, and what gave them.

    Parameters
    ----------
    answers : SessionAnswers
    rows : ndarray of int64 of shape (n_ready,)
        The embedded items they know.
    view : EmbeddingView
        Embeddings of these, and after them those of class names.
    drift : float
        Share of the labels that are not those of a complete fit; 0 for one.
    """

    answers: SessionAnswers
    rows: Rows
    view: EmbeddingView
    drift: float = 0.0

    def knows(self, state: State, rows: Rows) -> bool:
        """Whether they are the answers for this state, and for all these embedded items."""
        return self.answers.version == state.version and len(self.rows) == len(rows)

    def padded(self, values: NDArray[np.integer]) -> NDArray[np.integer]:
        """Numbers (n_ready,) for the rows of the view, 0 for names."""
        return np.pad(values, (0, len(self.view) - len(values)))


class _Table:
    """Embeddings of items and names that stay the same while labels change, and what is computed of them once."""

    def __init__(self, X: Embeddings, names: Names | None) -> None:
        self.X, self.names = X, names
        self.rows = X if names is None else np.concatenate((X, names.rows.astype(X.dtype, copy=False)))
        self.view = EmbeddingView(self.rows)

    @cached_property
    def refitter(self) -> Refitter:
        return Refitter(make_classifier(self.rows), self.rows)

    def examples(self, given: Rows) -> tuple[Rows, NDArray[np.float64] | None]:
        """Class (n_rows,) of each row and what it counts for, from those ``given`` (n_items,) to items."""
        if self.names is None:
            return given, None
        weights = self.names.weights(self.X, given)
        named = np.where(weights > 0, self.names.classes, UNKNOWN)
        return np.concatenate((given, named)), np.concatenate((np.ones(len(given)), weights))


class Solver:
    """Answers one state after the other; threads may share it.

    Parameters
    ----------
    encoder : ItemEncoder or None
        What embedded the items; it embeds the names of classes where it reads texts.
    store : Store or None
        The cache of embeddings.
    """

    def __init__(self, encoder: ItemEncoder | None, store: Store | None) -> None:
        self._encoder, self._store = encoder, store
        self._lock = threading.Lock()
        self._classes: tuple[Class, ...] = ()
        self._names: Names | None = None
        self._table: _Table | None = None

    def solve(
        self, state: State, rows: Rows, X: Embeddings, *, complete: bool = False, wait: Callable[[], object] = int
    ) -> Solved:
        """Answers for a ``state`` from the embeddings ``X`` (n_ready, n_features) of ``rows`` (n_ready,).

        They start from the last answers, where there are any for the same embeddings, unless a ``complete`` fit is
        asked for. The fit calls ``wait`` between its blocks, and lets others pass while that holds it up.
        """
        if not len(rows):
            answers = make_answers(state, rows, np.empty(0, dtype=np.int32), np.zeros((0, 0)), np.zeros(0, dtype=bool))
            return Solved(answers, rows, EmbeddingView(X))
        table, given = self._prepare(state.classes, X), examples_of(state, rows)
        known, weights = table.examples(given)
        ids = np.array([own.id for place, own in enumerate(state.classes) if (known == place).any()], dtype=np.int32)
        if len(ids) < 2:
            nothing = np.zeros((len(rows), len(ids)))
            answers = make_answers(state, rows, ids, nothing, np.zeros(len(rows), dtype=bool))
            return Solved(answers, rows, table.view)
        all_ids = np.array([own.id for own in state.classes])
        y, refitter = np.where(known >= 0, all_ids[known], UNKNOWN), table.refitter
        with giving_way(wait):
            classifier = refitter.fit(y, weights) if complete else refitter.refit(y, weights)
        none = state.given[rows] == NONE
        is_name = np.arange(len(known)) >= len(rows)
        # An item of its class tells more than its name of what is foreign to it.
        examples = np.where(is_name & np.isin(known, given), UNKNOWN, known)
        _, foreign = fit_rejection(table.view, examples, LabelSettings().lose, np.pad(none, (0, is_name.sum())))
        probabilities = classifier.label_distributions_[: len(rows)]
        answers = make_answers(state, rows, ids, probabilities, foreign[: len(rows)])
        return Solved(answers, rows, table.view, refitter.drift(y))

    def _prepare(self, classes: tuple[Class, ...], X: Embeddings) -> _Table:
        """The embeddings with those of the names of all classes; what was made of the same ones before is kept."""
        with self._lock:
            if classes != self._classes:
                described = [own.description for own in classes]
                names = embed_names([own.name for own in classes], self._encoder, self._store, X, described)
                self._classes, self._names = classes, names
            if self._table is None or self._table.X is not X or self._table.names is not self._names:
                self._table = _Table(X, self._names)
            return self._table

    def labelling(
        self, state: State, rows: Rows, readable: Collection, X: Embeddings, source: Source | None
    ) -> Labelling:
        """The ``readable`` items at ``rows`` (n_ready,), of embeddings ``X``, labelled as `label_rows` labels them.

        What was accepted in bulk keeps its label, and the probability that it has.
        """
        names, given = self._prepare(state.classes, X).names, examples_of(state, rows)
        named = np.empty(0, dtype=np.int64) if names is None else names.classes
        present = np.unique(np.concatenate((given[given >= 0], named)))
        if len(present) < 2:
            raise ValueError("There is nothing to write yet: label examples of at least two classes.")
        order = sorted(present.tolist(), key=lambda place: state.classes[place].name)
        rank = np.full(len(state.classes) + 2, UNKNOWN)  # the last two are for UNKNOWN and NONE
        rank[order], rank[NONE] = np.arange(len(order)), NONE
        classes = tuple(state.classes[place].name for place in order)
        ranked = None if names is None else Names(names.rows, rank[names.classes])
        said = np.where(state.given[rows] == NONE, NONE, given)
        answers, classifier, rejection = label_rows(X, rank[said], classes, LabelSettings(), ranked)
        places = {own.id: rank[place] for place, own in enumerate(state.classes)}
        kept = np.array([places.get(code, UNKNOWN) for code in state.given[rows].tolist()], dtype=np.int64)
        accepted = np.where(answers.given >= 0, UNKNOWN, kept)
        told = replace(answers, accepted=accepted, foreign=answers.foreign & (kept < 0))
        name, identity = ("", "") if self._encoder is None else (self._encoder.name, self._encoder.identity)
        model = LabelModel(classifier, rejection, readable.kind, name, identity)
        request = Request(source, {}, {"command": "session", "encoder": name})
        return Labelling(readable, X, told, False, model, request)
