"""TIM by gradient descent, as its authors run it and as EasyFSL does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from marginshot.methods._batched import softmax
from marginshot.methods._heads import CosineHead, EuclideanHead, Head, train_head
from marginshot.methods._information import InformationObjective
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_count, check_setting, register
from marginshot.model.transforms import Centre, check_centre


@register
@dataclass(frozen=True, kw_only=True)
class TIMGD(TaskwiseMethod):
    """An Euclidean head trained to be right on the support, confident and balanced on the queries. Transductive.

    Boudiaf et al., "Transductive Information Maximization For Few-Shot Learning", NeurIPS 2020, the gradient descent
    version.

    Head, weights, temperature and steps follow the authors' code, which scales rows to unit length without centring.
    Differs from it: the logarithm of the mean prediction is guarded against 0.

    Parameters
    ----------
    temperature : float, default=15.0
        Factor on half the squared distances (τ in the paper).
    cross_entropy_weight : float, default=0.1
        Weight of the support's cross-entropy (λ in the paper).
    marginal_weight : float, default=1.0
        Weight of the entropy of the mean prediction; it asks for equally frequent classes.
    conditional_weight : float, default=0.1
        Weight of the queries' own entropies (α in the paper).
    learning_rate : float, default=1e-4
        Learning rate of Adam.
    max_iter : int, default=1000
        Steps of Adam.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="none"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "tim-gd"
    title: ClassVar[str] = "TIM-GD"
    reference: ClassVar[str] = (
        "Boudiaf, Ziko, Rony, Dolz, Piantanida and Ben Ayed, "
        '"Transductive Information Maximization For Few-Shot Learning", NeurIPS 2020'
    )
    transductive: ClassVar[bool] = True

    temperature: float = 15.0
    cross_entropy_weight: float = 0.1
    marginal_weight: float = 1.0
    conditional_weight: float = 0.1
    learning_rate: float = 1e-4
    max_iter: int = 1000
    centre: Centre = "none"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "temperature", low=0.0, open_low=True)
        for name in ("cross_entropy_weight", "marginal_weight", "conditional_weight", "learning_rate"):
            check_setting(self, name, low=0.0)
        check_count(self, "max_iter", low=0)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """Softmax of the scores, Eq. (1) of the paper."""
        return softmax(scores)

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        objective = InformationObjective(
            cross_entropy=self.cross_entropy_weight, marginal=self.marginal_weight, conditional=self.conditional_weight
        )
        return train_head(
            tasks,
            self._head(),
            objective,
            centre=self.centre,
            learning_rate=self.learning_rate,
            n_steps=self.max_iter,
        )

    def _head(self) -> Head:
        return EuclideanHead(self.temperature)


@register
@dataclass(frozen=True, kw_only=True)
class TIMGDEasyFSL(TIMGD):
    """TIM-GD with EasyFSL's cosine head and weights. Transductive.

    Boudiaf et al., "Transductive Information Maximization For Few-Shot Learning", NeurIPS 2020.

    EasyFSL takes 50 steps of 1e-4, too few to converge; here the step is 1e-3, chosen on validation classes of two
    encoders. Differs from EasyFSL also in two ways: a second call gives the same answer, and the entropy of the mean
    prediction is guarded against log 0. Settings as in ``TIMGD``; the temperature is a factor on the cosines.
    """

    name: ClassVar[str] = "tim-gd-easyfsl"
    title: ClassVar[str] = "TIM-GD (EasyFSL)"

    temperature: float = 10.0
    cross_entropy_weight: float = 1.0
    learning_rate: float = 1e-3
    max_iter: int = 50

    def _head(self) -> Head:
        return CosineHead(self.temperature)
