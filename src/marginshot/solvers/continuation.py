"""The λ2 sequence in NumPy: the query weight grows, and each stage starts where the last one ended (Algorithm 1).

Its compiled twin is `engine_compiled.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.solvers.lbfgs import Loss, Minimum, minimise
from marginshot.solvers.spaces import GramSpace

Array = NDArray[np.float64]
#: Takes the number of a stage; returns what `minimise` is to tell its iterations.
OnIteration = Callable[[int], Callable[[int, Array], None]]


def stage_tolerances(tol: float, n_stages: int) -> Array:
    """Gradient norm (n_stages,) at which each stage ends.

    The last ends at ``tol``. The first is convex and cheap, and everything starts from it: three times as tight. Those
    between only lead on: ten times as loose.

    Examples
    --------
    >>> stage_tolerances(3e-4, 4)
    array([1.e-04, 3.e-03, 3.e-03, 3.e-04])
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
    interrupted : bool
        Ctrl-C came before the last stage ended; only the stages before are here.
    """

    coef: Array
    scores: Array
    objective: Array
    gradient_norm: Array
    n_iter: NDArray[np.int64]
    interrupted: bool = False


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
    on_iteration: OnIteration | None = None,
) -> Path:
    """Solve every stage of ``lambda2`` on one Gram matrix (M, M), support rows first.

    ``loss_at(value)`` is the loss with that query weight; ``offsets`` (n_classes,) is the constant part of f. Ctrl-C
    ends the path after its last complete stage, if there is one.
    """
    n_rows, n_classes = len(gram), len(offsets)
    coef = np.zeros((n_rows, n_classes))
    scores = np.tile(offsets, (n_rows, 1))
    stages: list[Minimum] = []
    interrupted = False
    try:
        for index, (value, stage_tol) in enumerate(zip(lambda2, stage_tolerances(tol, len(lambda2)), strict=True)):
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
                on_iteration=None if on_iteration is None else on_iteration(index),
            )
            _extend(stage, gram, offsets)
            coef, scores = stage.coef, stage.scores
            stages.append(stage)
    except KeyboardInterrupt:
        if not stages:
            raise
        interrupted = True
    return Path(stages[-1].coef, stages[-1].scores, **stack_stages(stages), interrupted=interrupted)


def _extend(stage: Minimum, gram: Array, offsets: Array) -> None:
    """Make the answer of a stage on the support alone one for all rows."""
    size, n_rows = len(stage.coef), len(gram)
    if size < n_rows:
        stage.scores = gram[:, :size] @ stage.coef + offsets
        stage.coef = np.concatenate((stage.coef, np.zeros((n_rows - size, len(offsets)))))


def stack_stages(stages: Sequence[Minimum]) -> dict[str, Any]:
    """How each stage went: the arrays of a path, (n_classes, n_stages)."""
    names = ("objective", "gradient_norm", "n_iter")
    return {name: np.stack([getattr(stage, name) for stage in stages], axis=1) for name in names}
