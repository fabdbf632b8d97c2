"""FS-TMMC, its variant with an estimated prior, and FS-MMC, on the engine for batches of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.calibration import platt_probabilities
from marginshot.engine import solve_tasks
from marginshot.settings import PAPER_LAMBDA2

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class FSTMMC:
    """Maximum margin, with the planes pushed out of dense regions of the queries. Transductive.

    Pan, Xu, Guo and Guo, "A Transductive Maximum Margin Classifier for Few-Shot Learning", 2021.
    Adds to the printed equations the offset 2π − 1; ``prior=None`` leaves it out.

    Parameters
    ----------
    lambda1, lambda2, gamma1, gamma2, prior, tol, max_iter
        As in `marginshot.TransductiveMaxMarginClassifier`.
    """

    name: ClassVar[str] = "fs-tmmc"
    title: ClassVar[str] = "FS-TMMC"
    reference: ClassVar[str] = (
        'Pan et al., "A Transductive Maximum Margin Classifier for Few-Shot Learning", arXiv 2021'
    )
    transductive: ClassVar[bool] = True

    lambda1: float = 0.04
    lambda2: Sequence[float] = PAPER_LAMBDA2
    gamma1: float = 20.0
    gamma2: float = 2.0
    prior: Any = "uniform"
    tol: float = 1e-4
    max_iter: int = 500

    def predict_scores(self, support: Array, support_labels: NDArray[np.int64], query: Array) -> Array:
        """(T, n_support, D), (T, n_support), (T, n_query, D) -> Platt's log-odds (T, n_query, n_way)."""
        return solve_tasks(support, support_labels, query, **asdict(self))

    def probabilities(self, scores: Array) -> Array:
        """Platt's probabilities, normalised over classes, (T, n_query, n_way)."""
        return platt_probabilities(scores)


@dataclass(frozen=True, kw_only=True)
class FSTMMCEstimatedPrior(FSTMMC):
    """FS-TMMC whose class shares are re-estimated from its own answers, for unbalanced queries. Transductive.

    Not in the paper: soft counts of the answers, shrunk a quarter towards uniform, two rounds.
    """

    name: ClassVar[str] = "fs-tmmc-estimate"
    title: ClassVar[str] = "FS-TMMC, estimated prior"
    reference: ClassVar[str] = "FS-TMMC with the class prior re-estimated from its answers (marginshot)"

    prior: Any = "estimate"


@dataclass(frozen=True, kw_only=True)
class FSMMC(FSTMMC):
    """Maximum margin on the support alone: FS-TMMC without its query term (paper, section 4.6). Inductive.

    The features are still centred on the mean of support and queries, as in the paper.
    """

    name: ClassVar[str] = "fs-mmc"
    title: ClassVar[str] = "FS-MMC"
    transductive: ClassVar[bool] = False

    lambda2: Sequence[float] = (0.0,)
