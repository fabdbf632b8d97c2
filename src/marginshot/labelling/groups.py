"""Groups among items that belong to no class yet: each may be a new one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from marginshot.labelling.sketch import sketch
from marginshot.model.transforms import CentreAndNormalise

Rows = NDArray[np.int64]

_SMALLEST = 3  # items of a group worth a name
_MOST = 20  # groups
_TYPICAL = 5  # items shown for a group


@dataclass(frozen=True, eq=False)
class Group:
    """Rows of a group, (n,), and its most typical ones, (at most 5,)."""

    rows: Rows
    typical: Rows


def find_groups(X: NDArray[np.floating]) -> list[Group]:
    """Groups among the rows (n_rows, n_features), the largest first: k-means with about √(n/2) means."""
    if len(X) < _SMALLEST:
        return []
    rows = sketch(CentreAndNormalise().fit_unit_rows(X)[0])
    n_groups = min(max(round(float(np.sqrt(len(X) / 2))), 1), _MOST, len(np.unique(rows, axis=0)))
    with threadpool_limits(1):
        means = KMeans(n_groups, n_init=2, random_state=0).fit(rows)
    distances = np.linalg.norm(rows - means.cluster_centers_[means.labels_], axis=1)
    groups = []
    for label in range(n_groups):
        own = np.flatnonzero(means.labels_ == label)
        if len(own) >= _SMALLEST:
            groups.append(Group(own, own[np.argsort(distances[own], kind="stable")[:_TYPICAL]]))
    return sorted(groups, key=lambda group: -len(group.rows))
