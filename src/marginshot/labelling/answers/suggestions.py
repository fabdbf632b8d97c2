"""What to label next: the unlabelled items whose labels would help most.

A label helps to answer the items that are like its own, in proportion to their cosine. Suggestions are chosen so that
as many as possible of the wrong answers have a label like them: they maximise

    sum over unlabelled items of (chance of a wrong answer) x (cosine with the closest labelled or suggested item),

one at a time, which comes within a factor 1 - 1/e of the best set (Nemhauser, Wolsey and Fisher, "An analysis of
approximations for maximizing submodular set functions", 1978). It is weighted k-medoids in which labelled items are
medoids from the start: suggestions differ from each other and from what is labelled, and stand for many items in doubt.

With few labels the answers are too poor to know where they are wrong, most of all where classes have no example yet. So
every item has a chance of a wrong answer beyond what its probabilities give, which falls as labels come. With no class
yet, all items have the same chance, and suggestions cover the largest groups.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.answers.sketch import EmbeddingView
from marginshot.model.subsets import draws, evenly

Array = NDArray[np.float32]
Indices = NDArray[np.int64]

#: Chance of a wrong answer beyond what the probabilities give, at one label a class; it falls as labels come. Chosen on
#: validation classes of photographs, birds and texts: 0.3 gives up to a point less where every class has an example,
#: and 5 points more after the first round where half of the classes have none, 17 and 22 above k-means by doubt.
DISTRUST = 0.1
_MOST_ROWS = 2000  # among which suggestions are searched, and labelled ones that they are compared with


def suggest_rows(
    view: EmbeddingView, probabilities: NDArray[np.floating], given: NDArray[np.integer], n_suggestions: int
) -> Indices:
    """Rows to label next, the most useful first, (min(n_suggestions, unlabelled rows),).

    Parameters
    ----------
    view : EmbeddingView
        Labelled and unlabelled rows.
    probabilities : ndarray of shape (n_rows, n_classes)
        What the classifier answers; not used with fewer than two classes.
    given : ndarray of int of shape (n_rows,)
        -1 for unlabelled rows; any other number for those not to be asked about.
    n_suggestions : int
        How many rows to suggest.
    """
    unlabelled, labelled = np.flatnonzero(given == -1), np.flatnonzero(given != -1)
    error = 1.0 - probabilities[unlabelled].max(axis=1, initial=0.0)
    error += DISTRUST * probabilities.shape[1] / max(len(labelled), 1)
    places, mass = _sample(error, _MOST_ROWS)
    known = view.sketch[labelled[evenly(len(labelled), _MOST_ROWS)]]
    picks = places[_cover(view.sketch[unlabelled[places]], mass, known, n_suggestions)]
    others = np.setdiff1d(np.argsort(-error, kind="stable"), picks, assume_unique=True)
    return unlabelled[np.concatenate((picks, others))[:n_suggestions]]


def _sample(weights: NDArray[np.floating], count: int) -> tuple[Indices, Array]:
    """Places (n,) of at most ``count`` of the weights, drawn in proportion to them, and what each stands for (n,)."""
    if len(weights) <= count:
        return np.arange(len(weights)), weights.astype(np.float32)
    ends = np.cumsum(weights)
    drawn = np.searchsorted(ends, (np.arange(count) + draws(count)) / count * ends[-1])
    places, times = np.unique(np.minimum(drawn, len(weights) - 1), return_counts=True)
    return places, times.astype(np.float32)


def _cover(rows: Array, mass: Array, known: Array, wanted: int) -> Indices:
    """Places of the rows (n, D) that add most to the cosines of all with the closest known or picked row, best first.

    ``mass`` (n,) weights the cosines; ``known`` (n_known, D) are there from the start.
    """
    cosines = np.maximum(rows @ rows.T, 0.0)
    closest = (rows @ known.T).max(axis=1, initial=0.0)
    gains = mass @ np.maximum(cosines - closest[:, None], 0.0)
    picks = []
    for _ in range(min(wanted, len(rows))):
        pick = int(gains.argmax())
        picks.append(pick)
        nearer = np.flatnonzero(cosines[pick] > closest)
        before, after = closest[nearer, None], cosines[nearer, pick, None]
        gains -= mass[nearer] @ (np.clip(cosines[nearer], before, after) - before)
        closest[nearer] = after[:, 0]
        gains[pick] = -np.inf
    return np.array(picks, dtype=np.int64)
