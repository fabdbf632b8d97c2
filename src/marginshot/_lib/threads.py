"""Threads for compiled code and BLAS, which release the GIL, and the number of BLAS's own threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
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


def one_blas_thread() -> Any:
    """Limit BLAS to one thread while our threads work on tasks or blocks; this also fixes the order of its sums."""
    return _controller().limit(limits=1, user_api="blas")


def limit_threads(n_jobs: int | None) -> Any:
    """BLAS, and `n_threads` with it, use this many threads in the body; None changes nothing, −1 means all cores."""
    return nullcontext() if n_jobs is None else _controller().limit(limits=effective_n_jobs(n_jobs), user_api="blas")


def n_threads() -> int:
    """As many threads as BLAS would use, so that OMP_NUM_THREADS and the like apply here too."""
    return max((pool["num_threads"] for pool in _controller().info() if pool["user_api"] == "blas"), default=1)


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
