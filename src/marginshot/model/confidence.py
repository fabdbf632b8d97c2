"""Expected accuracy of a task's answers from the agreement of resampled examples; scores rescaled to it.

One label a class leaves nothing to check with. Instead every class gets another example, drawn from the rows that are
labelled or answered with it, and every row gets the class of its nearest example. The share of rows whose answer is
confirmed is the agreement. It uses the encoder's rows, without neighbours, mixture and planes, and is high where
classes are far apart. The agreement of the given examples is measured likewise. Over encoders, ways and regimes

    logit accuracy = 0.85 logit agreement + 0.65 logit agreement of the given + 0.6 log(rows a class / 16)
                     + 0.45 log(1 + picked labels a class) − 0.35

where rows beyond 16 a class change nothing, and picked labels are those that are never hidden. Scores are multiplied by
one number a task, such that their mean largest probability is the accuracy expected. Where labels can be hidden,
`marginshot.model.stacking` starts from there.

Arrays of a batch have a leading axis of tasks, written (...); those of one task have none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

N_DRAWS = 6  # of an example for each class
_GOLDEN = (5**0.5 - 1) / 2  # spreads the places at which the classes begin to draw
# Fitted by least absolute differences of accuracy and expectation at one shot: 4 to 40 ways, 12 to 300 rows a class,
# even and uneven, on validation features of EfficientNet-lite0, small ResNet, CUB, CLINC150, TREC, TrashNet, ESC-50 and
# bursts. Left out in turn, these eight are off by 3 to 19 points, 10.6 in the mean: classes that are no clusters
# (TrashNet, ESC-50) are promised too much, which one label a class cannot reveal.
OF_AGREEMENT, OF_GIVEN, OF_ROWS, USUAL_ROWS, CONSTANT = 0.85, 0.65, 0.6, 16.0, -0.35
# With 3, 10 and 30 random labels a class the log-odds of the accuracy are 0.6, 0.9 and 1.4 above those without the term
# (random worlds of benchmarks/folders.py; standard deviation 0.35, at one label 0.6). Labels that are hidden tell more:
# counted here too, they make the error of calibration larger by half a point.
OF_PICKED = 0.45
LEAST_SHARE, MOST_SHARE = 0.02, 0.995  # bounds beyond which a few rows decide
_STEPS, _LONGEST = 8, 0.6  # of Newton's method, and its longest step
_SPREAD, _LEAST_SPREAD = 2.0, 1e-12  # standard deviation of scores over the classes from which it starts


def expected_accuracy(
    gram: NDArray[np.floating],
    labels: Labels,
    answers: Labels,
    n_classes: int,
    rows_a_class: float,
    picked_a_class: float = 0.0,
) -> Array:
    """Accuracy (...) to be expected of the answers.

    Parameters
    ----------
    gram : ndarray of shape (..., M, M)
        Inner products of rows not averaged with their neighbours, support first.
    labels : ndarray of int of shape (..., n)
        Classes of the support; each occurs.
    answers : ndarray of int of shape (..., m)
        Of the queries.
    n_classes : int
    rows_a_class, picked_a_class : float
        In the task, of which ``gram`` may hold a sample.
    """
    classes = np.concatenate((labels, answers), axis=-1)
    agreed = agreement(gram, classes, classes.shape[-1], n_classes)
    of_given = agreement(gram, classes, labels.shape[-1], n_classes)
    return np.asarray(expit(expected_log_odds(agreed, of_given, rows_a_class, picked_a_class)))


def agreement(gram: NDArray[np.floating], classes: Labels, n_pool: int, n_classes: int) -> Array:
    """Share (...) of rows that have the class of the nearest example, where every class has one.

    Examples are drawn from the first ``n_pool`` rows, among which every class occurs, and are not counted themselves.
    ``classes`` (..., M) are labels and answers of all rows, and ``gram`` (..., M, M) their inner products.

    Examples
    --------
    >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.2, 0.8]])
    >>> agreement(rows @ rows.T, np.array([0, 1, 0, 1]), 4, 2), agreement(rows @ rows.T, np.array([0, 1, 0, 0]), 2, 2)
    (array(1.), array(0.5))
    """
    n_rows, pool = gram.shape[-1], classes[..., :n_pool]
    own = np.asarray(pool[..., None] == np.arange(n_classes))
    counts = own.sum(axis=-2)
    first = counts.cumsum(axis=-1) - counts
    # Members by how much more they are like their own class than like the next, and classes by the same of all theirs:
    # what is drawn does not depend on the order of rows or classes.
    likeness = np.asarray(gram[..., :n_pool, :n_pool] @ own.astype(gram.dtype), dtype=np.float64) / counts[..., None, :]
    lead = np.where(own, likeness, 0.0).sum(axis=-1) - np.where(own, -np.inf, likeness).max(axis=-1)
    by_class = np.lexsort((lead, pool), axis=-1)
    ranks = np.where(own, lead[..., None], 0.0).sum(axis=-2).argsort(axis=-1).argsort(axis=-1)
    lengths = np.diagonal(gram, axis1=-2, axis2=-1)
    n_draws = 1 if n_pool == n_classes else N_DRAWS
    confirmed = np.zeros(classes.shape[:-1])
    for draw in range(n_draws):
        places = ((draw + 0.5) / n_draws + _GOLDEN * ranks) % 1.0
        examples = np.take_along_axis(by_class, first + (places * counts).astype(np.int64), axis=-1)
        nearness = 2.0 * np.take_along_axis(gram, examples[..., None], axis=-2)
        nearness -= np.take_along_axis(lengths, examples, axis=-1)[..., None]
        right = nearness.argmax(axis=-2) == classes
        np.put_along_axis(right, examples, values=False, axis=-1)
        confirmed += right.sum(axis=-1)
    return np.asarray(confirmed / (n_draws * max(n_rows - n_classes, 1)))


def expected_log_odds(agreed: Array, of_given: Array, rows_a_class: float, picked_a_class: float = 0.0) -> Array:
    """Predicted log-odds (...) of the accuracy, from both agreements, the rows and the picked labels a class.

    Examples
    --------
    >>> expit(expected_log_odds(np.array([0.5, 0.7, 0.9]), np.array([0.5, 0.7, 0.9]), 16.0)).round(2)
    array([0.41, 0.72, 0.95])
    """
    of_rows = OF_ROWS * np.log(min(rows_a_class / USUAL_ROWS, 1.0))
    of_picked = OF_PICKED * np.log1p(picked_a_class)
    of_both = OF_AGREEMENT * _log_odds(agreed) + OF_GIVEN * _log_odds(of_given)
    return np.asarray(of_both + of_rows + of_picked + CONSTANT)


def match_confidence(scores: Array, accuracy: Array) -> Array:
    """Factor s (...) with which the mean largest softmax(s · ``scores`` (..., m, N)) is the ``accuracy`` (...).

    Examples
    --------
    >>> scores = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> match_confidence(scores, np.array(0.9)).round(2)
    np.float64(1.63)
    """
    below = scores - scores.max(axis=-1, keepdims=True)
    value = np.log(_SPREAD / np.maximum(scores.std(axis=-1).mean(axis=-1), _LEAST_SPREAD))
    for _ in range(_STEPS):
        factor = np.exp(value)
        parts = np.exp(factor[..., None, None] * below)
        top = 1.0 / parts.sum(axis=-1)
        slope = -factor * (top**2 * (parts * below).sum(axis=-1)).mean(axis=-1)
        step = (accuracy - top.mean(axis=-1)) / np.maximum(slope, np.finfo(np.float64).tiny)
        value = value + np.clip(step, -_LONGEST, _LONGEST)
    return np.asarray(np.exp(value))


def _log_odds(share: Array) -> Array:
    """Log-odds (...) of shares (...), within bounds."""
    return np.asarray(logit(np.clip(share, LEAST_SHARE, MOST_SHARE)))
