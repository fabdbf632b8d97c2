"""LP++: a linear probe whose scores blend what examples say with a prior, by a factor for each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from marginshot.methods._batched import one_hot
from marginshot.methods._linear import support_coordinates
from marginshot.methods.base import Scores, Tasks, check_count, check_setting, register
from marginshot.methods.prior import TaskwisePriorMethod
from marginshot.model.beliefs import log_beliefs
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre

Array = NDArray[np.float64]

_MOMENTUM, _STEPS_BETWEEN = 0.9, 10  # those of the authors' code


@register
@dataclass(frozen=True, kw_only=True)
class LPPlusPlus(TaskwisePriorMethod):
    """A linear probe beside a prior: class weights and one blending factor a class, by gradient descent. Inductive.

    Huang, Shakeri, Dolz, Boudiaf, Bahig and Ben Ayed, "LP++: A Surprisingly Strong Linear Probe for Few-Shot CLIP",
    CVPR 2024.

    The scores of a row x are w_c · x + α_c l_c with w and α learned, and l the cosines to embedded class names. Step
    sizes come from the data, as in the paper. As in the authors' code, weights have momentum, α moves every tenth step,
    and w begins at the sums of the classes' rows.

    Differs from it: a method is given beliefs, not names, so l_c is the logarithm of the prior over ``sharpness``, with
    mean 0 over the classes; α begins at ``blend``, because their 250 times the mean cosine of an example to the name of
    its class needs that cosine; α moves along its gradient, as in the paper, and not along the sum of all so far; there
    is no constant in w, as in the paper; the last step is taken, not the best on further labelled examples. Without a
    prior for the support α stays; without any prior it is a linear probe.

    Parameters
    ----------
    max_iter : int, default=300
        Steps of gradient descent.
    sharpness : float, default=100.0
        Factor on the cosines in the prior, CLIP's.
    blend : float, default=62.5
        First value of α; theirs at a cosine of 0.25, which is usual for CLIP.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="none"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "lp++"
    title: ClassVar[str] = "LP++"
    reference: ClassVar[str] = 'Huang et al., "LP++: A Surprisingly Strong Linear Probe for Few-Shot CLIP", CVPR 2024'
    transductive: ClassVar[bool] = False

    max_iter: int = 300
    sharpness: float = 100.0
    blend: float = 62.5
    centre: Centre = "none"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_count(self, "max_iter", low=0)
        check_setting(self, "sharpness", low=0.0, open_low=True)
        check_setting(self, "blend", low=0.0)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """The softmax that the loss is of."""
        return np.asarray(softmax(scores, axis=-1))

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        support, query = support_coordinates(*centre_and_normalize(tasks.support, tasks.query, self.centre))
        own = one_hot(tasks.labels, tasks.n_way, np.float64)
        beliefs = None if tasks.support_prior is None else log_beliefs(tasks.support_prior) / self.sharpness
        weights, blend = self._learn(support, own, beliefs)
        scores = np.matmul(query, weights)
        return scores if tasks.prior is None else scores + blend * log_beliefs(tasks.prior) / self.sharpness

    def _learn(self, support: Array, own: Array, beliefs: Array | None) -> tuple[Array, Array]:
        """Weights (T, D, N) and blending factors (T, 1, N) of rows (T, n, D), their classes and beliefs (T, n, N)."""
        n = support.shape[1]
        by_feature = support.swapaxes(1, 2)
        weights, velocity = np.matmul(by_feature, own), np.zeros(())
        beliefs = np.zeros(own.shape) if beliefs is None else beliefs
        blend = np.full((len(support), 1, own.shape[2]), self.blend)
        # Bounds of the curvature, 0 where rows, or beliefs, say nothing.
        largest = np.linalg.eigvalsh(np.matmul(support, by_feature))[:, -1:, None]
        squares = (beliefs**2).sum(axis=1, keepdims=True).max(axis=2, keepdims=True)
        step, blend_step = 4.0 * n * _inverse(largest), n / 4.0 * _inverse(squares)
        for number in range(1, self.max_iter + 1):
            surplus = (softmax(np.matmul(support, weights) + blend * beliefs, axis=2) - own) / n
            velocity = _MOMENTUM * velocity + np.matmul(by_feature, surplus)
            weights = weights - step * velocity
            if number % _STEPS_BETWEEN == 0:
                blend = blend - blend_step * (surplus * beliefs).sum(axis=1, keepdims=True)
        return weights, blend


def _inverse(values: Array) -> Array:
    """One over each value; 0 where it is 0 up to rounding."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 1e-12)
