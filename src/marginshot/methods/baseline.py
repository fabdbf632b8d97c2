"""Baseline and Baseline++: heads trained on the support alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import softmax
from marginshot.methods._heads import CosineHead, train_head
from marginshot.methods._information import InformationObjective
from marginshot.methods._linear import class_scores, support_coordinates
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_count, check_setting, register
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre

_REFERENCE = 'Chen, Liu, Kira, Wang and Huang, "A Closer Look at Few-shot Classification", ICLR 2019'
# Well below the differences that decide a label; scikit-learn's default of 1e-4 is not.
_TOL = 1e-6


@register
@dataclass(frozen=True, kw_only=True)
class Baseline(TaskwiseMethod):
    """A linear softmax head trained on the support with weight decay. Inductive.

    Chen et al., "A Closer Look at Few-shot Classification", ICLR 2019.

    The objective is the authors': cross-entropy plus half the decay times the squared weights. Differs from their code:
    scikit-learn's logistic regression finds the unique optimum, so no seed matters, where they take 100 epochs of
    stochastic gradient descent from a random start. The offset is not penalised. Features are scaled first.

    Parameters
    ----------
    weight_decay : float, default=0.001
        The authors' value.
    max_iter : int, default=1000
        Most iterations of the logistic regression, which warns when it reaches them.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="task"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "baseline"
    title: ClassVar[str] = "Baseline"
    reference: ClassVar[str] = _REFERENCE
    transductive: ClassVar[bool] = False

    weight_decay: float = 0.001
    max_iter: int = 1000
    centre: Centre = "task"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "weight_decay", low=0.0, open_low=True)
        check_count(self, "max_iter", low=1)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """Softmax of the scores."""
        return softmax(scores)

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        # Imported here because scikit-learn takes a while to import.
        from sklearn.linear_model import LogisticRegression

        support, query = support_coordinates(*centre_and_normalize(tasks.support, tasks.query, self.centre))
        scores = np.empty((query.shape[0], query.shape[1], tasks.n_way))
        # scikit-learn sums the losses and, with two classes, penalises the difference of the two heads.
        strength = (1 if tasks.n_way > 2 else 2) / (self.weight_decay * support.shape[1])
        for t in range(query.shape[0]):
            head = LogisticRegression(C=strength, tol=_TOL, max_iter=self.max_iter)
            scores[t] = class_scores(head.fit(support[t], tasks.labels[t]).decision_function(query[t]))
        return scores


@register
@dataclass(frozen=True, kw_only=True)
class BaselinePlusPlus(TaskwiseMethod):
    """A cosine head trained on the support. Inductive.

    Chen et al., "A Closer Look at Few-shot Classification", ICLR 2019.

    Training follows EasyFSL's Finetune: Adam from the class means, which needs no seed. The authors take 100 epochs of
    stochastic gradient descent from a random start.

    Parameters
    ----------
    temperature : float, default=1.0
        Factor on the cosines.
    learning_rate : float, default=1e-4
        Learning rate of Adam.
    max_iter : int, default=200
        Steps of Adam.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="task"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "baseline-plus"
    title: ClassVar[str] = "Baseline++"
    reference: ClassVar[str] = _REFERENCE
    transductive: ClassVar[bool] = False

    temperature: float = 1.0
    learning_rate: float = 1e-4
    max_iter: int = 200
    centre: Centre = "task"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "temperature", low=0.0, open_low=True)
        check_setting(self, "learning_rate", low=0.0)
        check_count(self, "max_iter", low=0)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """Softmax of the scores."""
        return softmax(scores)

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        return train_head(
            tasks,
            CosineHead(self.temperature),
            InformationObjective(cross_entropy=1.0, marginal=0.0, conditional=0.0),
            centre=self.centre,
            learning_rate=self.learning_rate,
            n_steps=self.max_iter,
        )
