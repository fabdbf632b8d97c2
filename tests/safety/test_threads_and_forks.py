"""One thread of BLAS in whatever thread (issue 31), and processes forked in the midst of fits: never hung."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from marginshot._lib.threads import limit_threads, one_blas_thread
from marginshot.batch.solve import solve_tasks


def threads_of_blas() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def in_a_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def limited() -> set[int]:
    with one_blas_thread():
        return threads_of_blas()


needs_threads = pytest.mark.usefixtures("two_threads")


@needs_threads
def test_the_limit_holds_outside_the_main_thread_too():
    before = threads_of_blas()
    with limit_threads(2):
        pass
    assert limited() == {1}
    assert in_a_thread(limited) == {1}
    assert threads_of_blas() == before


@needs_threads
def test_the_limit_holds_until_the_last_use_ends():
    entered, done, seen = threading.Event(), threading.Event(), []

    def hold():
        with one_blas_thread():
            entered.set()
            done.wait(10)
            seen.append(threads_of_blas())

    before, thread = threads_of_blas(), threading.Thread(target=hold)
    with one_blas_thread():
        thread.start()
        assert entered.wait(10)
    done.set()
    thread.join()
    assert seen == [{1}]
    assert threads_of_blas() == before


def test_answers_are_those_of_the_main_thread_to_the_last_bit():
    rng = np.random.default_rng(0)
    support, query = rng.normal(size=(20, 5, 640)), rng.normal(size=(20, 75, 640))
    labels = np.tile(np.arange(5), (20, 1))
    expected = solve_tasks(support, labels, query).scores
    assert np.array_equal(in_a_thread(lambda: solve_tasks(support, labels, query).scores), expected)


_SCRIPT = """
import os, threading, time
import marginshot._lib.threads as threads_module
import numpy as np
from marginshot.classifier.estimator import TransductiveMaxMarginClassifier
rng = np.random.default_rng(0)
X, y = rng.normal(size=(300, 16)), np.full(300, -1)
y[:10] = np.arange(10) % 5

def fit():
    return TransductiveMaxMarginClassifier().fit(X, y)

def child(work):
    pid = os.fork()
    if not pid:
        try:
            work()
            os._exit(0)
        except RuntimeError as error:
            os._exit(7 if "was forked while other threads were fitting" in str(error) else 8)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return "hung"

stop = threading.Event()

def fit_on():
    while not stop.is_set():
        fit()

def long():
    with threads_module.one_blas_thread():
        time.sleep(60)

fit()
print(child(fit))
threads = [threading.Thread(target=fit_on, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
time.sleep(0.3)
print(*[child(fit) for _ in range(6)], flush=True)
stop.set()
threads_module._PATIENCE = 0.2
with_long_work = threading.Thread(target=long, daemon=True)
with_long_work.start()
time.sleep(0.3)
print(child(fit), flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_in_the_midst_of_fits_waits_or_is_refused_and_never_hangs():
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", _SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    quiet, *busy, torn = done.stdout.split()
    assert quiet == "0", "no thread was at work"
    assert busy == ["0"] * 6, "a fork waits for a moment between two fits"
    assert torn == "7", "a fork that cannot wait any longer is refused work"
