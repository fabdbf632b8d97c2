"""alpha-TIM: TIM with entropies that tolerate unequal class frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from marginshot.methods._batched import softmax
from marginshot.methods._heads import EuclideanHead, train_head
from marginshot.methods._information import InformationObjective
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_count, check_setting, register
from marginshot.model.transforms import Centre, check_centre


@register
@dataclass(frozen=True, kw_only=True)
class AlphaTIM(TaskwiseMethod):
    """An Euclidean head trained with alpha-divergences in place of TIM's Shannon entropies. Transductive.

    Veilleux, Boudiaf, Piantanida and Ben Ayed, "Realistic Evaluation of Transductive Few-Shot Learning", NeurIPS 2021.

    Defaults follow the authors' code, which scales rows to unit length without centring. It takes 1000 steps of 1e-4;
    100 steps of 1e-3 end within half a point of them on validation classes of two encoders, in a tenth of the time.

    Parameters
    ----------
    alpha : float or None, default=None
        Order of both entropies; 1 is TIM. None takes the authors' tuned values: 2 at one shot, 7 from five shots on,
        interpolated linearly in between. The shot is the mean number of support rows a class.
    temperature : float, default=15.0
        Factor on half the squared distances (τ in the paper).
    cross_entropy_weight : float, default=1.0
        Weight of the support's cross-entropy.
    marginal_weight : float, default=1.0
        Weight of the entropy of the mean prediction.
    conditional_weight : float, default=1.0
        Weight of the queries' own entropies.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    max_iter : int, default=100
        Steps of Adam.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="none"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "alpha-tim"
    title: ClassVar[str] = "alpha-TIM"
    reference: ClassVar[str] = (
        "Veilleux, Boudiaf, Piantanida and Ben Ayed, "
        '"Realistic Evaluation of Transductive Few-Shot Learning", NeurIPS 2021'
    )
    transductive: ClassVar[bool] = True

    alpha: float | None = None
    temperature: float = 15.0
    cross_entropy_weight: float = 1.0
    marginal_weight: float = 1.0
    conditional_weight: float = 1.0
    learning_rate: float = 1e-3
    max_iter: int = 100
    centre: Centre = "none"

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.alpha is not None:
            check_setting(self, "alpha", low=0.0, open_low=True)
        check_setting(self, "temperature", low=0.0, open_low=True)
        for name in ("cross_entropy_weight", "marginal_weight", "conditional_weight", "learning_rate"):
            check_setting(self, name, low=0.0)
        check_count(self, "max_iter", low=0)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """Softmax of the scores, Eq. (3) of the paper."""
        return softmax(scores)

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        objective = InformationObjective(
            cross_entropy=self.cross_entropy_weight,
            marginal=self.marginal_weight,
            conditional=self.conditional_weight,
            alpha=tasks.between_shots(2.0, 7.0) if self.alpha is None else self.alpha,
        )
        return train_head(
            tasks,
            EuclideanHead(self.temperature),
            objective,
            centre=self.centre,
            learning_rate=self.learning_rate,
            n_steps=self.max_iter,
        )
