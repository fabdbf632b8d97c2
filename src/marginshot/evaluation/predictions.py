"""Every score of an evaluation in one Parquet file, for statistics, ensembles and error analysis of one's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from marginshot._lib.files import atomic_path
from marginshot.evaluation.run import Run
from marginshot.evaluation.workers import Outcome


@contextmanager
def writing_predictions(run: Run, path: str | os.PathLike[str]) -> Iterator[Callable[[Outcome], None]]:
    """Write the scores of every outcome that the body passes on; the file appears once all are written.

    One row is one answer of one method to one query. Rows are sorted by features, way, shot, task, method and query,
    whatever the order in which tasks finished:

    ==========  ============================================================================
    column      content
    ==========  ============================================================================
    features    source of the features
    way, shot   of the task; unequal shots are listed
    method      label of the method
    task        number of the task: with the seed it says which task it is
    row         row of the features that is the query
    truth       class of the query, 0 … way − 1: a place in ``scores``
    scores      of all classes of the task, in double precision; the largest is the answer
    ==========  ============================================================================
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    word = pa.dictionary(pa.int32(), pa.string())
    columns = {"features": word, "way": pa.int32(), "shot": word, "method": word, "task": pa.int32()}
    columns |= {"row": pa.int64(), "truth": pa.int32(), "scores": pa.list_(pa.float64())}
    schema = pa.schema(columns, metadata={b"marginshot-output": run.command.encode()})
    with atomic_path(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        held: dict[tuple[int, int], Outcome] = {}
        following = (0, 0)

        def add(outcome: Outcome) -> None:
            nonlocal following
            held[outcome.block, outcome.start] = outcome
            while ready := held.pop(following, None):
                writer.write_table(pa.table(_columns(run, ready), schema=schema))
                finished = ready.stop == run.n_tasks
                following = (ready.block + 1, 0) if finished else (ready.block, ready.stop)

        yield add


def _columns(run: Run, outcome: Outcome) -> dict[str, Any]:
    """The columns of one outcome as lists and arrays."""
    assert outcome.answers is not None
    import pyarrow as pa

    bank, settings = list(run.blocks())[outcome.block]
    scores, rows, truth = outcome.answers  # (n_methods, T, n_query, n_way), (T, n_query), (T, n_query)
    n_methods, n_tasks, n_query, n_way = scores.shape
    n_answers = n_methods * n_tasks * n_query
    shot = settings.n_shot if isinstance(settings.n_shot, int) else ",".join(map(str, settings.n_shot))
    by_task = scores.transpose(1, 0, 2, 3)

    def repeated(values: Any) -> Any:
        """Values (T, n_query) for every method, as the answers are sorted."""
        return np.broadcast_to(values[:, None, :], (n_tasks, n_methods, n_query)).ravel()

    methods = np.tile(np.repeat(np.arange(n_methods, dtype=np.int32), n_query), n_tasks)
    first = np.zeros(n_answers, dtype=np.int32)
    ends = np.arange(0, n_answers * n_way + 1, n_way, dtype=np.int32)
    return {
        "features": pa.DictionaryArray.from_arrays(first, [bank.source]),
        "way": np.full(n_answers, settings.n_way, dtype=np.int32),
        "shot": pa.DictionaryArray.from_arrays(first, [str(shot)]),
        "method": pa.DictionaryArray.from_arrays(methods, list(run.methods)),
        "task": np.repeat(np.arange(outcome.start, outcome.stop, dtype=np.int32), n_methods * n_query),
        "row": repeated(rows),
        "truth": repeated(truth.astype(np.int32)),
        "scores": pa.ListArray.from_arrays(ends, np.ascontiguousarray(by_task).ravel()),
    }
