"""Expected accuracy of a task's answers, by what confirms them, and scores that promise as much.

One label a class leaves nothing to check with. Instead every class gets another example, drawn from the rows that are
labelled or answered with it, and every row gets the class of its nearest example. The share of rows whose answer is
confirmed is the agreement. It uses the encoder's rows, without neighbours, mixture and planes, and is high where
classes are far apart. The examples that were given confirm some answers too: the more they do beside those drawn
again, the more the answers owe to the examples, and the less to clusters. Over encoders, ways and regimes

    logit accuracy = 2.6 logit agreement − logit agreement of the given + 0.25 log(rows a class / 16) + 0.2

where rows beyond 16 a class change nothing. With several labels a class, each labelled row is left out of the mean of
the rows answered with its class, and looked for among all means. The answers have seen its label, the more so the
fewer there are: 1.5 / (shots − 1) of the log-odds are taken off. Such checks stand beside the mean largest probability,
which has a sharpness of its own (`marginshot.model.temperature`), and which counts for 200 of them.

Scores are multiplied by one number a task, such that their mean largest probability is the accuracy expected. No answer
changes.

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
# Chosen for the smallest difference between accuracy and expectation at one shot, 2 to 150 ways, 5 to 180 rows a class,
# on validation features of EfficientNet-lite0, small ResNet, CUB and CLINC150 (MiniLM and TF-IDF), digits and pixels of
# Omniglot. Without any one of these seven they are 2.4 to 2.8, −1.2 to −0.8, 0.2 to 0.3 and 0.15 to 0.35, and the one
# left out differs by at most 5 points in 43 of 54 cells, against 38 for agreement and rows alone.
OF_AGREEMENT, OF_GIVEN, OF_ROWS, USUAL_ROWS, CONSTANT = 2.6, -1.0, 0.25, 16.0, 0.2
# Of labelled rows left out, and how many of them the mean probability counts for. Chosen on the same, 3 to 10 shots:
# the differences of 85 cells have a root mean square of 3.4 points, against 4.0 without; of those with deep encoders
# and 20 ways or more 2.3 against 3.3. Flat: 1.2 to 1.8 and 100 to 300 within 0.3 points.
LEAKAGE, CHECKS_BEFORE = 1.5, 200.0
LEAST_SHARE, MOST_SHARE = 0.02, 0.995  # bounds beyond which a few rows decide
MOST_CHANGE = 1.2  # of the logarithm of a sharpness
_STEPS, _LONGEST = 5, 0.6  # of Newton's method, and its longest step


def sharpening(gram: NDArray[np.floating], labels: Labels, scores: Array, rows_a_class: float) -> Array:
    """Factor (...) of the scores under which the mean largest probability is the accuracy to be expected.

    Parameters
    ----------
    gram : ndarray of shape (..., M, M)
        Inner products of rows not averaged with their neighbours, support first.
    labels : ndarray of int of shape (..., n)
        Classes of the support; each occurs.
    scores : ndarray of shape (..., m, N)
        Of the queries.
    rows_a_class : float
        In the task, of which ``gram`` may hold a sample.
    """
    n_classes = scores.shape[-1]
    answers = np.concatenate((labels, scores.argmax(axis=-1)), axis=-1)
    counts = _members(labels, n_classes).sum(axis=-2)
    single, expected = (counts == 1).mean(axis=-1), np.zeros(counts.shape[:-1])
    if np.any(single > 0.0):
        agreed, of_given = agreement(gram, answers, n_classes), agreement_of_given(gram, labels, answers, n_classes)
        expected += single * expected_log_odds(agreed, of_given, rows_a_class)
    if np.any(single < 1.0):
        top = 1.0 / np.exp(scores - scores.max(axis=-1, keepdims=True)).sum(axis=-1)
        found, n_checks = left_out_log_odds(gram, labels, answers, n_classes)
        # Uneven numbers of labels are often corrections of wrong answers: rows harder to find than the others. Without
        # this factor, lists checked in rounds on birds reach 99 % instead of the 95 promised, with it 97.
        n_checks = n_checks * (counts.min(axis=-1) / counts.mean(axis=-1)) ** 2
        weight = n_checks / (n_checks + CHECKS_BEFORE)
        expected += (1.0 - single) * (weight * found + (1.0 - weight) * _log_odds(top.mean(axis=-1)))
    return match_confidence(scores, expit(expected))


def agreement(gram: NDArray[np.floating], answers: Labels, n_classes: int) -> Array:
    """Share (...) of rows that the nearest of examples drawn from the ``answers`` (..., M) give their own answer.

    Examples themselves are not counted. Every class occurs among the answers.

    Examples
    --------
    >>> rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.2, 0.8]])
    >>> agreement(rows @ rows.T, np.array([0, 0, 1, 1]), 2)
    array(1.)
    """
    n_rows = gram.shape[-1]
    own = _members(answers, n_classes)
    sums, _, counts = _class_sums(gram, answers, n_classes)
    first = counts.cumsum(axis=-1) - counts
    # Members by how much more they are like their own class than like the next, and classes by the same of all theirs:
    # what is drawn does not depend on the order of rows or classes.
    likeness = sums / counts[..., None, :]
    lead = np.where(own, likeness, 0.0).sum(axis=-1) - np.where(own, -np.inf, likeness).max(axis=-1)
    by_class = np.lexsort((lead, answers), axis=-1)
    ranks = np.where(own, lead[..., None], 0.0).sum(axis=-2).argsort(axis=-1).argsort(axis=-1)
    lengths = np.diagonal(gram, axis1=-2, axis2=-1)
    confirmed = np.zeros(answers.shape[:-1])
    for draw in range(N_DRAWS):
        places = ((draw + 0.5) / N_DRAWS + _GOLDEN * ranks) % 1.0
        examples = np.take_along_axis(by_class, first + (places * counts).astype(np.int64), axis=-1)
        nearness = 2.0 * np.take_along_axis(gram, examples[..., None], axis=-2)
        nearness -= np.take_along_axis(lengths, examples, axis=-1)[..., None]
        right = nearness.argmax(axis=-2) == answers
        np.put_along_axis(right, examples, values=False, axis=-1)
        confirmed += right.sum(axis=-1)
    return np.asarray(confirmed / (N_DRAWS * max(n_rows - n_classes, 1)))


def agreement_of_given(gram: NDArray[np.floating], labels: Labels, answers: Labels, n_classes: int) -> Array:
    """Share (...) of the queries that the nearest class mean of the given examples gives the answer they have.

    ``labels`` (..., n) are those of the examples, and ``answers`` (..., M) those of all rows.

    Examples
    --------
    >>> rows = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1], [0.2, 0.8]])
    >>> agreement_of_given(rows @ rows.T, np.array([0, 1]), np.array([0, 1, 0, 0]), 2)
    np.float64(0.5)
    """
    n = labels.shape[-1]
    sums, lengths, counts = _class_sums(gram[..., :n], labels, n_classes)
    nearness = 2.0 * sums[..., n:, :] / counts[..., None, :] - (lengths / counts**2)[..., None, :]
    return np.asarray(nearness.argmax(axis=-1) == answers[..., n:]).mean(axis=-1)


def left_out_log_odds(
    gram: NDArray[np.floating], labels: Labels, answers: Labels, n_classes: int
) -> tuple[Array, Array]:
    """Log-odds (...) of labelled rows to be found in their class, and how many (...) were looked for.

    Each row that is one of several with its label is left out of the mean of the rows ``answers`` (..., M) puts into
    its class. ``labels`` (..., n) are those of the first rows.

    Examples
    --------
    >>> rows = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.8, 0.2], [0.1, 0.9]])
    >>> found, n_checks = left_out_log_odds(rows @ rows.T, np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1, 1]), 2)
    >>> found.round(2), n_checks                            # of four rows one is not found in its class
    (np.float64(-0.81), np.int64(4))
    """
    n = labels.shape[-1]
    sums, lengths, counts = _class_sums(gram, answers, n_classes)
    own, squares = _members(labels, n_classes), np.diagonal(gram, axis1=-2, axis2=-1)[..., :n, None]
    rest = np.maximum(counts[..., None, :] - own, 1)
    inner = sums[..., :n, :] - own * squares
    nearness = 2.0 * inner / rest - (lengths[..., None, :] - own * (2.0 * inner + squares)) / rest**2
    shots = np.take_along_axis(own.sum(axis=-2), labels, axis=-1)
    checked = shots > 1
    n_checks = checked.sum(axis=-1)
    n_found = ((nearness.argmax(axis=-1) == labels) & checked).sum(axis=-1)
    leaked = np.where(checked, LEAKAGE / np.maximum(shots - 1, 1), 0.0).sum(axis=-1) / np.maximum(n_checks, 1)
    return _log_odds((n_found + 1.0) / (n_checks + 2.0)) - leaked, n_checks


def expected_log_odds(agreed: Array, of_given: Array, rows_a_class: float) -> Array:
    """Log-odds (...) of one-shot answers to be right that examples, drawn again and given, confirm so far.

    Examples
    --------
    >>> expit(expected_log_odds(np.array([0.5, 0.7, 0.9]), np.array([0.5, 0.7, 0.9]), 16.0)).round(2)
    array([0.55, 0.83, 0.98])
    """
    of_rows = OF_ROWS * np.log(min(rows_a_class / USUAL_ROWS, 1.0))
    return np.asarray(OF_AGREEMENT * _log_odds(agreed) + OF_GIVEN * _log_odds(of_given) + of_rows + CONSTANT)


def match_confidence(scores: Array, accuracy: Array) -> Array:
    """Factor s (...) with which the mean largest softmax(s · ``scores`` (..., m, N)) is the ``accuracy`` (...).

    Examples
    --------
    >>> scores = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> match_confidence(scores, np.array(0.9)).round(2)
    np.float64(1.63)
    """
    below = scores - scores.max(axis=-1, keepdims=True)
    value = np.zeros(accuracy.shape)
    for _ in range(_STEPS):
        factor = np.exp(value)
        parts = np.exp(factor[..., None, None] * below)
        top = 1.0 / parts.sum(axis=-1)
        slope = -factor * (top**2 * (parts * below).sum(axis=-1)).mean(axis=-1)
        step = (accuracy - top.mean(axis=-1)) / np.maximum(slope, np.finfo(np.float64).tiny)
        value = np.clip(value + np.clip(step, -_LONGEST, _LONGEST), -MOST_CHANGE, MOST_CHANGE)
    return np.asarray(np.exp(value))


def _members(labels: Labels, n_classes: int) -> NDArray[np.bool_]:
    """Whether each row belongs to each class, (..., n, N), by the ``labels`` (..., n)."""
    return np.asarray(labels[..., None] == np.arange(n_classes))


def _class_sums(gram: NDArray[np.floating], classes: Labels, n_classes: int) -> tuple[Array, Array, Labels]:
    """Of rows of these ``classes`` (..., k), each of which occurs: inner products of their sums, lengths and counts.

    ``gram`` (..., M, k) holds the inner products of all rows with them. The sums have products (..., M, N) with all
    rows and squared lengths (..., N).
    """
    own = _members(classes, n_classes)
    products = np.asarray(gram @ own.astype(gram.dtype), dtype=np.float64)
    lengths = np.where(own, products[..., : classes.shape[-1], :], 0.0).sum(axis=-2)
    return products, lengths, own.sum(axis=-2)


def _log_odds(share: Array) -> Array:
    """Log-odds (...) of shares (...), within bounds."""
    return np.asarray(logit(np.clip(share, LEAST_SHARE, MOST_SHARE)))
