"""Label spreading over the graph of nearest neighbours.

Planes and balls describe a class by few numbers. Where its rows lie along a curved surface of few dimensions, as drawn
digits do, the neighbours of a row predict its class better. Rows are tied to their nearest neighbours by edges

    w_ij = exp(−|x_i − x_j|² / s),     s = 0.15 of the mean squared distance to the nearest neighbour

if one is among the other's n_neighbors nearest, and the labels spread over them, as in Zhou et al., "Learning with
local and global consistency", NeurIPS 2003, with D the rows' sums of edges:

    F = (I − 0.95 D^−½ W D^−½)⁻¹ Y

Each column of F is divided by the number of labelled rows of its class, so that classes with many do not dominate. With
shots of 1, 1, 1, 1 and 8 this gains 0.6 to 2.4 points on validation features; with equal shots it changes nothing. The
logits are ω log(F_c / Σ F + 0.001).

In many dimensions the distances to all rows are nearly equal, and a neighbour hardly predicts the class:
ω = min(1, (5/δ)²) falls with the dimension δ at which distances to neighbours grow (Levina and Bickel, "Maximum
likelihood estimation of intrinsic dimension", NeurIPS 2004). δ is 4 to 8 for pixels and 12 to 17 for the features of
deep encoders, where the weight of the graph is small.

Where classes overlap, neighbours may be of any class. Labels hidden in turn measure how far the graph can be trusted
(`marginshot.model.stacking`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from marginshot.model.neighbours import Neighbourhood, NeighbourSmoothing
from marginshot.model.primitives import edge_statistics, log_shares

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

# Chosen on the validation features that `marginshot.model.mixture` names; "flat" as there.
DAMPING = 0.95  # Flat: 0.9 costs 0.1, 0.975 nothing
WIDTH = 0.15  # of the edges, in mean squared distances to the nearest neighbour. Flat: 0.1 to 0.22 within 0.15
LEAST_WIDTH = 1e-3  # where all rows are copies of each other
FULL_DIMENSION = 5.0  # up to which ω = 1. Flat: 3.3 to 7.5 within 0.1; 7.5 costs 0.6 points of calibration
DOUBT = 1e-3  # probability that stays with every class. Flat: half or twice
LEAST_SQUARE = 1e-6  # rows of unit length whose squared distance is smaller are copies of each other
LEAST_REACHED = 1e-7  # of F, summed over the classes; less is numerical error
# Of the conjugate gradients; 35 iterations are usual. At 1e-7, logits of rows that labels hardly reach are off by 0.03.
_TOL, _MAX_ITER = 1e-9, 200


def measure_edges(squares: Array) -> tuple[float, float]:
    """Width s of the edges and weight ω of the graph, from squared distances (M, k) to the neighbours, nearest first.

    1/δ is the mean of log (distance to the last neighbour / distance to another). Copies of a row are left out. Where
    all rows are copies the dimension is unknown, and ω is 0.

    Examples
    --------
    >>> width, weight = measure_edges(np.array([[1.0, 1.2]]))                # hardly farther: many dimensions
    >>> width, round(weight, 4)
    (0.15, 0.2078)
    """
    nearest, inverse_dimension = edge_statistics(squares, LEAST_SQUARE)
    return max(WIDTH * nearest, LEAST_WIDTH), min((FULL_DIMENSION * inverse_dimension) ** 2, 1.0)


def even_masses(reached: Array, masses: Array) -> None:
    """Divide by the labelled weight of each class, so that classes with more labels do not dominate.

    ``reached`` (M, N) holds the spread labels and is changed in place; ``masses`` (N,) are the labelled weights.
    """
    mean = masses.mean()
    for c in range(len(masses)):
        if masses[c] > 0.0:
            reached[:, c] *= mean / masses[c]


def graph_logits(reached: Array, weight: float, least: float) -> Array:
    """Logits ω log(F_c / Σ F + 0.001), (M, N), of spread labels; all equal in rows whose sum is at most ``least``."""
    return weight * log_shares(reached, least, DOUBT)


@dataclass(frozen=True)
class Ties:
    """The edges between rows and their neighbours, which need no labels.

    Attributes
    ----------
    order : ndarray of int of shape (M,)
        Rows in an order that puts neighbours near each other in memory (Cuthill and McKee, "Reducing the bandwidth of
        sparse symmetric matrices", 1969): products with S take less than half of the time.
    similarity : sparse array of shape (M, M)
        S = D^−½ W D^−½, its rows and columns in this order.
    degrees : ndarray of shape (M,)
        D, in the order of the task.
    width : float
        s.
    weight : float
        ω, from the dimension of the rows.
    """

    order: NDArray[np.integer]
    similarity: csr_array
    degrees: Array
    width: float
    weight: float

    @classmethod
    def between(cls, rows: NDArray[np.floating], neighbours: Indices) -> Ties:
        """Edges between unit ``rows`` (M, D) and their ``neighbours`` (M, k), the nearest first."""
        n_rows, k = neighbours.shape
        squares = squared_distances(rows, rows, neighbours)
        width, weight = measure_edges(squares)
        ends = (np.repeat(np.arange(n_rows, dtype=np.int32), k), neighbours.ravel().astype(np.int32))
        edges = coo_array((np.exp(-squares / width).ravel(), ends), shape=(n_rows, n_rows)).tocsr()
        edges = edges.maximum(edges.T)
        degrees = edges.sum(axis=1)
        roots = np.sqrt(degrees)
        inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
        edges.data *= np.repeat(inverse, np.diff(edges.indptr)) * inverse[edges.indices]
        # Without edges, as where no row has a direction, SciPy fails.
        order = reverse_cuthill_mckee(edges, symmetric_mode=True) if edges.nnz else np.arange(n_rows)
        return cls(order, edges[order][:, order], degrees, width, weight)

    def spread(self, labels: Array) -> Array:
        """Spread the weights Y (M, N) of the labelled rows: F (M, N)."""
        spread = np.empty_like(labels)
        spread[self.order] = _conjugate_gradients(self.similarity, labels[self.order])
        return spread


@dataclass(frozen=True)
class LabelGraph:
    """The spread labels of one task of any size, and the logits of later rows.

    Attributes
    ----------
    reached : ndarray of shape (M, N)
        F at the rows that have a direction, divided by the labelled weight of each class.
    degrees : ndarray of shape (M,)
        D.
    width : float
        s.
    weight : float
        ω.
    """

    reached: Array
    degrees: Array
    width: float
    weight: float

    def logits_of_fitted(self, filled: NDArray[np.bool_]) -> Array:
        """Logits (n, N) at all rows of `fit`, of which those ``filled`` (n,) have a direction."""
        logits = np.zeros((len(filled), self.reached.shape[1]))
        logits[filled] = graph_logits(self.reached, self.weight, 0.0)
        return logits

    def logits(self, stored: NDArray[np.floating], rows: NDArray[np.floating], around: Neighbourhood) -> Array:
        """Logits (n, N) at later unit ``rows`` (n, D), from their neighbours among the ``stored`` rows of `fit`.

        A new row gets Σ_j w_ij F_j / √D_j over its neighbours. A row already seen in `fit` keeps its value.
        """
        logits = np.zeros((len(rows), self.reached.shape[1]))
        logits[around.filled] = graph_logits(self._reach(stored, rows[around.filled], around), self.weight, 0.0)
        return logits

    def _reach(self, stored: NDArray[np.floating], rows: NDArray[np.floating], around: Neighbourhood) -> Array:
        """Labels spread to later rows (f, D) that have a direction, (f, N)."""
        squares = squared_distances(rows, stored, around.nearest)
        # Only the ratios between classes count, so the nearest has weight 1, however far it is.
        weights = np.exp((squares.min(axis=1, initial=np.inf, keepdims=True) - squares) / self.width)
        spread = np.zeros((len(rows), self.reached.shape[1]))
        for place in range(around.nearest.shape[1]):
            neighbour = around.nearest[:, place]
            roots = np.sqrt(self.degrees[neighbour])
            factor = np.divide(weights[:, place], roots, out=np.zeros_like(roots), where=roots > 0)
            spread += factor[:, None] * self.reached[neighbour]
        known = around.same >= 0
        spread[known] = self.reached[around.same[known]]
        return spread


@dataclass(frozen=True)
class Spread:
    """Labels spread over the edges of a task, and what is needed to update them when labels change.

    Attributes
    ----------
    ties : Ties
    known : ndarray of shape (M, N)
        Y, the weights of the labelled rows in their classes.
    reached : ndarray of shape (M, N)
        F.
    """

    ties: Ties
    known: Array
    reached: Array

    @classmethod
    def fit(
        cls, smoothing: NeighbourSmoothing, support: Indices, labels: Indices, weights: Array, n_classes: int
    ) -> Spread:
        """Spread labels over the rows and neighbours that ``smoothing`` found.

        ``labels`` (n,) are those of the rows at ``support`` (n,), which count for ``weights`` (n,).

        Examples
        --------
        >>> angles = np.array([0.0, 3.1, 0.4, 0.8, 1.2, 1.6, 2.8])           # a chain from row 0, a pair at row 1
        >>> smoothing = NeighbourSmoothing(2, 0.5)
        >>> _ = smoothing.fit_transform(np.stack((np.cos(angles), np.sin(angles)), axis=1))
        >>> graph = Spread.fit(smoothing, np.array([0, 1]), np.array([0, 1]), np.ones(2), 2).graph()
        >>> graph.logits_of_fitted(smoothing.filled).argmax(axis=1), graph.weight
        (array([0, 1, 0, 0, 0, 0, 1]), 1.0)
        """
        ties = Ties.between(smoothing.rows, smoothing.neighbours)
        known = place_labels(smoothing.filled, support, labels, weights, n_classes)
        return cls(ties, known, ties.spread(known))

    def changed(self, known: Array, before: Indices) -> Spread:
        """Update after a change of labels to ``known`` (M, N'); ``before`` (N',) maps new classes to old, or to −1.

        F is linear in Y, so only the differences are spread.
        """
        same = len(before) == self.known.shape[1] and (before == np.arange(len(before))).all()
        was, reached = (
            array.copy() if same else np.where(before >= 0, array[:, before], 0.0)
            for array in (self.known, self.reached)
        )
        other = np.flatnonzero((known != was).any(axis=0))
        reached[:, other] += self.ties.spread(known[:, other] - was[:, other])
        return Spread(self.ties, known, reached)

    def graph(self) -> LabelGraph:
        """The part of it that the classifier stores."""
        reached = np.maximum(self.reached, 0.0)
        reached[reached.sum(axis=1) <= LEAST_REACHED] = 0.0
        even_masses(reached, self.known.sum(axis=0))
        return LabelGraph(reached, self.ties.degrees, self.ties.width, self.ties.weight)


def squared_distances(rows: NDArray[np.floating], stored: NDArray[np.floating], nearest: Indices) -> Array:
    """(n, k) from unit ``rows`` (n, D) to those of ``stored`` (M, D) that are ``nearest`` (n, k)."""
    squares = np.empty(nearest.shape)
    for place in range(nearest.shape[1]):
        squares[:, place] = np.einsum("ij,ij->i", rows, stored[nearest[:, place]])
    return np.maximum(2.0 - 2.0 * squares, 0.0)


def place_labels(filled: NDArray[np.bool_], support: Indices, labels: Indices, weights: Array, n_classes: int) -> Array:
    """Weights Y (M, N) of the labelled rows in their classes, over the M rows that are ``filled``: have a direction."""
    known = np.zeros((int(filled.sum()), n_classes))
    there = filled[support]
    known[(np.cumsum(filled) - 1)[support[there]], labels[there]] = weights[there]
    return known


def _conjugate_gradients(similarity: csr_array, known: Array) -> Array:
    """(I − 0.95 S)⁻¹ Y for a sparse S (M, M) and Y (M, N), each column by itself."""
    solution, residual = np.zeros_like(known), known.copy()
    direction, square = residual.copy(), _inner_products(residual, residual)
    enough = _TOL**2 * square
    for _ in range(_MAX_ITER):
        if (square <= enough).all():
            break
        image = similarity @ direction
        image *= -DAMPING
        image += direction
        curvature = _inner_products(direction, image)
        step = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0)
        solution += step * direction
        image *= step
        residual -= image
        last, square = square, _inner_products(residual, residual)
        direction *= np.divide(square, last, out=np.zeros_like(square), where=last > 0)
        direction += residual
    return solution


def _inner_products(left: Array, right: Array) -> Array:
    """Inner products (N,) of the columns of two tables (M, N)."""
    return np.asarray(np.einsum("ij,ij->j", left, right))
