"""Which answers to check until a given share of all is right, and how many are right now.

The probabilities of answers may be too high or too low. Answers that a person has checked correct those of the others:
the log-odds of an answer to be right become

    a + b · log-odds,     with (a, b) from a logistic regression on the checked answers, drawn towards (0, 1)

Few checks change little; many correct a classifier that is too sure, or not sure enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, expit, log_expit, logit

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

_Z = 1.96  # of an interval of 95 %
_BOUND = 1e-4  # probabilities are clipped to this and 1 minus this before log-odds
# Prior standard deviations of a and b: the errors of preset `auto`'s probabilities on photographs, birds and texts at 1
# to 5 examples a class. Doubled, the fit follows the first checks too closely, which are of the least sure answers:
# accuracy promised and reached then differ by 4 points instead of 2.4 (birds, three examples).
_DOUBT = np.array([0.5, 0.3])
# Standard deviation of a with one label a class, where only clusters confirm it; `_DOUBT` holds from two labels on.
# Left out in turn, expected and true accuracy of eight validation sets differ by 10.6 points in the mean.
_DOUBT_AT_ONE = 1.0
# Standard deviation of a that is added where all labels are of an earlier source. Birds by another camera, and without
# colours: with three labels a class, log-odds of promise and truth differ by 0.9 to 1.2 (root mean square), with eight
# by 0.6 to 0.8. Labels of the new items help slowly: with one a class 0.5 to 0.9, with two 0.3 to 0.8.
_DOUBT_ELSEWHERE = 1.0


@dataclass(frozen=True)
class Estimate:
    """A number, and the ends of its interval of 95 %."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Worklist:
    """What to check, the answer most likely wrong first.

    Attributes
    ----------
    rows : ndarray of int64 of shape (n,)
        Ends where the target is reached.
    expected : ndarray of shape (n,)
        Share of all items expected to be right once ``rows[: i + 1]`` are checked.

    Examples
    --------
    >>> Worklist(np.array([4, 1]), np.array([0.93, 0.951]))
    Worklist(2 items to check, then 95.1% are expected to be right)
    """

    rows: Rows
    expected: Array

    def __repr__(self) -> str:
        reached = f", then {self.expected[-1]:.1%} are expected to be right" if len(self.rows) else ""
        return f"{type(self).__name__}({len(self.rows):,} items to check{reached})"


@dataclass(frozen=True, eq=False)
class Evidence:
    """Answers that were checked: probability of each before, and whether it was right, both (n_checked,)."""

    confidence: Array
    right: NDArray[np.bool_]


@dataclass(frozen=True)
class Correction:
    """Log-odds a + b · log-odds, and the covariance (2, 2) of (a, b).

    Parameters
    ----------
    intercept, slope : float
        a and b.
    covariance : ndarray of shape (2, 2)
    unconfirmed : float, default=0.0
        How far no labels of these items confirm the probabilities: 1 at one label a class, and where all labels are of
        an earlier source; 0 from two labels a class on. Then even answers of probability 1 are in doubt.
    """

    intercept: float
    slope: float
    covariance: Array
    unconfirmed: float = 0.0

    def __call__(self, confidence: NDArray[np.floating]) -> Array:
        """Corrected probabilities, (n,)."""
        return np.asarray(expit(self.intercept + self.slope * _log_odds(confidence)))

    def ends(self, confidence: NDArray[np.floating]) -> Array:
        """Ends (2, n) of intervals of 95 % for corrected probabilities; they stay wide for probabilities near 1."""
        odds = _log_odds(confidence)
        (of_a, of_both), (_, of_b) = self.covariance
        spread = np.sqrt(of_a + 2 * of_both * odds + of_b * odds**2)
        return np.asarray(expit(self.intercept + self.slope * odds + _Z * np.outer((-1.0, 1.0), spread)))


def fit_correction(
    evidence: Evidence | None = None, labels_a_class: float = 2.0, new_labels_a_class: float | None = None
) -> Correction:
    """Fit the correction to checked answers; without any, it is the prior, which changes no probability.

    The mode of a logistic regression under normal priors, by Newton's method.

    Parameters
    ----------
    evidence : Evidence, optional
        Answers that were checked.
    labels_a_class : float, default=2.0
        Labels a class that the probabilities were computed from.
    new_labels_a_class : float, optional
        Labels a class among the items that are answered, where others are of an earlier source.

    Examples
    --------
    >>> kept = fit_correction(Evidence(np.full(40, 0.9), np.arange(40) % 10 > 0))        # 36 of 40 right
    >>> broken = fit_correction(Evidence(np.full(40, 0.9), np.arange(40) % 2 > 0))       # 20 of 40 right
    >>> kept(np.array([0.9])).round(2), broken(np.array([0.9])).round(2)
    (array([0.9]), array([0.57]))
    """
    doubt = np.array([np.interp(labels_a_class, (1.0, 2.0), (_DOUBT_AT_ONE, _DOUBT[0])), _DOUBT[1]])
    if new_labels_a_class is not None:
        doubt[0] = np.hypot(doubt[0], _DOUBT_ELSEWHERE / (1.0 + new_labels_a_class))
    precision = np.diag(1.0 / doubt**2)
    prior = np.array([0.0, 1.0])
    found, curvature = prior, precision
    if evidence is not None and len(evidence.right):
        inputs = np.stack((np.ones(len(evidence.right)), _log_odds(evidence.confidence)), axis=1)
        for _ in range(20):
            chance = expit(inputs @ found)
            gradient = inputs.T @ (evidence.right - chance) - precision @ (found - prior)
            curvature = precision + (inputs.T * (chance * (1.0 - chance))) @ inputs
            step = np.linalg.solve(curvature, gradient)
            # Where answers that were all but certain are wrong, a whole step would jump back and forth.
            while _log_posterior(inputs, evidence.right, found + step, doubt) < _log_posterior(
                inputs, evidence.right, found, doubt
            ):
                step = step / 2
            found = found + step
    return Correction(
        float(found[0]),
        float(max(found[1], 0.0)),
        np.asarray(np.linalg.inv(curvature), dtype=np.float64),
        unconfirmed=1.0 if new_labels_a_class == 0 else float(np.clip(2.0 - labels_a_class, 0.0, 1.0)),
    )


def _log_posterior(inputs: Array, right: NDArray[np.bool_], found: Array, doubt: Array) -> float:
    """Log-posterior of (a, b) = ``found``, up to a constant, by ``inputs`` (n, 2) and ``right`` (n,) answers."""
    logits = inputs @ found
    prior = ((found - np.array([0.0, 1.0])) / doubt) ** 2
    return float(np.where(right, log_expit(logits), log_expit(-logits)).sum() - 0.5 * prior.sum())


def expected_accuracy(
    confidence: NDArray[np.floating], checked: NDArray[np.bool_], correction: Correction | None = None
) -> Estimate:
    """Share of all items that are right: checked ones count 1, each other one its corrected probability.

    The variance is that of independent answers, Σ p (1 − p), and of the correction. Where labels do not confirm the
    probabilities, the interval is at least as wide as the mean of those of the answers.

    Parameters
    ----------
    confidence : ndarray of shape (n_rows,)
        Probability of each answer.
    checked : ndarray of bool of shape (n_rows,)
        Answers that a person has looked at.
    correction : Correction, optional
        As from `fit_correction`.
    """
    rule = correction or fit_correction()
    chance = rule(confidence[~checked])
    spread = chance * (1.0 - chance)
    slopes = np.array([spread.sum(), spread @ _log_odds(confidence[~checked])])
    error = _Z * np.sqrt(spread.sum() + slopes @ rule.covariance @ slopes) / len(confidence)
    value = (checked.sum() + chance.sum()) / len(confidence)
    low, high = value - error, value + error
    if rule.unconfirmed:
        ends = (checked.sum() + rule.ends(confidence[~checked]).sum(axis=1)) / len(confidence)
        low += rule.unconfirmed * min(ends[0] - low, 0.0)
        high += rule.unconfirmed * max(ends[1] - high, 0.0)
    return Estimate(float(value), float(max(low, 0.0)), float(min(high, 1.0)))


def worklist(
    confidence: NDArray[np.floating],
    checked: NDArray[np.bool_],
    target: float = 0.95,
    correction: Correction | None = None,
) -> Worklist:
    """The fewest answers to check for a share ``target`` of all to be right, by the corrected probabilities.

    Examples
    --------
    >>> work = worklist(np.array([0.9, 0.5, 0.99, 0.6]), np.zeros(4, dtype=bool), 0.9)
    >>> work.rows, work.expected.round(2)
    (array([1, 3]), array([0.87, 0.97]))
    """
    if not 0 < target <= 1:
        raise ValueError(f"The accuracy to reach lies between 0 and 1; got {target}.")
    chance = np.where(checked, 1.0, (correction or fit_correction())(confidence))
    order = np.argsort(chance, kind="stable")
    order = order[~checked[order]]
    expected = (chance.sum() + np.cumsum(1.0 - chance[order])) / len(chance)
    length = 0 if chance.sum() >= target * len(chance) else int(np.searchsorted(expected, target - 1e-9)) + 1
    return Worklist(order[:length], expected[:length])


def audit_estimate(n_right: int, n_drawn: int, unchecked: float) -> Estimate:
    """Share of all items that are right, from a random sample of those not checked before it was drawn.

    The sample's share of right answers is an unbiased estimate of theirs, with Clopper and Pearson's interval; what is
    checked by now, all but a share ``unchecked`` of the items, is right.

    Examples
    --------
    >>> audit_estimate(27, 30, 0.5)
    Estimate(value=0.95, low=0.8673..., high=0.9894...)
    """
    n_wrong = n_drawn - n_right
    low = float(betaincinv(n_right, n_wrong + 1, 0.025)) if n_right else 0.0
    high = float(betaincinv(n_right + 1, n_wrong, 0.975)) if n_wrong else 1.0
    return Estimate(*(1.0 - unchecked * (1.0 - share) for share in (n_right / n_drawn, low, high)))


def _log_odds(confidence: NDArray[np.floating]) -> Array:
    return np.asarray(logit(np.clip(confidence.astype(np.float64), _BOUND, 1.0 - _BOUND)))
