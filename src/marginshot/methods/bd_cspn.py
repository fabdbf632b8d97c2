"""BD-CSPN: prototypes rectified with the queries and their first predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import class_means, inner_products, one_hot
from marginshot.methods.base import Tasks, TaskwiseMethod, check_setting, register
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre, l2_normalize


@register
@dataclass(frozen=True, kw_only=True)
class BDCSPN(TaskwiseMethod):
    """Nearest prototype by cosine, the prototypes rectified with the queries. Transductive.

    Liu, Song and Qin, "Prototype Rectification for Few-Shot Learning", ECCV 2020.

    Queries are shifted so that their mean equals the support's (the cross-class bias). Each then joins the class of its
    nearest prototype, with a weight that grows with the cosine (the intra-class bias). The queries classified are the
    unshifted ones.

    Defaults and steps follow EasyFSL, whose features must come centred and scaled; here that is part of the method. The
    paper weights by exp(10 · cosine): ``sharpness=10``.

    Parameters
    ----------
    sharpness : float, default=1.0
        Factor on the cosine in the weights (ε in the paper); 0 weights all members of a class alike.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="task"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "bd-cspn"
    title: ClassVar[str] = "BD-CSPN"
    reference: ClassVar[str] = 'Liu, Song and Qin, "Prototype Rectification for Few-Shot Learning", ECCV 2020'
    transductive: ClassVar[bool] = True

    sharpness: float = 1.0
    centre: Centre = "task"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "sharpness", low=0.0, high=100.0, open_high=False)
        check_centre(self.centre)

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        support, query = centre_and_normalize(tasks.support, tasks.query, self.centre)
        prototypes = rectified_prototypes(support, tasks.labels, query, tasks.n_way, self.sharpness)
        return inner_products(query, l2_normalize(prototypes))


def rectified_prototypes(
    support: NDArray[Any], labels: NDArray[np.int64], query: NDArray[Any], n_way: int, sharpness: float
) -> NDArray[Any]:
    """Class means over the support and the queries that chose the class, weighted by exp(sharpness · cosine).

    Parameters
    ----------
    support : ndarray of shape (T, n_support, D)
    labels : ndarray of int64 of shape (T, n_support)
    query : ndarray of shape (T, n_query, D)
    n_way : int
    sharpness : float

    Returns
    -------
    prototypes : ndarray of shape (T, n_way, D)
    """
    shift = support.mean(axis=1, keepdims=True) - query.mean(axis=1, keepdims=True)
    rows = np.concatenate([support, query + shift], axis=1)
    directions = l2_normalize(class_means(support, labels, n_way))
    cosines = inner_products(l2_normalize(rows), directions)
    chosen = cosines[:, support.shape[1] :].argmax(axis=2)
    members = one_hot(np.concatenate([labels, chosen], axis=1), n_way, rows.dtype)
    weights = members * np.exp(sharpness * cosines)
    weights /= weights.sum(axis=1, keepdims=True)
    prototypes: NDArray[Any] = np.matmul(weights.swapaxes(1, 2), rows)
    return prototypes
