"""The protocol: methods over thousands of tasks, in parallel and resumable; the number of workers changes no result."""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING

from joblib import Parallel, delayed, effective_n_jobs
from threadpoolctl import threadpool_limits

from marginshot._lib.threads import n_threads
from marginshot.data.sampler import TaskSampler
from marginshot.evaluation.checkpoint import BlockProgress, Checkpoint
from marginshot.evaluation.predictions import writing_predictions
from marginshot.evaluation.results import Evaluation
from marginshot.evaluation.run import Run
from marginshot.evaluation.summary import summarise
from marginshot.evaluation.workers import Job, Outcome, predict, recorded_warnings, run_job, warm_up

if TYPE_CHECKING:
    from marginshot.methods.base import Method

# Limits of one job: small enough for progress, interruption and memory, large enough that overhead is negligible.
_JOB_SECONDS = 1.0
_JOB_BYTES = 32 * 2**20
_JOB_TASKS = 250
# joblib's warning when Ctrl-C ends a run. It is silenced, because the user asked for it.
_CANCELLED = re.compile(r"\d+ tasks (have been successfully executed|which were still being processed by the workers)")
# Jobs for each worker of a backend that returns everything at the end.
_ROUND_JOBS = 8


class EvaluationInterrupted(KeyboardInterrupt):
    """Raised on Ctrl-C during `evaluate`; ``partial`` holds the blocks with at least two finished tasks."""

    def __init__(self, partial: Evaluation) -> None:
        super().__init__("evaluation interrupted")
        self.partial = partial


def evaluate(
    run: Run,
    *,
    n_jobs: int | None = None,
    checkpoint: Checkpoint | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    predictions: str | os.PathLike[str] | None = None,
    finished: Sequence[BlockProgress] | None = None,
) -> Evaluation:
    """Run every method on every task.

    Parameters
    ----------
    run : Run
    n_jobs : int or None, default=None
        Workers: threads, unless ``joblib.parallel_config`` names another backend (loky, dask, ray). None means as many
        as it asks for or, where it asks for no more than one, as BLAS is set to use (``OMP_NUM_THREADS``); −1 means
        all cores. The result does not depend on it.
    checkpoint : Checkpoint, optional
        Where to keep what is finished, and to continue from.
    on_progress : callable, optional
        Called with the number of tasks done and their total, over all blocks.
    predictions : path, optional
        Parquet file for the scores of every query, see `marginshot.evaluation.predictions`. A run that continues
        another cannot write it, because earlier scores were not kept.
    finished : sequence of BlockProgress, optional
        Tasks already done, block by block; see `marginshot.evaluation.extension`. A stored checkpoint comes before it.

    Raises
    ------
    EvaluationInterrupted
        On Ctrl-C, after what is finished was written to ``checkpoint``.
    """
    samplers = [TaskSampler(bank, seed=run.seed, **asdict(settings)) for bank, settings in run.blocks()]
    identity = run.progress_identity()
    stored = checkpoint.load(identity) if checkpoint else None
    if stored is not None and len(stored) != len(samplers):
        raise ValueError(
            f"The stored progress has {len(stored)} blocks, the run {len(samplers)}. Start over with --force."
        )
    progress = stored or finished or [BlockProgress.empty(len(run.methods), run.n_tasks) for _ in samplers]
    total = run.n_tasks * len(samplers)

    def report() -> None:
        if on_progress:
            on_progress(sum(int(block.done.sum()) for block in progress) // len(run.methods), total)

    if predictions is not None and any(block.done.any() for block in progress):
        raise ValueError("The scores of tasks finished earlier were not kept: start over without the stored progress.")
    writing = nullcontext() if predictions is None else writing_predictions(run, predictions)
    try:
        report()
        with writing as write:

            def keep(outcome: Outcome) -> None:
                if write:
                    write(outcome)
                if checkpoint:
                    checkpoint.save(progress, identity, at_once=False)
                report()

            run_missing(samplers, run.methods, progress, n_jobs=n_jobs, on_outcome=keep, keep_answers=write is not None)
    except BaseException as error:
        if checkpoint and any(block.done.any() for block in progress):
            checkpoint.save(progress, identity, at_once=True)
        if isinstance(error, KeyboardInterrupt):
            raise EvaluationInterrupted(summarise(run, progress)) from None
        raise
    return summarise(run, progress)


def run_missing(
    samplers: Sequence[TaskSampler],
    methods: Mapping[str, Method],
    progress: Sequence[BlockProgress],
    *,
    n_jobs: int | None,
    on_outcome: Callable[[Outcome], None],
    keep_answers: bool = False,
) -> None:
    """Run the tasks that ``progress``, one block a sampler, misses, and enter them there.

    ``on_outcome`` is called with each outcome when it is entered; with ``keep_answers`` it has the scores.
    """
    n_jobs = _count_workers(n_jobs)
    # One thread per worker: a BLAS that splits a product over threads also changes its last bits.
    with (
        warnings_once() as warned,
        threadpool_limits(limits=1),
        closing(_spread(_plan_jobs(samplers, methods, progress, keep_answers), n_jobs)) as outcomes,
    ):
        for outcome in outcomes:
            warned += outcome.warned
            _record(outcome, progress[outcome.block])
            on_outcome(outcome)


def _count_workers(n_jobs: int | None) -> int:
    """Workers meant by ``n_jobs``, see `evaluate`; −1 for as many as the backend has."""
    if n_jobs is not None:
        return n_jobs
    configured = int(Parallel().n_jobs)
    return configured if configured != 1 else n_threads()


def _spread(jobs: Sequence[Job], n_jobs: int) -> Generator[Outcome, None, None]:
    """Run the jobs on workers; outcomes come as they are finished."""
    # Threads unless the caller's joblib configuration says otherwise: the methods spend their time outside the GIL, and
    # a new process would have to import everything again.
    options = {"n_jobs": n_jobs, "prefer": "threads", "batch_size": 1}
    try:
        workers = Parallel(return_as="generator_unordered", **options)
    except ValueError:
        # Ray's backend returns only complete lists. Jobs run in rounds, with progress and a checkpoint between them.
        workers = Parallel(**options)
        size = _ROUND_JOBS * effective_n_jobs(workers.n_jobs)
        for first in range(0, len(jobs), size):
            yield from workers(delayed(run_job)(job) for job in jobs[first : first + size])
        return
    yield from workers(delayed(run_job)(job) for job in jobs)


@contextmanager
def warnings_once() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Hold back warnings and raise them at the end; warnings that differ only in numbers are raised once.

    Every job counts the tasks that did not converge; the user should read of it once. Yields a list that takes the
    warnings of other processes.
    """
    warned: list[tuple[str, type[Warning]]] = []
    try:
        with recorded_warnings() as caught:
            yield warned
    finally:
        _tell_once([*warned, *((str(item.message), item.category) for item in caught)])


def _tell_once(warned: Sequence[tuple[str, type[Warning]]]) -> None:
    warned = [(message, category) for message, category in warned if not _CANCELLED.match(message)]
    kinds = {re.sub(r"[\d.]+", "#", message): (message, category) for message, category in reversed(warned)}
    for message, category in reversed(kinds.values()):
        warnings.warn(message, category, stacklevel=6)


def _plan_jobs(
    samplers: Sequence[TaskSampler],
    methods: Mapping[str, Method],
    progress: Sequence[BlockProgress],
    keep_answers: bool,
) -> list[Job]:
    """All jobs, as a list: joblib would run the trials of a generator in a thread beside the workers."""
    jobs: list[Job] = []
    for index, (sampler, block) in enumerate(zip(samplers, progress, strict=True)):
        for rows, start, stop in block.missing():
            chosen = {label: method for row, (label, method) in enumerate(methods.items()) if row in rows}
            size = _job_size(sampler, chosen)
            ends = ((first, min(first + size, stop)) for first in range(start, stop, size))
            jobs += [Job(index, sampler, chosen, rows, *both, keep_answers) for both in ends]
    return jobs


def _job_size(sampler: TaskSampler, methods: Mapping[str, Method]) -> int:
    """Tasks per job, from a short trial: the result does not depend on it.

    The trial also compiles all compiled code once, before any worker starts.
    """
    batch = sampler.batch(0, 2)
    seconds = 0.0
    for method in methods.values():
        warm_up(method, batch)
        started = time.perf_counter()
        with recorded_warnings():
            predict(method, batch)
        seconds += (time.perf_counter() - started) / 2
    n_rows = batch.support_rows.shape[1] + batch.query_rows.shape[1]
    bytes_per_task = n_rows * batch.table.rows.itemsize * batch.table.rows.shape[1]
    return max(1, min(_JOB_TASKS, int(_JOB_SECONDS / seconds), int(_JOB_BYTES / bytes_per_task)))


def _record(outcome: Outcome, block: BlockProgress) -> None:
    rows, tasks = list(outcome.rows), slice(outcome.start, outcome.stop)
    block.accuracy[rows, tasks] = outcome.accuracy
    block.redrawn[tasks] = outcome.redrawn
    block.foreign[rows, tasks] = outcome.foreign
    done, seconds, reliability = block.done.copy(), block.seconds.copy(), block.reliability.copy()
    done[rows, tasks] = True
    seconds[rows] += outcome.seconds
    reliability[rows] += outcome.reliability
    # One statement, which Ctrl-C cannot interrupt: a task whose counts were added must also be marked as done.
    vars(block).update(done=done, seconds=seconds, reliability=reliability)
