"""Threads for compiled code and BLAS, which release the GIL; BLAS's own threads; long work that lets others pass."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, TypeVar

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

_PATIENCE = 10.0  # seconds that a fork waits for other threads to finish their work

Item = TypeVar("Item")
Result = TypeVar("Result")


def count_jobs(n_jobs: int | None) -> int:
    """The number of threads meant by ``n_jobs``: None means as many as BLAS would use, −1 all cores."""
    return n_threads() if n_jobs is None else int(effective_n_jobs(n_jobs))


def map_in_threads(work: Callable[[Item], Result], items: Iterable[Item], n_jobs: int) -> list[Result]:
    """``work`` on every item, in order, by ``n_jobs`` threads.

    joblib's threads are polled every hundredth of a second, which costs a tenth of the work here.

    Examples
    --------
    >>> map_in_threads(abs, [-1, 2, -3], n_jobs=2)
    [1, 2, 3]
    """
    if n_jobs == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(n_jobs) as pool:
        return list(pool.map(work, items))


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while our threads work on tasks or blocks; this also fixes the order of its sums.

    The limit holds for the whole process, from the first use that begins to the last that ends, in whatever thread.
    """
    token = _has_one.set(True)
    try:
        with _at_work(), _limit.held():
            yield
    finally:
        _has_one.reset(token)


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[None]:
    """BLAS, and `n_threads` with it, use this many threads in the body; None changes nothing, −1 means all cores."""
    with _at_work():
        if n_jobs is None:
            yield
            return
        with _controller().limit(limits=count_jobs(n_jobs), user_api="blas"):
            yield


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
    """BLAS's limit of one thread, which any number of threads hold at the same time."""

    def __init__(self) -> None:
        self.n_before = 0  # threads that BLAS had before the limit; 0 while there is none
        self._lock, self._n_held = threading.Lock(), 0
        self._before: list[tuple[Any, int]] = []

    def open_lock(self) -> None:
        """A lock that no thread holds, for a process that has only one."""
        self._lock = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """The first to hold it sets it, the last to let go lifts it."""
        with self._lock:
            if not self._n_held:
                self._before = [(library, library.num_threads) for library in _blas_libraries()]
                self.n_before = max((number for _, number in self._before), default=1)
                for library, _ in self._before:
                    _set_threads(library, 1)
            self._n_held += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_held -= 1
                if not self._n_held:
                    for library, number in self._before:
                        _set_threads(library, number)
                    self.n_before = 0


def _set_threads(library: Any, number: int) -> None:
    """Set BLAS's number of threads, whatever thread set it last.

    threadpoolctl 3.8 lets only one thread change the number of OpenBLAS, and ignores all others without a word.
    """
    let_go = getattr(library, "clear_controlling_thread", None)
    if let_go is not None:
        let_go(force=True)
    library.set_num_threads(number)
    if let_go is not None:
        let_go(force=True)


class _Work:
    """Which threads use BLAS or compiled code through us, so that a fork waits for a moment without any.

    OpenBLAS ends its threads before a fork, whoever waits for them: work going on then would hang in both processes.
    """

    def __init__(self) -> None:
        self.changed, self.threads = threading.Condition(), dict[int, int]()
        self.is_forking = False
        self.is_torn = False  # this process was forked while threads that it has not were at work

    @property
    def others(self) -> bool:
        """Whether another thread than this one is at work."""
        return bool(set(self.threads) - {threading.get_ident()})

    def before_fork(self) -> None:
        """Let no thread begin, and wait until those at work have ended, or for too long."""
        with self.changed:
            self.is_forking = True
            self.changed.wait_for(lambda: not self.others, _PATIENCE)

    def after_in_parent(self) -> None:
        """Let threads begin again."""
        with self.changed:
            self.is_forking = False
            self.changed.notify_all()

    def after_in_child(self) -> None:
        """Only this thread is here: locks that others held are open again, and their work is torn off."""
        self.is_torn = self.is_torn or self.others
        self.changed, self.is_forking = threading.Condition(), False
        _limit.open_lock()


@contextmanager
def _at_work() -> Iterator[None]:
    """Count the body as work of this thread; raises RuntimeError where the process cannot work any more."""
    if _work.is_torn:
        raise RuntimeError(
            "This process was forked while other threads were fitting, and BLAS would wait for them forever. Start "
            "processes before the threads, or with the start method 'spawn' or 'forkserver'."
        )
    own = threading.get_ident()
    with _work.changed:
        _work.changed.wait_for(lambda: not _work.is_forking or own in _work.threads, _PATIENCE)
        _work.threads[own] = _work.threads.get(own, 0) + 1
    try:
        yield
    finally:
        with _work.changed:
            _work.threads[own] -= 1
            if not _work.threads[own]:
                del _work.threads[own]
                _work.changed.notify_all()


_work = _Work()
_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_work.before_fork, after_in_parent=_work.after_in_parent, after_in_child=_work.after_in_child
    )
_has_one: ContextVar[bool] = ContextVar("has_one", default=False)
_wait: ContextVar[Callable[[], object]] = ContextVar("wait", default=lambda: None)


def _blas_libraries() -> list[Any]:
    return [library for library in _controller().lib_controllers if library.user_api == "blas"]


def _blas_threads() -> int:
    return max((library.num_threads for library in _blas_libraries()), default=1)


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
