"""LaplacianShot: its authors' rectification of the prototypes, EasyFSL's, and none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import class_means, squared_distances
from marginshot.methods.base import Scores, Tasks, TaskwiseMethod, check_count, check_setting, register
from marginshot.methods.bd_cspn import rectified_prototypes, shift_to_support, weighted_means
from marginshot.model.transforms import Centre, centre_and_normalize, check_centre

Array = NDArray[Any]

_REFERENCE = 'Ziko, Dolz, Granger and Ben Ayed, "Laplacian Regularized Few-Shot Learning", ICML 2020'
# Relative change of the objective at which a task stops, in the authors' code and in EasyFSL.
_TOL = 1e-6
# Factor on the cosines in the softmax that weights the rows of a prototype, fixed in the authors' code.
_SHARPNESS = 10.0


@register
@dataclass(frozen=True, kw_only=True)
class LaplacianShot(TaskwiseMethod):
    """Nearest prototypes, smoothed over a graph of the queries; the prototypes rectified first. Transductive.

    Ziko et al., "Laplacian Regularized Few-Shot Learning", ICML 2020.

    Steps follow the authors' code with ``proto_rect=True``, which gave the numbers in the paper's tables: queries are
    shifted to the support's mean, prototypes are rectified as in `BDCSPN`, and the shifted queries are classified.
    Differs from it: the authors subtract the mean of the base classes, here the mean of the task (give ``centre`` the
    former where it is known). They choose λ between 0.1 and 1.5 on validation classes; 0.7 is EasyFSL's. Their
    ``knn=3`` keeps two neighbours and is ``n_neighbors=2`` here. A query is never its own neighbour, even among
    duplicates.

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

    def _score(self, tasks: Tasks) -> Array:
        # Imported here because numba takes half a second to import.
        from marginshot.solvers.bound_updates_compiled import bound_updates

        support, query = centre_and_normalize(tasks.support, tasks.query, self.centre)
        query, prototypes = self._place(support, query, tasks)
        return bound_updates(
            squared_distances(query, prototypes).astype(np.float64),
            squared_distances(query, query).astype(np.float64),
            float(self.smoothing),
            min(self.n_neighbors, query.shape[1] - 1),
            self.max_iter,
            _TOL,
        )

    def _place(self, support: Array, query: Array, tasks: Tasks) -> tuple[Array, Array]:
        """Queries (T, m, D) as they are classified and prototypes (T, N, D), from features centred and scaled."""
        shifted = shift_to_support(support, query)
        return shifted, rectified_prototypes(support, tasks.labels, shifted, tasks.n_way, _SHARPNESS)


@register
@dataclass(frozen=True, kw_only=True)
class LaplacianShotEasyFSL(LaplacianShot):
    """LaplacianShot with EasyFSL's rectification: weighted class means, the queries not shifted. Transductive.

    Ziko et al., "Laplacian Regularized Few-Shot Learning", ICML 2020; settings as in ``LaplacianShot``.
    """

    name: ClassVar[str] = "laplacianshot-easyfsl"
    title: ClassVar[str] = "LaplacianShot (EasyFSL)"

    def _place(self, support: Array, query: Array, tasks: Tasks) -> tuple[Array, Array]:
        """Queries (T, m, D) as they are classified and prototypes (T, N, D), from features centred and scaled."""
        shifted = shift_to_support(support, query)
        return query, weighted_means(support, tasks.labels, shifted, tasks.n_way, sharpness=1.0)


@register
@dataclass(frozen=True, kw_only=True)
class LaplacianShotUnrectified(LaplacianShot):
    """LaplacianShot around the plain means of the support. Transductive.

    Ziko et al., "Laplacian Regularized Few-Shot Learning", ICML 2020; ``proto_rect=False`` in the authors' code.
    Settings as in ``LaplacianShot``.
    """

    name: ClassVar[str] = "laplacianshot-unrectified"
    title: ClassVar[str] = "LaplacianShot (not rectified)"

    def _place(self, support: Array, query: Array, tasks: Tasks) -> tuple[Array, Array]:
        """Queries (T, m, D) as they are classified and prototypes (T, N, D), from features centred and scaled."""
        return query, class_means(support, tasks.labels, tasks.n_way)
