"""One warning for all tasks of a batch that a solver left unfinished."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.methods.base import Method


def warn_unconverged(method: type[Method], converged: NDArray[np.bool_], settings: str) -> None:
    """Warn with the number of tasks that did not converge, if any, and the ``settings`` that would help."""
    count = int(np.count_nonzero(~converged))
    if count:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(
            f"{method.title} did not converge in {count} of {converged.size} tasks: {settings}.",
            ConvergenceWarning,
            stacklevel=2,
        )
