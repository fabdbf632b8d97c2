"""MetaOptNet's ridge head on frozen features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import inner_products, one_hot
from marginshot.methods.base import Tasks, TaskwiseMethod, check_setting, register
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre


@register
@dataclass(frozen=True, kw_only=True)
class RidgeHead(TaskwiseMethod):
    """Ridge regression from the support to its one-hot labels, in closed form. Inductive.

    Lee, Maji, Ravichandran and Soatto, "Meta-Learning with Differentiable Convex Optimization", CVPR 2019 (the RR
    solver), after Bertinetto et al., "Meta-learning with differentiable closed-form solvers", ICLR 2019. Equals
    scikit-learn's ``Ridge(alpha=penalty, fit_intercept=False)``.

    Parameters
    ----------
    penalty : float, default=1.0
        Weight of the squared norm of the head (λ in the paper).
    centre : {"task", "support", "none"} or array-like of shape (D,), default="task"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "ridge"
    title: ClassVar[str] = "Ridge head"
    reference: ClassVar[str] = (
        'Lee, Maji, Ravichandran and Soatto, "Meta-Learning with Differentiable Convex Optimization", CVPR 2019'
    )
    transductive: ClassVar[bool] = False

    penalty: float = 1.0
    centre: Centre = "task"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "penalty", low=0.0, open_low=True)
        check_centre(self.centre)

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        support, query = centre_and_normalize(tasks.support, tasks.query, self.centre)
        gram = inner_products(support, support).astype(np.float64)
        diagonal = np.arange(gram.shape[1])
        gram[:, diagonal, diagonal] += self.penalty
        coefficients = np.linalg.solve(gram, one_hot(tasks.labels, tasks.n_way, np.float64))
        scores: NDArray[np.float64] = np.matmul(inner_products(query, support).astype(np.float64), coefficients)
        return scores
