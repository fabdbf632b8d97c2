"""BD-CSPN: prototypes rectified with the queries and their first predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import class_means, inner_products, one_hot, softmax, squared_distances
from marginshot.methods.base import Tasks, TaskwiseMethod, check_setting, register
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre, l2_normalize

Array = NDArray[Any]


@register
@dataclass(frozen=True, kw_only=True)
class BDCSPN(TaskwiseMethod):
    """Nearest prototype, the prototypes rectified with the queries. Transductive.

    Liu, Song and Qin, "Prototype Rectification for Few-Shot Learning", ECCV 2020.

    Queries are shifted so that their mean equals the support's (the cross-class bias). Every row then joins the class
    of its nearest prototype, with a weight that grows with the cosine (the intra-class bias). Queries are classified
    where they were, unshifted.

    The authors published no code. Steps and defaults are those of the implementation published with alpha-TIM
    (Veilleux et al., NeurIPS 2021), which LaplacianShot's authors and PADDLE's use too: a row's weight is the softmax
    over the classes of 10 times its cosines, a prototype is the weighted sum divided by the number of its rows, and
    the nearest one by Euclidean distance wins. The paper's text normalises the weights over the rows of a class, as
    `BDCSPNEasyFSL` does. Differs from these implementations: a class that no row joins keeps the mean of its support,
    where theirs drop it or leave the whole task unrectified.

    Parameters
    ----------
    sharpness : float, default=10.0
        Factor on the cosine in the weights (ε in the paper); 0 weights all rows alike.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="task"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "bd-cspn"
    title: ClassVar[str] = "BD-CSPN"
    reference: ClassVar[str] = 'Liu, Song and Qin, "Prototype Rectification for Few-Shot Learning", ECCV 2020'
    transductive: ClassVar[bool] = True

    sharpness: float = 10.0
    centre: Centre = "task"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "sharpness", low=0.0, high=100.0, open_high=False)
        check_centre(self.centre)

    def _score(self, tasks: Tasks) -> Array:
        support, query = centre_and_normalize(tasks.support, tasks.query, self.centre)
        shifted = shift_to_support(support, query)
        prototypes = rectified_prototypes(support, tasks.labels, shifted, tasks.n_way, self.sharpness)
        return -squared_distances(query, prototypes)


@register
@dataclass(frozen=True, kw_only=True)
class BDCSPNEasyFSL(BDCSPN):
    """BD-CSPN with weights normalised over the rows of a class, as in EasyFSL and in the paper's text. Transductive.

    Liu, Song and Qin, "Prototype Rectification for Few-Shot Learning", ECCV 2020.

    Steps and defaults follow EasyFSL: the support stays in its own classes, a prototype is a weighted mean, and the
    largest cosine wins. The paper has ``sharpness=10``. Settings as in ``BDCSPN``.
    """

    name: ClassVar[str] = "bd-cspn-easyfsl"
    title: ClassVar[str] = "BD-CSPN (EasyFSL)"

    sharpness: float = 1.0

    def _score(self, tasks: Tasks) -> Array:
        support, query = centre_and_normalize(tasks.support, tasks.query, self.centre)
        shifted = shift_to_support(support, query)
        prototypes = weighted_means(support, tasks.labels, shifted, tasks.n_way, self.sharpness)
        return inner_products(query, l2_normalize(prototypes))


def shift_to_support(support: Array, query: Array) -> Array:
    """Queries (T, m, D) moved so that their mean is that of the support (T, n, D)."""
    shifted: Array = query + (support.mean(axis=1, keepdims=True) - query.mean(axis=1, keepdims=True))
    return shifted


def rectified_prototypes(
    support: Array, labels: NDArray[np.int64], query: Array, n_way: int, sharpness: float
) -> Array:
    """Mean over the rows nearest to each class mean, each row times its softmax over the classes.

    Parameters
    ----------
    support : ndarray of shape (T, n_support, D)
    labels : ndarray of int64 of shape (T, n_support)
    query : ndarray of shape (T, n_query, D)
        Already shifted.
    n_way : int
    sharpness : float
        Factor on the cosines in the softmax.

    Returns
    -------
    prototypes : ndarray of shape (T, n_way, D)
        Shorter than the mean of their rows, because the softmax is below 1.
    """
    rows = np.concatenate([support, query], axis=1)
    means = class_means(support, labels, n_way)
    cosines = inner_products(l2_normalize(rows), l2_normalize(means))
    members = one_hot(cosines.argmax(axis=2), n_way, rows.dtype)
    counts = members.sum(axis=1)[:, :, None]
    members *= softmax(sharpness * cosines)
    prototypes: Array = np.matmul(members.swapaxes(1, 2), rows) / np.maximum(counts, 1.0)
    return np.where(counts > 0.0, prototypes, means)


def weighted_means(support: Array, labels: NDArray[np.int64], query: Array, n_way: int, sharpness: float) -> Array:
    """Class means over the support and the queries that chose the class, weighted by exp(sharpness · cosine).

    Parameters
    ----------
    support : ndarray of shape (T, n_support, D)
    labels : ndarray of int64 of shape (T, n_support)
    query : ndarray of shape (T, n_query, D)
        Already shifted.
    n_way : int
    sharpness : float

    Returns
    -------
    prototypes : ndarray of shape (T, n_way, D)
    """
    rows = np.concatenate([support, query], axis=1)
    cosines = inner_products(l2_normalize(rows), l2_normalize(class_means(support, labels, n_way)))
    chosen = cosines[:, support.shape[1] :].argmax(axis=2)
    members = one_hot(np.concatenate([labels, chosen], axis=1), n_way, rows.dtype)
    weights = members * np.exp(sharpness * cosines)
    weights /= weights.sum(axis=1, keepdims=True)
    prototypes: Array = np.matmul(weights.swapaxes(1, 2), rows)
    return prototypes
