"""FS-TMMC, its variants with estimated and with known class shares, and FS-MMC, on the engine for batches of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.batch.solve import solve_table_tasks, solve_tasks
from marginshot.classifier.settings import LAMBDA2, PRESETS, Settings
from marginshot.data.table import FeatureTable
from marginshot.methods.base import register
from marginshot.model.calibration import CALIBRATIONS

Array = NDArray[np.float64]


@register
@dataclass(frozen=True, kw_only=True)
class FSTMMC:
    """Maximum margin, with the planes pushed out of dense regions of the queries. Transductive.

    Pan, Xu, Guo and Guo, "A Transductive Maximum Margin Classifier for Few-Shot Learning", 2021.
    Adds to the printed equations the offset 2π − 1 and Platt's smoothed targets; `FSTMMCPrinted` does neither.

    Parameters
    ----------
    lambda1, lambda2, gamma1, gamma2, prior, meet_prior, feature_transform, n_neighbors, calibration, tol, max_iter
        As in `marginshot.TransductiveMaxMarginClassifier`.
    """

    name: ClassVar[str] = "fs-tmmc"
    title: ClassVar[str] = "FS-TMMC"
    reference: ClassVar[str] = (
        'Pan et al., "A Transductive Maximum Margin Classifier for Few-Shot Learning", arXiv 2021'
    )
    transductive: ClassVar[bool] = True

    lambda1: float = 0.04
    lambda2: Sequence[float] = LAMBDA2
    gamma1: float = 20.0
    gamma2: float = 2.0
    prior: Any = "uniform"
    meet_prior: bool = False
    feature_transform: str | None = "cl2n"
    n_neighbors: int = 0
    calibration: str = "platt"
    tol: float = 3e-4
    max_iter: int = 500

    def predict_scores(
        self,
        support: Array,
        support_labels: NDArray[np.int64],
        query: Array,
        *,
        prior: Array | None = None,
        support_prior: Array | None = None,
    ) -> Array:
        """(T, n_support, D), (T, n_support), (T, n_query, D) -> calibrated scores (T, n_query, n_way).

        The support judges how far ``prior`` is trusted, by ``support_prior``; without that, it is taken as it is.
        """
        settings = Settings(**asdict(self))
        return solve_tasks(support, support_labels, query, settings, prior=prior, support_prior=support_prior).scores

    def predict_table_scores(
        self,
        table: FeatureTable,
        support_rows: NDArray[np.int64],
        support_labels: NDArray[np.int64],
        query_rows: NDArray[np.int64],
    ) -> Array:
        """Row numbers (T, n_support), (T, n_query), labels (T, n_support) -> calibrated scores (T, n_query, n_way)."""
        settings = Settings(**asdict(self))
        return solve_table_tasks(table, support_rows, support_labels, query_rows, settings).scores

    def probabilities(self, scores: Array) -> Array:
        """Probabilities of the calibration, (T, n_query, n_way)."""
        return CALIBRATIONS[self.calibration].probabilities(scores)


@register
@dataclass(frozen=True, kw_only=True)
class FSTMMCPrinted(FSTMMC):
    """The paper's objective as printed: no offset, logistic regression on targets 0 and 1. Transductive.

    L-BFGS works in function space here, and may end in another minimum than on α (docs/results/departures.md).

    The paper does not say what keeps that regression finite on separable examples; here it is scikit-learn's ridge.
    """

    name: ClassVar[str] = "fs-tmmc-printed"
    title: ClassVar[str] = "FS-TMMC, as printed"

    prior: Any = PRESETS["printed"]["prior"]
    calibration: str = PRESETS["printed"]["calibration"]
    tol: float = PRESETS["printed"]["tol"]


@register
@dataclass(frozen=True, kw_only=True)
class FSTMMCEstimatedPrior(FSTMMC):
    """FS-TMMC whose class shares are estimated from the task, for unbalanced queries. Transductive.

    Not in the paper; see `marginshot.model.mixture`.
    """

    name: ClassVar[str] = "fs-tmmc-estimate"
    title: ClassVar[str] = "FS-TMMC, estimated prior"
    reference: ClassVar[str] = "FS-TMMC with the class prior estimated from the task (marginshot)"

    prior: Any = "estimate"


@register
@dataclass(frozen=True, kw_only=True)
class FSTMMCAuto(FSTMMC):
    """FS-TMMC in the preset "auto", for unbalanced or many classes and unknown encoders. Transductive.

    Not in the paper: features to the power 0.75, shrunk along directions that vary within classes; neighbours inside
    the kernel; class shares from a mixture; answers that combine the planes with the mixture and with labels spread
    over the graph of neighbours; beside them a softmax regression, weighed by labels that are hidden in turn.
    """

    name: ClassVar[str] = "fs-tmmc-auto"
    title: ClassVar[str] = "FS-TMMC, auto"
    reference: ClassVar[str] = "FS-TMMC in marginshot's preset auto"

    lambda2: Sequence[float] = PRESETS["auto"]["lambda2"]
    prior: Any = PRESETS["auto"]["prior"]
    feature_transform: str | None = PRESETS["auto"]["feature_transform"]
    n_neighbors: int = PRESETS["auto"]["n_neighbors"]
    calibration: str = PRESETS["auto"]["calibration"]


@register
@dataclass(frozen=True, kw_only=True)
class FSTMMCBalanced(FSTMMCAuto):
    """FS-TMMC in the preset "balanced": "auto" told that every class has equally many queries. Transductive.

    Not in the paper. Answers meet the counts (`marginshot.model.counts`), as those of PT-MAP, BPA and other methods of
    the balanced benchmarks do without saying so. For other shares that are known, give them as ``prior``.
    """

    name: ClassVar[str] = "fs-tmmc-balanced"
    title: ClassVar[str] = "FS-TMMC, equal counts known"
    reference: ClassVar[str] = "FS-TMMC in marginshot's preset balanced"

    prior: Any = PRESETS["balanced"]["prior"]
    meet_prior: bool = PRESETS["balanced"]["meet_prior"]


@register
@dataclass(frozen=True, kw_only=True)
class FSMMC(FSTMMC):
    """Maximum margin on the support alone: FS-TMMC without its query term (paper, section 4.6). Inductive.

    The features are still centred on the mean of support and queries, as in the paper.
    """

    name: ClassVar[str] = "fs-mmc"
    title: ClassVar[str] = "FS-MMC"
    transductive: ClassVar[bool] = False

    lambda2: Sequence[float] = (0.0,)
