"""A mixture of one cluster a class in the kernel's space: how large each class is, and the answers it gives jointly.

One-versus-rest planes do not know of each other, nor of how the queries divide among the classes. A mixture does. Class
c is a ball around a centre, a weighted mean Σ C_ic φ(x_i) of the task's rows, and

    log p(c | x) = β (2 k(x)ᵀC_c − C_cᵀK C_c) + log-share of c + constant

Centres and answers alternate, as in expectation-maximisation: a labelled row counts four times and stays in its class,
a query counts once, divided among the classes by its answer. Everything is linear in the kernel, so the mixture's
logits are planes like those of FS-TMMC, and hold for rows that come later.

The sharpness follows from the task. Balls of variance v in d dimensions have β = d / (2v); the effective dimension of a
centred kernel matrix is (tr K)² / tr K², and about two thirds of the variance tr K / M stay within the classes.

The class shares are given, or one of two hypotheses is chosen by its evidence (`fit_mixture`): all classes are equally
large, or any division of the queries among them is as likely as any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, log_softmax, softmax

from marginshot.neighbours import neighbour_weight, smooth_grams, unit_grams
from marginshot.priors import is_estimated
from marginshot.settings import Settings

Array = NDArray[np.float64]
#: Logits (..., m, N) of the queries and the round -> log-shares (..., N), up to a constant.
LogShares = Callable[[Array, int], Array]

SUPPORT_WEIGHT = 4.0  # rows that a labelled row counts for
DIMENSIONS_TO_SHARPNESS = 0.75  # 1 / (2 · two thirds)
ROUNDS = 8
FREE_ROUNDS = 2  # first rounds in which unknown shares stay equal: the centres are still those of the support
SHARE_STEPS = 5  # of the inner alternation between answers and shares
LEAST_SHARE = 1e-6
NEIGHBOURS = 8  # that rows are averaged with before their shares are estimated
# A mixture has few numbers to find: of a large task, this many queries and labelled rows tell them.
SAMPLED_QUERIES = 1_000
SAMPLED_SHOTS = 50
SAMPLED_SUPPORT = 1_000


@dataclass(frozen=True)
class Mixture:
    """Logits k(x, rows) · coef + intercept of each class at a row x, and the classes' shares of the queries.

    Attributes
    ----------
    coef : ndarray of shape (..., M, N)
        Over the rows of the task, support first.
    intercept : ndarray of shape (..., N)
    shares : ndarray of shape (..., N)
        Given, or estimated: those of the answers.
    """

    coef: Array
    intercept: Array
    shares: Array

    def over_rows(self, chosen: NDArray[np.int64], n_rows: int) -> Mixture:
        """The same mixture over ``n_rows`` rows, of which it was fitted on those ``chosen``."""
        coef = np.zeros((n_rows, self.coef.shape[1]))
        coef[chosen] = self.coef
        return replace(self, coef=coef)

    def logits(self, gram: NDArray[np.floating]) -> Array:
        """(..., rows, M) -> (..., rows, N)."""
        logits: Array = gram @ self.coef + self.intercept[..., None, :]
        return logits


def needs_mixture(settings: Settings) -> bool:
    """Whether the class shares or the answers come from a mixture."""
    return is_estimated(settings.prior) or settings.calibration == "mixture"


def mixture_grams(grams: NDArray[np.floating], n_support: int, n_classes: int, settings: Settings) -> Any:
    """The kernel matrices (T, M, M) in which the mixture is fitted.

    Those of the planes, if it answers as well. If only its shares are asked for, those of rows averaged with their
    neighbours, where clusters show more clearly.
    """
    if settings.n_neighbors or settings.calibration == "mixture":
        return grams
    return smooth_grams(unit_grams(grams), NEIGHBOURS, neighbour_weight(n_support, n_classes))


def find_mixture(gram: Array, labels: NDArray[np.int64], shares: Array, settings: Settings) -> Mixture:
    """The mixture of one task, ``gram`` (M, M) and ``labels`` (n,), with ``shares`` (N,) unless they are estimated."""
    source = mixture_grams(gram[None], len(labels), len(shares), settings)[0]
    return fit_mixture(source, labels, None if is_estimated(settings.prior) else shares, len(shares))


def sample_rows(support: NDArray[np.int64], labels: NDArray[np.int64], n_rows: int) -> tuple[Any, Any]:
    """Rows of a task that a mixture is fitted on: positions in ``support``, and row numbers of queries.

    ``support`` (n,) are the labelled rows of ``n_rows``, in order, and ``labels`` (n,) their classes.
    """
    classes = np.unique(labels)
    shots = max(min(SAMPLED_SHOTS, SAMPLED_SUPPORT // len(classes)), 1)
    members = [np.flatnonzero(labels == c) for c in classes]
    positions = np.concatenate([rows[_spread(len(rows), shots)] for rows in members])
    queries = _spread(n_rows - len(support), SAMPLED_QUERIES)
    # The k-th query is row k + the number of support rows before it.
    before = support - np.arange(len(support))
    return positions, queries + np.searchsorted(before, queries, side="right")


def _spread(size: int, count: int) -> NDArray[np.int64]:
    """At most ``count`` of the numbers below ``size``, spread evenly."""
    return np.linspace(0, size - 1, min(size, count)).round().astype(np.int64)


def fit_mixture(gram: NDArray[np.floating], labels: NDArray[np.int64], shares: Array | None, n_classes: int) -> Mixture:
    """The mixture of a task, or of each task of a batch.

    Parameters
    ----------
    gram : ndarray of shape (..., M, M)
        Kernel matrix, support rows first.
    labels : ndarray of int of shape (..., n)
        Classes of the support.
    shares : ndarray of shape (..., N) or None
        The classes' shares of the queries, which the answers then keep to. None lets the evidence decide between equal
        shares, under which all divisions into N equal parts are equally likely, and unknown ones, under which all
        counts are (a flat Dirichlet). The simpler has a head start of one nat for each share the other leaves free.
    n_classes : int

    Examples
    --------
    >>> rows = np.array([[3.0, 0.0], [0.0, 3.0], [2.9, 0.2], [3.1, 0.0], [2.8, 0.1], [3.0, 0.2], [0.0, 3.1]])
    >>> rows -= rows.mean(axis=0)
    >>> fit_mixture(rows @ rows.T, np.array([0, 1]), None, 2).shares.round(1)
    array([0.8, 0.2])
    """
    task = _Task(gram, labels, n_classes)
    if shares is not None:
        given = np.broadcast_to(shares, task.class_shape)
        return replace(task.alternate(_kept(given))[0], shares=given)
    uniform = np.full(task.class_shape, 1.0 / n_classes)
    equal, evidence_of_equal = task.alternate(_kept(uniform))
    free, evidence_of_free = task.alternate(_unknown)
    m = task.n_query
    evidence_of_equal = evidence_of_equal + n_classes * gammaln(m / n_classes + 1.0) - gammaln(m + 1.0)
    counts = m * free.shares
    evidence_of_free = (
        evidence_of_free + gammaln(n_classes) - gammaln(m + n_classes) + gammaln(counts + 1.0).sum(axis=-1)
    )
    preferred = evidence_of_equal + (n_classes - 1) >= evidence_of_free
    return Mixture(
        np.where(preferred[..., None, None], equal.coef, free.coef),
        np.where(preferred[..., None], equal.intercept, free.intercept),
        np.where(preferred[..., None], equal.shares, free.shares),
    )


def sharpness(gram: NDArray[np.floating]) -> Array:
    """β (...) of kernel matrices (..., M, M), which are centred first; 0 where all rows are one."""
    n_rows = gram.shape[-1]
    mean = gram.mean(axis=-1, dtype=np.float64)
    grand = mean.mean(axis=-1)
    trace = np.einsum("...ii->...", gram, dtype=np.float64) - n_rows * grand
    squares = np.einsum("...ij,...ij->...", gram, gram, dtype=np.float64)
    squares = squares - 2.0 * n_rows * (mean**2).sum(axis=-1) + (n_rows * grand) ** 2
    beta = np.zeros_like(trace)
    np.divide(DIMENSIONS_TO_SHARPNESS * n_rows * trace, squares, out=beta, where=(trace > 1e-6) & (squares > 1e-6))
    return beta


class _Task:
    """A task or a batch of them: the alternation of centres and answers, whatever the shares."""

    def __init__(self, gram: NDArray[np.floating], labels: NDArray[np.int64], n_classes: int) -> None:
        self.gram, self.n_support = gram, labels.shape[-1]
        self.n_query = gram.shape[-1] - self.n_support
        self.support = SUPPORT_WEIGHT * (labels[..., None] == np.arange(n_classes))
        self.class_shape = (*labels.shape[:-1], n_classes)
        self.beta = sharpness(gram)[..., None]

    def alternate(self, log_shares: LogShares) -> tuple[Mixture, Array]:
        """The mixture after `ROUNDS` rounds, and its log-likelihood less the entropy bound's term of the counts."""
        n = self.n_support
        answers = np.zeros((*self.class_shape[:-1], self.n_query, self.class_shape[-1]))
        for round_ in range(ROUNDS):
            centres = np.concatenate((self.support, answers), axis=-2)
            centres /= centres.sum(axis=-2, keepdims=True)
            products = self.gram @ centres
            lengths = np.einsum("...ic,...ic->...c", centres, products)
            logits = self.beta[..., None] * (2.0 * products - lengths[..., None, :])
            pull = log_shares(logits[..., n:, :], round_)
            answers = softmax(logits[..., n:, :] + pull[..., None, :], axis=-1)
        log_answers = log_softmax(logits[..., n:, :] + pull[..., None, :], axis=-1)
        evidence = (answers * (logits[..., n:, :] - log_answers)).sum(axis=(-2, -1))
        evidence += (self.support * logits[..., :n, :]).sum(axis=(-2, -1))
        shares = answers.mean(axis=-2) if self.n_query else np.full(self.class_shape, 1.0 / self.class_shape[-1])
        return Mixture(2.0 * self.beta[..., None] * centres, pull - self.beta * lengths, shares), evidence


def _kept(shares: Array) -> LogShares:
    """The answers keep to ``shares`` (..., N): Sinkhorn's scaling of their columns."""

    def log_shares(logits: Array, round_: int) -> Array:
        if not logits.shape[-2]:
            return np.zeros_like(shares)
        pull = target = np.log(np.maximum(shares, LEAST_SHARE))
        for _ in range(3 * SHARE_STEPS):
            mean = softmax(logits + pull[..., None, :], axis=-1).mean(axis=-2)
            pull = pull + target - np.log(np.maximum(mean, LEAST_SHARE))
        return pull

    return log_shares


def _unknown(logits: Array, round_: int) -> Array:
    """Shares under a flat Dirichlet: exp E[log π] is close to the count plus a half."""
    pull = np.zeros((*logits.shape[:-2], logits.shape[-1]))
    if round_ >= FREE_ROUNDS:
        for _ in range(SHARE_STEPS):
            pull = np.log(softmax(logits + pull[..., None, :], axis=-1).sum(axis=-2) + 0.5)
    return pull
