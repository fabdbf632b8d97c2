"""Soft k-means around the support's means, as in EASY."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import inner_products
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_count, check_setting, register
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre

# A task stops when no assignment changes by more than this.
_SAME = 1e-7


@register
@dataclass(frozen=True, kw_only=True)
class SoftKMeans(TaskwiseMethod):
    """Class means over support and queries, the queries weighted by their own assignments. Transductive.

    Bendou, Hu, Lafargue, Lioi, Pasdeloup, Pateux and Gripon, "EASY: Ensemble Augmented-Shot Y-shaped Learning:
    State-Of-The-Art Few-Shot Classification with Simple Ingredients", Journal of Imaging 8(7), 2022, the transductive
    classifier; after Ren et al., "Meta-Learning for Semi-Supervised Few-Shot Classification", ICLR 2018.

    Defaults follow the commands the authors publish; their rows are centred on the task and scaled to unit length too.
    The rounds are PADDLE's without a price on classes. Differs from the authors' code: a task stops when its
    assignments no longer change.

    Parameters
    ----------
    temperature : float, default=5.0
        Factor on the squared distances (β in the paper).
    n_rounds : int, default=30
        Rounds of assigning and moving; 1 compares with the support's means.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="task"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "soft-kmeans"
    title: ClassVar[str] = "Soft k-means (EASY)"
    reference: ClassVar[str] = (
        "Bendou, Hu, Lafargue, Lioi, Pasdeloup, Pateux and Gripon, "
        '"EASY: Ensemble Augmented-Shot Y-shaped Learning: State-Of-The-Art Few-Shot Classification with Simple '
        'Ingredients", Journal of Imaging 8(7), 2022'
    )
    transductive: ClassVar[bool] = True

    temperature: float = 5.0
    n_rounds: int = 30
    centre: Centre = "task"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "temperature", low=0.0, open_low=True)
        check_count(self, "n_rounds", low=1)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """The scores themselves: the paper's assignments."""
        return scores

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        rows = np.concatenate(centre_and_normalize(tasks.support, tasks.query, self.centre), axis=1)
        return soft_assignments(inner_products(rows, rows), tasks, self.temperature, self.n_rounds)


def soft_assignments(gram: NDArray[Any], tasks: Tasks, temperature: float, n_rounds: int) -> NDArray[np.float64]:
    """Soft k-means that starts from the support's means.

    Parameters
    ----------
    gram : ndarray of shape (T, n_support + n_query, n_support + n_query)
        Inner products of the rows, support first.
    tasks : Tasks
    temperature : float
        Factor on the squared distances.
    n_rounds : int

    Returns
    -------
    assignments : ndarray of shape (T, n_query, n_way)
    """
    # Imported here because numba takes half a second to import.
    from marginshot.solvers.partition_compiled import partition_updates

    # The solver's distances are halved, and its price on classes in use is left out.
    scaled = 2.0 * temperature * gram.astype(np.float64)
    return partition_updates(scaled, tasks.labels, tasks.n_way, 0.0, n_rounds, _SAME)[0]
