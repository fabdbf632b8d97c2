"""Ctrl-C while something must not stop half way: it is raised once that has ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the body has ended; then the handler of before has its turn.

    Python raises KeyboardInterrupt between any two steps of the main thread, also before a ``try`` and inside a
    ``finally``. Other threads are never interrupted.

    Examples
    --------
    >>> steps = []
    >>> try:
    ...     with uninterrupted():
    ...         signal.raise_signal(signal.SIGINT)
    ...         steps.append("all of it")
    ... except KeyboardInterrupt:
    ...     steps.append("then the interrupt")
    >>> steps
    ['all of it', 'then the interrupt']
    """
    before = signal.getsignal(signal.SIGINT)
    # None is the handler of a program that Python is a part of, which cannot be put back.
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    held: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if held and callable(before):
            before(*held[0])
        elif held and before is signal.SIG_DFL:
            signal.raise_signal(signal.SIGINT)
