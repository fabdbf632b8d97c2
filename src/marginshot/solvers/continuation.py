"""The λ2 sequence in NumPy: the query weight grows, and each stage starts where the last one ended (Algorithm 1).

Its compiled pair is `batch/paths_compiled.py`: on small vectors L-BFGS spends its time in calls, which loops avoid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginshot.solvers.lbfgs import Loss, Minimum, minimise
from marginshot.solvers.spaces import GramSpace

Array = NDArray[np.float64]
#: Called by `minimise` with the number of each iteration and its gradient norms.
Tell = Callable[[int, Array], None]
#: From the number of a stage to the callback of its iterations.
OnIteration = Callable[[int], Tell]
# Chosen on validation features, 1 and 5 shots, 4000 tasks a cell: 10 and 30 differ by at most 0.03 points.
LOOSER = 30.0
#: λ2 of a stage, the stage before, the gradient norm at which to end, the callback -> the stage solved.
SolveStage = Callable[[float, Minimum | None, float, Tell | None], Minimum]


def stage_tolerances(tol: float, n_stages: int) -> Array:
    """Gradient norm (n_stages,) at which each stage ends.

    The last stage ends at ``tol``. Those before give starting points only, and theirs is `LOOSER` times as large.

    Examples
    --------
    >>> stage_tolerances(3e-4, 3)
    array([0.009 , 0.009 , 0.0003])
    """
    tolerances = np.full(n_stages, LOOSER * tol)
    tolerances[-1] = tol
    return tolerances


@dataclass(frozen=True)
class Path:
    """The end of the λ2 sequence, and how each stage went.

    Attributes
    ----------
    coef : ndarray of shape (M, n_classes) or (D, n_classes)
        α, support rows first, or in the primal the planes.
    scores : ndarray of the same shape
        f = Kα + offset; in the primal the planes again.
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


def follow_stages(solve: SolveStage, lambda2: Sequence[float], tol: float, on_iteration: OnIteration | None) -> Path:
    """Solve the stages of ``lambda2`` one after the other.

    Ctrl-C returns the path up to its last complete stage, if there is one.
    """
    stages: list[Minimum] = []
    interrupted = False
    try:
        for index, (value, stage_tol) in enumerate(zip(lambda2, stage_tolerances(tol, len(lambda2)), strict=True)):
            tell = None if on_iteration is None else on_iteration(index)
            stages.append(solve(value, stages[-1] if stages else None, stage_tol, tell))
    except KeyboardInterrupt:
        if not stages:
            raise
        interrupted = True
    names = ("objective", "gradient_norm", "n_iter")
    histories = {name: np.stack([getattr(stage, name) for stage in stages], axis=1) for name in names}
    return Path(stages[-1].coef, stages[-1].scores, **histories, interrupted=interrupted)


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
    """The path on one Gram matrix (M, M), support rows first.

    ``loss_at(value)`` is the loss with that query weight; ``offsets`` (n_classes,) is the constant part of f.
    """
    n_rows, n_classes = len(gram), len(offsets)

    def solve(value: float, before: Minimum | None, stage_tol: float, tell: Tell | None) -> Minimum:
        coef = np.zeros((n_rows, n_classes)) if before is None else before.coef
        scores = np.tile(offsets, (n_rows, 1)) if before is None else before.scores
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
            on_iteration=tell,
        )
        _extend(stage, gram, offsets)
        return stage

    return follow_stages(solve, lambda2, tol, on_iteration)


def _extend(stage: Minimum, gram: Array, offsets: Array) -> None:
    """Extend the minimum of a stage on the support alone to all rows."""
    size, n_rows = len(stage.coef), len(gram)
    if size < n_rows:
        stage.scores = gram[:, :size] @ stage.coef + offsets
        stage.coef = np.concatenate((stage.coef, np.zeros((n_rows - size, len(offsets)))))
