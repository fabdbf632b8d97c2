"""BPA: PT-MAP on balanced pairwise affinities in place of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import inner_products
from marginshot.methods._preparation import centre_each_and_normalize, signed_power
from marginshot.methods.base import Tasks, check_count, check_setting, register
from marginshot.methods.pt_map import PTMAP
from marginshot.model.transforms import l2_normalize


@register
@dataclass(frozen=True, kw_only=True)
class BPA(PTMAP):
    """PT-MAP on balanced pairwise affinities instead of features. Transductive.

    Shalam and Korman, "The Balanced-Pairwise-Affinities Feature Transform", ICML 2024; PTMAP-BPA_p in its tables, the
    transform put in front of PT-MAP without training.

    Rows prepared as for PT-MAP become the rows of a transport plan from the task to itself in which no row may keep
    its own mass. The plan is divided by its largest entry, its diagonal set to 1, and its rows scaled, centred and
    scaled again for PT-MAP. Defaults follow the authors' evaluation script.

    Differs from the authors' code: the number of Sinkhorn iterations is fixed, where theirs stops on the mean over all
    tasks of a batch. The power keeps the sign of negative features, for which theirs is not defined.

    Parameters
    ----------
    regularization : float, default=0.2
        Entropic regularisation of the affinities (λ in the paper), at least 0.01; infinitely large, all affinities
        are alike.
    n_sinkhorn : int, default=10
        Sinkhorn's iterations for the affinities.
    power : float, default=0.5
        Exponent of the power transform.
    sharpness : float, default=10.0
        Inverse of the entropic regularisation of PT-MAP's own plan.
    step : float, default=0.2
        Share of the way a centre goes in one round.
    n_rounds : int, default=20
        Rounds of transport and moving.
    max_iter : int, default=100
        Newton steps at most in each round.
    tol : float, default=1e-6
        Relative error of a class's mass at which a plan is finished.
    """

    name: ClassVar[str] = "bpa"
    title: ClassVar[str] = "BPA (PT-MAP)"
    reference: ClassVar[str] = 'Shalam and Korman, "The Balanced-Pairwise-Affinities Feature Transform", ICML 2024'

    regularization: float = 0.2
    n_sinkhorn: int = 10

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        check_setting(self, "regularization", low=0.01)
        check_count(self, "n_sinkhorn", low=1)

    def _prepare(self, tasks: Tasks) -> tuple[NDArray[Any], NDArray[Any]]:
        """(T, n_support, M) and (T, n_query, M) with M = n_support + n_query."""
        prepared = centre_each_and_normalize(
            l2_normalize(signed_power(tasks.support, self.power)), l2_normalize(signed_power(tasks.query, self.power))
        )
        affinities = l2_normalize(
            balanced_affinities(np.concatenate(prepared, axis=1), self.regularization, self.n_sinkhorn)
        )
        n_support = tasks.support.shape[1]
        return centre_each_and_normalize(affinities[:, :n_support], affinities[:, n_support:])


def balanced_affinities(rows: NDArray[Any], regularization: float, n_iter: int) -> NDArray[np.float64]:
    """Plan of entropic transport from a task's rows to themselves, no mass staying in place, the largest entry 1.

    Parameters
    ----------
    rows : ndarray of shape (T, M, D)
        Rows of unit length, or zero.
    regularization : float
    n_iter : int

    Returns
    -------
    affinities : ndarray of float64 of shape (T, M, M)
        With ones on the diagonal.
    """
    diagonal = np.arange(rows.shape[1])
    plan = inner_products(rows, rows).astype(np.float64)  # transport costs 1 − cosine
    plan -= 1.0
    plan /= regularization
    np.exp(plan, out=plan)
    plan[:, diagonal, diagonal] = 0.0
    column = np.ones((*plan.shape[:2], 1))
    for _ in range(n_iter):
        row = 1.0 / np.matmul(plan, column)
        column = 1.0 / np.matmul(plan.swapaxes(1, 2), row)
    plan *= row
    plan *= column.swapaxes(1, 2)
    plan /= plan.max(axis=(1, 2), keepdims=True)
    plan[:, diagonal, diagonal] = 1.0
    return plan
