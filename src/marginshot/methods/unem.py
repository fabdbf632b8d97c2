"""UNEM-Gaussian: rounds of a generalised EM, each with its own price on classes and its own temperature."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import inner_products, one_hot, softmax
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_setting, register
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre

Array = NDArray[Any]

# Keeps the logarithm of an empty class's share finite, as in the authors' code.
_LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Learnt:
    """Values learnt at one number of shots: factor on the features; λ and T of each round."""

    scale: float
    balance: tuple[float, ...]
    softness: tuple[float, ...]


# Learnt by `python benchmarks/unem.py` on the validation classes of four encoders (EfficientNet-lite0, small ResNet,
# CUB, CLINC), over 5, 10 and 20 ways, balanced, Dirichlet 2 and 0.5, and five classes present.
_ONE_SHOT = Learnt(
    scale=5.42,
    balance=(1.0, 1.0, 0.93, 0.72, 0.67, 0.75, 0.96, 0.7, 0.31, 0.5),
    softness=(1.13, 1.04, 1.03, 1.01, 1.01, 1.01, 1.03, 1.34, 2.23, 2.54),
)
_FIVE_SHOTS = Learnt(
    scale=5.15,
    balance=(1.0, 2.88, 2.67, 2.12, 1.69, 1.27, 0.87, 0.29, 0.22, 0.43),
    softness=(1.03, 1.02, 1.02, 1.01, 1.01, 1.05, 1.14, 1.24, 1.32, 1.51),
)


def learnt_at(n_shot: float) -> Learnt:
    """The learnt values at this many shots: interpolated linearly between one and five, constant beyond."""
    share = min(max(n_shot - 1.0, 0.0), 4.0) / 4.0

    def between(one: float, five: float) -> float:
        return one + (five - one) * share

    return Learnt(
        scale=between(_ONE_SHOT.scale, _FIVE_SHOTS.scale),
        balance=tuple(map(between, _ONE_SHOT.balance, _FIVE_SHOTS.balance)),
        softness=tuple(map(between, _ONE_SHOT.softness, _FIVE_SHOTS.softness)),
    )


@register
@dataclass(frozen=True, kw_only=True)
class UNEMGaussian(TaskwiseMethod):
    """Rounds of soft k-means with learnt prices on classes in use and learnt temperatures. Transductive.

    Zhou, Shakeri, Sadraoui, Kaaniche, Pesquet and Ben Ayed, "UNEM: UNrolled Generalized EM for Transductive Few-Shot
    Learning", CVPR 2025, with the Gaussian model.

    PADDLE's rounds, ten of them, each with its own λ and T. The authors learn these and one scale of the features on
    validation classes of the encoder at hand; ``python benchmarks/unem.py FILE-val.npz`` does so. Differs from the
    authors' code: rows are centred and scaled to unit length, so that one set of values can serve several encoders. The
    defaults were learnt on validation classes of four encoders and over several regimes, the authors' on tasks of all
    test classes of which five are present.

    Parameters
    ----------
    scale : float or None, default=None
        Factor on the features. None takes the learnt value for the task's shots, interpolated linearly between one and
        five, here and below.
    balance : sequence of float or None, default=None
        Weight of the log class shares in each round (λ in the paper); 0 gives soft k-means.
    softness : sequence of float or None, default=None
        Temperature of the assignments in each round (T in the paper), as many as in ``balance``.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="task"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "unem-gaussian"
    title: ClassVar[str] = "UNEM-Gaussian"
    reference: ClassVar[str] = (
        "Zhou, Shakeri, Sadraoui, Kaaniche, Pesquet and Ben Ayed, "
        '"UNEM: UNrolled Generalized EM for Transductive Few-Shot Learning", CVPR 2025'
    )
    transductive: ClassVar[bool] = True

    scale: float | None = None
    balance: Sequence[float] | None = None
    softness: Sequence[float] | None = None
    centre: Centre = "task"

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.scale is not None:
            check_setting(self, "scale", low=0.0, open_low=True)
        if (self.balance is None) != (self.softness is None):
            raise ValueError("balance and softness of UNEMGaussian belong together: give both or neither.")
        if self.balance is not None and self.softness is not None:
            _check_rounds(self.balance, self.softness)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """The scores themselves: the paper's assignments."""
        return scores

    def _score(self, tasks: Tasks) -> Array:
        learnt = learnt_at(tasks.support.shape[1] / tasks.n_way)
        scale = learnt.scale if self.scale is None else float(self.scale)
        balance = learnt.balance if self.balance is None else self.balance
        softness = learnt.softness if self.softness is None else self.softness
        rows = np.concatenate(centre_and_normalize(tasks.support, tasks.query, self.centre), axis=1)
        gram = scale**2 * inner_products(rows, rows).astype(np.float64)
        known = one_hot(tasks.labels, tasks.n_way, np.float64)
        n_support = known.shape[1]
        members, pull, assignments = known, 0.0, known
        for weight, temperature in zip(balance, softness, strict=True):
            # A prototype is a mean of rows: the Gram matrix gives its products with the rows, and its length.
            mixing = members / members.sum(axis=1, keepdims=True)
            products = np.matmul(gram[:, :, : mixing.shape[1]], mixing)
            lengths = (mixing * products[:, : mixing.shape[1]]).sum(axis=1, keepdims=True)
            logits = products[:, n_support:] - 0.5 * lengths + weight * pull
            assignments = softmax(logits / temperature)
            pull = np.log(assignments.mean(axis=1, keepdims=True) + _LEAST_SHARE)
            members = np.concatenate([known, assignments], axis=1)
        return assignments


def _check_rounds(balance: Sequence[float], softness: Sequence[float]) -> None:
    """Raise ValueError unless there is at least one round, and a possible weight and temperature for each."""
    if len(balance) != len(softness) or not len(balance):
        raise ValueError(
            f"UNEMGaussian needs a balance and a softness for each round, at least one; got {len(balance)} and "
            f"{len(softness)}."
        )
    if not (np.isfinite([*balance, *softness]).all() and min(balance) >= 0.0 and min(softness) > 0.0):
        raise ValueError(
            f"UNEMGaussian needs balance of at least 0 and softness above 0; got {tuple(balance)}, {tuple(softness)}."
        )
