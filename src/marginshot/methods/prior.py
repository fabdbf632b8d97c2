"""Methods that also take a prior: beliefs about each query's class that come from elsewhere than its features."""

from __future__ import annotations

from inspect import signature
from typing import Any, Protocol, TypeGuard

from numpy.typing import ArrayLike, NDArray

from marginshot.methods.base import Method, Scores, TaskwiseMethod


class PriorMethod(Method, Protocol):
    """A method that takes beliefs from class names, a language model, an older model or a noisy column."""

    def predict_scores(
        self,
        support: NDArray[Any],
        support_labels: NDArray[Any],
        query: NDArray[Any],
        *,
        prior: NDArray[Any] | None = None,
        support_prior: NDArray[Any] | None = None,
    ) -> Scores:
        """Score every class for every query; larger is better.

        Parameters
        ----------
        support, support_labels, query
            As in `Method.predict_scores`.
        prior : ndarray of shape (T, n_query, N), optional
            Beliefs about the class of each query, at least 0. Rows are scaled to sum 1; a row of zeros says nothing.
        support_prior : ndarray of shape (T, n_support, N), optional
            Beliefs of the same source about the support, for methods that learn from its errors there.

        Returns
        -------
        scores : ndarray of float64 of shape (T, n_query, N)
        """
        ...


def takes_prior(method: Method) -> TypeGuard[PriorMethod]:
    """Whether ``predict_scores`` of a method has the parameter ``prior``."""
    return "prior" in signature(method.predict_scores).parameters


class TaskwisePriorMethod(TaskwiseMethod):
    """Base class of methods with a prior: scores checked tasks in groups, whose ``prior`` may be None."""

    def predict_scores(
        self,
        support: ArrayLike,
        support_labels: ArrayLike,
        query: ArrayLike,
        *,
        prior: ArrayLike | None = None,
        support_prior: ArrayLike | None = None,
    ) -> Scores:
        """(T, n_support, D), (T, n_support), (T, n_query, D) -> (T, n_query, N), larger is better.

        Without ``prior`` (T, n_query, N) the method forms its own, from the cosines to the mean of each class.
        """
        return self._score_and_warn(support, support_labels, query, prior=prior, support_prior=support_prior)
