"""The λ2 sequence in NumPy: the query weight grows, and each stage starts where the last one ended (Algorithm 1).

Its compiled twin is `engine_compiled.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginshot.solvers.lbfgs import Loss, Minimum, minimise
from marginshot.solvers.spaces import GramSpace

Array = NDArray[np.float64]


def stage_tolerances(tol: float, n_stages: int) -> Array:
    """Gradient norm (n_stages,) at which each stage ends.

    The last ends at ``tol``. The first is convex and cheap, and everything starts from it: three times as tight. Those
    between only lead on: ten times as loose.

    Examples
    --------
    >>> stage_tolerances(3e-4, 4)
    array([0.0001, 0.003 , 0.003 , 0.0003])
    """
    tolerances = np.full(n_stages, tol)
    tolerances[1:-1] *= 10.0
    tolerances[0] /= 3.0
    return tolerances


@dataclass(frozen=True)
class Path:
    """The end of the λ2 sequence, and how each stage went.

    Attributes
    ----------
    coef : ndarray of shape (M, n_classes)
        α, support rows first.
    scores : ndarray of shape (M, n_classes)
        f = Kα + offset.
    objective, gradient_norm : ndarray of shape (n_classes, n_stages)
    n_iter : ndarray of int of shape (n_classes, n_stages)
    """

    coef: Array
    scores: Array
    objective: Array
    gradient_norm: Array
    n_iter: NDArray[np.int64]


def follow_path(
    gram: Array,
    loss_at: Callable[[float], Loss],
    lambda2: Sequence[float],
    *,
    n_support: int,
    offsets: Array,
    lambda1: float,
    tol: float,
    max_iter: int,
) -> Path:
    """Solve every stage of ``lambda2`` on one Gram matrix (M, M), support rows first.

    ``loss_at(value)`` is the loss with that query weight; ``offsets`` (n_classes,) is the constant part of f.
    """
    n_rows, n_classes = len(gram), len(offsets)
    coef = np.zeros((n_rows, n_classes))
    scores = np.tile(offsets, (n_rows, 1))
    stages: list[Minimum] = []
    for value, stage_tol in zip(lambda2, stage_tolerances(tol, len(lambda2)), strict=True):
        # Without weight on the queries their α stay zero, so the problem is the support's alone.
        size = n_support if value == 0 and not coef[n_support:].any() else n_rows
        stage = minimise(
            GramSpace(gram[:size, :size]),
            loss_at(value),
            coef[:size],
            scores[:size],
            lambda1=lambda1,
            tol=stage_tol,
            max_iter=max_iter,
        )
        coef[:size] = stage.coef
        scores = stage.scores if size == n_rows else gram[:, :size] @ stage.coef + offsets
        stages.append(stage)
    return Path(
        coef,
        scores,
        *(np.stack([getattr(s, name) for s in stages], axis=1) for name in ("objective", "gradient_norm", "n_iter")),
    )
