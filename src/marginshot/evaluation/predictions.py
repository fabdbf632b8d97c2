"""Every answer of an evaluation in Parquet files, for statistics, ensembles and error analysis of one's own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from marginshot._lib.extras import need
from marginshot._lib.files import atomic_path
from marginshot._lib.reading import reading
from marginshot.data.sampler import TaskSettings
from marginshot.evaluation.run import Run
from marginshot.evaluation.workers import Outcome

# Keys of the files' metadata: the command, which marks a file as ours, and everything its rows depend on.
_COMMAND, _IDENTITY = b"marginshot-output", b"marginshot.run"


def predicted_tasks_path(path: str | os.PathLike[str]) -> Path:
    """Path of the tasks that the predictions at ``path`` are about: ``NAME.tasks.parquet``."""
    return Path(path).with_suffix(".tasks.parquet")


def is_of_run(path: Path, run: Run) -> bool:
    """Whether the predictions at ``path`` came from a run with the arguments of ``run``."""
    need("pyarrow")
    import pyarrow.parquet as pq

    with reading(path, "predictions of `marginshot evaluate`"), path.open("rb") as file:
        stored = (pq.read_schema(file).metadata or {}).get(_IDENTITY)
        return stored is not None and json.loads(stored) == run.identity()


@contextmanager
def writing_predictions(run: Run, path: str | os.PathLike[str]) -> Iterator[Callable[[Outcome], None]]:
    """Write the answers of every outcome that the body passes on; the files appear once all are written.

    In ``path`` one row is one answer of one method to one query. Rows are sorted by features, way, shot, task, method
    and query, whatever the order in which tasks finished:

    =============  =========================================================================
    column         content
    =============  =========================================================================
    features       source of the features
    way, shot      of the task; unequal shots are listed
    method         label of the method
    task           number of the task: with the seed it says which task it is
    row            row of the features that is the query
    truth          class of the query, 0 … way − 1: a place in ``scores``; −1 for a foreign one
    scores         of all classes of the task, in double precision; the largest is the answer
    probabilities  of all classes of the task; missing for a method that gives none
    =============  =========================================================================

    In `predicted_tasks_path` one row is one task: ``features``, ``way``, ``shot`` and ``task`` as above, ``classes``
    (the names, in the order of the scores) and ``support_rows`` (rows of the features, sorted by class;
    numbers from their count on are embedded class names).
    """
    need("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    word, numbers = pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.float64())
    key = {"features": word, "way": pa.int32(), "shot": word}
    answer = {"method": word, "task": pa.int32(), "row": pa.int64(), "truth": pa.int32()}
    task = {"task": pa.int32(), "classes": pa.list_(pa.string()), "support_rows": pa.list_(pa.int64())}
    notes = {_COMMAND: run.command.encode(), _IDENTITY: json.dumps(run.identity()).encode()}
    answers = pa.schema(key | answer | {"scores": numbers, "probabilities": numbers}, metadata=notes)
    tasks = pa.schema(key | task, metadata=notes)
    with (
        atomic_path(predicted_tasks_path(path)) as beside,
        atomic_path(path) as temporary,
        pq.ParquetWriter(temporary, answers, compression="zstd") as writer,
        pq.ParquetWriter(beside, tasks, compression="zstd") as task_writer,
    ):
        held: dict[tuple[int, int], Outcome] = {}
        following = (0, 0)

        def add(outcome: Outcome) -> None:
            nonlocal following
            held[outcome.block, outcome.start] = outcome
            while ready := held.pop(following, None):
                writer.write_table(pa.table(_answer_columns(run, ready), schema=answers))
                task_writer.write_table(pa.table(_task_columns(run, ready), schema=tasks))
                finished = ready.stop == run.n_tasks
                following = (ready.block + 1, 0) if finished else (ready.block, ready.stop)

        yield add


def _key_columns(source: str, settings: TaskSettings, n_rows: int) -> dict[str, Any]:
    """Columns that say which block a row belongs to."""
    import pyarrow as pa

    shot = settings.n_shot if isinstance(settings.n_shot, int) else ",".join(map(str, settings.n_shot))
    first = np.zeros(n_rows, dtype=np.int32)
    return {
        "features": pa.DictionaryArray.from_arrays(first, [source]),
        "way": np.full(n_rows, settings.n_way, dtype=np.int32),
        "shot": pa.DictionaryArray.from_arrays(first, [str(shot)]),
    }


def _answer_columns(run: Run, outcome: Outcome) -> dict[str, Any]:
    """The answers of one outcome as lists and arrays."""
    assert outcome.answers is not None
    import pyarrow as pa

    bank, settings = list(run.blocks())[outcome.block]
    answers = outcome.answers
    n_methods, n_tasks, n_query, n_way = answers.scores.shape
    n_answers = n_methods * n_tasks * n_query

    def repeated(values: Any) -> Any:
        """Values (T, n_query) for every method, as the answers are sorted."""
        return np.broadcast_to(values[:, None, :], (n_tasks, n_methods, n_query)).ravel()

    def lists(values: Any, missing: Any = None) -> Any:
        """Numbers (n_methods, T, n_query, n_way) as lists of n_way, those of some methods missing."""
        flat = np.ascontiguousarray(values.transpose(1, 0, 2, 3)).ravel()
        ends = pa.array(np.arange(0, n_answers * n_way + 1, n_way, dtype=np.int32))
        mask = None if missing is None else pa.array(np.tile(np.repeat(missing, n_query), n_tasks))
        return pa.ListArray.from_arrays(ends, pa.array(flat), mask=mask)

    given = [np.zeros_like(answers.scores[0]) if one is None else one for one in answers.probabilities]
    methods = np.tile(np.repeat(np.arange(n_methods, dtype=np.int32), n_query), n_tasks)
    return {
        **_key_columns(bank.source, settings, n_answers),
        "method": pa.DictionaryArray.from_arrays(methods, list(run.methods)),
        "task": np.repeat(np.arange(outcome.start, outcome.stop, dtype=np.int32), n_methods * n_query),
        "row": repeated(answers.query_rows),
        "truth": repeated(answers.query_labels.astype(np.int32)),
        "scores": lists(answers.scores),
        "probabilities": lists(np.stack(given), np.array([one is None for one in answers.probabilities])),
    }


def _task_columns(run: Run, outcome: Outcome) -> dict[str, Any]:
    """The tasks of one outcome as lists and arrays."""
    assert outcome.answers is not None
    bank, settings = list(run.blocks())[outcome.block]
    rows = outcome.answers.support_rows
    names = np.array(bank.classes, dtype=object)[outcome.answers.classes]
    return {
        **_key_columns(bank.source, settings, len(rows)),
        "task": np.arange(outcome.start, outcome.stop, dtype=np.int32),
        "classes": names.tolist(),
        "support_rows": rows.tolist(),
    }
