"""Groups among items that belong to no class yet: each may be a new one.

Rows are grouped by k-means around 2 to 20 means, as many as fit them best: the number whose groups are most apart for
their size, by the mean simplified silhouette (Hruschka, de Castro and Campello, "Evolutionary algorithms for clustering
gene-expression data", ICDM 2004), which compares each row with the two nearest means alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from marginshot.labelling.answers.sketch import EmbeddingView

Rows = NDArray[np.int64]

_SMALLEST = 3  # items of a group worth a name
_MOST = 20  # groups
_TYPICAL = 5  # items shown for a group


@dataclass(frozen=True, eq=False)
class Group:
    """Rows of a group, (n,), and its most typical ones, (at most 5,)."""

    rows: Rows
    typical: Rows


def find_groups(view: EmbeddingView, outside: Rows) -> list[Group]:
    """Groups among the rows ``outside`` (n,), the largest first.

    Parameters
    ----------
    view : EmbeddingView
        All rows: what is outside of the classes is compared after averaging with its neighbours.
    outside : ndarray of int64 of shape (n,)
        Rows that are none of the classes.
    """
    if len(outside) < _SMALLEST:
        return []
    rows = view.smooth[outside]
    n_points = len(np.unique(rows, axis=0))
    most = min(_MOST, n_points - 1, len(outside) // _SMALLEST)
    with threadpool_limits(1):
        fits = [KMeans(k, n_init=2, random_state=0).fit(rows) for k in range(2, most + 1)]
        best = max(fits, key=lambda means: _apartness(means.transform(rows)), default=None)
    labels = np.zeros(len(rows), dtype=np.int64) if best is None else best.labels_
    groups = []
    for label in np.unique(labels):
        own = np.flatnonzero(labels == label)
        if len(own) >= _SMALLEST:
            distances = np.linalg.norm(rows[own] - rows[own].mean(axis=0), axis=1)
            nearest = own[np.argsort(distances, kind="stable")[:_TYPICAL]]
            groups.append(Group(outside[own], outside[nearest]))
    return sorted(groups, key=lambda group: -len(group.rows))


def _apartness(distances: NDArray[np.floating]) -> float:
    """Mean of (b − a) / b over rows, with distances (n, k) to the means, a to the nearest and b to the next."""
    ordered = np.partition(distances, 1, axis=1)
    return float(np.mean(1.0 - ordered[:, 0] / np.maximum(ordered[:, 1], 1e-12)))
