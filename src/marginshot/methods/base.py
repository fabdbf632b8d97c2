"""What a method is, the table of all methods, and the one way tasks reach a method."""

from __future__ import annotations

import dataclasses
import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Scores = NDArray[np.float64]

# Tasks are scored a few at a time so that the features of a group stay in the processor's cache.
_GROUP_BYTES = 4_000_000


class Method(Protocol):
    """A few-shot classifier on batches of tasks, its settings frozen.

    Attributes
    ----------
    name : str
        As on the command line.
    title : str
        As in a table.
    reference : str
        Authors, title, venue.
    transductive : bool
        Whether the answer to one query depends on the others by the method's own design.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    reference: ClassVar[str]
    transductive: ClassVar[bool]

    def predict_scores(self, support: ArrayLike, support_labels: ArrayLike, query: ArrayLike) -> Scores:
        """Score every class for every query; larger is better.

        Parameters
        ----------
        support : array-like of shape (T, n_support, D)
        support_labels : array-like of int of shape (T, n_support)
            Values 0..N-1; each class occurs in each task, as often as it likes.
        query : array-like of shape (T, n_query, D)

        Returns
        -------
        scores : ndarray of float64 of shape (T, n_query, N)
        """
        ...

    def probabilities(self, scores: Scores) -> Scores | None:
        """The class probabilities the method's paper defines for these scores, (T, n_query, N), or None."""
        ...


METHODS: dict[str, type[Method]] = {}

_MethodClass = TypeVar("_MethodClass", bound=type[Method])


def register(method: _MethodClass) -> _MethodClass:
    """Enter a method into the table under its name."""
    if method.name in METHODS:
        raise ValueError(f"Two methods are named {method.name!r}: {METHODS[method.name].__name__}, {method.__name__}.")
    METHODS[method.name] = method
    return method


def get_method(name: str, **settings: Any) -> Method:
    """The method called ``name`` with these settings, defaults for the others.

    Examples
    --------
    >>> from marginshot.methods import get_method
    >>> get_method("laplacianshot", smoothing=0.5).title
    'LaplacianShot'
    """
    if name not in METHODS:
        raise ValueError(f"Unknown method {name!r}{_did_you_mean(name, METHODS)} Known: {', '.join(sorted(METHODS))}.")
    method = METHODS[name]
    known = [field.name for field in dataclasses.fields(method)]  # type: ignore[arg-type]
    unknown = [setting for setting in settings if setting not in known]
    if unknown:
        raise ValueError(
            f"Method {name!r} has no setting {', '.join(map(repr, unknown))}{_did_you_mean(unknown[0], known)} "
            f"It takes: {', '.join(known) or 'none'}."
        )
    return method(**settings)


def _did_you_mean(word: str, known: Any) -> str:
    nearest = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]!r}?" if nearest else "."


def check_setting(method: object, name: str, *, low: float, high: float = np.inf, open_low: bool = False) -> None:
    """Raise ValueError unless the number ``method.name`` lies in [low, high], or (low, high] with ``open_low``."""
    value = getattr(method, name)
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ValueError(f"{name} of {type(method).__name__} must be a number; got {value!r}.")
    if not (low < value if open_low else low <= value) or not value <= high or value == np.inf:
        bracket = "(" if open_low else "["
        raise ValueError(f"{name} of {type(method).__name__} must be in {bracket}{low:g}, {high:g}]; got {value!r}.")


def check_count(method: object, name: str, *, low: int) -> None:
    """Raise ValueError unless ``method.name`` is an integer of at least ``low``."""
    value = getattr(method, name)
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise ValueError(f"{name} of {type(method).__name__} must be an integer of at least {low}; got {value!r}.")


@dataclasses.dataclass(frozen=True)
class Tasks:
    """Some tasks, checked: what a method's own code sees.

    Parameters
    ----------
    support : ndarray of float32 or float64 of shape (T, n_support, D)
    labels : ndarray of int64 of shape (T, n_support)
    query : ndarray of the support's dtype of shape (T, n_query, D), n_query at least 1
    n_way : int
    """

    support: NDArray[Any]
    labels: NDArray[np.int64]
    query: NDArray[Any]
    n_way: int


def score_tasks(
    score: Callable[[Tasks], NDArray[Any]], support: ArrayLike, support_labels: ArrayLike, query: ArrayLike
) -> Scores:
    """Check a batch of tasks, then ``score`` it in groups that fit the processor's cache.

    Parameters
    ----------
    score : callable
        From ``Tasks`` to scores of shape (T, n_query, n_way); must treat each task on its own.
    support, support_labels, query : array-like
        As in ``Method.predict_scores``.

    Returns
    -------
    scores : ndarray of float64 of shape (T, n_query, n_way)
    """
    support, labels, query = np.asarray(support), np.asarray(support_labels), np.asarray(query)
    _check_shapes(support, labels, query)
    n_way = _count_ways(labels)
    n_tasks, n_query = query.shape[:2]
    scores = np.zeros((n_tasks, n_query, n_way))
    if n_query == 0:
        return scores
    dtype = np.float32 if np.result_type(support, query, np.float32) == np.float32 else np.float64
    bytes_per_task = (support.shape[1] + n_query) * support.shape[2] * np.dtype(dtype).itemsize
    step = max(1, _GROUP_BYTES // bytes_per_task)
    for start in range(0, n_tasks, step):
        group = slice(start, start + step)
        scores[group] = score(
            Tasks(
                support=_as_features(support[group], dtype, "support", start),
                labels=labels[group].astype(np.int64),
                query=_as_features(query[group], dtype, "query", start),
                n_way=n_way,
            )
        )
    return scores


def _check_shapes(support: NDArray[Any], labels: NDArray[Any], query: NDArray[Any]) -> None:
    """Raise ValueError unless the three arrays describe the same number of tasks in the same feature space."""
    if support.ndim != 3 or query.ndim != 3:
        raise ValueError(
            f"support and query must have three axes, (tasks, rows, features); got shapes {support.shape} and "
            f"{query.shape}. One task alone is support[None]."
        )
    if labels.shape != support.shape[:2]:
        raise ValueError(
            f"support_labels must have one label per support row, shape {support.shape[:2]}; got {labels.shape}."
        )
    if support.shape[0] != query.shape[0]:
        raise ValueError(f"support and query need equal numbers of tasks; got {support.shape[0]} and {query.shape[0]}.")
    if support.shape[2] != query.shape[2]:
        raise ValueError(f"support and query need equal n_features; got {support.shape[2]} and {query.shape[2]}.")
    if support.shape[2] == 0:
        raise ValueError("support and query have no features; got arrays whose last axis is 0 long.")
    for name, array in (("support", support), ("query", query)):
        if array.dtype.kind not in "fiu":
            raise ValueError(f"{name} must hold real numbers; got dtype {array.dtype}.")


def _count_ways(labels: NDArray[Any]) -> int:
    """The number of classes, after checking that every task has a label of each."""
    if labels.dtype.kind not in "iu":
        raise ValueError(f"support_labels must be integers 0..N-1; got dtype {labels.dtype}.")
    if labels.size == 0:
        raise ValueError(f"support_labels must not be empty; got shape {labels.shape}.")
    if labels.min() < 0:
        raise ValueError(f"support_labels must be 0..N-1; got {labels.min()}.")
    n_way = int(labels.max()) + 1
    if n_way < 2:
        raise ValueError("A task needs at least two classes in its support; got only label 0.")
    if n_way > labels.shape[1]:
        raise ValueError(f"support_labels go up to {n_way - 1} but a task has only {labels.shape[1]} support rows.")
    present = np.zeros((labels.shape[0], n_way), dtype=bool)
    present[np.arange(labels.shape[0])[:, None], labels] = True
    if not present.all():
        task, label = np.argwhere(~present)[0]
        raise ValueError(f"Every class needs a support row in every task; task {task} has none of class {label}.")
    return n_way


def _as_features(rows: NDArray[Any], dtype: type, name: str, first_task: int) -> NDArray[Any]:
    """Contiguous, of ``dtype`` and finite."""
    features = np.ascontiguousarray(rows, dtype=dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(features.sum())  # one fast pass; a sum may also overflow, so look again
    if suspicious and not (finite := np.isfinite(features).all(axis=(1, 2))).all():
        task = first_task + int(np.argmin(finite))
        raise ValueError(f"{name} must be finite; task {task} holds NaN or infinity. Drop or impute these rows.")
    return features


class TaskwiseMethod(ABC):
    """What the methods here share: checked tasks come in, in groups; no probabilities unless a method defines them."""

    def predict_scores(self, support: ArrayLike, support_labels: ArrayLike, query: ArrayLike) -> Scores:
        """(T, n_support, D), (T, n_support), (T, n_query, D) -> (T, n_query, N), larger is better."""
        return score_tasks(self._score, support, support_labels, query)

    def probabilities(self, scores: Scores) -> Scores | None:
        """The class probabilities the method's paper defines for these scores, (T, n_query, N), or None."""
        return None

    @abstractmethod
    def _score(self, tasks: Tasks) -> NDArray[Any]:
        """Scores (T, n_query, N) of some tasks, each treated on its own."""
