"""ZLaP: labels spread from class prototypes over a graph of the queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import divide_by_degrees, inner_products, largest_in_row
from marginshot.methods.base import Tasks, TaskwiseMethod, check_count, check_setting, register
from marginshot.methods.zero_shot import Start
from marginshot.model.transforms import Centre, check_centre

Array = NDArray[np.float64]


@register
@dataclass(frozen=True, kw_only=True)
class ZLaP(TaskwiseMethod):
    """Label propagation from the nodes of class names, or of class means, to the queries. Transductive.

    Stojnić, Kalantidis and Tolias, "Label Propagation for Zero-shot Classification with Vision-Language Models",
    CVPR 2024, the transductive form.

    Made for class names and pictures embedded by one network: give the names as the support (``--shot 0``). With
    examples as the support, their means are the nodes of the classes. Steps follow the authors' code, defaults the
    settings of the comparison with StatA. Differs from it: the linear systems are solved exactly, not by 50 conjugate
    gradient steps, and neighbours that are equally near are all kept.

    Parameters
    ----------
    n_neighbors : int, default=4
        Neighbours kept for each query, itself not counted (k − 1 in the authors' code, which counts it).
    n_names : int, default=5
        Class nodes that a query is joined to; all where a task has fewer.
    name_power : float, default=5.0
        Power of the cosines between queries and class nodes (γ in the paper).
    spread : float, default=0.3
        Share of its label that a query takes from its neighbours (α in the paper).
    centre : {"task", "support", "none"} or array-like of shape (D,), default="none"
        Origin: the point subtracted from every row before it is scaled to unit length.
    """

    name: ClassVar[str] = "zlap"
    title: ClassVar[str] = "ZLaP"
    reference: ClassVar[str] = (
        "Stojnić, Kalantidis and Tolias, "
        '"Label Propagation for Zero-shot Classification with Vision-Language Models", CVPR 2024'
    )
    transductive: ClassVar[bool] = True

    n_neighbors: int = 4
    n_names: int = 5
    name_power: float = 5.0
    spread: float = 0.3
    centre: Centre = "none"

    def __post_init__(self) -> None:
        """Check the settings."""
        check_count(self, "n_neighbors", low=1)
        check_count(self, "n_names", low=1)
        check_setting(self, "name_power", low=0.0, open_low=True)
        check_setting(self, "spread", low=0.0, high=1.0)
        check_centre(self.centre)

    def _score(self, tasks: Tasks) -> NDArray[Any]:
        start = Start.of(tasks, self.centre, sharpness=1.0)
        edges = self._edges(start)
        divide_by_degrees(edges)
        n_nodes = edges.shape[1]
        sources = np.zeros((len(edges), n_nodes, tasks.n_way))
        sources[:, : tasks.n_way] = np.eye(tasks.n_way)
        spread: NDArray[Any] = np.linalg.solve(np.eye(n_nodes) - self.spread * edges, sources)
        return spread[:, tasks.n_way :]

    def _edges(self, start: Start) -> Array:
        """Weights (T, N + m, N + m) between class nodes, which come first, and queries."""
        n_tasks, n_query = start.query.shape[:2]
        n_way = start.prototypes.shape[1]
        alike = inner_products(start.query, start.query)
        alike[:, np.arange(n_query), np.arange(n_query)] = -np.inf
        near = largest_in_row(alike, self.n_neighbors)
        to_names = inner_products(start.query, start.prototypes)
        kept = largest_in_row(to_names, self.n_names)
        edges = np.zeros((n_tasks, n_way + n_query, n_way + n_query))
        edges[:, n_way:, n_way:] = np.where(near, np.maximum(alike, 0.0), 0.0)
        edges[:, n_way:, :n_way] = np.where(kept, np.maximum(to_names, 0.0) ** self.name_power, 0.0)
        both: Array = edges + edges.swapaxes(1, 2)
        return both
