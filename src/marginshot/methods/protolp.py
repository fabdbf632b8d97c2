"""protoLP: labels propagated through prototypes, which move with the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import class_means, inner_products, softmax
from marginshot.methods._preparation import signed_power
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_count, check_setting, register
from marginshot.model.transforms import centre_and_normalize, l2_normalize


@register
@dataclass(frozen=True, kw_only=True)
class ProtoLP(TaskwiseMethod):
    """Prototypes of equal mass that follow the labels propagated through them. Transductive.

    Zhu and Koniusz, "Transductive Few-shot Learning with Prototype-based Label Propagation by Iterative Graph
    Refinement", CVPR 2023.

    Features go through the authors' preparation: power transform, unit length, the task's leading singular directions,
    the task's mean subtracted, unit length. Each round transports the queries to the prototypes, and spreads the
    support's labels over the graph that joins rows through shared prototypes. It then moves the prototypes towards the
    mean of both assignments. Defaults follow the authors' script with the paper's graph Laplacian, 50 rounds.

    Differs from the authors' code: Newton's method finds each task's plan to ``tol``, where theirs stops on the worst
    of all tasks. Classes get equal shares of the queries also with unequal shots. The power keeps the sign of negative
    features, for which theirs is not defined. A single query cannot be balanced: it is compared with the support's
    means.

    Parameters
    ----------
    power : float, default=0.5
        Exponent of the power transform.
    n_components : int, default=40
        Leading singular directions of the task that are kept; all where there are fewer.
    sharpness : float, default=10.0
        Inverse of the entropic regularisation.
    graph_weight : float, default=0.05
        Weight of the graph's smoothness against the support's labels (λ in the paper).
    propagated : float, default=0.7
        Share of the propagated labels in a prototype's members, the rest being the plan's; 0 gives PT-MAP's rounds.
    step : float, default=0.2
        Share of the way a prototype goes in one round (α in the paper).
    n_rounds : int, default=50
        Rounds of transport, propagation and moving.
    max_iter : int, default=100
        Newton steps at most in each round.
    tol : float, default=1e-6
        Relative error of a class's mass at which a plan is finished.
    """

    name: ClassVar[str] = "protolp"
    title: ClassVar[str] = "protoLP"
    reference: ClassVar[str] = (
        "Zhu and Koniusz, "
        '"Transductive Few-shot Learning with Prototype-based Label Propagation by Iterative Graph Refinement", '
        "CVPR 2023"
    )
    transductive: ClassVar[bool] = True

    power: float = 0.5
    n_components: int = 40
    sharpness: float = 10.0
    graph_weight: float = 0.05
    propagated: float = 0.7
    step: float = 0.2
    n_rounds: int = 50
    max_iter: int = 100
    tol: float = 1e-6

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "power", low=0.0, open_low=True)
        check_count(self, "n_components", low=1)
        check_setting(self, "sharpness", low=0.0)
        check_setting(self, "graph_weight", low=0.0)
        check_setting(self, "propagated", low=0.0, high=1.0, open_high=False)
        check_setting(self, "step", low=0.0, high=1.0, open_high=False)
        check_count(self, "n_rounds", low=0)
        check_count(self, "max_iter", low=1)
        check_setting(self, "tol", low=0.0, open_low=True)

    def probabilities(self, scores: Scores) -> Scores:
        """The scores themselves: the paper's transport plan, whose rows sum to 1."""
        return scores

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        # Imported here because numba takes half a second to import.
        from marginshot.solvers.prototype_propagation_compiled import propagate_through_prototypes

        n_support = tasks.support.shape[1]
        rows = self._prepare(tasks)
        if tasks.query.shape[1] == 1:
            means = l2_normalize(class_means(rows[:, :n_support], tasks.labels, tasks.n_way))
            return softmax(2.0 * self.sharpness * inner_products(rows[:, n_support:], means))
        plan, tasks.converged[:] = propagate_through_prototypes(
            inner_products(rows, rows),
            tasks.labels,
            tasks.n_way,
            float(self.sharpness),
            float(self.graph_weight),
            float(self.propagated),
            float(self.step),
            self.n_rounds,
            self.max_iter,
            float(self.tol),
        )
        return plan

    def _prepare(self, tasks: Tasks) -> NDArray[np.float64]:
        """(T, n_support + n_query, at most n_components), support first."""
        rows = l2_normalize(signed_power(np.concatenate([tasks.support, tasks.query], axis=1), self.power))
        sizes, directions = np.linalg.eigh(inner_products(rows, rows).astype(np.float64))
        kept = slice(-min(self.n_components, rows.shape[1]), None)
        reduced = directions[:, :, kept] * np.sqrt(np.maximum(sizes[:, None, kept], 0.0))
        n_support = tasks.support.shape[1]
        return np.concatenate(centre_and_normalize(reduced[:, :n_support], reduced[:, n_support:], "task"), axis=1)
