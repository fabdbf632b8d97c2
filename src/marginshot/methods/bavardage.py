"""BAVARDAGE: a variational mixture of Gaussians in the subspace that its means span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from marginshot.methods._batched import inner_products, one_hot, softmax
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_count, check_setting, register
from marginshot.methods.soft_kmeans import soft_assignments
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre

Array = NDArray[np.float64]

# Directions shorter than this share of the longest are rounding errors.
_RANK_TOL = 1e-12


@register
@dataclass(frozen=True, kw_only=True)
class BAVARDAGE(TaskwiseMethod):
    """Variational Bayes on a Gaussian mixture in the directions between its means, found anew each round. Transductive.

    Hu, Pateux and Gripon, "Adaptive Dimension Reduction and Variational Inference for Transductive Few-Shot
    Classification", AISTATS 2023.

    Soft k-means gives the first assignments. Each round shrinks the class means, projects all rows on the N − 1
    directions between them, and assigns the queries with the expected logarithms of shares and densities.

    Defaults follow the authors' code. Differs from it in statistics of the base classes, which are not given here: the
    task's mean replaces theirs, and no direction is scaled by their scatter. The code bounds that scaling at 5 where
    the scatter is small; here it is 5 in every direction, so that the authors' T_vb = 4 is ``temperature=100``.
    Features whitened by base classes beforehand bring the scatter back.

    Parameters
    ----------
    temperature : float, default=100.0
        Inverse of the variance around a mean (T_vb in the paper, times the square of the scaling).
    start_temperature : float, default=10.0
        Factor on the squared distances of soft k-means (T_km in the paper).
    mean_count : float, default=10.0
        How many rows at the origin the prior of a mean weighs (β_0 in the paper).
    share_count : float, default=2.0
        Parameter of the Dirichlet prior on class shares (α_0 in the paper).
    balanced : bool, default=False
        Take shares to be equal instead of estimating them.
    n_start_rounds : int, default=5
        Rounds of soft k-means.
    n_rounds : int, default=5
        Rounds of variational Bayes; 0 leaves the assignments of soft k-means.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="task"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "bavardage"
    title: ClassVar[str] = "BAVARDAGE"
    reference: ClassVar[str] = (
        "Hu, Pateux and Gripon, "
        '"Adaptive Dimension Reduction and Variational Inference for Transductive Few-Shot Classification", '
        "AISTATS 2023"
    )
    transductive: ClassVar[bool] = True

    temperature: float = 100.0
    start_temperature: float = 10.0
    mean_count: float = 10.0
    share_count: float = 2.0
    balanced: bool = False
    n_start_rounds: int = 5
    n_rounds: int = 5
    centre: Centre = "task"

    def __post_init__(self) -> None:
        """Check the settings."""
        for name in ("temperature", "start_temperature", "share_count"):
            check_setting(self, name, low=0.0, open_low=True)
        check_setting(self, "mean_count", low=0.0)
        check_count(self, "n_start_rounds", low=1)
        check_count(self, "n_rounds", low=0)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """The scores themselves: the paper's responsibilities."""
        return scores

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        rows = np.concatenate(centre_and_normalize(tasks.support, tasks.query, self.centre), axis=1)
        gram = inner_products(rows, rows).astype(np.float64)
        n_support = tasks.support.shape[1]
        members = np.empty((*gram.shape[:2], tasks.n_way))
        members[:, :n_support] = one_hot(tasks.labels, tasks.n_way, np.float64)
        members[:, n_support:] = soft_assignments(gram, tasks, self.start_temperature, self.n_start_rounds)
        for _ in range(self.n_rounds):
            members[:, n_support:] = softmax(self._log_joint(gram, members, n_support))
        return members[:, n_support:]

    def _log_joint(self, gram: Array, members: Array, n_support: int) -> Array:
        """Expected log-density plus log-share of each class for each query (T, m, N), up to a constant in each row."""
        counts = members.sum(axis=1, keepdims=True) + self.mean_count
        projected = _project_on_means(gram, members / counts)
        means = np.matmul((members / counts).swapaxes(1, 2), projected)
        query = projected[:, n_support:]
        # The squared length of a query is the same for every class.
        log_joint = inner_products(query, means)
        log_joint -= 0.5 * np.einsum("tnd,tnd->tn", means, means)[:, None, :]
        log_joint *= self.temperature
        log_joint -= 0.5 * (members.shape[2] - 1) / counts
        if not self.balanced:
            log_joint += digamma(members[:, n_support:].sum(axis=1, keepdims=True) + self.share_count)
        return log_joint


def _project_on_means(gram: Array, means: Array) -> Array:
    """Coordinates (T, M, N − 1) of all rows in the directions between means, given as weights (T, M, N) over rows."""
    differences = means[:, :, 1:] - means[:, :, :1]
    products = np.matmul(gram, differences)
    sizes, axes = np.linalg.eigh(np.matmul(differences.swapaxes(1, 2), products))
    scale = np.zeros_like(sizes)
    np.divide(1.0, np.sqrt(np.maximum(sizes, 0.0)), out=scale, where=sizes > _RANK_TOL * sizes[:, -1:])
    axes *= scale[:, None, :]
    projected: Array = np.matmul(products, axes)
    return projected
