"""Refit the classifier on the same rows after labels have changed: from the last answer, in a fraction of the time.

What depends on the rows alone is computed once: neighbours, their graph, the rows averaged with them. The discriminant
transform, which learns from the labels too, stays as the last complete fit left it. The rest starts from the last
answer:

- Labels spread over the graph linearly, so only those that differ are spread.
- The mixture is fitted to the same sample of rows.
- The planes start from the last ones, at the last λ2.
- The experts keep the weights that hidden labels gave them in the last complete fit.

`solve` states the sequence of steps here as everywhere; `WarmTask` does them. Answers move away from those of a
complete fit as labels come: after 11 labels, one by one, beside one each of 77 classes (CLINC150, 13,000 rows) 99.5 %
of the rows have the label of a complete fit, and 99.6 % after 20 beside three each. `Refitter.drift` says how much has
changed since the last complete fit.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from marginshot._lib.threads import limit_threads
from marginshot.classifier.estimator import TransductiveMaxMarginClassifier
from marginshot.classifier.large import LargeTask
from marginshot.classifier.pipeline import solve
from marginshot.classifier.small import SmallTask
from marginshot.classifier.task import Problem
from marginshot.data.labels import Labelled
from marginshot.model.graph import Spread, place_labels
from marginshot.model.neighbours import NeighbourSmoothing, neighbours_in_task
from marginshot.model.shares import starting_prior

Array = NDArray[np.float64]

# The planes of a refit end at this multiple of the gradient norm at which those of a fit do. Chosen on CLINC150
# (77 classes, 1 and 3 examples each, 6 more labels) and Tiny-ImageNet: 10 to 200 agree with a fit on as many rows.
TOLERANCE = 100.0


class WarmTask(LargeTask):
    """A large task on the rows of another that was solved, with other labels.

    Parameters
    ----------
    problem : Problem
        The new labels.
    last : LargeTask
        The solved task on the same rows.
    """

    def __init__(self, problem: Problem, last: LargeTask) -> None:
        settings = problem.settings
        ending = replace(settings, lambda2=settings.stages[-1:], tol=TOLERANCE * settings.tol)
        super().__init__(replace(problem, transformer=last.problem.transformer, settings=ending))
        self.last: LargeTask | None = last
        names = last.known.classes
        place = np.minimum(np.searchsorted(names, self.known.classes), len(names) - 1)
        self.before = np.where(names[place] == self.known.classes, place, -1)

    def transform(self) -> None:
        """Keep the feature transform of the last complete fit."""
        last = self._last()
        self.table, self.row_map, self.domains = last.table, last.row_map, last.domains
        if self.in_memory:
            self.lengths = last.lengths

    def average_with_neighbours(self, n_neighbors: int, weight: float) -> None:
        """Keep the neighbours of the last complete fit."""
        self.smoothing = self._last().smoothing

    def spread_over(self, smoothing: NeighbourSmoothing) -> Spread:
        """The labels spread; only those that differ from the last ones are computed."""
        known = self.known
        placed = place_labels(smoothing.filled, known.index, known.labels, self.problem.weights, self.n_classes)
        return self._last().spread.changed(placed, self.before)

    def first_planes(self) -> Array:
        """Planes (P, N) of the last fit, zero for new classes."""
        return np.where(self.before >= 0, self._last().path.coef[:, self.before], 0.0)

    def forget(self) -> None:
        """Let go of the task before, once solved."""
        self.last = None

    def _last(self) -> LargeTask:
        if self.last is None:
            raise RuntimeError("A warm task is solved once.")
        return self.last


def can_follow(task: SmallTask | LargeTask, last: SmallTask | LargeTask) -> bool:
    """Whether both are large, and the rows as ``last`` made them serve the new labels of ``task``."""
    if not (isinstance(task, LargeTask) and isinstance(last, LargeTask)):
        return False
    n_neighbors = 0 if last.smoothing is None else last.smoothing.n_neighbors
    wanted = neighbours_in_task(task.settings.n_neighbors, task.n_support, task.n_rows, task.n_classes)
    return task.kernel.is_linear and n_neighbors == wanted


@dataclass(frozen=True)
class _Answer:
    """A solved task with the weights of its experts, and the labels of the complete fit that it goes back to."""

    task: SmallTask | LargeTask
    weights: Array
    known: Labelled
    number: int


class Refitter:
    """Fits a classifier to the same rows again and again, as their labels change; threads may share it.

    Parameters
    ----------
    classifier : TransductiveMaxMarginClassifier
        Its parameters are those of every fit; it stays unfitted itself.
    X : array of shape (n_rows, n_features)

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, truth = load_digits(return_X_y=True)
    >>> y = np.full(len(X), -1)
    >>> y[:30] = truth[:30]
    >>> refitter = Refitter(TransductiveMaxMarginClassifier.from_preset("auto"), X)
    >>> first = refitter.fit(y)
    >>> y[30] = truth[30]
    >>> round(refitter.drift(y), 3), bool(np.mean(refitter.refit(y).transduction_ == first.transduction_) > 0.99)
    (0.033, True)
    """

    def __init__(self, classifier: TransductiveMaxMarginClassifier, X: ArrayLike) -> None:
        self.classifier, self.X = classifier, X
        self._lock = threading.Lock()
        self._last: _Answer | None = None
        self._n_fits = 0

    def fit(self, y: ArrayLike, **of_rows: ArrayLike | None) -> TransductiveMaxMarginClassifier:
        """A classifier fitted from scratch to labels ``y`` (n_rows,), −1 where unknown; later refits start from it.

        ``of_rows`` are the other arguments of the classifier's `fit`: sample_weight, groups, domains, picked,
        class_prior.
        """
        return self._fit(y, of_rows, None)

    def refit(self, y: ArrayLike, **of_rows: ArrayLike | None) -> TransductiveMaxMarginClassifier:
        """A classifier fitted as by `fit`, but from the last answer; from scratch before the first one."""
        return self._fit(y, of_rows, self._last)

    def drift(self, y: ArrayLike) -> float:
        """Number of labels of ``y`` (n_rows,) that are new or changed since the last complete fit, over those it had.

        Infinite where there was no such fit, and where classes have come or gone.
        """
        last = self._last
        if last is None:
            return np.inf
        now: dict[int, object] = {
            row: label for row, label in enumerate(np.asarray(y).tolist()) if label not in (-1, "")
        }
        known = last.known
        then = dict(zip(known.index.tolist(), known.classes[known.labels].tolist(), strict=True))
        if set(now.values()) != set(then.values()):
            return np.inf
        n_changed = sum(now.get(row) != then.get(row) for row in now.keys() | then.keys())
        return n_changed / len(then)

    def _fit(
        self, y: ArrayLike, of_rows: Mapping[str, ArrayLike | None], last: _Answer | None
    ) -> TransductiveMaxMarginClassifier:
        classifier: TransductiveMaxMarginClassifier = clone(self.classifier)
        with limit_threads(classifier.n_jobs):
            task = classifier._open_task(self.X, y, classifier._settings(), **of_rows)
            weights = None
            if last is not None and can_follow(task, last.task):
                task, weights = WarmTask(task.problem, cast(LargeTask, last.task)), last.weights
            solution = solve(task, task.settings, starting_prior(classifier.prior, task.n_classes), weights)
            classifier._learn(task, solution)
        self._keep(task, solution.weights, last)
        return classifier

    def _keep(self, task: SmallTask | LargeTask, weights: Array, last: _Answer | None) -> None:
        """Remember a solved task, unless a complete fit has ended since it began."""
        with self._lock:
            if isinstance(task, WarmTask) and last is not None:
                task.forget()
                if self._last is None or self._last.number <= last.number:
                    self._last = _Answer(task, weights, last.known, last.number)
                return
            self._n_fits += 1
            self._last = _Answer(task, weights, task.known, self._n_fits)
