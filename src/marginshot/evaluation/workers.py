"""The part of an evaluation that runs in workers: methods on a slice of the tasks of a block."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from marginshot.batch.task import seconds_compiling
from marginshot.data.sampler import TaskBatch, TaskSampler
from marginshot.evaluation.statistics import N_BINS, count_reliability, detect_foreign
from marginshot.methods.base import takes_row_numbers
from marginshot.methods.prior import takes_prior

if TYPE_CHECKING:
    from marginshot.methods.base import Method


def describe_method(method: Method) -> dict[str, Any]:
    """Name and settings of a method as JSON types; for a plugin also the hash of its file.

    A method that is not a dataclass has no settings.
    """
    names = [item.name for item in fields(method)] if is_dataclass(method) else list[str]()
    settings = {name: _plain(getattr(method, name)) for name in names}
    return {"method": method.name, **settings, **_identify_plugin(type(method).__module__)}


def _identify_plugin(module: str) -> dict[str, str]:
    """Hash of a plugin's file, so that a run is not continued after the plugin was edited."""
    file = Path(getattr(sys.modules[module], "__file__", None) or "")
    if module.partition(".")[0] == "marginshot" or not file.is_file():
        return {}
    return {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


@dataclass(frozen=True)
class Job:
    """Tasks ``start`` to ``stop`` of a block for some methods, whose places in the run are ``rows``.

    ``parent`` is the process that planned it. With ``keep_answers`` the outcome holds the scores of all queries.
    """

    block: int
    sampler: TaskSampler
    methods: Mapping[str, Method]
    rows: tuple[int, ...]
    start: int
    stop: int
    keep_answers: bool = False
    parent: int = field(default_factory=os.getpid)


@dataclass(frozen=True)
class Answers:
    """What methods said of the queries of T tasks.

    Parameters
    ----------
    support_rows : ndarray of int64 of shape (T, n_support)
    query_rows, query_labels : ndarray of int64 of shape (T, n_query)
    classes : ndarray of int64 of shape (T, n_way)
        As in `TaskBatch`, whose table would be large to send.
    scores : ndarray of shape (n_methods, T, n_query, n_way)
    probabilities : tuple of ndarray of shape (T, n_query, n_way) or None
        One for each method; None for a method without probabilities.
    """

    support_rows: NDArray[np.int64]
    query_rows: NDArray[np.int64]
    query_labels: NDArray[np.int64]
    classes: NDArray[np.int64]
    scores: NDArray[np.float64]
    probabilities: tuple[NDArray[np.float64] | None, ...]


@dataclass(frozen=True)
class Outcome:
    """Arrays as in `BlockProgress` for some ``rows`` of it and tasks ``start`` to ``stop``.

    ``answers`` are kept on demand; ``warned`` are warnings raised in another process.
    """

    block: int
    rows: tuple[int, ...]
    start: int
    stop: int
    accuracy: NDArray[np.float64]
    seconds: NDArray[np.float64]
    reliability: NDArray[np.int64]
    redrawn: NDArray[np.bool_]
    foreign: NDArray[np.float64]
    answers: Answers | None = None
    warned: tuple[tuple[str, type[Warning]], ...] = ()


_warm: set[tuple[str, tuple[int, ...]]] = set()


def predict(method: Method, batch: TaskBatch, stop: int | None = None) -> NDArray[np.float64]:
    """Scores of the first ``stop`` tasks; an error names the method that raised it."""
    labels = batch.support_labels[:stop]
    try:
        given = batch.priors if takes_prior(method) else {}
        if takes_row_numbers(method) and not given:
            rows = batch.support_rows[:stop], labels, batch.query_rows[:stop]
            return as_array(method.predict_table_scores(batch.table, *rows))
        priors = {name: beliefs[:stop] for name, beliefs in given.items()}
        return as_array(method.predict_scores(batch.support[:stop], labels, batch.query[:stop], **priors))
    except ValueError as error:
        raise ValueError(f"Method {method.name!r}: {error}") from error


def as_array(values: Any) -> NDArray[np.float64]:
    """Numbers of a method in double precision; a torch tensor, on any device and with a gradient, is taken too."""
    detach = getattr(values, "detach", None)
    # In double precision, because NumPy has no bfloat16.
    return np.asarray(values if detach is None else detach().cpu().double(), dtype=np.float64)


def find_probabilities(method: Method, scores: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Class probabilities of scores (T, n_query, n_way), or None for a method that gives none."""
    give = getattr(method, "probabilities", None)
    found = None if give is None else give(scores)
    if found is None:
        return None
    array = as_array(found)
    if array.shape != scores.shape:
        raise ValueError(
            f"Method {method.name!r} must give probabilities of shape (tasks, queries, classes), {scores.shape} here; "
            f"got {array.shape}."
        )
    strange = array[~((array >= 0) & (array <= 1))]
    if len(strange):
        raise ValueError(f"Method {method.name!r} must give probabilities between 0 and 1; got {strange[0]:g}.")
    return array


def warm_up(method: Method, batch: TaskBatch) -> None:
    """Let a method compile or load what it needs, once per process and shape, so that it is not timed."""
    key = (repr(method), (batch.support_rows.shape[1], batch.query_rows.shape[1], batch.table.rows.shape[1]))
    if key not in _warm:
        # These warnings will come again in the real run.
        with recorded_warnings():
            predict(method, batch, 1)
        _warm.add(key)


def run_job(job: Job) -> Outcome:
    """Score the tasks of a job, in this process or another one."""
    if os.getpid() == job.parent:
        # The parent limits BLAS to one thread for the process; OpenMP's limit is per thread and is set here.
        with threadpool_limits(limits=1, user_api="openmp"):
            return _score_tasks(job)
    _settle_worker()
    with recorded_warnings() as caught:
        outcome = _score_tasks(job)
    return replace(outcome, warned=tuple((str(item.message), item.category) for item in caught))


@contextmanager
def recorded_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Collect warnings of a worker process, to be raised again in the user's process.

    In a thread nothing is collected: Python's warning filters are shared by all threads.
    """
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


@cache
def _settle_worker() -> None:
    """Set up a worker process once: one thread, and Ctrl-C left to the parent."""
    # The parent has compiled everything; a worker that is slow to load it must not announce a compilation.
    logging.getLogger("marginshot").setLevel(logging.ERROR)
    threadpool_limits(limits=1)
    # Some backends run jobs outside the main thread, where Python does not allow signal handlers.
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _score_tasks(job: Job) -> Outcome:
    batch = job.sampler.batch(job.start, job.stop)
    accuracy, seconds, reliability, kept, given, foreign = [], [], [], [], [], []
    known = slice(job.sampler.settings.n_known)  # the foreign queries come last
    truth = batch.query_labels[:, known]
    for label, method in job.methods.items():
        warm_up(method, batch)
        if not takes_row_numbers(method):
            _ = batch.support, batch.query, batch.priors  # gathered once for all methods, not timed
        # Processor time of this thread: other workers and programs do not count. Compilation is excluded.
        started = time.thread_time() - seconds_compiling()
        scores = predict(method, batch)
        seconds.append(time.thread_time() - seconds_compiling() - started)
        shape = (*batch.query_labels.shape, job.sampler.settings.n_way)
        if np.shape(scores) != shape:
            raise ValueError(
                f"Method {label!r} must give scores of shape (tasks, queries, classes), {shape} here; got "
                f"{np.shape(scores)}."
            )
        if np.isnan(scores).any():
            bad = job.start + int(np.isnan(scores).any(axis=(1, 2)).argmax())
            raise ValueError(f"Method {label!r} gave NaN as a score on task {bad}; its accuracy would mean nothing.")
        predicted = scores[:, known].argmax(axis=2)
        accuracy.append((predicted == truth).mean(axis=1))
        probabilities = find_probabilities(method, scores)
        if job.keep_answers:
            kept.append(scores)
            given.append(probabilities)
        reliability.append(_count(None if probabilities is None else probabilities[:, known], predicted, truth))
        foreign.append(detect_foreign(find_foreign_scores(method, scores, probabilities), batch.query_labels < 0))
    return Outcome(
        job.block,
        job.rows,
        job.start,
        job.stop,
        np.stack(accuracy),
        np.array(seconds),
        np.stack(reliability),
        batch.redrawn,
        np.stack(foreign),
        Answers(batch.support_rows, batch.query_rows, batch.query_labels, batch.classes, np.stack(kept), tuple(given))
        if job.keep_answers
        else None,
    )


def find_foreign_scores(
    method: Method, scores: NDArray[np.float64], probabilities: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """How foreign each query is, (T, n_query), by the method's own rule or as its best class is improbable."""
    give = getattr(method, "foreign_scores", None)
    if give is None:
        return np.asarray(-(scores if probabilities is None else probabilities).max(axis=2))
    found = as_array(give(scores))
    if found.shape != scores.shape[:2] or np.isnan(found).any():
        raise ValueError(
            f"Method {method.name!r} must give foreign scores without NaN, of shape (tasks, queries), "
            f"{scores.shape[:2]} here; got {found.shape}."
        )
    return found


def _count(
    probabilities: NDArray[np.float64] | None, predicted: NDArray[np.int64], labels: NDArray[np.int64]
) -> NDArray[np.int64]:
    if probabilities is None:
        return np.zeros((N_BINS, 3), dtype=np.int64)
    return count_reliability(probabilities, predicted, labels)
