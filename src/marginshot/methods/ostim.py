"""OSTIM: information maximisation with one more class, which takes the queries that are of none of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import class_means, softmax
from marginshot.methods._heads import OpenCosineHead, train_head
from marginshot.methods._information import InformationObjective
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_count, check_setting, register


@register
@dataclass(frozen=True, kw_only=True)
class OSTIM(TaskwiseMethod):
    """A cosine head trained as TIM's, with one more logit for none of the classes: minus their mean. Transductive.

    Boudiaf, Bennequin, Tami, Hudelot, Toubhans, Piantanida and Ben Ayed, "Model-Agnostic Few-Shot Open-Set
    Recognition", 2022.

    Steps and defaults follow the authors' code: rows are centred on the mean of the task and scaled to unit length;
    prototypes are means of centred rows of their own lengths, so the learning rate depends on the features' scale.
    Differs from it: the logarithm of the mean prediction is guarded against 0.

    Parameters
    ----------
    temperature : float, default=10.0
        Factor on the cosines.
    cross_entropy_weight, marginal_weight, conditional_weight : float, default=1.0, 1.0, 0.1
        Weights of the support's cross-entropy, of the entropy of the mean prediction, and of the queries' own.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    max_iter : int, optional
        Steps of Adam; by default the authors' 200 at one shot and 50 at five, linear between.
    """

    name: ClassVar[str] = "ostim"
    title: ClassVar[str] = "OSTIM"
    reference: ClassVar[str] = 'Boudiaf et al., "Model-Agnostic Few-Shot Open-Set Recognition", arXiv 2022'
    transductive: ClassVar[bool] = True

    temperature: float = 10.0
    cross_entropy_weight: float = 1.0
    marginal_weight: float = 1.0
    conditional_weight: float = 0.1
    learning_rate: float = 1e-3
    max_iter: int | None = None

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "temperature", low=0.0, open_low=True)
        for name in ("cross_entropy_weight", "marginal_weight", "conditional_weight", "learning_rate"):
            check_setting(self, name, low=0.0)
        if self.max_iter is not None:
            check_count(self, "max_iter", low=0)

    def probabilities(self, scores: Scores) -> Scores:
        """Softmax of the scores, among the classes of the task."""
        return softmax(scores)

    def foreign_scores(self, scores: Scores) -> Scores:
        """Logarithm of the odds (T, n_query) of the further logit, from the scores (T, n_query, N) of the classes."""
        return np.asarray(-scores.mean(axis=2) - np.logaddexp.reduce(scores, axis=2))

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        objective = InformationObjective(
            cross_entropy=self.cross_entropy_weight, marginal=self.marginal_weight, conditional=self.conditional_weight
        )
        mean = np.concatenate((tasks.support, tasks.query), axis=1).mean(axis=1, keepdims=True)
        start = class_means(tasks.support - mean, tasks.labels, tasks.n_way)
        n_steps = round(tasks.between_shots(200.0, 50.0)) if self.max_iter is None else self.max_iter
        logits = train_head(
            tasks,
            OpenCosineHead(self.temperature),
            objective,
            centre="task",
            learning_rate=self.learning_rate,
            n_steps=n_steps,
            start=start,
        )
        return logits[:, :, :-1]
