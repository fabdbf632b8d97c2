"""Seeds from what scikit-learn calls ``random_state``."""

from __future__ import annotations

from numbers import Integral

import numpy as np
from sklearn.utils import check_random_state

RandomStateOption = int | np.random.RandomState | np.random.Generator | None


def draw_seed(random_state: RandomStateOption) -> int:
    """A seed: the int itself, or one drawn from a generator; None draws it from NumPy's global generator.

    Examples
    --------
    >>> draw_seed(7), draw_seed(np.random.default_rng(0)) == draw_seed(np.random.default_rng(0))
    (7, True)
    """
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**32))
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(2**32, dtype=np.uint64))
    if isinstance(random_state, bool) or not isinstance(random_state, Integral) or random_state < 0:
        raise ValueError(
            "random_state must be a whole number of at least 0, a NumPy RandomState or Generator, or None; got "
            f"{random_state!r}."
        )
    return int(random_state)
