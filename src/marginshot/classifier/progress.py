"""Progress of a long fit: lines on standard error, the user's callback, and the warning after Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.warn import warn_user

# Seconds between two lines of a long stage with verbose=1.
_PATIENCE = 5.0


class InterruptedFitWarning(UserWarning):
    """`fit` was interrupted; the estimator is in its last complete stage."""


@dataclass(frozen=True, kw_only=True)
class FitProgress:
    """Progress of a fit.

    Attributes
    ----------
    stage, n_stages : int
        Number of the λ2 stage, from 1, and how many there are.
    lambda2 : float
        Weight of the unlabelled rows in this stage.
    iteration : int
        Iterations of this stage so far.
    n_active, n_classes : int
        Classes not yet converged in this stage, and all of them.
    gradient_norm : float
        The largest of those classes; the stage ends when none is above ``tol``.
    seconds : float
        Since the start of the fit.
    """

    stage: int
    n_stages: int
    lambda2: float
    iteration: int
    n_active: int
    n_classes: int
    gradient_norm: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"[marginshot] {self.seconds:7.1f} s  stage {self.stage}/{self.n_stages} (lambda2={self.lambda2:g})  "
            f"iteration {self.iteration}  {self.n_active}/{self.n_classes} classes active  "
            f"gradient norm {self.gradient_norm:.2g}"
        )


class FitMonitor:
    """Reports the progress of a fit to the user.

    Parameters
    ----------
    verbose : int
        0 prints nothing, 1 one line a stage and one every few seconds, 2 one line an iteration.
    callback : callable or None
        Called with a `FitProgress` at every iteration.
    lambda2 : sequence of float
        The stages.
    n_classes : int
    """

    def __init__(
        self, verbose: int, callback: Callable[[FitProgress], object] | None, lambda2: Sequence[float], n_classes: int
    ) -> None:
        self._verbose = int(verbose)
        self._callback = callback
        self._lambda2 = lambda2
        self._n_classes = n_classes
        self._started = self._last_line = time.monotonic()

    def __call__(self, stage: int) -> Callable[[int, NDArray[np.float64]], None]:
        """The callback of the iterations of ``stage``, counted from 0."""

        def on_iteration(iteration: int, gradient_norms: NDArray[np.float64]) -> None:
            if self._verbose or self._callback is not None:
                self._tell(stage, iteration, gradient_norms)

        return on_iteration

    def _tell(self, stage: int, iteration: int, gradient_norms: NDArray[np.float64]) -> None:
        now = time.monotonic()
        progress = FitProgress(
            stage=stage + 1,
            n_stages=len(self._lambda2),
            lambda2=float(self._lambda2[stage]),
            iteration=iteration,
            n_active=len(gradient_norms),
            n_classes=self._n_classes,
            gradient_norm=float(gradient_norms.max()),
            seconds=now - self._started,
        )
        if self._verbose > 1 or (self._verbose and (iteration == 0 or now - self._last_line > _PATIENCE)):
            sys.stderr.write(f"{progress}\n")
            sys.stderr.flush()
            self._last_line = now
        if self._callback is not None:
            self._callback(progress)


def warn_interrupted(lambda2: Sequence[float], n_complete: int) -> None:
    """Warn which stage an interrupted fit has left the estimator in."""
    warn_user(
        f"fit was interrupted in stage {n_complete + 1} of {len(lambda2)}; the estimator is usable and holds the end "
        f"of stage {n_complete} (lambda2={lambda2[n_complete - 1]:g}). Fit again for the full sequence.",
        InterruptedFitWarning,
    )
