"""A classifier fitted to an earlier source alone, as one more expert on the items of a new one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from marginshot.classifier.estimator import TransductiveMaxMarginClassifier

Array = NDArray[np.floating]

# Its weight while no new item has a label; labels of new items lower it. What is estimated from both sources together,
# such as class shares, is worst where these differ most. Birds, three labels a class: by another camera 45 to 52 % are
# right without it, 49 to 56 % with it, 54 to 56 % by it alone; without colours 57, 60 and 61 %; by the same camera 81
# to 84, 82 and 81 to 82 %. With two new labels a class 0.5 is too much.
_WEIGHT = 0.5


def with_expert_of_old(
    classifier: TransductiveMaxMarginClassifier,
    X: Array,
    old: NDArray[np.bool_],
    known: NDArray[np.integer],
    domains: NDArray[np.int64],
    groups: NDArray[np.int64] | None,
    probabilities: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The ``probabilities`` (n_items, n_classes), averaged for new items with those of the expert.

    Parameters
    ----------
    classifier : TransductiveMaxMarginClassifier
        Its parameters are those of the expert.
    X : ndarray of shape (n_items, n_features)
    old : ndarray of bool of shape (n_items,)
        Items of the earlier source.
    known : ndarray of int of shape (n_items,)
        Class of each example, -1 for other items.
    domains : ndarray of int64 of shape (n_items,)
        Odd for old items; one less for new ones of the same light.
    groups : ndarray of int64 of shape (n_items,) or None
        Items of one group are one example.
    probabilities : ndarray of shape (n_items, n_classes)
        What the classifier of all items answers.
    """
    if len(np.unique(known[old & (known >= 0)])) < 2:
        return probabilities
    expert: TransductiveMaxMarginClassifier = clone(classifier)
    expert.fit(X[old], known[old], groups=None if groups is None else groups[old], domains=domains[old])
    n_labels = (known[~old] >= 0).sum()
    weight = _WEIGHT / (1.0 + n_labels / probabilities.shape[1])
    of_new = probabilities[~old]
    answers = np.zeros_like(of_new)
    answers[:, expert.classes_] = expert.predict_proba(_as_old(X, old, domains))
    # It knows nothing of classes that are new: these keep their probability.
    others = np.setdiff1d(np.arange(of_new.shape[1]), expert.classes_)
    answers *= 1.0 - of_new[:, others].sum(axis=1, keepdims=True)
    answers[:, others] = of_new[:, others]
    averaged = np.array(probabilities)
    averaged[~old] = (1.0 - weight) * of_new + weight * answers
    return averaged


def _as_old(X: Array, old: NDArray[np.bool_], domains: NDArray[np.int64]) -> Array:
    """The new items (n_new, n_features), each domain shifted to the mean of the old one of its light, or of all."""
    moved = np.array(X[~old])
    for domain in np.unique(domains[~old]):
        own = domains[~old] == domain
        alike = domains == domain + 1
        target = X[alike if alike.any() else old].mean(axis=0, dtype=np.float64)
        moved[own] += (target - moved[own].mean(axis=0, dtype=np.float64)).astype(moved.dtype)
    return moved
