"""The prior alone: what methods for features with a text side start from and have to improve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import class_means, inner_products, softmax
from marginshot.methods.base import Scores, Tasks, check_setting, register
from marginshot.methods.prior import TaskwisePriorMethod
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre, l2_normalize

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Start:
    """Rows in double precision and of unit length, class prototypes likewise, and beliefs about the queries.

    Parameters
    ----------
    support, query : ndarray of shape (T, n_support, D) and (T, n_query, D)
    prototypes : ndarray of shape (T, N, D)
        Means of the support. Where the support are embedded class names, these names.
    prior : ndarray of shape (T, n_query, N)
        The given one, or softmax of ``sharpness`` times the cosines to the prototypes.
    """

    support: Array
    query: Array
    prototypes: Array
    prior: Array

    @classmethod
    def of(cls, tasks: Tasks, centre: Centre, sharpness: float) -> Start:
        """The start for checked tasks."""
        support, query = (rows.astype(np.float64) for rows in centre_and_normalize(tasks.support, tasks.query, centre))
        means = l2_normalize(class_means(support, tasks.labels, tasks.n_way))
        prototypes = means.astype(np.float64, copy=False)
        prior = softmax(sharpness * inner_products(query, prototypes)) if tasks.prior is None else tasks.prior
        return cls(support, query, prototypes, prior)


@register
@dataclass(frozen=True, kw_only=True)
class ZeroShot(TaskwisePriorMethod):
    """The prior as it is given; without one, softmax of the cosines to the class means or names. Inductive.

    Radford et al., "Learning Transferable Visual Models From Natural Language Supervision", ICML 2021, section 3.1.

    The baseline of methods that improve a prior (``--shot 0`` and ``--prior`` of ``marginshot evaluate``).

    Parameters
    ----------
    sharpness : float, default=100.0
        Factor on the cosines, CLIP's. Not used where a prior is given.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="none"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "zero-shot"
    title: ClassVar[str] = "Prior alone"
    reference: ClassVar[str] = (
        'Radford et al., "Learning Transferable Visual Models From Natural Language Supervision", ICML 2021'
    )
    transductive: ClassVar[bool] = False

    sharpness: float = 100.0
    centre: Centre = "none"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "sharpness", low=0.0, open_low=True)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """The scores themselves."""
        return scores

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        return Start.of(tasks, self.centre, self.sharpness).prior
