"""BLAS's limit of one thread, and long work that lets others pass."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from marginshot._lib.threads import count_jobs, giving_way, n_threads, one_blas_thread
from marginshot.data.rows import ArrayRows
from marginshot.model.neighbour_search import compare_all


def threads_of_blas():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.usefixtures("two_threads")
def test_overlapping_limits_leave_the_number_of_threads_as_it_was():
    before, limited, done = threads_of_blas(), threading.Event(), threading.Event()

    def hold():
        with one_blas_thread():
            limited.set()
            done.wait(10)

    holding = threading.Thread(target=hold)
    with one_blas_thread():
        holding.start()
        assert limited.wait(10)
    done.set()
    holding.join()
    assert threads_of_blas() == before


@pytest.mark.usefixtures("two_threads")
def test_the_limit_of_another_thread_is_not_ours():
    before = n_threads()
    limited, done = threading.Event(), threading.Event()

    def hold():
        with one_blas_thread():
            limited.set()
            done.wait(10)

    holding = threading.Thread(target=hold)
    holding.start()
    assert limited.wait(10)
    assert n_threads() == before
    done.set()
    holding.join()


class EnoughError(Exception):
    pass


@pytest.mark.parametrize(
    "work",
    [
        lambda rows: ArrayRows(rows).accumulate(lambda _, block: (block.sum(axis=0),)),
        lambda rows: compare_all(rows[:600], 3, np.arange(600)),
    ],
)
def test_long_work_asks_between_its_blocks_and_can_be_ended(work):
    rows = np.zeros((3000, 1000))  # three blocks
    asked = []

    def wait():
        asked.append(threading.get_ident())
        if len(asked) == 2:
            raise EnoughError

    with giving_way(wait), pytest.raises(EnoughError):
        work(rows)
    work(rows)  # nobody asks any more
    assert len(asked) == 2


def test_none_means_the_threads_of_blas_and_one_where_a_worker_has_one():
    assert count_jobs(None) == n_threads()
    assert count_jobs(3) == 3
    with one_blas_thread():
        assert count_jobs(None) == 1
        assert count_jobs(2) == 2
