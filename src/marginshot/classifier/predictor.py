"""The part of a fitted classifier that scores later rows. It is small enough to save or to send to workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.model.graph import LabelGraph
from marginshot.model.kernels import Kernel
from marginshot.model.neighbours import NeighbourSmoothing
from marginshot.model.transforms import gives_directions, transform_rows

Array = NDArray[np.float64]
Rows = NDArray[np.floating]


@dataclass(frozen=True)
class Predictor:
    """Planes, and the steps from a user's rows to the features of the planes.

    Attributes
    ----------
    transformer : fitted transformer or None
    smoothing : NeighbourSmoothing or None
    graph : LabelGraph or None
    kernel : Kernel
        Its width fixed.
    expansion : ndarray of shape (P, D) or None
        Rows that the kernel compares with; None for planes in feature space and for a precomputed kernel.
    planes : ndarray of shape (P, N)
        Of f, without the offset.
    offsets : ndarray of shape (N,)
    score_coef : ndarray of shape (P, N)
        Planes of the calibrated scores, without the graph's part.
    score_intercept : ndarray of shape (N,)
    graph_scale : float
        Weight of the graph's logits in the scores.
    """

    transformer: Any
    smoothing: NeighbourSmoothing | None
    graph: LabelGraph | None
    kernel: Kernel
    expansion: Rows | None
    planes: Array
    offsets: Array
    score_coef: Array
    score_intercept: Array
    graph_scale: float

    def margins(self, block: Rows) -> Array:
        """f of each class (n, N) at a user's checked rows (n, D)."""
        features, _ = self._place(block)
        return np.asarray(features @ self.planes + self.offsets)

    def scores(self, block: Rows) -> Array:
        """Calibrated scores (n, N) at a user's checked rows (n, D)."""
        return self.combine(*self._place(block))

    def scores_of_fitted(self, rows: Rows, graph_logits: Array | float) -> Array:
        """Calibrated scores (n, N) at rows (n, D) of `fit`, transformed and averaged already."""
        return self.combine(self.features(rows), graph_logits)

    def combine(self, features: Rows, graph_logits: Array | float) -> Array:
        """Scores (n, N) from the features of the planes (n, P) and the logits (n, N) of the graph.

        A row without direction has zero features: it gives evidence for no class.
        """
        scores: Array = features @ self.score_coef + self.score_intercept + self.graph_scale * graph_logits
        if gives_directions(self.transformer):
            scores[~features.any(axis=1)] = 0.0
        return scores

    def features(self, rows: Rows) -> Rows:
        """Features of the planes: the rows themselves, or their kernel with the rows of the expansion."""
        return rows if self.kernel.is_linear else self.kernel.matrix(rows, self.expansion)

    def _place(self, block: Rows) -> tuple[Rows, Array | float]:
        """Features (n, P) of a user's rows, and the graph's logits (n, N) at them."""
        rows = block if self.transformer is None else transform_rows(self.transformer, block)
        if self.smoothing is None:
            return self.features(rows), 0.0
        around = self.smoothing.look_around(rows)
        graph_logits = 0.0 if self.graph is None else self.graph.logits(self.smoothing.rows, rows, around)
        return self.features(self.smoothing.transform(rows, around)), graph_logits


@dataclass(frozen=True)
class FittedScores:
    """Scores of the rows of `fit`, by their numbers.

    Attributes
    ----------
    predictor : Predictor
    placed : bool
        Whether the rows are transformed and averaged already.
    graph_logits : ndarray of shape (n_rows, N) or None
        The graph's logits at all rows, where these are transformed already.
    beliefs : ndarray of shape (n_rows, N) or None
        What is believed of each row's class, as logarithms.
    trust : float
        Factor of the beliefs.
    """

    predictor: Predictor
    placed: bool
    graph_logits: Array | None
    beliefs: Array | None
    trust: float

    def __call__(self, rows: Rows, part: slice | NDArray[np.int64]) -> Array:
        """Scores (n, N) of the ``rows`` (n, D) with the numbers ``part``."""
        scores = self._by_features(rows, part)
        return scores if self.beliefs is None else scores + self.trust * self.beliefs[part]

    def _by_features(self, rows: Rows, part: slice | NDArray[np.int64]) -> Array:
        if not self.placed:
            return self.predictor.scores(rows)
        return self.predictor.scores_of_fitted(rows, 0.0 if self.graph_logits is None else self.graph_logits[part])
