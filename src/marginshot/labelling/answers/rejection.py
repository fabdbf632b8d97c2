"""Items that belong to none of the classes, and the threshold by which they are found.

An item is measured by its likeness to the closest class: the cosine, in centred unit-length features, between the item
and the mean of that class's examples. Answers of the classifier are left out of it on purpose: items of a foreign class
get answers too, and would pull the classes towards themselves. While labelling, every item is first averaged with its
nearest neighbours, which come as a group from the foreign class just as from the known ones.

Items labelled as none of the classes form no class, since they need not be like each other. From the likeness of every
item, its mean cosine with the two nearest of them is subtracted, each cosine at least 0. With the nearest one alone,
fewer scattered foreign items are found (CLINC150); with three, fewer foreign species of birds: by two points of 100.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from marginshot.labelling.answers.sketch import EmbeddingView, unit_rows
from marginshot.model.transforms import l2_normalize

Array = NDArray[np.float32]  # half the time of float64, and cosines need no more

#: Fewer left-out examples than this do not show the tail of a distribution.
FEWEST_LEFT_OUT = 6

_NEAREST_NONE = 2

# Multiple of ``lose`` that may look foreign although every class is known. On eight validation sets with 1 to 10
# examples a class at most 7 % did, where 5 % were to be lost.
_USUAL = 2.0


@dataclass(frozen=True)
class Rejection:
    """The rule for new items: foreign when the likeness to the closest class is below the threshold.

    Parameters
    ----------
    mean : ndarray of shape (n_features,)
        Centre of all items the rule was fitted on.
    centres : ndarray of shape (n_classes, n_features)
        Unit-length mean of each class's examples.
    none : ndarray of shape (n_none, n_features)
        Unit rows of the items labelled as none of the classes.
    threshold : float
        Smallest likeness that is still accepted.
    """

    mean: Array
    centres: Array
    none: Array
    threshold: float

    def foreign(self, X: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Which of the rows (n_rows, n_features) look like none of the classes, (n_rows,)."""
        rows = unit_rows(X, self.mean)
        return _likeness(rows, self.centres) - _likeness_to_none(rows, self.none) < self.threshold


def chance_of_known(foreign: NDArray[np.bool_], is_open: NDArray[np.bool_], lose: float) -> NDArray[np.float64]:
    """Probability (n_items,) that an item is of one of the classes, from which items look ``foreign`` (n_items,).

    Of the items of known classes a share ``lose`` looks foreign. Items that no person has labelled are ``is_open``
    (n_items,). If a larger share of these looks foreign, most of the foreign ones belong to classes without a name.

    Examples
    --------
    >>> chance_of_known(np.arange(10) < 5, np.ones(10, dtype=bool), 0.05)
    array([0.2, 0.2, 0.2, 0.2, 0.2, 1. , 1. , 1. , 1. , 1. ])
    """
    doubtful = foreign & is_open
    share = doubtful.sum() / max(is_open.sum(), 1)
    return np.where(doubtful, min(_USUAL * lose / max(share, lose), 1.0), 1.0)


def fit_rejection(
    view: EmbeddingView,
    given: NDArray[np.integer],
    lose: float,
    none: NDArray[np.bool_] | None = None,
) -> tuple[Rejection, NDArray[np.bool_]]:
    """The rule for new items, and which of the rows themselves are foreign, (n_rows,).

    The threshold is where a share ``lose`` of the known items would fall below it. What known items look like is
    learned from the examples, each left out of its class when it is measured: see `_low_bound` and `_halfway`.
    With one example a class there is nothing to measure; then the share ``lose`` of all unlabelled items least like any
    class is taken.

    Parameters
    ----------
    view : EmbeddingView
        Examples and unlabelled items.
    given : ndarray of int of shape (n_rows,)
        Class of each example, negative for all others. At least one is needed.
    lose : float
        Share of the items of known classes that may be rejected.
    none : ndarray of bool of shape (n_rows,), optional
        Items labelled as none of the classes; foreign, whatever their likeness.
    """
    outside = np.zeros(len(view), dtype=bool) if none is None else none
    labels = np.where(outside, -1, given)
    centres, threshold, _ = measure(view.unit, labels, outside, lose)
    _, smooth_threshold, likeness = measure(view.smooth, labels, outside, lose, averaged=True)
    rule = Rejection(view.mean, centres, view.unit[outside], threshold)
    return rule, outside | (likeness < smooth_threshold)


def measure(
    rows: Array, given: NDArray[np.integer], none: NDArray[np.bool_], lose: float, *, averaged: bool = False
) -> tuple[Array, float, NDArray[np.floating]]:
    """Centres (n_classes, D), threshold, and the likeness (n_rows,) of unit rows to the classes, less that to none.

    Rows ``averaged`` with their neighbours are very like their class where they are typical of it: see `_halfway`.
    """
    members = [np.flatnonzero(given == c) for c in np.unique(given[given >= 0])]
    centres = l2_normalize(np.stack([rows[own].mean(axis=0) for own in members]))
    of_none = _likeness_to_none(rows, rows[none])
    likeness = _likeness(rows, centres) - of_none
    left_out = np.concatenate(
        [_left_out_likeness(rows, members, centres, c) - of_none[own] for c, own in enumerate(members) if len(own) > 1]
        or [np.empty(0, dtype=np.float32)]
    )
    unlabelled = likeness[(given < 0) & ~none]
    if len(left_out) >= FEWEST_LEFT_OUT:
        highest = _halfway(rows, members, centres, of_none, left_out) if averaged else 1.0
        return centres, _low_bound(left_out, lose, highest), likeness
    return centres, float(np.quantile(unlabelled, lose)) if len(unlabelled) else -1.0, likeness


def _low_bound(seen: Array, share: float, highest: float = 1.0) -> float:
    """The value below which the next one falls with probability ``share``, from the n values ``seen``.

    A new value is as likely to fall into any of the n + 1 gaps between those seen, so the bound is the one of rank
    share · (n + 1), whatever their distribution (a conformal quantile). Where that lies below the smallest, it is the
    lowest of the smallest, Student's prediction bound, mean + t √(1 + 1/n) s, and the ``highest`` there may be.
    """
    n = len(seen)
    rank = share * (n + 1)
    if rank >= 1.0:
        return float(np.interp(rank, np.arange(1, n + 1), np.sort(seen)))
    bound = seen.mean() + stdtrit(n - 1, share) * np.sqrt(1.0 + 1.0 / n) * seen.std(ddof=1)
    return float(min(bound, seen.min(), highest))


def _halfway(
    rows: Array, members: list[NDArray[np.int64]], centres: Array, of_none: NDArray[np.floating], left_out: Array
) -> float:
    """Middle between the mean likeness of examples to their class, ``left_out`` (n,), and to the closest other class.

    A class without a name is about as far from the others as these are from each other. Few examples, each typical of
    its cluster, would draw the bound so close that most of the cluster fell below it.
    """
    if len(members) < 2:
        return 1.0
    to_others = [
        (rows[own] @ np.delete(centres, c, axis=0).T).max(axis=1) - of_none[own] for c, own in enumerate(members)
    ]
    return 0.5 * float(left_out.mean() + np.concatenate(to_others).mean())


def _left_out_likeness(rows: Array, members: list[NDArray[np.int64]], centres: Array, c: int) -> Array:
    """Leave-one-out likeness (n_own,) of each of the two or more examples of class ``c``."""
    own = rows[members[c]]
    to_others = np.einsum("ij,ij->i", own, l2_normalize(own.sum(axis=0) - own)) * _gain_of_one_more(own)
    return np.maximum(to_others, (own @ np.delete(centres, c, axis=0).T).max(axis=1, initial=-1.0))


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


def _likeness_to_none(rows: Array, none: Array) -> Array:
    """Mean (n_rows,) of the two largest cosines, at least 0, of unit rows (n_rows, D) with ``none`` (n_none, D).

    With a single row the second cosine counts as 0: one item proves less than two. Rows of ``none`` are compared too.
    """
    if not len(none):
        return np.zeros(len(rows), dtype=np.float32)
    cosines = rows @ none.T
    if len(none) > _NEAREST_NONE:
        cosines = np.partition(cosines, len(none) - _NEAREST_NONE, axis=1)[:, -_NEAREST_NONE:]
    return np.asarray(np.maximum(cosines, 0.0).sum(axis=1) / _NEAREST_NONE)
