"""PT-MAP: power transform, then balanced optimal transport to class centres that move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import class_means, inner_products, softmax, squared_distances
from marginshot.methods._preparation import centre_each_and_normalize, signed_power
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_count, check_setting, register
from marginshot.model.transforms import l2_normalize


@register
@dataclass(frozen=True, kw_only=True)
class PTMAP(TaskwiseMethod):
    """Queries transported to class centres of equal mass, the centres following their members. Transductive.

    Hu, Gripon and Pateux, "Leveraging the Feature Distribution in Transfer-based Few-Shot Learning", ICANN 2021.

    Features go through the authors' own preparation: power transform, unit length, support and queries each centred on
    their own mean, unit length again. Differs from the authors' code: Newton's method finds the limit of Sinkhorn's
    iterations, task by task. The authors' power is not defined for negative features; here they keep their sign, as in
    the code of BPA, BMS and protoLP.

    EasyFSL applies the power transform alone, so its distances, and with them λ, have another scale. Its class masses
    round down; with fewer queries than classes they are 0, and so is every score. Its centres change with each call.
    Here the masses are n_query / N and a call changes nothing. A single query can be neither balanced nor centred on
    itself: it is compared with the class means after the support's centring.

    Parameters
    ----------
    power : float, default=0.5
        Exponent of the power transform (β in the paper).
    sharpness : float, default=10.0
        Inverse of the entropic regularisation (λ in the paper).
    step : float, default=0.2
        Share of the way a centre goes in one round (α in the paper).
    n_rounds : int, default=20
        Rounds of transport and moving.
    max_iter : int, default=100
        Newton steps at most in each round.
    tol : float, default=1e-6
        Relative error of a class's mass at which a plan is finished.
    """

    name: ClassVar[str] = "pt-map"
    title: ClassVar[str] = "PT-MAP"
    reference: ClassVar[str] = (
        'Hu, Gripon and Pateux, "Leveraging the Feature Distribution in Transfer-based Few-Shot Learning", ICANN 2021'
    )
    transductive: ClassVar[bool] = True

    power: float = 0.5
    sharpness: float = 10.0
    step: float = 0.2
    n_rounds: int = 20
    max_iter: int = 100
    tol: float = 1e-6

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "power", low=0.0, open_low=True)
        check_setting(self, "sharpness", low=0.0)
        check_setting(self, "step", low=0.0, high=1.0, open_high=False)
        check_count(self, "n_rounds", low=0)
        check_count(self, "max_iter", low=1)
        check_setting(self, "tol", low=0.0, open_low=True)

    def probabilities(self, scores: Scores) -> Scores:
        """The scores themselves: the paper's transport plan, whose rows sum to 1."""
        return scores

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        # Imported here because numba takes half a second to import.
        from marginshot.solvers.transport_compiled import transport_to_centres

        support, query = self._prepare(tasks)
        if query.shape[1] == 1:
            return softmax(-self.sharpness * squared_distances(query, class_means(support, tasks.labels, tasks.n_way)))
        rows = np.concatenate([support, query], axis=1)
        plan, tasks.converged[:] = transport_to_centres(
            inner_products(rows, rows).astype(np.float64),
            tasks.labels,
            tasks.n_way,
            float(self.sharpness),
            float(self.step),
            self.n_rounds,
            self.max_iter,
            float(self.tol),
        )
        return plan

    def _prepare(self, tasks: Tasks) -> tuple[NDArray[Any], NDArray[Any]]:
        """Signed power, unit length, each set centred on its own mean, unit length."""
        return centre_each_and_normalize(
            l2_normalize(signed_power(tasks.support, self.power)),
            l2_normalize(signed_power(tasks.query, self.power)),
        )
