"""What to label next: the unlabelled items whose labels would help most.

Smallest margin alone picks the same doubtful corner again and again. Here doubt is spread over the whole set: k-means
with as many clusters as suggestions, every item weighted by its doubt, and from each cluster the item nearest to its
centre. It stands for the doubtful ones around it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from marginshot.labelling.sketch import sketch
from marginshot.transforms import CentreAndNormalise

Array = NDArray[np.float64]


def suggest_rows(
    X: NDArray[np.floating], probabilities: Array, given: NDArray[np.int64], n_suggestions: int
) -> NDArray[np.int64]:
    """Rows to label next, those that stand for most doubt first, (min(n_suggestions, unlabelled rows),).

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
    n_clusters = min(n_suggestions, len(unlabelled))
    if n_clusters == 0:
        return np.empty(0, dtype=np.int64)
    doubt = doubts(probabilities[unlabelled])
    rows = sketch(CentreAndNormalise().fit_transform(X))[unlabelled]
    # Copies of one item are one point to k-means, which warns when it finds fewer points than clusters.
    n_points = len(np.unique(rows, axis=0)) if n_clusters > len(rows) // 2 else n_clusters
    with threadpool_limits(1):
        means = KMeans(min(n_clusters, n_points), n_init=2, random_state=0).fit(rows, sample_weight=doubt)
    nearest, mass = _representatives(rows, means.labels_, means.cluster_centers_, doubt)
    picks = nearest[np.argsort(-mass, kind="stable")]
    by_doubt = np.argsort(-doubt, kind="stable")
    rest = by_doubt[~np.isin(by_doubt, picks)]
    return unlabelled[np.concatenate((picks, rest[: n_clusters - len(picks)]))]


def doubts(probabilities: Array) -> Array:
    """Square of one minus the lead of the label over the runner-up, (n_rows,); never quite zero."""
    ordered = np.sort(probabilities, axis=1)
    return np.asarray((1.0 - (ordered[:, -1] - ordered[:, -2])) ** 2 + 1e-6)


def _representatives(
    rows: NDArray[np.floating], clusters: NDArray[np.int32], centres: NDArray[np.floating], doubt: Array
) -> tuple[NDArray[np.int64], Array]:
    """The row nearest to each centre, and the doubt of its whole cluster; clusters left empty give none."""
    nearest, mass = [], []
    for c in np.unique(clusters):
        own = np.flatnonzero(clusters == c)
        distances = np.linalg.norm(rows[own] - centres[c], axis=1)
        nearest.append(int(own[np.argmin(distances)]))
        mass.append(float(doubt[own].sum()))
    return np.array(nearest, dtype=np.int64), np.array(mass)
