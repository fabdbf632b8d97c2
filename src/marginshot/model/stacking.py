"""Experts are stacked: labels that are hidden in turn say how far each expert is to be believed.

A third of the labels is hidden in turn. Hidden rows stay in the task as unlabelled ones, every expert is fitted again,
and classifies them. The weights a_e of the experts' logits z_e maximise

    Σ_hidden log ((1 − ε) softmax(Σ_e a_e z_e)[label] + ε/N) − s/2 Σ_e (log a_e)² + b log (1 − ε)

so that a_e = 1, the experts as they are, without hidden labels. The same weights set how sharp the probabilities are.
ε is the share of labels that are wrong, and say nothing: without it, a tenth of wrong labels among ten a class lowers
the mean largest probability by 3 to 13 points below the accuracy, with it by 3 at most.

Rows of one group (frames of a burst, clips of a recording) are hidden together. A class of one group is never hidden.
Rows that a person picked because their answers were wrong say nothing of how often answers are right.

Arrays of a batch have a leading axis of tasks, written (...); those of one task have none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

N_FOLDS = 3
# s, in hidden labels. Chosen on the worlds of benchmarks/folders.py. Flat: 0.5 to 5.
STRENGTH = 1.0
# b: right labels in advance. Flat: 0 to 20 change nothing where all labels are right. At three labels a class, of which
# a tenth is wrong, fewer find more of these.
RIGHT_LABELS = 5.0
FIRST_WRONG = 0.05  # ε to begin with; 0 would stay
_STEPS, _LONGEST, _MOST = 30, 0.5, 3.0  # of Newton's method, its longest step, and the bound of |log a_e|


def folds_of(labels: Indices, groups: Indices, order: NDArray[np.floating]) -> Indices:
    """Fold (n,) in which each labelled row is hidden, −1 for the rows of a class of one group.

    Parameters
    ----------
    labels, groups : ndarray of int of shape (n,)
    order : ndarray of shape (n,)
        A number of each row that does not depend on the order of rows.

    Examples
    --------
    >>> folds_of(np.array([0, 0, 0, 1, 1, 2]), np.arange(6), np.arange(6.0))
    array([ 0,  1,  2,  1,  2, -1])
    """
    folds = np.full(len(labels), -1)
    by_order = np.argsort(order, kind="stable")
    classes, first_of_class = np.unique(labels[by_order], return_index=True)
    for start, c in enumerate(classes[np.argsort(first_of_class)]):  # whatever the numbers of the classes are
        members = by_order[labels[by_order] == c]
        found, first = np.unique(groups[members], return_index=True)
        if len(found) > 1:
            rank = np.argsort(np.argsort(first))
            folds[members] = (rank[np.searchsorted(found, groups[members])] + start) % N_FOLDS
    return folds


def fair_labels(labels: Indices, picked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Labelled rows (n,) that stand for their class: those not ``picked`` (n,), and all of a class that has no others.

    Examples
    --------
    >>> fair_labels(np.array([0, 0, 1]), np.array([False, True, True]))
    array([ True, False,  True])
    """
    return ~picked | ~np.isin(labels, labels[~picked])


def stack(logits: Array, labels: Indices, weights: Array) -> Array:
    """Weights a (..., E) of the experts, 1 where nothing is hidden.

    Parameters
    ----------
    logits : ndarray of shape (..., E, h, N)
        Of the hidden rows.
    labels : ndarray of int of shape (..., h)
    weights : ndarray of shape (..., h)
        What each hidden row counts for.

    Examples
    --------
    >>> right, wrong = np.eye(2)[[0, 1] * 20], np.eye(2)[[1, 0] * 20]
    >>> stack(np.stack((right, wrong)), np.array([0, 1] * 20), np.ones(40)).round(1)
    array([5.6, 0.8])
    """
    log_weights = np.zeros(logits.shape[:-2])
    if not labels.shape[-1]:
        return np.ones_like(log_weights)
    own, by_chance = labels[..., None, :, None], 1.0 / logits.shape[-1]
    total = weights.sum(axis=-1, keepdims=True)
    wrong = np.full(labels.shape[:-1], FIRST_WRONG)[..., None]  # ε
    for _ in range(_STEPS):
        scaled = np.exp(log_weights)[..., None, None] * logits
        probabilities = np.exp(log_softmax(scaled.sum(axis=-3), axis=-1))
        likely = (1.0 - wrong) * np.take_along_axis(probabilities, labels[..., None], axis=-1)[..., 0]
        heard = weights * likely / (likely + wrong * by_chance)  # chance that the label is right
        wrong = (total - heard.sum(axis=-1, keepdims=True)) / (total + RIGHT_LABELS)
        probabilities = probabilities[..., None, :, :]
        mean = (probabilities * scaled).sum(axis=-1)  # (..., E, h)
        lead = np.take_along_axis(scaled, np.broadcast_to(own, (*scaled.shape[:-1], 1)), axis=-1)[..., 0] - mean
        gradient = (heard[..., None, :] * lead).sum(axis=-1) - STRENGTH * log_weights
        spread = np.sqrt(heard[..., None, :, None] * probabilities) * (scaled - mean[..., None])
        flat = spread.reshape(*spread.shape[:-2], -1)
        fisher = flat @ np.swapaxes(flat, -1, -2) + STRENGTH * np.eye(logits.shape[-3])
        step = np.linalg.solve(fisher, gradient[..., None])[..., 0]
        log_weights = np.clip(log_weights + np.clip(step, -_LONGEST, _LONGEST), -_MOST, _MOST)
    return np.asarray(np.exp(log_weights))
