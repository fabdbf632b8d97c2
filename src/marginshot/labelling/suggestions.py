"""What to label next: the unlabelled items whose labels would help most.

Doubt leads. Smallest margin alone picks the same doubtful corner again and again, so doubt is spread over the whole
set: k-means with as many clusters as suggestions, every item weighted by its doubt, and from each cluster the item
nearest to its centre. It stands for the doubtful ones around it.

At first, with fewer than two labels a class, the answers are too poor to know where they are wrong. Then half of the
suggestions do not depend on them: the set is cut into groups, and the largest ones without a label are asked about,
each by its most typical item (Hacohen, Dekel and Weinshall, "Active learning on a budget", ICML 2022).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from marginshot.labelling.sketch import sketch
from marginshot.model.neighbour_search import nearest_of_each, search_is_fast
from marginshot.model.primitives import average
from marginshot.model.transforms import CentreAndNormalise

Array = NDArray[np.float64]
Rows = NDArray[np.floating]
Indices = NDArray[np.int64]

#: Labels a class from which on doubt alone is followed.
ENOUGH_LABELS = 2

_N_NEIGHBORS = 10  # among which an item is typical
_LARGEST_GROUPS = 500  # of the first suggestions


def suggest_rows(X: Rows, probabilities: Array, given: NDArray[np.int64], n_suggestions: int) -> Indices:
    """Rows to label next, the most useful first, (min(n_suggestions, unlabelled rows),).

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Labelled and unlabelled rows.
    probabilities : ndarray of shape (n_rows, n_classes)
        What the classifier answers.
    given : ndarray of int64 of shape (n_rows,)
        -1 for unlabelled rows.
    n_suggestions : int
        How many rows to suggest.
    """
    unlabelled = np.flatnonzero(given < 0)
    wanted = min(n_suggestions, len(unlabelled))
    if wanted == 0:
        return np.empty(0, dtype=np.int64)
    rows = sketch(CentreAndNormalise().fit_unit_rows(X)[0])
    doubt = doubts(probabilities)
    few = np.sum(given >= 0) < ENOUGH_LABELS * probabilities.shape[1]
    by_type = few and search_is_fast(len(rows))
    typical = _typical(rows, given, wanted)[: wanted // 2] if by_type else unlabelled[:0]
    others = np.setdiff1d(unlabelled, typical)
    picks = np.concatenate((typical, _doubtful(rows, doubt, others, wanted - len(typical))))
    by_doubt = others[np.argsort(-doubt[others], kind="stable")]
    return np.concatenate((picks, by_doubt[~np.isin(by_doubt, picks)]))[:wanted]


def doubts(probabilities: Array) -> Array:
    """Square of one minus the lead of the label over the runner-up, (n_rows,); never quite zero."""
    ordered = np.sort(probabilities, axis=1)
    return np.asarray((1.0 - (ordered[:, -1] - ordered[:, -2])) ** 2 + 1e-6)


def _typical(rows: Rows, given: NDArray[np.int64], wanted: int) -> Indices:
    """The item most like its neighbours from each of the largest groups, those with a label in them last."""
    labelled = np.flatnonzero(given >= 0)
    groups, _ = _groups(rows, np.ones(len(rows)), min(len(labelled) + wanted, _LARGEST_GROUPS))
    likeness = np.einsum(
        "ij,ij->i", rows, average(rows, rows, nearest_of_each(rows, min(_N_NEIGHBORS, len(rows) - 1)), 1.0)
    )
    size = np.bincount(groups)
    covered = np.isin(np.arange(len(size)), groups[labelled])
    picks = []
    for group in np.lexsort((-size, covered)):
        own = np.flatnonzero((groups == group) & (given < 0))
        if len(own):
            picks.append(int(own[np.argmax(likeness[own])]))
    return np.array(picks, dtype=np.int64)


def _doubtful(rows: Rows, doubt: Array, unlabelled: Indices, wanted: int) -> Indices:
    """The item nearest to the centre of each cluster of doubtful items, the cluster with most doubt first."""
    groups, centres = _groups(rows[unlabelled], doubt[unlabelled], wanted)
    distances = np.linalg.norm(rows[unlabelled] - centres[groups], axis=1)
    mass = np.bincount(groups, weights=doubt[unlabelled])
    picks = []
    for group in np.argsort(-mass, kind="stable"):
        own = np.flatnonzero(groups == group)
        if len(own):
            picks.append(int(own[np.argmin(distances[own])]))
    return unlabelled[np.array(picks, dtype=np.int64)]


def _groups(rows: Rows, weights: Array, n_groups: int) -> tuple[NDArray[np.int32], Rows]:
    """k-means: the group of each row, (n_rows,), and the centres, (at most n_groups, D)."""
    # Copies of one item are one point to k-means, which warns when it finds fewer points than clusters.
    n_points = len(np.unique(rows, axis=0)) if n_groups > len(rows) // 2 else n_groups
    with threadpool_limits(1):
        means = KMeans(min(n_groups, n_points), n_init=2, random_state=0).fit(rows, sample_weight=weights)
    return means.labels_, means.cluster_centers_
