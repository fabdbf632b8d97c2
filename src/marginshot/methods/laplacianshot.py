"""LaplacianShot, with and without prototype rectification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import class_means, squared_distances
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_count, check_setting, register
from marginshot.methods.bd_cspn import rectified_prototypes
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre

_REFERENCE = 'Ziko, Dolz, Granger and Ben Ayed, "Laplacian Regularized Few-Shot Learning", ICML 2020'
# Relative change of the objective at which a task stops, in the authors' code and in EasyFSL.
_TOL = 1e-6


@register
@dataclass(frozen=True, kw_only=True)
class LaplacianShot(TaskwiseMethod):
    """Nearest prototypes, smoothed over a graph of the queries; the prototypes rectified first. Transductive.

    Ziko et al., "Laplacian Regularized Few-Shot Learning", ICML 2020.

    Defaults follow EasyFSL, which always rectifies as BD-CSPN does; the numbers in the paper's tables are rectified
    too. Differs from both: their ``knn=3`` keeps two neighbours and is ``n_neighbors=2`` here. A query is never its own
    neighbour, even among duplicates. Centring and scaling are part of the method.

    Parameters
    ----------
    smoothing : float, default=0.7
        Weight of the graph term (λ in the paper); 0 gives nearest prototypes.
    n_neighbors : int, default=2
        Neighbours kept for each query, itself not counted; all others where a task has fewer.
    max_iter : int, default=20
        Bound updates at most.
    centre : {"task", "support", "none"} or array-like of shape (D,), default="task"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "laplacianshot"
    title: ClassVar[str] = "LaplacianShot"
    reference: ClassVar[str] = _REFERENCE
    transductive: ClassVar[bool] = True

    smoothing: float = 0.7
    n_neighbors: int = 2
    max_iter: int = 20
    centre: Centre = "task"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_setting(self, "smoothing", low=0.0)
        check_count(self, "n_neighbors", low=1)
        check_count(self, "max_iter", low=1)
        check_centre(self.centre)

    def probabilities(self, scores: Scores) -> Scores:
        """The scores themselves: the paper's soft assignments."""
        return scores

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        # Imported here because numba takes half a second to import.
        from marginshot.solvers.bound_updates_compiled import bound_updates

        support, query = centre_and_normalize(tasks.support, tasks.query, self.centre)
        prototypes = self._prototypes(support, query, tasks)
        return bound_updates(
            squared_distances(query, prototypes).astype(np.float64),
            squared_distances(query, query).astype(np.float64),
            float(self.smoothing),
            min(self.n_neighbors, query.shape[1] - 1),
            self.max_iter,
            _TOL,
        )

    def _prototypes(self, support: NDArray[Any], query: NDArray[Any], tasks: Tasks) -> NDArray[Any]:
        """(T, N, D) from features already centred and scaled."""
        return rectified_prototypes(support, tasks.labels, query, tasks.n_way, sharpness=1.0)


@register
@dataclass(frozen=True, kw_only=True)
class LaplacianShotUnrectified(LaplacianShot):
    """LaplacianShot around the plain means of the support. Transductive.

    Ziko et al., "Laplacian Regularized Few-Shot Learning", ICML 2020; ``proto_rect=False`` in the authors' code.
    Settings as in ``LaplacianShot``.
    """

    name: ClassVar[str] = "laplacianshot-unrectified"
    title: ClassVar[str] = "LaplacianShot (not rectified)"

    def _prototypes(self, support: NDArray[Any], query: NDArray[Any], tasks: Tasks) -> NDArray[Any]:
        """(T, N, D) from features already centred and scaled."""
        return class_means(support, tasks.labels, tasks.n_way)
