"""iLPC: labels are propagated and balanced, and each round keeps the cleanest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import divide_by_degrees, inner_products, largest_in_row
from marginshot.methods._preparation import power_centre_normalize
from marginshot.methods.base import Tasks, TaskwiseMethod, check_count, check_setting, register

# Exponent that turns cosines into edge weights (γ in the paper).
_EDGE_POWER = 3


@register
@dataclass(frozen=True, kw_only=True)
class ILPC(TaskwiseMethod):
    """Label propagation that keeps the queries whose labels a classifier learns first, then repeats. Transductive.

    Lazarou, Stathaki and Avrithis, "Iterative Label Cleaning for Transductive and Semi-Supervised Few-Shot Learning",
    ICCV 2021.

    Features go through a signed power transform, unit length, the task's mean subtracted, unit length. Each round
    spreads the labels known so far over a neighbour graph and scales them to equal class counts. It trains a linear
    classifier on them and keeps in each class the queries with the smallest loss. A query's scores are its balanced
    labels in the round that kept it. Settings are those the authors publish for a wide ResNet, one shot.

    Differs from the authors' code: labels are propagated exactly, not with 20 steps of conjugate gradients. Negative
    cosines make no edge, as in the paper, and a query that no label reaches is compared with the labelled rows. The
    classifier's offsets start at 0, not at random. A class that has its count takes no more. A single query is not
    balanced.

    Parameters
    ----------
    power : float, default=0.5
        Exponent of the power transform.
    n_neighbors : int, default=20
        An edge stays if one end is among the other's nearest, itself not counted (k in the paper).
    damping : float, default=0.8
        How much neighbours count against the row's own label (α in the paper), below 1.
    sharpness : float, default=3.0
        Exponent of the propagated labels before they are balanced (τ in the paper).
    n_best : int, default=3
        Queries each class keeps in a round; as many as there are queries: one round.
    n_steps : int, default=1000
        Steps of the classifier.
    learning_rate : float, default=0.1
        Learning rate of the classifier.
    momentum : float, default=0.9
        Momentum of the classifier.
    weight_decay : float, default=5e-4
        Weight decay of the classifier.
    """

    name: ClassVar[str] = "ilpc"
    title: ClassVar[str] = "iLPC"
    reference: ClassVar[str] = (
        "Lazarou, Stathaki and Avrithis, "
        '"Iterative Label Cleaning for Transductive and Semi-Supervised Few-Shot Learning", ICCV 2021'
    )
    transductive: ClassVar[bool] = True

    power: float = 0.5
    n_neighbors: int = 20
    damping: float = 0.8
    sharpness: float = 3.0
    n_best: int = 3
    n_steps: int = 1000
    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "power", low=0.0, open_low=True)
        check_count(self, "n_neighbors", low=1)
        check_setting(self, "damping", low=0.0, high=1.0)
        check_setting(self, "sharpness", low=0.0, open_low=True)
        check_count(self, "n_best", low=1)
        check_count(self, "n_steps", low=1)
        check_setting(self, "learning_rate", low=0.0)
        check_setting(self, "momentum", low=0.0, high=1.0)
        check_setting(self, "weight_decay", low=0.0)

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        # Imported here because numba takes half a second to import.
        from marginshot.solvers.label_cleaning_compiled import clean_labels

        rows = np.concatenate(power_centre_normalize(tasks.support, tasks.query, self.power), axis=1)
        gram = inner_products(rows, rows).astype(np.float64)
        return clean_labels(
            gram,
            self._propagator(gram),
            tasks.labels,
            tasks.n_way,
            float(self.sharpness),
            self.n_best,
            self.n_steps,
            float(self.learning_rate),
            float(self.momentum),
            float(self.weight_decay),
        )

    def _propagator(self, cosines: NDArray[np.float64]) -> NDArray[np.float64]:
        """(I − damping · W)⁻¹ (T, M, M) for the normalised graph W of the rows."""
        n_rows = cosines.shape[1]
        weights = np.maximum(cosines, 0.0) ** _EDGE_POWER
        weights[:, np.arange(n_rows), np.arange(n_rows)] = 0.0
        weights *= largest_in_row(weights, self.n_neighbors)
        weights = weights + weights.swapaxes(1, 2)
        divide_by_degrees(weights)
        propagator: NDArray[np.float64] = np.linalg.inv(np.eye(n_rows) - self.damping * weights)
        return propagator
