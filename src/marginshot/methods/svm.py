"""MetaOptNet's support vector machine on frozen features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._linear import class_scores, support_coordinates
from marginshot.methods.base import Tasks, TaskwiseMethod, check_count, check_setting, register
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre

# Well below the differences that decide a label; scikit-learn's default of 1e-4 is not.
_TOL = 1e-6


@register
@dataclass(frozen=True, kw_only=True)
class SVMHead(TaskwiseMethod):
    """Crammer and Singer's multi-class support vector machine on the support, without offset. Inductive.

    Lee, Maji, Ravichandran and Soatto, "Meta-Learning with Differentiable Convex Optimization", CVPR 2019 (the SVM
    solver). Solved by scikit-learn's LinearSVC, task by task.

    Parameters
    ----------
    C : float, default=0.1
        Weight of the margin violations; the authors' value.
    max_iter : int, default=10000
        Most iterations of LinearSVC, which warns when it reaches them.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="task"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "svm"
    title: ClassVar[str] = "SVM head"
    reference: ClassVar[str] = (
        'Lee, Maji, Ravichandran and Soatto, "Meta-Learning with Differentiable Convex Optimization", CVPR 2019'
    )
    transductive: ClassVar[bool] = False

    C: float = 0.1
    max_iter: int = 10_000
    centre: Centre = "task"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "C", low=0.0, open_low=True)
        check_count(self, "max_iter", low=1)
        check_centre(self.centre)

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        # Imported here because scikit-learn takes a while to import.
        from sklearn.svm import LinearSVC

        support, query = support_coordinates(*centre_and_normalize(tasks.support, tasks.query, self.centre))
        scores = np.empty((query.shape[0], query.shape[1], tasks.n_way))
        for t in range(query.shape[0]):
            machine = LinearSVC(
                C=self.C,
                multi_class="crammer_singer",
                fit_intercept=False,
                tol=_TOL,
                max_iter=self.max_iter,
                random_state=0,  # sets the order in which the solver visits rows: rounding only
            )
            scores[t] = class_scores(machine.fit(support[t], tasks.labels[t]).decision_function(query[t]))
        return scores
