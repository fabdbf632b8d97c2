"""TransCLIP: a mixture of Gaussians with a penalty for leaving the prior, for few shots and for names alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import one_hot
from marginshot.methods._smoothed_mixture import (
    assign,
    log_densities,
    pull_of_support,
    query_graph,
    squared_deviations,
)
from marginshot.methods.base import Scores, Tasks, check_count, check_setting, register
from marginshot.methods.prior import TaskwisePriorMethod
from marginshot.methods.zero_shot import Start
from marginshot.model.transforms import Centre, check_centre, l2_normalize

Array = NDArray[np.float64]

# Factor on the weight of the support, fixed in the authors' code.
_SUPPORT_FACTOR = 50.0


@register
@dataclass(frozen=True, kw_only=True)
class TransCLIP(TaskwisePriorMethod):
    """A mixture of Gaussians over support and queries, its assignments drawn to the prior. Transductive.

    Zanella, Gérin and Ben Ayed, "Boosting Vision-Language Models with Transduction", NeurIPS 2024, with few shots.

    Differs from the authors' code: they choose ``support_weight`` among 0.002, 0.01, 0.02 and 0.2 on further labelled
    examples, which a task has not; their graph takes the rows of the support for those of the first queries, here it
    joins each support row to its nearest queries, as in the paper; neighbours that are equally near are all kept; a
    feature that never varies is left out.

    Parameters
    ----------
    support_weight : float, default=0.02
        Weight of the support in means and variances (γ in the paper). With 0 the support gives the first means and
        nothing else.
    prior_weight : float, default=0.5
        Power of the prior (λ in the paper).
    n_neighbors : int, default=3
        Neighbours kept for each row.
    sharpness : float, default=100.0
        Factor on the cosines in the prior, CLIP's. Not used where a prior is given.
    max_iter : int, default=10
        Updates of means and variances.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="none"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "transclip"
    title: ClassVar[str] = "TransCLIP"
    reference: ClassVar[str] = (
        'Zanella, Gérin and Ben Ayed, "Boosting Vision-Language Models with Transduction", NeurIPS 2024'
    )
    transductive: ClassVar[bool] = True

    support_weight: float = 0.02
    prior_weight: float = 0.5
    n_neighbors: int = 3
    sharpness: float = 100.0
    max_iter: int = 10
    centre: Centre = "none"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "support_weight", low=0.0)
        check_setting(self, "prior_weight", low=0.0)
        check_setting(self, "sharpness", low=0.0, open_low=True)
        check_count(self, "n_neighbors", low=1)
        check_count(self, "max_iter", low=0)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """The scores themselves: the paper's assignments."""
        return scores

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        start = Start.of(tasks, self.centre, self.sharpness)
        known = one_hot(tasks.labels, tasks.n_way, np.float64)
        n_support, n_query = known.shape[1], start.query.shape[1]
        labelled = self.support_weight * _SUPPORT_FACTOR
        graph = query_graph(start.query, self.n_neighbors)
        pull = pull_of_support(start.support, known, start.query, self.n_neighbors) if labelled else 0.0
        means = start.prototypes
        variances = np.full((len(means), 1, means.shape[2]), 1.0 / means.shape[2])

        def assigned(before: Array) -> Array:
            likelihood = log_densities(start.query, means, variances)
            return assign(likelihood, start.prior, self.prior_weight, graph, before, pull)

        assignments = assigned(start.prior)
        for _ in range(self.max_iter):
            sums = np.matmul(assignments.swapaxes(1, 2), start.query) / n_query
            sums += labelled / n_support * np.matmul(known.swapaxes(1, 2), start.support)
            means = l2_normalize(sums).astype(np.float64, copy=False)
            spread = squared_deviations(start.query, assignments, means) / n_query
            spread += labelled / n_support * squared_deviations(start.support, known, means)
            variances = spread.sum(axis=1, keepdims=True) / (1.0 + labelled)
            assignments = assigned(assignments)
        return assignments


@register
@dataclass(frozen=True, kw_only=True)
class TransCLIPZeroShot(TransCLIP):
    """TransCLIP where the support are class names: they give the first means, and are no examples. Transductive.

    Zanella, Gérin and Ben Ayed, "Boosting Vision-Language Models with Transduction", NeurIPS 2024.

    Steps follow the authors' code in the repository of StatA. That of the paper begins with the mean of the eight
    surest queries of a class instead of the name. Settings as in ``TransCLIP``.
    """

    name: ClassVar[str] = "transclip-zero-shot"
    title: ClassVar[str] = "TransCLIP (names)"

    support_weight: float = 0.0
    prior_weight: float = 1.0
