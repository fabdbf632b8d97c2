"""The interface of a method, the registry of all methods, and the checks before a method scores tasks."""

from __future__ import annotations

import dataclasses
import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginshot._lib.validation import check_beliefs, check_task_batch
from marginshot._lib.warn import warn_user
from marginshot.data.table import FeatureTable

Scores = NDArray[np.float64]

# Tasks are scored a few at a time so that the features of a group stay in the processor's cache.
_GROUP_BYTES = 2_000_000


class Method(Protocol):
    """A few-shot classifier on batches of tasks, with frozen settings.

    Attributes
    ----------
    name : str
        Name on the command line.
    title : str
        Name in tables.
    reference : str
        Authors, title, venue.
    transductive : bool
        Whether the answer to one query depends on the others by the method's own design.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    reference: ClassVar[str]
    transductive: ClassVar[bool]

    def predict_scores(self, support: NDArray[Any], support_labels: NDArray[Any], query: NDArray[Any]) -> Scores:
        """Score every class for every query; larger is better.

        Parameters
        ----------
        support : ndarray of shape (T, n_support, D)
        support_labels : ndarray of int of shape (T, n_support)
            Values 0..N-1; each class occurs in each task at least once.
        query : ndarray of shape (T, n_query, D)

        Returns
        -------
        scores : ndarray of float64 of shape (T, n_query, N)
        """
        ...

    def probabilities(self, scores: Scores) -> Scores | None:
        """The class probabilities the method's paper defines for these scores, (T, n_query, N), or None."""
        ...


class TableMethod(Method, Protocol):
    """A method that also takes tasks as row numbers of one table, so that work on the table is done once for all tasks.

    It gives the scores of `predict_scores`, up to rounding.
    """

    def predict_table_scores(
        self, table: FeatureTable, support_rows: NDArray[Any], support_labels: NDArray[Any], query_rows: NDArray[Any]
    ) -> Scores:
        """Row numbers (T, n_support) and (T, n_query) of ``table``, labels (T, n_support) -> (T, n_query, N)."""
        ...


def takes_row_numbers(method: Method) -> TypeGuard[TableMethod]:
    """Whether a method is a `TableMethod`; a subclass that overrides `predict_scores` alone is not."""
    names = ("predict_scores", "predict_table_scores")
    owner = next((kind for kind in type(method).__mro__ if not vars(kind).keys().isdisjoint(names)), None)
    return owner is not None and vars(owner).keys() >= set(names)


METHODS: dict[str, type[Method]] = {}
_PARTS = ("name", "title", "reference", "transductive", "predict_scores")

_MethodClass = TypeVar("_MethodClass", bound=type[Method])


def register(method: _MethodClass) -> _MethodClass:
    """Add a method to the registry under its name."""
    missing = [name for name in _PARTS if not hasattr(method, name)]
    if missing:
        raise TypeError(f"{method.__name__} is not a method yet: it lacks {', '.join(missing)}; see {Method.__name__}.")
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
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(f"Unknown method {name!r}{_did_you_mean(name, METHODS)} Known: {', '.join(sorted(METHODS))}.")
    method = METHODS[name]
    known = [field.name for field in dataclasses.fields(method)] if dataclasses.is_dataclass(method) else list[str]()
    unknown = [setting for setting in settings if setting not in known]
    if unknown:
        raise ValueError(
            f"Method {name!r} has no setting {', '.join(map(repr, unknown))}{_did_you_mean(unknown[0], known)} "
            f"It takes: {', '.join(known) or 'none'}."
        )
    return method(**settings)


def _did_you_mean(word: str, known: Any) -> str:
    nearest = difflib.get_close_matches(str(word), list(known), n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]!r}?" if nearest else "."


def check_setting(
    method: object, name: str, *, low: float, high: float = np.inf, open_low: bool = False, open_high: bool = True
) -> None:
    """Raise ValueError unless the number ``method.name`` lies between ``low`` and ``high``; open ends are excluded."""
    value = getattr(method, name)
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ValueError(f"{name} of {type(method).__name__} must be a number; got {value!r}.")
    above = low < value if open_low else low <= value
    below = value < high if open_high else value <= high
    if not (above and below):
        interval = f"{'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
        raise ValueError(f"{name} of {type(method).__name__} must be in {interval}; got {value!r}.")


def check_count(method: object, name: str, *, low: int) -> None:
    """Raise ValueError unless ``method.name`` is an integer of at least ``low``."""
    value = getattr(method, name)
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise ValueError(f"{name} of {type(method).__name__} must be an integer of at least {low}; got {value!r}.")


@dataclasses.dataclass(frozen=True)
class Tasks:
    """Checked tasks, as a method's own code receives them.

    Parameters
    ----------
    support : ndarray of float32 or float64 of shape (T, n_support, D)
    labels : ndarray of int64 of shape (T, n_support)
    query : ndarray of the support's dtype of shape (T, n_query, D), n_query at least 1
    n_way : int
    converged : ndarray of bool of shape (T,)
        All true at first; an iterative method writes here which tasks it finished.
    prior, support_prior : ndarray of float64 of shape (T, n_query, n_way) and (T, n_support, n_way), optional
        Beliefs about the class of every row, each row summing to 1; see `marginshot.methods.prior`.
    """

    support: NDArray[Any]
    labels: NDArray[np.int64]
    query: NDArray[Any]
    n_way: int
    converged: NDArray[np.bool_]
    prior: NDArray[np.float64] | None = None
    support_prior: NDArray[np.float64] | None = None

    def between_shots(self, one: float, five: float) -> float:
        """A setting for these tasks, interpolated linearly between its authors' values at one and at five shots."""
        n_shot = self.support.shape[1] / self.n_way
        return one + (five - one) * min(max(n_shot - 1.0, 0.0), 4.0) / 4.0


def score_tasks(
    score: Callable[[Tasks], NDArray[Any]],
    support: ArrayLike,
    support_labels: ArrayLike,
    query: ArrayLike,
    *,
    prior: ArrayLike | None = None,
    support_prior: ArrayLike | None = None,
) -> tuple[Scores, NDArray[np.bool_]]:
    """Check a batch of tasks, then ``score`` it in groups that fit the processor's cache.

    Parameters
    ----------
    score : callable
        From ``Tasks`` to scores of shape (T, n_query, n_way); must treat each task on its own.
    support, support_labels, query : array-like
        As in ``Method.predict_scores``.
    prior, support_prior : array-like, optional
        As in ``PriorMethod.predict_scores``.

    Returns
    -------
    scores : ndarray of float64 of shape (T, n_query, n_way)
    converged : ndarray of bool of shape (T,)
    """
    support, labels, query = check_task_batch(support, support_labels, query)
    n_tasks, n_query = query.shape[:2]
    n_way = int(labels.max()) + 1
    beliefs = check_beliefs("prior", prior, (n_tasks, n_query, n_way))
    support_beliefs = check_beliefs("support_prior", support_prior, (*labels.shape, n_way))
    scores, converged = np.zeros((n_tasks, n_query, n_way)), np.ones(n_tasks, dtype=bool)
    if n_query == 0:
        return scores, converged
    dtype = np.float32 if np.result_type(support, query, np.float32) == np.float32 else np.float64
    bytes_per_task = (support.shape[1] + n_query) * support.shape[2] * np.dtype(dtype).itemsize
    step = 1 + _GROUP_BYTES // max(1, bytes_per_task)
    for start in range(0, n_tasks, step):
        group = slice(start, start + step)
        scores[group] = score(
            Tasks(
                support=np.ascontiguousarray(support[group], dtype=dtype),
                labels=labels[group],
                query=np.ascontiguousarray(query[group], dtype=dtype),
                n_way=n_way,
                converged=converged[group],
                prior=None if beliefs is None else beliefs[group],
                support_prior=None if support_beliefs is None else support_beliefs[group],
            )
        )
    return scores, converged


class TaskwiseMethod(ABC):
    """Base class of the methods: scores checked tasks in groups, and gives no probabilities by default."""

    def predict_scores(self, support: ArrayLike, support_labels: ArrayLike, query: ArrayLike) -> Scores:
        """(T, n_support, D), (T, n_support), (T, n_query, D) -> (T, n_query, N), larger is better."""
        return self._score_and_warn(support, support_labels, query)

    def probabilities(self, scores: Scores) -> Scores | None:
        """The class probabilities the method's paper defines for these scores, (T, n_query, N), or None."""
        return None

    def _score_and_warn(
        self, support: ArrayLike, support_labels: ArrayLike, query: ArrayLike, **priors: ArrayLike | None
    ) -> Scores:
        scores, converged = score_tasks(self._score, support, support_labels, query, **priors)
        unfinished = int(np.count_nonzero(~converged))
        if unfinished:
            _warn_unfinished(type(self).__name__, unfinished, converged.size)
        return scores

    @abstractmethod
    def _score(self, tasks: Tasks) -> NDArray[Any]:
        """Scores (T, n_query, N) of some tasks, each treated on its own."""


def _warn_unfinished(method: str, unfinished: int, n_tasks: int) -> None:
    """One warning for all tasks of a batch that did not converge."""
    from sklearn.exceptions import ConvergenceWarning

    warn_user(
        f"{method} did not converge in {unfinished} of {n_tasks} tasks: raise max_iter or tol.", ConvergenceWarning
    )
