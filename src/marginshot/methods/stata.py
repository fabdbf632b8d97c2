"""StatA: a mixture of Gaussians held by statistical anchors, so that classes without queries stay where they were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import one_hot
from marginshot.methods._smoothed_mixture import assign, log_densities, query_graph, squared_deviations
from marginshot.methods.base import Scores, Tasks, check_count, check_setting, register
from marginshot.methods.prior import TaskwisePriorMethod
from marginshot.methods.zero_shot import Start
from marginshot.model.transforms import Centre, check_centre, l2_normalize

Array = NDArray[np.float64]


@register
@dataclass(frozen=True, kw_only=True)
class StatA(TaskwisePriorMethod):
    """Gaussians drawn to class prototypes, the more the fewer queries a class seems to have. Transductive.

    Zanella, Fuchs, De Vleeschouwer and Ben Ayed, "Realistic Test-Time Adaptation of Vision-Language Models", CVPR 2025.

    Made for class names and pictures embedded by one network: give the names as the support (``--shot 0``). With
    examples as the support, their means are the anchors, and the examples are used in no other way. Steps and defaults
    follow the authors' code. Differs from it: neighbours that are equally near are all kept, and a feature that never
    varies is left out.

    Parameters
    ----------
    anchor : float, default=1.0
        Queries that the anchor of a class is worth (α in the paper).
    n_neighbors : int, default=3
        Neighbours kept for each query.
    sharpness : float, default=100.0
        Factor on the cosines in the prior, CLIP's. Not used where a prior is given.
    max_iter : int, default=10
        Updates of means and variances.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="none"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "stata"
    title: ClassVar[str] = "StatA"
    reference: ClassVar[str] = (
        "Zanella, Fuchs, De Vleeschouwer and Ben Ayed, "
        '"Realistic Test-Time Adaptation of Vision-Language Models", CVPR 2025'
    )
    transductive: ClassVar[bool] = True

    anchor: float = 1.0
    n_neighbors: int = 3
    sharpness: float = 100.0
    max_iter: int = 10
    centre: Centre = "none"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "anchor", low=0.0, open_low=True)
        check_setting(self, "sharpness", low=0.0, open_low=True)
        check_count(self, "n_neighbors", low=1)
        check_count(self, "max_iter", low=0)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """The scores themselves: the paper's assignments."""
        return scores

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        start = Start.of(tasks, self.centre, self.sharpness)
        graph = query_graph(start.query, self.n_neighbors)
        anchors = means = start.prototypes
        # All classes begin with one variance for each feature.
        spread = squared_deviations(start.query, start.prior, anchors).sum(axis=1, keepdims=True)
        spreads = variances = np.repeat(spread / start.query.shape[1], tasks.n_way, axis=1)
        assignments = assign(log_densities(start.query, means, variances), start.prior, 1.0, graph, start.prior)
        for _ in range(self.max_iter):
            trust = self._trust(assignments)
            sums = np.matmul(assignments.swapaxes(1, 2), start.query)
            means = trust * l2_normalize(sums) + (1.0 - trust) * anchors
            means = np.asarray(l2_normalize(means), dtype=np.float64)
            sizes = np.maximum(assignments.sum(axis=1), np.finfo(np.float64).tiny)[:, :, None]
            found = squared_deviations(start.query, assignments, means) / sizes
            variances = trust * found + (1.0 - trust) * (spreads + (anchors - means) ** 2)
            assignments = assign(log_densities(start.query, means, variances), start.prior, 1.0, graph, assignments)
        return assignments

    def _trust(self, assignments: Array) -> Array:
        """Weight (T, N, 1) of what the queries of a class say, against its anchor."""
        counts = one_hot(assignments.argmax(axis=2), assignments.shape[2], np.float64).sum(axis=1)
        trust: Array = (counts / (self.anchor + counts))[:, :, None]
        return trust
