"""From a state to its answers: the classifier and the rule for foreign items, fitted to what was checked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginshot.classifier.estimator import TransductiveMaxMarginClassifier
from marginshot.labelling.classify import Answers, LabelSettings, label_rows
from marginshot.labelling.collection import Collection
from marginshot.labelling.encoders import ItemEncoder
from marginshot.labelling.labelling import Labelling
from marginshot.labelling.model import LabelModel
from marginshot.labelling.rejection import Rejection
from marginshot.labelling.requests import Request
from marginshot.labelling.session_answers import SessionAnswers, examples_of, make_answers
from marginshot.labelling.sources import Source
from marginshot.labelling.state import NONE, State

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Solved:
    """Answers, and what gave them.

    Parameters
    ----------
    answers : SessionAnswers
    rows : ndarray of int64 of shape (n_ready,)
        The embedded items they know.
    classifier, rejection : fitted, or None where fewer than two classes have an example
    """

    answers: SessionAnswers
    rows: Rows
    classifier: TransductiveMaxMarginClassifier | None = None
    rejection: Rejection | None = None


def solve_state(state: State, rows: Rows, X: NDArray[np.float32]) -> Solved:
    """Answers for a ``state`` from the embeddings ``X`` (n_ready, n_features) of ``rows`` (n_ready,)."""
    ids, given = examples_of(state, rows)
    if len(ids) < 2:
        nothing = np.zeros((len(rows), len(ids)))
        return Solved(make_answers(state, rows, ids, nothing, np.zeros(len(rows), dtype=bool)), rows)
    names = [known.name for known in state.classes if known.id in ids]
    # The classifier knows its classes in the order of their names, a session in that of their creation.
    rank = np.argsort(np.argsort(np.array(names, dtype=object)))
    known = np.where(state.given[rows] == NONE, NONE, np.where(given >= 0, rank[given], -1))
    answers, classifier, rejection = label_rows(X, known, sorted(names), LabelSettings())
    found = make_answers(state, rows, ids, answers.probabilities[:, rank], answers.foreign)
    return Solved(found, rows, classifier, rejection)


def as_labelling(
    solved: Solved,
    state: State,
    readable: Collection,
    X: NDArray[np.float32],
    encoder: ItemEncoder | None,
    source: Source | None,
    problems: dict[str, str],
) -> Labelling:
    """The answers as a `Labelling`, with its writers, for the ``readable`` items and their embeddings ``X``.

    Classes come in the order of their names, those without an example left out. Labels accepted in bulk are given.
    """
    answers = solved.answers
    if solved.classifier is None or solved.rejection is None:
        raise ValueError("There is nothing to write yet: label examples of at least two classes.")
    order = np.argsort(np.array(answers.classes, dtype=object))
    ids, said = answers.class_ids[order], state.given[solved.rows]
    given = np.full(len(solved.rows), -1, dtype=np.int64)
    for place, code in enumerate(ids.tolist()):
        given[said == code] = place
    probabilities = answers.probabilities[solved.rows][:, order].astype(np.float64)
    probabilities[given >= 0] = np.eye(len(ids))[given[given >= 0]]
    classes = tuple(answers.classes[place] for place in order.tolist())
    told = Answers(classes, given, probabilities, answers.foreign[solved.rows], none=said == NONE)
    name, identity = ("", "") if encoder is None else (encoder.name, encoder.identity)
    model = LabelModel(solved.classifier, solved.rejection, readable.kind, name, identity)
    request = Request(source, {}, {"command": "session", "encoder": name})
    return Labelling(readable, X, told, False, model, request, problems)
