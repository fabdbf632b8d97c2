"""PADDLE: assignments that may leave classes empty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.kernels.batched import inner_products
from marginshot.methods._convergence import warn_unconverged
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_count, check_setting, register


@register
@dataclass(frozen=True, kw_only=True)
class PADDLE(TaskwiseMethod):
    """Soft k-means on support and queries with a price on the number of classes in use. Transductive.

    Martin, Boudiaf, Chouzenoux, Pesquet and Ben Ayed, "Towards Practical Few-shot Query Sets: Transductive Minimum
    Description Length Inference", NeurIPS 2022.

    Made for many possible classes of which few occur among the queries. Each feature is divided by its range, as in the
    authors' code, there over the queries alone, here over support and queries, because the range of two or three
    queries is no scale. Their λ = 75 with 75 queries is ``complexity=1``; a task stops when its assignments do, not
    after 1000 rounds.

    Parameters
    ----------
    complexity : float, default=1.0
        Price of a class in use, per query (λ / n_query in the paper); 0 gives soft k-means.
    max_iter : int, default=1000
        Rounds at most.
    tol : float, default=1e-5
        Change of an assignment at which a task stops.
    """

    name: ClassVar[str] = "paddle"
    title: ClassVar[str] = "PADDLE"
    reference: ClassVar[str] = (
        "Martin, Boudiaf, Chouzenoux, Pesquet and Ben Ayed, "
        '"Towards Practical Few-shot Query Sets: Transductive Minimum Description Length Inference", NeurIPS 2022'
    )
    transductive: ClassVar[bool] = True

    complexity: float = 1.0
    max_iter: int = 1000
    tol: float = 1e-5

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "complexity", low=0.0)
        check_count(self, "max_iter", low=1)
        check_setting(self, "tol", low=0.0, open_low=True)

    def probabilities(self, scores: Scores) -> Scores:
        """The scores themselves: the paper's assignments."""
        return scores

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        # numba takes half a second to import: only those who score pay for it.
        from marginshot.solvers.partition_compiled import partition_updates

        rows = np.concatenate([tasks.support, tasks.query], axis=1)
        spread = np.ptp(rows, axis=1, keepdims=True)
        spread[spread == 0.0] = 1.0
        rows -= rows.mean(axis=1, keepdims=True)  # the origin is free, and a near one keeps the products exact
        rows /= spread
        assignments, converged = partition_updates(
            inner_products(rows, rows).astype(np.float64),
            tasks.labels,
            tasks.n_way,
            float(self.complexity),
            self.max_iter,
            float(self.tol),
        )
        warn_unconverged(type(self), converged, f"raise max_iter above {self.max_iter} or tol above {self.tol:g}")
        return assignments
