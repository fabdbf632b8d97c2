"""ProtoNet's classifier on frozen features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from marginshot.methods._batched import class_means, softmax, squared_distances
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, register


@register
@dataclass(frozen=True, kw_only=True)
class ProtoNet(TaskwiseMethod):
    """Nearest class mean by squared Euclidean distance, on the features as they are. Inductive.

    Snell, Swersky and Zemel, "Prototypical Networks for Few-shot Learning", NeurIPS 2017.

    The encoder of the paper is trained so that these distances mean something; on other encoders' features scaling
    (``SimpleShot``) helps. Differs from EasyFSL: scores are minus the squared distance, as in the paper's Eq. (2), not
    minus the distance; the ranking is the same.
    """

    name: ClassVar[str] = "protonet"
    title: ClassVar[str] = "ProtoNet"
    reference: ClassVar[str] = 'Snell, Swersky and Zemel, "Prototypical Networks for Few-shot Learning", NeurIPS 2017'
    transductive: ClassVar[bool] = False

    def probabilities(self, scores: Scores) -> Scores:
        """Softmax of the scores, Eq. (2) of the paper."""
        return softmax(scores)

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        return minus_distances_to_means(tasks)


def minus_distances_to_means(tasks: Tasks) -> NDArray[Any]:
    """Minus the squared distances (T, n_query, N) from the queries to the means of the classes."""
    return -squared_distances(tasks.query, class_means(tasks.support, tasks.labels, tasks.n_way))
