"""Labels and probabilities of the rows of `fit` themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.classifier.pipeline import Solution
from marginshot.classifier.predictor import Predictor
from marginshot.classifier.task import OneTask
from marginshot.data.labels import Labelled
from marginshot.data.rows import Rows, Table, map_blocks, strips
from marginshot.model.calibration import Calibration
from marginshot.model.transforms import widened

Array = NDArray[np.float64]

# Probabilities up to this size, or up to a tenth of X, are kept; larger ones are computed on access.
KEPT_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Transduction:
    """Labels of all rows, and their probabilities where they are kept.

    Attributes
    ----------
    labels : array of shape (n_rows,)
    distributions : array of shape (n_rows, N) or None
    """

    labels: Any
    distributions: Any

    @classmethod
    def of_task(cls, task: OneTask, predictor: Predictor, solution: Solution) -> Transduction:
        """Label every row in a pass over the blocks; on Dask blocks lazily, on their workers."""
        source, known, calibration = task.problem.table, task.known, task.settings.answers
        if hasattr(source, "label"):
            return cls(*source.label(predictor, calibration, known))
        n_rows, n_features = source.shape
        n_bytes = 8 * n_rows * task.n_classes
        kept = n_bytes <= max(KEPT_BYTES, n_rows * n_features * source.dtype.itemsize // 10)
        kept = kept or task.problem.beliefs is not None  # X alone does not give them again
        codes = np.empty(n_rows, dtype=np.min_scalar_type(task.n_classes))
        distributions = np.empty((n_rows, task.n_classes)) if kept else None
        fitted_scores = task.fitted_scores(predictor, solution)

        def work(start: int, block: Rows) -> tuple[Array, ...]:
            for first, strip in strips(block):
                part = slice(start + first, start + first + len(strip))
                scores = fitted_scores(widened(strip), part)
                codes[part] = scores.argmax(axis=1)
                if distributions is not None:
                    distributions[part] = calibration.probabilities(scores)
            return ()

        task.table.accumulate(work)
        codes[known.index] = known.labels
        if distributions is not None:
            distributions[known.index] = np.eye(task.n_classes)[known.labels]
        return cls(known.classes[codes], distributions)


def distributions_of(source: Table, predictor: Predictor, calibration: Calibration, known: Labelled) -> Array:
    """Probabilities (n_rows, N) of all rows of `fit`, read again from its table; 1 for the given labels."""
    distributions = np.empty((source.shape[0], len(known.classes)))
    map_blocks(source, lambda strip: calibration.probabilities(predictor.scores(widened(strip))), distributions)
    distributions[known.index] = np.eye(len(known.classes))[known.labels]
    return distributions
