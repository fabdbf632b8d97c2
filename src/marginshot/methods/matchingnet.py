"""MatchingNet's attention over the support, on frozen features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import inner_products, one_hot, softmax
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_setting, register
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre


@register
@dataclass(frozen=True, kw_only=True)
class MatchingNet(TaskwiseMethod):
    """Each support row votes for its class with the softmax of its cosine to the query. Inductive.

    Vinyals, Blundell, Lillicrap, Kavukcuoglu and Wierstra, "Matching Networks for One Shot Learning", NeurIPS 2016,
    Eq. (1), without the recurrent full-context embeddings, which need training.

    EasyFSL has two recurrent encoders, which need training too. It scales the support but not the query to unit length,
    so that the length of a query acts as its temperature.

    Parameters
    ----------
    temperature : float, default=1.0
        Factor on the cosines before the softmax; the paper has none.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="task"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "matchingnet"
    title: ClassVar[str] = "MatchingNet"
    reference: ClassVar[str] = (
        "Vinyals, Blundell, Lillicrap, Kavukcuoglu and Wierstra, "
        '"Matching Networks for One Shot Learning", NeurIPS 2016'
    )
    transductive: ClassVar[bool] = False

    temperature: float = 1.0
    centre: Centre = "task"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "temperature", low=0.0, open_low=True)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """The scores themselves: the attention each class received."""
        return scores

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        support, query = centre_and_normalize(tasks.support, tasks.query, self.centre)
        attention = softmax(self.temperature * inner_products(query, support))
        votes: NDArray[Any] = np.matmul(attention, one_hot(tasks.labels, tasks.n_way, attention.dtype))
        return votes
