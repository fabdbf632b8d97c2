"""Threads for compiled code and BLAS, which release the GIL; BLAS's own threads; long work that lets others pass."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, TypeVar

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_threads(work: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None) -> list[Result]:
    """``work`` on every item, in order, by ``n_jobs`` threads; None means 1, −1 all cores.

    joblib's threads are polled every hundredth of a second, which costs a tenth of the work here.

    Examples
    --------
    >>> map_in_threads(abs, [-1, 2, -3], n_jobs=2)
    [1, 2, 3]
    """
    n_threads = effective_n_jobs(n_jobs)
    if n_threads == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work, items))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while our threads work on tasks or blocks; this also fixes the order of its sums.

    The limit holds for the whole process. Where uses of several threads overlap, the first sets it and lifts it.
    """
    token = _has_one.set(True)
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()
        _has_one.reset(token)


def limit_threads(n_jobs: int | None) -> Any:
    """BLAS, and `n_threads` with it, use this many threads in the body; None changes nothing, −1 means all cores."""
    return nullcontext() if n_jobs is None else _controller().limit(limits=effective_n_jobs(n_jobs), user_api="blas")


def n_threads() -> int:
    """Number of threads that BLAS would use, so that OMP_NUM_THREADS and the like apply here too."""
    return 1 if _has_one.get() else _limit.n_before or _blas_threads()


@contextmanager
def giving_way(wait: Callable[[], object]) -> Iterator[None]:
    """Long work in the body calls ``wait`` between its blocks, which may hold it up, or end it by an exception."""
    token = _wait.set(wait)
    try:
        yield
    finally:
        _wait.reset(token)


def give_way() -> None:
    """Let more urgent work pass, where `giving_way` asks for it."""
    _wait.get()()


class _Limit:
    """BLAS's limit of one thread, set and lifted by one thread at a time.

    threadpoolctl lets only the thread that set a limit of OpenBLAS change it, so whoever set it lifts it, even where
    another thread still works under it.
    """

    def __init__(self) -> None:
        self.n_before = 0  # threads that BLAS had before the limit; 0 while there is none
        self._lock = threading.Lock()
        self._limiter: Any = None
        self._setter, self._depth = 0, 0  # the thread that set the limit, and how many of its uses are open

    def enter(self) -> None:
        with self._lock:
            if not self._depth:
                self.n_before, self._setter = _blas_threads(), threading.get_ident()
                self._limiter = _controller().limit(limits=1, user_api="blas")
            if self._setter == threading.get_ident():
                self._depth += 1

    def leave(self) -> None:
        with self._lock:
            if not self._depth or self._setter != threading.get_ident():
                return
            self._depth -= 1
            if not self._depth:
                self._limiter.restore_original_limits()
                self.n_before = 0


_limit = _Limit()
_has_one: ContextVar[bool] = ContextVar("has_one", default=False)
_wait: ContextVar[Callable[[], object]] = ContextVar("wait", default=lambda: None)


def _blas_threads() -> int:
    return max((pool["num_threads"] for pool in _controller().info() if pool["user_api"] == "blas"), default=1)


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
