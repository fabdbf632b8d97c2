"""Items that belong to none of the classes, and the threshold by which they are found.

An item is measured by its likeness to the closest class: the cosine, in centred unit-length features, between the item
and the mean of that class's examples. Answers of the classifier are left out of it on purpose: items of a foreign class
get answers too, and would pull the classes towards themselves. While labelling, every item is first averaged with its
nearest neighbours, which come as a group from the foreign class just as from the known ones.

How like its class an item has to be follows from the examples, each left out of its class when it is measured. An item
is less like one example of its class than like the mean of ten, so each class has a bound for its number of examples.

Known items lie below any bound, too. Items are said to be foreign only where most of those below it are: a share t of
the known items is expected there, so at least 2 t of all have to be. Where no class is missing, next to nothing is.

Items labelled as none of the classes form no class, since they need not be like each other. From the likeness of every
item, its mean cosine with the two nearest of them is subtracted, each cosine at least 0. With the nearest one alone,
fewer scattered foreign items are found (CLINC150); with three, fewer foreign species of birds: by two points of 100.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from marginshot.labelling.answers.sketch import EmbeddingView, unit_rows
from marginshot.model.transforms import l2_normalize

Array = NDArray[np.float32]  # half the time of float64, and cosines need no more

#: Fewer left-out examples than this do not show the tail of a distribution.
FEWEST_LEFT_OUT = 6

_NEAREST_NONE = 2

# Bounds that are tried: the share ``lose``, and half of it this many times.
_HALVINGS = 5

# Times the expected share of known items that has to be below a bound: most of these items are then foreign. It lowers
# the known items lost from 5 % to 1 % where no class is missing, and the foreign ones found by up to 5 points where a
# quarter of the items is (eight validation sets, 2 to 10 examples a class).
_MOST = 2.0


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
    threshold : ndarray of shape (n_classes,)
        Smallest likeness to each class that is still accepted.
    """

    mean: Array
    centres: Array
    none: Array
    threshold: NDArray[np.float64]

    def foreign(self, X: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Which of the rows (n_rows, n_features) look like none of the classes, (n_rows,)."""
        rows = unit_rows(X, self.mean)
        lead = (rows @ self.centres.T - self.threshold).max(axis=1)
        return np.asarray(lead < _likeness_to_none(rows, self.none))


def chance_of_known(foreign: NDArray[np.bool_], is_open: NDArray[np.bool_], lose: float) -> NDArray[np.float64]:
    """Probability (n_items,) that an item is of one of the classes, from which items look ``foreign`` (n_items,).

    Of the items of known classes a share ``lose`` looks foreign at most. Items that no person has labelled are
    ``is_open`` (n_items,). If a larger share of these looks foreign, most of the foreign ones belong to classes without
    a name.

    Examples
    --------
    >>> chance_of_known(np.arange(10) < 5, np.ones(10, dtype=bool), 0.05)
    array([0.2, 0.2, 0.2, 0.2, 0.2, 1. , 1. , 1. , 1. , 1. ])
    """
    doubtful = foreign & is_open
    share = doubtful.sum() / max(is_open.sum(), 1)
    return np.where(doubtful, min(_MOST * lose / max(share, lose), 1.0), 1.0)


def fit_rejection(
    view: EmbeddingView,
    given: NDArray[np.integer],
    lose: float,
    none: NDArray[np.bool_] | None = None,
) -> tuple[Rejection, NDArray[np.bool_]]:
    """The rule for new items, and which of the rows themselves are foreign, (n_rows,).

    With one example a class nothing shows how unlike its class an item may be: none is foreign, and the rule takes all.

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
    known = Examples(view.smooth, labels, outside, averaged=True)
    share, foreign = known.foreign(lose)
    return rule_at(share, view, labels, outside), outside | foreign


def rule_at(
    share: float, view: EmbeddingView, given: NDArray[np.integer], none: NDArray[np.bool_] | None = None
) -> Rejection:
    """The rule by which a ``share`` of the known items is foreign; ``given`` and ``none`` as in `fit_rejection`."""
    outside = np.zeros(len(view), dtype=bool) if none is None else none
    plain = Examples(view.unit, given, outside)
    return Rejection(view.mean, plain.centres, view.unit[outside], plain.bounds(share))


class Examples:
    """How like the classes' examples rows are, and how like these are to their own class.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, D)
        Of unit length.
    given : ndarray of int of shape (n_rows,)
        Class of each example, negative for all others.
    none : ndarray of bool of shape (n_rows,)
        Rows labelled as none of the classes.
    averaged : bool, default=False
        Whether rows were averaged with their neighbours. They are then very like their class where they are typical of
        it; few such examples would draw the bound so close that most of their cluster fell below it. No bound is nearer
        than the middle between the mean likeness of examples to their class and to the closest other class: a class
        without a name is about as far from the others as these are from each other.
    """

    def __init__(
        self, rows: Array, given: NDArray[np.integer], none: NDArray[np.bool_], *, averaged: bool = False
    ) -> None:
        self._rows, self._given, self._none, self._averaged = rows, given, none, averaged
        members = [np.flatnonzero(given == c) for c in np.unique(given[given >= 0])]
        # Examples are left out in an order that does not depend on the order of rows.
        self._members = [own[np.argsort(rows[own].sum(axis=1), kind="stable")] for own in members]
        self.centres: Array = l2_normalize(np.stack([rows[own].sum(axis=0) for own in members]))
        # Of like size are classes of 1, 2 to 3, 4 to 7 … examples.
        self._size = 2 ** np.floor(np.log2([len(own) for own in members])).astype(np.int64)

    @cached_property
    def scores(self) -> NDArray[np.floating]:
        """Likeness of the rows to each class, less that to the items of none, (n_rows, n_classes)."""
        return self._scores(self._rows)

    def foreign(self, lose: float) -> tuple[float, NDArray[np.bool_]]:
        """Share of the known items that fall below the bounds, and the rows below them, of which most are foreign.

        The largest share, up to ``lose``, where most are. Where there is none the smallest, and no row is foreign.
        """
        is_open = (self._given < 0) & ~self._none
        share = lose
        for _ in range(_HALVINGS + 1):
            below = is_open & ((self.scores - self.bounds(share)).max(axis=1) < 0)
            if below.sum() >= max(_MOST * share * is_open.sum(), 1):
                return share, below
            share /= 2
        return 2 * share, np.zeros(len(is_open), dtype=bool)

    def bounds(self, share: float) -> NDArray[np.float64]:
        """The score (n_classes,) below which an item of each class falls with probability ``share``."""
        bounds = np.full(len(self._size), -np.inf)
        for size, seen in self._left_out.items():
            if len(seen) >= FEWEST_LEFT_OUT:
                halfway = 0.5 * float(seen.mean() + self._between)
                bounds[self._size == size] = _low_bound(seen, share, halfway if self._averaged else np.inf)
        return bounds

    @cached_property
    def _left_out(self) -> dict[int, NDArray[np.floating]]:
        """Scores of left-out examples, each for the closest class, by the size that its own class then has."""
        seen: dict[int, list[NDArray[np.floating]]] = {int(size): [] for size in np.unique(self._size)}
        for own, to_others in zip(self._members, self._to_others, strict=True):
            rows, of_none = self._rows[own], _likeness_to_none(self._rows[own], self._rows[self._none])
            for size, values in seen.items():
                if len(own) > 1:
                    centres = l2_normalize(_sums_of_next(rows, min(size, len(own) - 1)))
                    to_own = np.einsum("ij,ij->i", rows, centres) - of_none
                    values.append(np.maximum(to_own, to_others))
        return {size: np.concatenate(values or [np.empty(0)]) for size, values in seen.items()}

    @cached_property
    def _to_others(self) -> list[NDArray[np.floating]]:
        """Scores of each class's examples for the closest other class."""
        return [
            np.delete(self._scores(self._rows[own]), c, axis=1).max(axis=1, initial=-1.0)
            for c, own in enumerate(self._members)
        ]

    @property
    def _between(self) -> float:
        """Mean of these scores; infinite with a single class."""
        return float(np.concatenate(self._to_others).mean()) if len(self._members) > 1 else np.inf

    def _scores(self, rows: Array) -> NDArray[np.floating]:
        of_none = _likeness_to_none(rows, self._rows[self._none])
        return np.asarray(rows @ self.centres.T - of_none[:, None])


def _low_bound(seen: NDArray[np.floating], share: float, highest: float = np.inf) -> float:
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


def _sums_of_next(rows: Array, n: int) -> Array:
    """Sum (k, D) of the ``n`` rows after each of the ``rows`` (k, D), the first again after the last."""
    before = np.concatenate((np.zeros_like(rows[:1]), np.cumsum(np.concatenate((rows, rows)), axis=0)))
    first = np.arange(len(rows)) + 1
    return np.asarray(before[first + n] - before[first])


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
