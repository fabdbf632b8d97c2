"""Transductive fine-tuning of the head alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from marginshot.methods._batched import softmax
from marginshot.methods._heads import CosineHead, train_head
from marginshot.methods._information import InformationObjective
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_count, check_setting, register
from marginshot.model.transforms import Centre, check_centre


@register
@dataclass(frozen=True, kw_only=True)
class TransductiveFinetuning(TaskwiseMethod):
    """A cosine head trained to be right on the support and confident on the queries. Transductive.

    Dhillon, Chaudhari, Ravichandran and Soatto, "A Baseline for Few-Shot Image Classification", ICLR 2020.

    The paper fine-tunes the whole network for 25 epochs with steps of 5e-5. On frozen features only the head is
    trained, from the scaled class means as in the paper. EasyFSL keeps the paper's step, which is too small for a head
    alone: its answers are those of the nearest mean. Temperature and step were chosen on validation classes of two
    encoders.

    Parameters
    ----------
    temperature : float, default=10.0
        Factor on the cosines.
    entropy_weight : float, default=1.0
        Weight of the queries' entropies; 0 leaves the queries out of the training.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    max_iter : int, default=25
        Steps of Adam.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="task"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "transductive-finetuning"
    title: ClassVar[str] = "Transductive fine-tuning"
    reference: ClassVar[str] = (
        'Dhillon, Chaudhari, Ravichandran and Soatto, "A Baseline for Few-Shot Image Classification", ICLR 2020'
    )
    transductive: ClassVar[bool] = True

    temperature: float = 10.0
    entropy_weight: float = 1.0
    learning_rate: float = 1e-3
    max_iter: int = 25
    centre: Centre = "task"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "temperature", low=0.0, open_low=True)
        check_setting(self, "entropy_weight", low=0.0)
        check_setting(self, "learning_rate", low=0.0)
        check_count(self, "max_iter", low=0)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """Softmax of the scores, as in the paper."""
        return softmax(scores)

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        return train_head(
            tasks,
            CosineHead(self.temperature),
            InformationObjective(cross_entropy=1.0, marginal=0.0, conditional=self.entropy_weight),
            centre=self.centre,
            learning_rate=self.learning_rate,
            n_steps=self.max_iter,
        )
