"""Numba's options, and the message that code is being compiled.

Importing this module imports numba, so only the engine for batches of tasks does. ``import marginshot`` and a single
``fit`` never load it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from marginshot._lib.extras import need

need("numba")

import numba  # noqa: E402
from numba.core.cpu import CPUTargetOptions  # noqa: E402

logger = logging.getLogger("marginshot")

# Sums may be reordered and fused so that they vectorise; NaN, infinity and signed zeros keep their meaning. The
# order is fixed at compile time, so one machine always gives the same bits.
_FAST_SUMS = {"reassoc", "contract"}
#: Options of functions that compiled code calls.
CALL_OPTIONS: Any = {"fastmath": _FAST_SUMS, "error_model": "numpy"}

#: A leaf: compiled into its caller, cached with it. Always inlined: a call counts references to each array atomically.
leaf = numba.njit(fastmath=_FAST_SUMS, error_model="numpy", forceinline=True)

# The option is private to numba (0.61 to 0.68 have it); without it everything works, more slowly.
_UNCOUNTED: Any = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}
#: A loop: a leaf that makes no array. Numba counts no references in it, which took a fifth of the solver's time.
loop = numba.njit(fastmath=_FAST_SUMS, error_model="numpy", forceinline=True, **_UNCOUNTED)

#: A routine: not inlined. For what is called once a task and, inlined, would take long to compile.
routine = numba.njit(fastmath=_FAST_SUMS, error_model="numpy")

#: An entry point: called from Python, cached on disk, runs without the GIL.
entry_point = numba.njit(fastmath=_FAST_SUMS, error_model="numpy", nogil=True, cache=True)


@contextmanager
def announce_compilation(what: str, patience: float = 3.0) -> Iterator[None]:
    """Say that ``what`` is being compiled if the body takes longer than ``patience`` seconds.

    A cached entry point loads in a fraction of a second, so only a real compilation is announced.
    """
    timer = threading.Timer(
        patience,
        logger.warning,
        args=(f"Compiling {what}: once after installation, ten to twenty seconds; later runs use the cache.",),
    )
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
