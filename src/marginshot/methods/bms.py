"""BMS: assignments in which no class may vanish, and class weights trained on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import inner_products
from marginshot.methods._preparation import power_centre_normalize
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_count, check_setting, register


@register
@dataclass(frozen=True, kw_only=True)
class BMS(TaskwiseMethod):
    """Assignments by cosine, with a least class size that each round sets anew. Transductive.

    Hu, Pateux and Gripon, "Squeezing Backbone Feature Distributions to the Max for Efficient Few-Shot Learning",
    Algorithms 15(5), 2022: PEME-BMS, boosted min-size Sinkhorn.

    Features go through the paper's PEME: power transform, unit length, the task's mean subtracted, unit length. Each
    round assigns the queries by the softmax of the cosines, raises the classes below the least size, and sets the least
    size to that of the smallest class. The weights move to the mean of their members and gradient descent may train
    them further.

    Differs from the authors' code: the least size never exceeds equal shares, because no assignment could meet it. The
    power keeps the sign of negative features, for which theirs is not defined. A single query is not balanced. With
    unequal shots the first least size is their mean.

    Parameters
    ----------
    power : float, default=0.5
        Exponent of the power transform (β in the paper).
    sharpness : float, default=8.5
        Factor on the cosines (λ in the paper).
    balanced : bool, default=False
        Give all classes equal shares: BMS* in the paper.
    n_rounds : int, default=20
        Rounds of assigning and moving.
    n_sinkhorn : int, default=50
        Iterations of min-size Sinkhorn in each round; 0 assigns freely.
    n_steps : int, default=0
        Gradient steps on the weights in each round (e in the paper, which has 0, 20 and 40).
    learning_rate : float, default=0.1
        Length of these steps.
    momentum : float, default=0.8
        Momentum of these steps.
    """

    name: ClassVar[str] = "bms"
    title: ClassVar[str] = "BMS"
    reference: ClassVar[str] = (
        "Hu, Pateux and Gripon, "
        '"Squeezing Backbone Feature Distributions to the Max for Efficient Few-Shot Learning", Algorithms 15(5), 2022'
    )
    transductive: ClassVar[bool] = True

    power: float = 0.5
    sharpness: float = 8.5
    balanced: bool = False
    n_rounds: int = 20
    n_sinkhorn: int = 50
    n_steps: int = 0
    learning_rate: float = 0.1
    momentum: float = 0.8

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "power", low=0.0, open_low=True)
        check_setting(self, "sharpness", low=0.0)
        check_count(self, "n_rounds", low=1)
        check_count(self, "n_sinkhorn", low=0)
        check_count(self, "n_steps", low=0)
        check_setting(self, "learning_rate", low=0.0)
        check_setting(self, "momentum", low=0.0, high=1.0)

    def probabilities(self, scores: Scores) -> Scores:
        """The scores themselves: the paper's assignments."""
        return scores

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        # Imported here because numba takes half a second to import.
        from marginshot.solvers.min_size_compiled import min_size_rounds

        rows = np.concatenate(power_centre_normalize(tasks.support, tasks.query, self.power), axis=1)
        return min_size_rounds(
            inner_products(rows, rows).astype(np.float64),
            tasks.labels,
            tasks.n_way,
            float(self.sharpness),
            bool(self.balanced),
            self.n_rounds,
            self.n_sinkhorn,
            self.n_steps,
            float(self.learning_rate),
            float(self.momentum),
        )
