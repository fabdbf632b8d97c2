"""Items that belong to none of the classes, and the threshold that tells them.

An item is measured by its likeness to the closest class: the cosine, in centred unit-length features, between the item
and the mean of that class's examples. Answers of the classifier are left out of it on purpose: items of a foreign class
get answers too, and would pull the classes towards themselves. While labelling, every item is first averaged with its
nearest neighbours, which come as a group from the foreign class just as from the known ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from marginshot.labelling.sketch import sketch
from marginshot.model.neighbour_search import nearest_of_each, search_is_fast
from marginshot.model.primitives import average
from marginshot.model.transforms import l2_normalize

Array = NDArray[np.float32]  # half the time of float64, and cosines need no more

N_NEIGHBORS = 8

#: Fewer left-out examples than this say nothing about the tail of a distribution.
FEWEST_LEFT_OUT = 6


@dataclass(frozen=True)
class Rejection:
    """The rule for new items: foreign when the likeness to the closest class is below the threshold.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        Centre of all items the rule was fitted on.
    centres : ndarray of shape (n_classes, n_features)
        Unit-length mean of each class's examples.
    threshold : float
        Smallest likeness that is still accepted.
    """

    mean: Array
    centres: Array
    threshold: float

    def foreign(self, X: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Which of the rows (n_rows, n_features) look like none of the classes, (n_rows,)."""
        return _likeness(_unit_rows(X, self.mean), self.centres) < self.threshold


def fit_rejection(
    X: NDArray[np.floating], given: NDArray[np.int64], n_classes: int, lose: float
) -> tuple[Rejection, NDArray[np.bool_]]:
    """The rule for new items, and which of the rows themselves are foreign, (n_rows,).

    The threshold is where a share ``lose`` of the known items would fall below it. What known items look like is
    learned from the examples, each measured against the others of its class as if it were not one: see `_low_bound`.
    With one example a class there is nothing to measure; then the share ``lose`` of all unlabelled items least like any
    class is taken.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        Examples and unlabelled items.
    given : ndarray of int64 of shape (n_rows,)
        Class of each example, -1 for unlabelled items.
    n_classes : int
        Number of classes.
    lose : float
        Share of known items that may be lost.
    """
    mean = X.mean(axis=0, dtype=np.float64).astype(np.float32)
    rows = _unit_rows(X, mean)
    plain = Rejection(mean, _centres(rows, given, n_classes), _threshold(rows, given, n_classes, lose))
    smooth = _averaged_with_neighbours(rows)
    likeness = _likeness(smooth, _centres(smooth, given, n_classes))
    return plain, likeness < _threshold(smooth, given, n_classes, lose)


def _threshold(rows: Array, given: NDArray[np.int64], n_classes: int, lose: float) -> float:
    left_out = _left_out_likeness(rows, given, n_classes)
    if len(left_out) >= FEWEST_LEFT_OUT:
        return _low_bound(left_out, lose)
    unlabelled = rows[given < 0]
    if not len(unlabelled):
        return -1.0
    return float(np.quantile(_likeness(unlabelled, _centres(rows, given, n_classes)), lose))


def _low_bound(seen: Array, share: float) -> float:
    """The value below which the next one falls with probability ``share``, from the n values ``seen``.

    A new value is as likely to fall into any of the n + 1 gaps between those seen, so the bound is the one of rank
    share · (n + 1), whatever their distribution (a conformal quantile). Where that lies below the smallest, it is the
    lower of the smallest and Student's prediction bound, mean + t √(1 + 1/n) s.
    """
    n = len(seen)
    rank = share * (n + 1)
    if rank >= 1.0:
        return float(np.interp(rank, np.arange(1, n + 1), np.sort(seen)))
    bound = seen.mean() + stdtrit(n - 1, share) * np.sqrt(1.0 + 1.0 / n) * seen.std(ddof=1)
    return float(min(bound, seen.min()))


def _left_out_likeness(rows: Array, given: NDArray[np.int64], n_classes: int) -> Array:
    """What the likeness of each example would be had it not been one; classes of one example give none."""
    centres = _centres(rows, given, n_classes)
    found: list[float] = []
    for c in range(n_classes):
        own = rows[given == c]
        if len(own) < 2:
            continue
        to_others = np.einsum("ij,ij->i", own, l2_normalize(own.sum(axis=0) - own)) * _gain_of_one_more(own)
        to_other_classes = (own @ np.delete(centres, c, axis=0).T).max(axis=1)
        found.extend(np.maximum(to_others, to_other_classes).tolist())
    return np.array(found, dtype=np.float32)


def _gain_of_one_more(own: Array) -> float:
    """Cosine with the mean of k examples over that with the mean of k - 1, for unit rows (k, D) of one class.

    With a mean cosine ρ between two of them, the cosine with the mean of k is ρ √k / √(1 + (k - 1) ρ).
    """
    k = len(own)
    total = own.sum(axis=0)
    rho = max(float(total @ total - k) / (k * (k - 1)), 1e-3)
    return float(np.sqrt(k / (k - 1) * (1 + (k - 2) * rho) / (1 + (k - 1) * rho)))


def _likeness(rows: Array, centres: Array) -> Array:
    """Cosine of unit rows (n_rows, D) with the closest of the centres (n_classes, D), (n_rows,)."""
    return np.asarray((rows @ centres.T).max(axis=1))


def _centres(rows: Array, given: NDArray[np.int64], n_classes: int) -> Array:
    return l2_normalize(np.stack([rows[given == c].mean(axis=0) for c in range(n_classes)]))


def _averaged_with_neighbours(rows: Array) -> Array:
    """Unit rows half themselves, half the mean of their nearest neighbours, (n_rows, D), of unit length again.

    As they are where `label_rows` has said that neighbours are left out.
    """
    n_neighbors = min(N_NEIGHBORS, len(rows) - 1)
    if n_neighbors == 0 or not search_is_fast(len(rows)):
        return rows
    return l2_normalize(average(rows, rows, nearest_of_each(sketch(rows), n_neighbors), 0.5))


def _unit_rows(X: NDArray[np.floating], mean: Array) -> Array:
    return l2_normalize((X - mean).astype(np.float32, copy=False))
