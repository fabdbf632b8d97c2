"""A mixture of one cluster a class in the kernel's space: how large each class is, and the answers it gives jointly.

One-versus-rest planes do not know of each other, nor of how the queries divide among the classes. A mixture does. Class
c is a ball around a centre, a weighted mean Σ C_ic φ(x_i) of the task's rows, and

    log p(c | x) = β (2 k(x)ᵀC_c − C_cᵀK C_c) + log-share of c + constant

Centres and answers alternate, as in expectation-maximisation: a labelled row counts four times and stays in its class,
a query counts once, divided among the classes by its answer. Everything is linear in the kernel, so the mixture's
logits are planes like those of FS-TMMC, and hold for rows that come later.

The sharpness follows from the task. Balls of variance v in d dimensions have β = d / (2v); d is the effective dimension
(tr K)² / tr K² of the centred kernel matrix, and v is estimated along with the centres. The first rounds work at half
the sharpness: a soft start, like the growing query weight of the planes, ends less often in a poor division.

The class shares are given, or one of three hypotheses is chosen by its evidence (`fit_mixture`): all classes are
equally large, or any division of the queries among them is as likely as any other, or some classes have no queries at
all. A centre made of few rows fits these too well, the more so the more dimensions there are; so the evidence takes a
quarter of the variance with each row left out of the centre it is compared with, and where neither queries nor labelled
rows show clusters, shares stay equal and the mixture says nothing; nor does it where queries are fewer than two a
class, unless it finds nearly all of them in a few.

Clusters may have nothing to do with the classes. Where these have several labels, each labelled row is left out of its
centre, and looked for by the nearest; a mixture that places fewer of them rightly than the means of the support do is
believed the less, down to not at all: its logits shrink, and the shares it found towards equal ones.

What is known of a query beforehand, its hints, stands beside log p(c | x) while centres and shares are sought: the
logits of `marginshot.model.graph`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, gammaln, log_softmax, softmax

from marginshot.classifier.settings import QUERIES_A_CLASS

Array = NDArray[np.float64]
#: Answers (..., m, N) to the queries and the log-shares (..., N) that led to them -> better log-shares.
ShareRule = Callable[[Array, Array], Array]

SUPPORT_WEIGHT = 4.0  # rows that a labelled row counts for
SHARPENING = (0.5, 0.5, 2 / 3, 5 / 6, 1.0, 1.0)  # of β, round by round
FIRST_WITHIN = 2 / 3  # share of the variance that lies within the classes, before any query has an answer
LEAST_WITHIN, MOST_LEFT_OUT = 0.05, 2.0  # between which shares of the variance are believed
LEAST_SPREAD = 1e-7  # of rows that are not all one, as a share of their squared lengths: less is rounding
SHARE_STEPS = 5  # of the inner alternation between answers and shares
LEAST_SHARE = 1e-6
LEAST_LOGIT = -40.0  # of a query beside that of its likeliest class: nothing is surer of what it has seen so little of
CENTRE_PRIOR = 1.0  # rows at the task's mean that every centre holds
LEFT_OUT = 0.25  # weight of the variance with rows left out of their centres, beside that of the variance as found
# Variance that classes must explain to be clusters: of queries left out of their centres, and of labelled rows, of
# which there are fewer.
EXPLAINED_OF_QUERIES, EXPLAINED_OF_SUPPORT = 0.03, 0.1
# The former where no class has a second label that could contradict: averaging with neighbours makes clusters of
# anything. Not with few classes: one may hold nearly all queries, and then they explain as little.
EXPLAINED_UNCHECKED, FEW_CLASSES = 0.08, 4
HINTS_IN_EVIDENCE = 0.5  # weight of the hints when hypotheses are compared: neighbours err together
HEAD_START = 1.0  # of equal shares, in nats for each share that the other hypothesis leaves free
# One nat in so many dimensions, and more in more: rows are no balls, and many dimensions make a wrong division seem
# surer.
DIMENSIONS_OF_A_NAT = 36.0
# Queries that a class is taken to have besides those found, when its share is sought. With a half, the share is close
# to exp E[log π] under a flat Dirichlet; less one, a class with fewer than a query soon has none.
OF_ANY_DIVISION, OF_CLASSES_PRESENT = 0.5, -1.0
LEAST_COUNT = 1e-3
# Head starts that each absent class is worth: one for the share, and one for the centre, that queries cannot bend.
STARTS_OF_AN_ABSENT = 2.0
# Beyond so many classes some may be absent. Of fewer, a wrong guess with one label a class costs more than it wins.
MANY_CLASSES = 5
# Queries that the classes found must have, each and on average, where all classes together have fewer than
# `QUERIES_A_CLASS`: a division of so few is a guess, unless it is into few parts.
QUERIES_OF_FOUND_CLASSES = 4.0
# Labelled rows, and their share, by which means of the support may be ahead before a mixture is not believed at all.
MISPLACED, MISPLACED_SHARE = 2.0, 0.02


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
    within : ndarray of shape (...)
        Share of the rows' variance that lies within the classes: small where the clusters are far apart.
    trust : ndarray of shape (...)
        How far labelled rows bear the mixture out, 0 to 1. `believed` applies it.
    """

    coef: Array
    intercept: Array
    shares: Array
    within: Array
    trust: Array

    def over_rows(self, chosen: NDArray[np.int64], n_rows: int) -> Mixture:
        """The same mixture over ``n_rows`` rows, of which it was fitted on those ``chosen``."""
        coef = np.zeros((n_rows, self.coef.shape[1]))
        coef[chosen] = self.coef
        return replace(self, coef=coef)

    def believed(self) -> Mixture:
        """The same mixture, its logits as large as they are trusted, its shares as far from equal ones."""
        trust, n_classes = self.trust[..., None], self.shares.shape[-1]
        shares = trust * self.shares + (1.0 - trust) / n_classes
        return replace(self, coef=trust[..., None] * self.coef, intercept=trust * self.intercept, shares=shares)

    def logits(self, gram: NDArray[np.floating]) -> Array:
        """(..., rows, M) -> (..., rows, N)."""
        logits: Array = gram @ self.coef + self.intercept[..., None, :]
        return logits


def fit_mixture(
    gram: NDArray[np.floating],
    labels: NDArray[np.int64],
    shares: Array | None,
    n_classes: int,
    lead: float = 0.0,
    hints: Array | None = None,
    n_query: int | None = None,
) -> Mixture:
    """The mixture of a task, or of each task of a batch.

    Parameters
    ----------
    gram : ndarray of shape (..., M, M)
        Kernel matrix, support rows first.
    labels : ndarray of int of shape (..., n)
        Classes of the support.
    shares : ndarray of shape (..., N) or None
        The classes' shares of the queries, which the answers then keep to. None lets the evidence decide. Equal shares:
        all divisions into N equal parts are equally likely. Unknown shares: all counts are (a flat Dirichlet), sought
        from two starts, for alternation only finds what is near: from the support, and from all queries in one class,
        where a task is at home that hardly has any queries of the others. Where these are likelier than equal ones and
        classes are more than `MANY_CLASSES`, some present: every number of them is equally likely, every choice of so
        many, and every division among these. Where there are no clusters, nothing can speak against equal shares.
    n_classes : int
    lead : float, default=0
        Head start of equal shares, for each share that the others leave free; longer in many dimensions.
    hints : ndarray of shape (..., m, N), optional
        Logits that the queries' classes have beforehand. The mixture's own do not hold them.
    n_query : int, optional
        Queries of the task, where ``gram`` holds a sample of them; by default m.

    Examples
    --------
    >>> rows = np.array([[3.0, 0.0], [0.0, 3.0], [2.9, 0.2], [3.1, 0.0], [2.8, 0.1], [3.0, 0.2], [0.0, 3.1]])
    >>> rows -= rows.mean(axis=0)
    >>> fit_mixture(rows @ rows.T, np.array([0, 1]), None, 2).shares.round(1)
    array([0.8, 0.2])
    """
    task = _Task(gram, labels, n_classes, hints)
    if shares is not None:
        given = np.broadcast_to(shares, task.class_shape)
        mixture, _, _ = task.alternate(_keep_to(given), task.unanswered)
        return replace(mixture.believed(), shares=given)
    equal, evidence, clustered = task.alternate(_keep_to(np.full(task.class_shape, 1.0 / n_classes)), task.unanswered)
    m, found, clustered = task.n_query, equal, clustered | task.labels_are_clustered()
    evidence = evidence + n_classes * gammaln(m / n_classes + 1.0) - gammaln(m + 1.0)
    in_dimensions = (task.dimensions / DIMENSIONS_OF_A_NAT) ** 1.5
    behind = np.maximum(lead, in_dimensions) * (n_classes - 1)
    worth_of_absent = STARTS_OF_AN_ABSENT * np.maximum(HEAD_START, in_dimensions)
    unequal = np.zeros(task.class_shape[:-1], dtype=bool)
    for phantom, start in task.unequal_hypotheses() if m else ():
        some_present = phantom == OF_CLASSES_PRESENT
        if some_present and not unequal.any():
            break
        free, evidence_of_free, seen = task.alternate(_count_with(phantom), start)
        counts = m * free.shares
        of_counts = _evidence_of_present(counts, worth_of_absent) if some_present else _evidence_of_division(counts)
        evidence_of_free = evidence_of_free + of_counts - behind
        asked = unequal | (not some_present)
        better = (evidence_of_free > evidence) & asked
        found, evidence = _choose(better, free, found), np.where(better, evidence_of_free, evidence)
        unequal, clustered = unequal | better, clustered | (seen & asked)
    speaks = clustered & _are_enough(m if n_query is None else n_query, found.shares)
    return _choose(speaks, found, replace(equal, trust=np.zeros_like(equal.trust))).believed()


def _are_enough(n_query: int, shares: Array) -> NDArray[np.bool_]:
    """Whether so many queries tell anything, divided by ``shares`` (..., N), as good as exp H equal ones."""
    of_all = n_query >= QUERIES_A_CLASS * shares.shape[-1]
    return np.asarray(of_all | (n_query >= QUERIES_OF_FOUND_CLASSES * np.exp(entr(shares).sum(axis=-1))))


def _evidence_of_division(counts: Array) -> Array:
    """Logarithm of the probability of a division with ``counts`` (..., N), where all counts are equally likely."""
    n_classes, m = counts.shape[-1], counts.sum(axis=-1)
    return np.asarray(gammaln(n_classes) - gammaln(m + n_classes) + gammaln(counts + 1.0).sum(axis=-1))


def _evidence_of_present(counts: Array, worth_of_absent: Array) -> Array:
    """The same where every number of classes present is, every choice of them and every division among them.

    Each absent one has its worth (...) besides.
    """
    n_classes, m = counts.shape[-1], counts.sum(axis=-1)
    present = np.clip((counts > 0.5).sum(axis=-1), 1, m)
    choices = gammaln(n_classes + 1.0) - gammaln(present + 1.0) - gammaln(n_classes - present + 1.0)
    divisions = gammaln(m) - gammaln(present) - gammaln(m - present + 1.0)
    of_counts = gammaln(counts + 1.0).sum(axis=-1) - gammaln(m + 1.0)
    return np.asarray(of_counts - np.log(n_classes) - choices - divisions + worth_of_absent * (n_classes - present))


def _choose(first: NDArray[np.bool_], a: Mixture, b: Mixture) -> Mixture:
    """Mixture ``a`` where ``first`` (...), else ``b``."""
    return Mixture(
        np.where(first[..., None, None], a.coef, b.coef),
        np.where(first[..., None], a.intercept, b.intercept),
        np.where(first[..., None], a.shares, b.shares),
        np.where(first, a.within, b.within),
        np.where(first, a.trust, b.trust),
    )


def spread(gram: NDArray[np.floating]) -> tuple[Array, Array]:
    """Variance and effective dimension (...) of rows with kernel matrices (..., M, M); 0 where all rows are one."""
    n_rows = gram.shape[-1]
    mean = gram.mean(axis=-1, dtype=np.float64)
    grand = mean.mean(axis=-1)
    total = np.einsum("...ii->...", gram, dtype=np.float64)
    trace = total - n_rows * grand
    squares = np.einsum("...ij,...ij->...", gram, gram, dtype=np.float64)
    squares = squares - 2.0 * n_rows * (mean**2).sum(axis=-1) + (n_rows * grand) ** 2
    differ = (trace > LEAST_SPREAD * total) & (squares > (LEAST_SPREAD * total) ** 2)
    dimensions = np.zeros_like(trace)
    np.divide(trace**2, squares, out=dimensions, where=differ)
    return np.where(differ, trace / n_rows, 0.0), dimensions


class _Task:
    """A task or a batch of them: the alternation of centres and answers, whatever the shares."""

    def __init__(
        self, gram: NDArray[np.floating], labels: NDArray[np.int64], n_classes: int, hints: Array | None
    ) -> None:
        self.gram, self.n_support = gram, labels.shape[-1]
        self.n_query = gram.shape[-1] - self.n_support
        self.class_shape = (*labels.shape[:-1], n_classes)
        self.unanswered = np.zeros((*labels.shape[:-1], self.n_query, n_classes))
        self.hints = self.unanswered if hints is None else hints
        self.variance, self.dimensions = spread(gram)
        self.squares = np.einsum("...ii->...i", gram).astype(np.float64)
        self.weight = SUPPORT_WEIGHT * self.n_support + self.n_query
        self.to_mean = self._to_mean()
        self._look_at_support(labels, n_classes)

    def _look_at_support(self, labels: NDArray[np.int64], n_classes: int) -> None:
        """What means of the labelled rows tell: their weights, lengths, and squared distances (..., n, N) to them."""
        n, members = self.n_support, (labels[..., None] == np.arange(n_classes)).astype(np.float64)
        counts = members.sum(axis=-2, keepdims=True)
        self.support, self.means = SUPPORT_WEIGHT * members, members / counts
        products = self.gram[..., :n, :n] @ self.means
        self.lengths_of_means = np.einsum("...ic,...ic->...c", self.means, products)
        self.to_means = self.squares[..., :n, None] - 2.0 * products + self.lengths_of_means[..., None, :]
        # Rows of classes with several, and how many times as far from its mean one is when it is left out.
        self.several = members * (counts > 1)
        self.without = np.where(members > 0, counts / np.maximum(counts - 1.0, 1.0), 1.0)

    def all_in_one_class(self) -> Array:
        """Answers that put every query into the class whose support is nearest to their mean."""
        n = self.n_support
        to_queries = self.gram[..., n:, :n].mean(axis=-2)[..., None, :]
        distances = self.lengths_of_means - 2.0 * (to_queries @ self.means)[..., 0, :]
        nearest = distances.argmin(axis=-1)[..., None, None] == np.arange(self.class_shape[-1])
        return self.unanswered + nearest

    def unequal_hypotheses(self) -> list[tuple[float, Array]]:
        """Phantom queries of `_count_with` and the answers to start from, of each way to seek unequal shares."""
        hypotheses = [(OF_ANY_DIVISION, self.unanswered), (OF_ANY_DIVISION, self.all_in_one_class())]
        if self.class_shape[-1] > MANY_CLASSES:
            hypotheses.append((OF_CLASSES_PRESENT, self.unanswered))
        return hypotheses

    def alternate(self, share_rule: ShareRule, answers: Array) -> tuple[Mixture, Array, NDArray[np.bool_]]:
        """The mixture after the last round, its evidence but for that of the counts, and whether there are clusters."""
        n, n_rows = self.n_support, self.gram.shape[-1]
        pull = np.zeros(self.class_shape)
        within = np.full(self.class_shape[:-1], FIRST_WITHIN)
        for round_, sharpening in enumerate(SHARPENING):
            weights = np.concatenate((self.support, answers), axis=-2)
            sizes = weights.sum(axis=-2, keepdims=True) + CENTRE_PRIOR
            centres = (weights + CENTRE_PRIOR / n_rows) / sizes
            products = self.gram @ centres
            lengths = np.einsum("...ic,...ic->...c", centres, products)
            away = self.squares[..., None] - 2.0 * products + lengths[..., None, :]
            distances = weights * away
            if round_:
                within = np.clip(self._share_of_variance(distances), LEAST_WITHIN, 1.0)
            beta = sharpening * self._sharpness(within)[..., None]
            logits = beta[..., None] * (2.0 * products[..., n:, :] - lengths[..., None, :]) + self.hints
            logits = np.maximum(logits - logits.max(axis=-1, keepdims=True), LEAST_LOGIT)
            for _ in range(SHARE_STEPS if self.n_query else 0):
                pull = share_rule(softmax(logits + pull[..., None, :], axis=-1), pull)
            answers = softmax(logits + pull[..., None, :], axis=-1)
        # x − C without x is longer than x − C by the centre's size over its size without x.
        left_out = distances * (sizes / (sizes - weights)) ** 2
        # The likelihood of balls of the variance found is v^(−d/2) a row; the rest is the entropy of the answers.
        log_left_out = np.log(np.clip(self._share_of_variance(left_out), LEAST_WITHIN, MOST_LEFT_OUT))
        log_variance = (1.0 - LEFT_OUT) * np.log(within) + LEFT_OUT * log_left_out
        log_answers = log_softmax(logits + pull[..., None, :], axis=-1)
        doubts = HINTS_IN_EVIDENCE * self.hints - log_answers
        evidence = -0.5 * self.dimensions * self.weight * log_variance + (answers * doubts).sum(axis=(-2, -1))
        shares = answers.mean(axis=-2) if self.n_query else np.full(self.class_shape, 1.0 / self.class_shape[-1])
        trust = self._trust(away[..., :n, :] * (sizes / (sizes - self.support)) ** 2, beta[..., None])
        mixture = Mixture(2.0 * beta[..., None] * centres, pull - beta * lengths, shares, within, trust)
        return mixture, evidence, self._are_clustered(left_out[..., n:, :])

    def _trust(self, left_out: Array, beta: Array) -> Array:
        """How far a mixture is believed that finds labelled rows in their class no less than means of the support do.

        ``left_out`` (..., n, N) are their squared distances to the mixture's centres, their own without them, and
        ``beta`` (..., 1, 1) its sharpness.
        """
        by_means = softmax(-beta * self.to_means * self.without**2, axis=-1)
        leads = self.several * (softmax(-beta * left_out, axis=-1) - by_means)
        checked = self.several.sum(axis=(-2, -1))
        return np.asarray(np.clip(1.0 + leads.sum(axis=(-2, -1)) / (MISPLACED + MISPLACED_SHARE * checked), 0.0, 1.0))

    def _share_of_variance(self, weighted_distances: Array) -> Array:
        share = np.full(self.class_shape[:-1], FIRST_WITHIN)
        total = weighted_distances.sum(axis=(-2, -1))
        np.divide(total, self.weight * self.variance, out=share, where=self.variance > 0)
        return share

    def _are_clustered(self, left_out: Array) -> NDArray[np.bool_]:
        """Whether queries, left out, are nearer to their class than to the task's mean, which is left out as well."""
        to_mean = self.to_mean[..., self.n_support :].sum(axis=-1)
        unchecked = self.n_support <= self.class_shape[-1] and self.class_shape[-1] > FEW_CLASSES
        explained = EXPLAINED_UNCHECKED if unchecked else EXPLAINED_OF_QUERIES
        return np.asarray(left_out.sum(axis=(-2, -1)) < (1.0 - explained) * to_mean)

    def labels_are_clustered(self) -> NDArray[np.bool_]:
        """The same of labelled rows, by the sample variance within classes of several."""
        within = (self.several * self.to_means * self.without).sum(axis=(-2, -1))
        to_mean = (self.several.sum(axis=-1) * self.to_mean[..., : self.n_support]).sum(axis=-1)
        return np.asarray(within < (1.0 - EXPLAINED_OF_SUPPORT) * to_mean)

    def _to_mean(self) -> Array:
        """Squared distances (..., M) to the mean of the other rows."""
        n_rows = self.gram.shape[-1]
        mean = self.gram.mean(axis=-1, dtype=np.float64)
        distances: Array = self.squares - 2.0 * mean + mean.mean(axis=-1, keepdims=True)
        return distances * (n_rows / (n_rows - 1)) ** 2

    def _sharpness(self, within: Array) -> Array:
        beta = np.zeros_like(within)
        np.divide(0.5 * self.dimensions, within * self.variance, out=beta, where=self.variance > 0)
        return beta


def _keep_to(shares: Array) -> ShareRule:
    """The answers keep to ``shares`` (..., N): Sinkhorn's scaling of their columns."""
    target = np.log(np.maximum(shares, LEAST_SHARE))

    def rule(answers: Array, log_shares: Array) -> Array:
        return log_shares + target - np.log(np.maximum(answers.mean(axis=-2), LEAST_SHARE))

    return rule


def _count_with(phantom: float) -> ShareRule:
    """Shares that follow the counts and some ``phantom`` queries."""

    def rule(answers: Array, log_shares: Array) -> Array:
        return np.log(np.maximum(answers.sum(axis=-2) + phantom, LEAST_COUNT))

    return rule
