"""Labels that look wrong: a row's label was hidden, and the other labels make it another class.

The classifier hides labels in turn to see how far its answers can be believed. What it answers for a hidden row is
also a second opinion on the label that was hidden.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginshot.classifier.estimator import TransductiveMaxMarginClassifier

# A label looks wrong where it has at most the first probability by the others, and another class at least the second.
# Chosen on seven validation sets with 5 to 20 examples a class. With a tenth of the labels wrong, a third (questions, 5
# examples) to all of the wrong ones are listed, 82 % in the mean, in lists 1 to 2 times as long as these. Without any
# wrong label, 0 to 11 % of the labels are listed.
MOST_OWN, LEAST_OTHER = 0.1, 0.3


@dataclass(frozen=True)
class Doubt:
    """A label that looks wrong.

    Parameters
    ----------
    row : int
    label, other : int
        Class that somebody gave, and the one that the other labels make of the row.
    probability : float
        Of the other class, by the other labels.
    """

    row: int
    label: int
    other: int
    probability: float


def find_doubts(
    classifier: TransductiveMaxMarginClassifier, given: NDArray[np.integer], columns: NDArray[np.integer]
) -> tuple[Doubt, ...]:
    """Labels that look wrong, the most doubtful first.

    Parameters
    ----------
    classifier : TransductiveMaxMarginClassifier
        Fitted to the items, and possibly to names after them.
    given : ndarray of int of shape (n_items,)
        Class of each item that has a label; others are negative.
    columns : ndarray of int of shape (n_classes,)
        Class of each column of the classifier's probabilities.
    """
    rows, found = classifier.hidden_rows_, classifier.hidden_distributions_
    is_item = rows < len(given)
    rows, found = rows[is_item], found[is_item]
    if not len(rows):
        return ()
    own = np.where(given[rows, None] == columns, found, 0.0).sum(axis=1)
    other, most = columns[found.argmax(axis=1)], found.max(axis=1)
    doubtful = np.flatnonzero((own <= MOST_OWN) & (most >= LEAST_OTHER))
    doubtful = doubtful[np.argsort((own - most)[doubtful], kind="stable")]
    return tuple(Doubt(int(rows[i]), int(given[rows[i]]), int(other[i]), float(most[i])) for i in doubtful)
