"""Labels spread from class centroids over a neighbour graph, and the derivative of the logits by its parameters.

Parameters of a task: centroids c (N, D), an exponent g and a weight w for every pair of the M = N + n nodes, centroids
first. Distances d are divided by their standard deviation. Each row keeps edges of weight exp(−g d) to its k nearest
nodes; no edge begins at a centroid. The graph is the mean of both directions times w, divided by the roots of its
degrees on either side. The logits are temperature · (I − damping · graph)⁻¹ applied to the centroids' labels.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marginshot.methods._batched import inner_products, squared_norms

Array = NDArray[Any]

# Added to a degree so that its root can be divided by, as in the authors' code.
_DEGREE_OFFSET = 1e-12

# A squared distance below this share of the squared lengths is rounding: both rows are one point.
_ROUNDING = 1e-12


class Trace(NamedTuple):
    """Values of one `Manifold.spread` that `Manifold.pull_back` needs; all (T, M, M) unless noted."""

    centroids: Array  # (T, N, D)
    exponents: Array
    weights: Array
    distances: Array
    deviation: Array  # (T, 1, 1)
    edges: Array
    joint: Array
    roots: Array  # (T, M), one over the roots of the degrees
    graph: Array
    system: Array
    spread: Array  # (T, M, N)


@dataclass(frozen=True, kw_only=True)
class Manifold:
    """The graph's rows and settings.

    Parameters
    ----------
    rows : ndarray of shape (T, n, D)
    n_way : int
    n_neighbors : int
    damping : float
    temperature : float
    """

    rows: Array
    n_way: int
    n_neighbors: int
    damping: float
    temperature: float

    @property
    def size(self) -> int:
        """Nodes of the graph: centroids and rows."""
        return self.n_way + int(self.rows.shape[1])

    def pack(self, centroids: Array) -> Array:
        """Parameters (T, N·D + 2·M²) at the start: these centroids (T, N, D), exponents 1, weights the damping."""
        n_tasks, n_pairs = centroids.shape[0], self.size**2
        start = np.empty((n_tasks, centroids[0].size + 2 * n_pairs))
        start[:, : -2 * n_pairs] = centroids.reshape(n_tasks, -1)
        start[:, -2 * n_pairs : -n_pairs] = 1.0
        start[:, -n_pairs:] = self.damping
        return start

    def _unpack(self, parameters: Array) -> tuple[Array, Array, Array]:
        """Centroids (T, N, D), exponents and weights (T, M, M)."""
        n_tasks, n_pairs, size = parameters.shape[0], self.size**2, self.size
        return (
            parameters[:, : -2 * n_pairs].reshape(n_tasks, self.n_way, -1),
            parameters[:, -2 * n_pairs : -n_pairs].reshape(n_tasks, size, size),
            parameters[:, -n_pairs:].reshape(n_tasks, size, size),
        )

    def spread(self, parameters: Array) -> tuple[Array, Trace]:
        """Logits (T, n, N) of the rows, and the values `pull_back` needs."""
        centroids, exponents, weights = self._unpack(parameters)
        distances = self._distances(centroids)
        deviation = distances.std(axis=(1, 2), ddof=1, keepdims=True)
        deviation[deviation == 0.0] = 1.0  # all nodes at one point
        edges = self._nearest(np.exp(-exponents * (distances / deviation)))
        joint = 0.5 * (edges + edges.swapaxes(1, 2))
        product = weights * joint
        roots = 1.0 / np.sqrt(np.maximum(product.sum(axis=2), 0.0) + _DEGREE_OFFSET)
        graph = product * roots[:, :, None] * roots[:, None, :]
        system = np.eye(self.size) - self.damping * graph
        spread = np.linalg.solve(system, np.eye(self.size, self.n_way)[None])
        logits = self.temperature * spread[:, self.n_way :]
        trace = (centroids, exponents, weights, distances, deviation, edges, joint, roots, graph, system, spread)
        return logits, Trace(*trace)

    def _distances(self, centroids: Array) -> Array:
        """Euclidean distances (T, M, M) of the nodes, zero on the diagonal; those between rows never change."""
        n_way, diagonal = self.n_way, np.arange(self.size)
        distances = np.empty((len(centroids), self.size, self.size))
        distances[:, n_way:, n_way:] = self._row_distances
        distances[:, :n_way, :n_way] = _distances(centroids, centroids)
        distances[:, :n_way, n_way:] = _distances(centroids, self.rows)
        distances[:, n_way:, :n_way] = distances[:, :n_way, n_way:].swapaxes(1, 2)
        distances[:, diagonal, diagonal] = 0.0
        return distances

    @cached_property
    def _row_distances(self) -> Array:
        """Euclidean distances (T, n, n) of the rows."""
        return _distances(self.rows, self.rows)

    def _nearest(self, edges: Array) -> Array:
        """Keep each row's largest edges (T, M, M) to other nodes; no edge begins at a centroid."""
        n_rows = self.size
        edges[:, np.arange(n_rows), np.arange(n_rows)] = 0.0
        edges[:, : self.n_way] = 0.0
        if self.n_neighbors < n_rows - 1:
            cut = np.partition(edges, n_rows - self.n_neighbors, axis=2)[:, :, n_rows - self.n_neighbors, None]
            edges *= edges >= cut
        return edges

    def pull_back(self, slope: Array, trace: Trace) -> Array:
        """Derivative by the rows' logits (T, n, N) -> derivative by the parameters."""
        forward = np.zeros_like(trace.spread)
        forward[:, self.n_way :] = self.temperature * slope
        # d spread = system⁻¹ · damping · d graph · spread
        adjoint = np.linalg.solve(trace.system.swapaxes(1, 2), forward)
        by_graph = self.damping * np.matmul(adjoint, trace.spread.swapaxes(1, 2))
        scaled = by_graph * trace.roots[:, :, None] * trace.roots[:, None, :]
        shares = by_graph * trace.graph
        by_degree = -0.5 * (shares.sum(axis=2) + shares.sum(axis=1)) * trace.roots**2
        by_product = scaled + by_degree[:, :, None]
        by_joint = by_product * trace.weights
        by_edges = 0.5 * (by_joint + by_joint.swapaxes(1, 2)) * trace.edges
        gradient = np.empty((slope.shape[0], trace.centroids[0].size + 2 * self.size**2))
        n_pairs = self.size**2
        gradient[:, -n_pairs:] = (by_product * trace.joint).reshape(slope.shape[0], -1)
        gradient[:, -2 * n_pairs : -n_pairs] = (-by_edges * (trace.distances / trace.deviation)).reshape(
            slope.shape[0], -1
        )
        gradient[:, : -2 * n_pairs] = self._by_centroids(-by_edges * trace.exponents, trace)
        return gradient

    def _by_centroids(self, by_scaled: Array, trace: Trace) -> Array:
        """Derivative by the distances over their deviation (T, M, M) -> derivative by the centroids (T, N·D)."""
        distances, deviation = trace.distances, trace.deviation
        n_entries = distances.shape[1] ** 2
        by_distances = by_scaled / deviation
        by_deviation = -(by_scaled * distances).sum(axis=(1, 2), keepdims=True) / deviation**2
        centred = distances - distances.mean(axis=(1, 2), keepdims=True)
        by_distances = by_distances + by_deviation * centred / ((n_entries - 1) * deviation)
        # d(x, y) moves with (x − y) / d; both directions of a pair count, and a pair at one point counts nothing.
        pairs = (by_distances + by_distances.swapaxes(1, 2))[:, : self.n_way]
        apart = distances[:, : self.n_way]
        pull = np.divide(pairs, apart, out=np.zeros_like(pairs), where=apart > 0.0)
        nodes = np.concatenate([trace.centroids, self.rows], axis=1)
        gradient = pull.sum(axis=2)[:, :, None] * trace.centroids - np.matmul(pull, nodes)
        return np.asarray(gradient).reshape(gradient.shape[0], -1)


def _distances(left: Array, right: Array) -> Array:
    """Euclidean distances (T, m, n) of rows (T, m, D) from rows (T, n, D)."""
    squares = squared_norms(left)[:, :, None] + squared_norms(right)[:, None, :]
    distances = squares - 2.0 * inner_products(left, right)
    distances[distances < _ROUNDING * squares] = 0.0
    return np.sqrt(distances, out=distances)
