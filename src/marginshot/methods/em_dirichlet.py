"""EM-Dirichlet: a mixture of Dirichlet distributions over each row's class probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from marginshot.methods._batched import inner_products, one_hot, softmax
from marginshot.methods.base import Scores, Tasks, check_count, check_setting, register
from marginshot.methods.prior import TaskwisePriorMethod
from marginshot.methods.zero_shot import Start
from marginshot.model.transforms import Centre, check_centre

Array = NDArray[np.float64]

# Added before logarithms, as in the authors' code.
_LEAST_SHARE = 1e-15


@register
@dataclass(frozen=True, kw_only=True)
class EMDirichlet(TaskwisePriorMethod):
    """Soft clusters of probability vectors, one Dirichlet distribution a class, few classes favoured. Transductive.

    Martin, Huang, Shakeri, Pesquet and Ben Ayed, "Transductive Zero-Shot and Few-Shot CLIP", CVPR 2024.

    A row's features are its probabilities of the classes: the prior where one is given for queries and support, else
    the softmax of 30 times its cosines to the class means or names. Steps and defaults follow the authors' code.
    Differs from it: an estimate ends when its own task has converged, not the whole batch; a class without weight keeps
    its distribution.

    Parameters
    ----------
    sharpness : float, default=30.0
        Factor on the cosines (T in the paper). Not used where a prior is given.
    complexity : float, default=1.0
        Price of a class in use, per query (λ / n_query in the paper). The authors take the number of classes over that
        of classes present, which they know.
    support_weight : float, default=1.0
        Rows of the queries that a row of the support counts for; 0 where the support are class names.
    n_rounds : int, default=20
        Rounds of assignments and estimates.
    max_iter : int, default=1000
        Steps of an estimate.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="none"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "em-dirichlet"
    title: ClassVar[str] = "EM-Dirichlet"
    reference: ClassVar[str] = (
        'Martin, Huang, Shakeri, Pesquet and Ben Ayed, "Transductive Zero-Shot and Few-Shot CLIP", CVPR 2024'
    )
    transductive: ClassVar[bool] = True

    sharpness: float = 30.0
    complexity: float = 1.0
    support_weight: float = 1.0
    n_rounds: int = 20
    max_iter: int = 1000
    centre: Centre = "none"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "sharpness", low=0.0, open_low=True)
        check_setting(self, "complexity", low=0.0)
        check_setting(self, "support_weight", low=0.0)
        check_count(self, "n_rounds", low=1)
        check_count(self, "max_iter", low=1)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """The scores themselves: the paper's assignments."""
        return scores

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        # Imported here because numba takes half a second to import.
        from marginshot.solvers.dirichlet_compiled import fit_dirichlets

        support, query = self._probability_features(tasks)
        log_query = np.log(query + _LEAST_SHARE)
        known = self.support_weight * one_hot(tasks.labels, tasks.n_way, np.float64).swapaxes(1, 2)
        known_sums = np.matmul(known, np.log(support + _LEAST_SHARE))
        parameters = np.ones((len(query), tasks.n_way, tasks.n_way))
        members = assignments = query
        for _ in range(self.n_rounds):
            weights = (known.sum(axis=2) + members.sum(axis=1))[:, :, None]
            sums = known_sums + np.matmul(members.swapaxes(1, 2), log_query)
            means = sums / np.where(weights > 0.0, weights, 1.0)
            estimates = fit_dirichlets(means, parameters, self.max_iter)
            parameters = np.where(weights > 0.0, estimates, parameters)
            price = np.log(members.mean(axis=1, keepdims=True) + _LEAST_SHARE)
            assignments = softmax(_log_densities(log_query, parameters) + self.complexity * price)
            members = self._harden(assignments)
        return assignments

    def _probability_features(self, tasks: Tasks) -> tuple[Array, Array]:
        """Support (T, n, N) and queries (T, m, N) as probabilities of the classes."""
        if tasks.prior is not None and (tasks.support_prior is not None or not self.support_weight):
            support = np.full((*tasks.labels.shape, tasks.n_way), 1.0 / tasks.n_way)
            return support if tasks.support_prior is None else tasks.support_prior, tasks.prior
        if tasks.prior is not None:
            raise ValueError(
                f"{type(self).__name__} learns what a prior says of each class from the support: give support_prior "
                "with prior, or support_weight=0."
            )
        start = Start.of(tasks, self.centre, self.sharpness)
        return softmax(self.sharpness * inner_products(start.support, start.prototypes)), start.prior

    def _harden(self, assignments: Array) -> Array:
        """Assignments (T, m, N) as the next estimate takes them."""
        return assignments


@register
@dataclass(frozen=True, kw_only=True)
class HardEMDirichlet(EMDirichlet):
    """EM-Dirichlet whose queries each count for one class. Transductive.

    Martin, Huang, Shakeri, Pesquet and Ben Ayed, "Transductive Zero-Shot and Few-Shot CLIP", CVPR 2024; settings as in
    ``EMDirichlet``.
    """

    name: ClassVar[str] = "hard-em-dirichlet"
    title: ClassVar[str] = "Hard EM-Dirichlet"

    n_rounds: int = 10

    def _harden(self, assignments: Array) -> Array:
        """Assignments (T, m, N) as the next estimate takes them."""
        members: Array = one_hot(assignments.argmax(axis=2), assignments.shape[2], np.float64)
        return members


def _log_densities(log_rows: Array, parameters: Array) -> Array:
    """Log-densities of Dirichlet distributions: (T, m, D), (T, N, D) -> (T, m, N)."""
    constants = gammaln(parameters.sum(axis=2)) - gammaln(parameters).sum(axis=2)
    densities: Array = inner_products(log_rows, parameters - 1.0) + constants[:, None, :]
    return densities
