"""Labels spread over the graph of neighbours: what near rows say of each other, wherever their classes lie.

Planes and balls see a class from afar. Where its rows lie along a curved surface of few dimensions, as drawn digits do,
a row's neighbours know better. Rows are tied to their nearest neighbours by edges

    w_ij = exp(−|x_i − x_j|² / s),     s = 0.15 of the mean squared distance to the nearest neighbour

if one is among the other's n_neighbors nearest, and the labels spread over them, as in Zhou et al., "Learning with
local and global consistency", NeurIPS 2003, with D the rows' sums of edges:

    F = (I − 0.95 D^−½ W D^−½)⁻¹ Y

The logits are ω log(F_c / Σ F + 0.001). The more dimensions rows spread into, the more alike are the distances to all
of them and the less a neighbour tells: ω = min(1, (5/δ)²) falls with the dimension δ at which distances to neighbours
grow (Levina and Bickel, "Maximum likelihood estimation of intrinsic dimension", NeurIPS 2004). δ is 4 to 8 for pixels
and 12 to 17 for the features of deep encoders, where the graph all but falls silent.

Classes that overlap have neighbours of any class. Where classes have several labels, each labelled row is told by the
others, once by the graph and once by the nearest mean of a class: ω shrinks with every row by which the mean is ahead,
to nothing at two rows and a tenth of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array

from marginshot.classifier.settings import Settings
from marginshot.model.neighbours import Neighbourhood, NeighbourSmoothing
from marginshot.model.subsets import evenly

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

DAMPING = 0.95
WIDTH = 0.15  # of the edges, in mean squared distances to the nearest neighbour
LEAST_WIDTH = 1e-3  # where all rows are copies of each other
FULL_DIMENSION = 5.0  # up to which ω = 1
DOUBT = 1e-3  # probability that stays with every class
# Labelled rows, and their share, by which class means may be ahead of the graph before it is silent.
MISJUDGED, MISJUDGED_SHARE = 2.0, 0.1
MOST_CHECKED = 100  # labelled rows that are told by the others
# Each takes a vector over all rows. So many entries are held at a time; where rows are millions, fewer are checked.
_CHECKED_ENTRIES, _LEAST_CHECKED = 5_000_000, 30
LEAST_SQUARE = 1e-6  # rows of unit length whose squared distance is smaller are copies of each other
LEAST_REACHED = 1e-7  # of F, summed over the classes; less is numerical error
_TOL, _MAX_ITER = 1e-9, 200  # of the conjugate gradients; 60 iterations are usual


def uses_graph(settings: Settings) -> bool:
    """Whether labels spread over the graph of neighbours."""
    return settings.calibration == "graph"


def edge_width(nearest: Array) -> float:
    """s, from squared distances (M, k) to the neighbours, nearest first. Copies of a row tell nothing of its distances.

    Examples
    --------
    >>> edge_width(np.array([[0.0, 1.0], [2.0, 2.5], [0.0, 0.0]])) == WIDTH * (1.0 + 2.0) / 2
    True
    """
    distances = np.where(nearest > LEAST_SQUARE, nearest, np.inf).min(axis=1, initial=np.inf)
    distances = distances[np.isfinite(distances)]
    return max(WIDTH * float(distances.mean()), LEAST_WIDTH) if len(distances) else LEAST_WIDTH


def weight_of_graph(nearest: Array) -> float:
    """ω, from the same: 1/δ is the mean of log (distance to the last neighbour / distance to another, not a copy).

    Where there are no such pairs the dimension is unknown, and the graph is silent.

    Examples
    --------
    >>> weight_of_graph(np.array([[1.0, 1.2]]))                              # hardly farther: many dimensions
    0.2077...
    """
    apart = nearest[:, :-1] > LEAST_SQUARE
    if not apart.any():
        return 0.0
    logs = 0.5 * np.log(np.maximum(nearest, LEAST_SQUARE))
    return float(min((FULL_DIMENSION * (logs[:, -1:] - logs[:, :-1])[apart].mean()) ** 2, 1.0))


def _logits(spread: Array, weight: float) -> Array:
    """Of what has spread to each row, (M, N): the same for all classes where nothing has."""
    total = spread.sum(axis=1, keepdims=True)
    shares = np.divide(spread, total, out=np.zeros_like(spread), where=total > 0)
    return weight * np.log(shares + DOUBT)


@dataclass(frozen=True)
class LabelGraph:
    """What has spread over the neighbours in one task of any size, and what later rows take from it.

    Attributes
    ----------
    reached : ndarray of shape (M, N)
        F, at the rows that have a direction.
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

    @classmethod
    def fit(cls, smoothing: NeighbourSmoothing, support: Indices, labels: Indices, n_classes: int) -> LabelGraph:
        """Spread ``labels`` (n,) of the rows at ``support`` (n,) over the rows and neighbours that ``smoothing`` found.

        Examples
        --------
        >>> angles = np.array([0.0, 3.1, 0.4, 0.8, 1.2, 1.6, 2.8])           # a chain from row 0, a pair at row 1
        >>> smoothing = NeighbourSmoothing(2, 0.5)
        >>> _ = smoothing.fit_transform(np.stack((np.cos(angles), np.sin(angles)), axis=1))
        >>> graph = LabelGraph.fit(smoothing, np.array([0, 1]), np.array([0, 1]), 2)
        >>> graph.logits_of_fitted(smoothing.filled).argmax(axis=1), graph.weight
        (array([0, 1, 0, 0, 0, 0, 1]), 1.0)
        """
        rows, neighbours = smoothing.rows, smoothing.neighbours
        n_rows, k = neighbours.shape
        squares = squared_distances(rows, rows, neighbours)
        width = edge_width(squares)
        ends = (np.repeat(np.arange(n_rows), k), neighbours.ravel())
        edges = coo_array((np.exp(-squares / width).ravel(), ends), shape=(n_rows, n_rows)).tocsr()
        edges = edges.maximum(edges.T)
        degrees = edges.sum(axis=1)
        roots = np.sqrt(degrees)
        inverse = diags_array(np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0))
        known = np.zeros((n_rows, n_classes))
        filled = smoothing.filled[support]
        known[(np.cumsum(smoothing.filled) - 1)[support[filled]], labels[filled]] = 1.0
        similarity = (inverse @ edges @ inverse).tocsr()
        weight = weight_of_graph(squares) * _trust(similarity, rows, known)
        reached = np.maximum(_conjugate_gradients(similarity, known), 0.0)
        reached[reached.sum(axis=1) <= LEAST_REACHED] = 0.0
        return cls(reached, degrees, width, weight)

    def logits_of_fitted(self, filled: NDArray[np.bool_]) -> Array:
        """Logits (n, N) at all rows of `fit`, of which those ``filled`` (n,) have a direction."""
        logits = np.zeros((len(filled), self.reached.shape[1]))
        logits[filled] = _logits(self.reached, self.weight)
        return logits

    def logits(self, stored: NDArray[np.floating], rows: NDArray[np.floating], around: Neighbourhood) -> Array:
        """Logits (n, N) at later unit ``rows`` (n, D), from their neighbours among the ``stored`` rows of `fit`.

        A later row takes from its neighbours what a row of `fit` did: Σ_j w_ij F_j / √D_j. One that is a row of `fit`
        has what that row has.
        """
        logits = np.zeros((len(rows), self.reached.shape[1]))
        logits[around.filled] = _logits(self._reach(stored, rows[around.filled], around), self.weight)
        return logits

    def _reach(self, stored: NDArray[np.floating], rows: NDArray[np.floating], around: Neighbourhood) -> Array:
        """What spreads to later rows (f, D) that have a direction, (f, N)."""
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


def spread_labels(
    smoothing: NeighbourSmoothing | None, support: Indices, labels: Indices, n_classes: int, settings: Settings
) -> tuple[LabelGraph | None, Array | None]:
    """The graph of one task, and its logits (n, N) at all rows of `fit`; None where the settings ask for none.

    Arguments as for `LabelGraph.fit`.
    """
    if smoothing is None or not uses_graph(settings):
        return None, None
    graph = LabelGraph.fit(smoothing, support, labels, n_classes)
    return graph, graph.logits_of_fitted(smoothing.filled)


def squared_distances(rows: NDArray[np.floating], stored: NDArray[np.floating], nearest: Indices) -> Array:
    """(n, k) from unit ``rows`` (n, D) to those of ``stored`` (M, D) that are ``nearest`` (n, k)."""
    squares = np.empty(nearest.shape)
    for place in range(nearest.shape[1]):
        squares[:, place] = np.einsum("ij,ij->i", rows, stored[nearest[:, place]])
    return np.maximum(2.0 - 2.0 * squares, 0.0)


def _trust(similarity: csr_array, rows: NDArray[np.floating], known: Array) -> float:
    """How far the graph is believed, from labelled rows told by the other labels ``known`` (M, N)."""
    counts = known.sum(axis=0)
    several = np.flatnonzero(known @ counts > 1)
    if not len(several):
        return 1.0
    n_checked = min(len(several), max(min(MOST_CHECKED, _CHECKED_ENTRIES // len(rows)), _LEAST_CHECKED))
    checked = several[evenly(len(several), n_checked)]
    own = known[checked].argmax(axis=1)
    by_graph = []
    for part in np.array_split(checked, -(-n_checked * len(rows) // _CHECKED_ENTRIES)):
        alone = np.zeros((len(rows), len(part)))
        alone[part, np.arange(len(part))] = 1.0
        reached = _conjugate_gradients(similarity, alone)
        reached[part, np.arange(len(part))] = 0.0
        by_graph.append((reached.T @ known).argmax(axis=1))
    labelled = known.any(axis=1)
    by_mean = _nearest_mean(known[labelled].T @ rows[labelled], counts, rows[checked], own)
    lead = int((np.concatenate(by_graph) == own).sum() - (by_mean == own).sum())
    return float(np.clip(1.0 + lead / (MISJUDGED + MISJUDGED_SHARE * n_checked), 0.0, 1.0))


def _nearest_mean(sums: Array, counts: Array, rows: NDArray[np.floating], own: Indices) -> Indices:
    """Class (c,) whose labelled rows, with these ``sums`` (N, D) and ``counts`` (N,), have the nearest mean.

    Asked for ``rows`` (c, D), each of which its ``own`` class (c,) is without.
    """
    place = np.arange(len(rows))
    inner, lengths = rows @ sums.T, np.tile((sums**2).sum(axis=1), (len(rows), 1))
    square = np.einsum("ij,ij->i", rows, rows)
    lengths[place, own] -= 2.0 * inner[place, own] - square
    inner[place, own] -= square
    size = np.tile(np.maximum(counts, 1.0), (len(rows), 1))
    size[place, own] -= 1.0
    nearness = np.where(counts > 0, 2.0 * inner / size - lengths / size**2, -np.inf)
    return np.asarray(nearness.argmax(axis=1))


def _conjugate_gradients(similarity: csr_array, known: Array) -> Array:
    """(I − 0.95 S)⁻¹ Y for a sparse S (M, M) and Y (M, N), each column by itself."""
    solution, residual = np.zeros_like(known), known.copy()
    direction, square = residual.copy(), (residual**2).sum(axis=0)
    enough = _TOL**2 * square
    for _ in range(_MAX_ITER):
        if (square <= enough).all():
            break
        image = direction - DAMPING * (similarity @ direction)
        curvature = (direction * image).sum(axis=0)
        step = np.divide(square, curvature, out=np.zeros_like(square), where=curvature > 0)
        solution += step * direction
        residual -= step * image
        last, square = square, (residual**2).sum(axis=0)
        direction *= np.divide(square, last, out=np.zeros_like(square), where=last > 0)
        direction += residual
    return solution
