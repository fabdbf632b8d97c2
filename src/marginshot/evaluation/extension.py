"""A finished result gains tasks, methods, ways, shots or features: what it holds is not run again."""

from __future__ import annotations

from typing import Any

import numpy as np

from marginshot import __version__
from marginshot.data.features import FeatureBank
from marginshot.data.sampler import TaskSettings
from marginshot.evaluation.checkpoint import BlockProgress
from marginshot.evaluation.results import Evaluation, MethodResult, as_json
from marginshot.evaluation.run import Run

# Arguments that decide which tasks are drawn: a result of other ones has nothing in common with the run.
_DRAWING = ("query", "dirichlet", "present", "foreign", "seed", "prior")


def continue_result(stored: Evaluation, run: Run) -> list[BlockProgress]:
    """The tasks of ``run`` that ``stored`` has done already, block by block.

    Raises ValueError where the run would lose or contradict something of the result.
    """
    _check_extension(stored, run)
    held = {(result.block, result.method): result for result in stored.results}
    return [_enter(run, bank, settings, held) for bank, settings in run.blocks()]


def _enter(run: Run, bank: FeatureBank, settings: TaskSettings, held: dict[Any, MethodResult]) -> BlockProgress:
    """Progress of one block with the tasks of its results entered."""
    block = BlockProgress.empty(len(run.methods), run.n_tasks)
    for row, label in enumerate(run.methods):
        result = held.get(((bank.source, settings.n_way, settings.n_shot), label))
        if result is None:
            continue
        if result.reliability is None or result.redrawn is None:
            raise ValueError("The stored result is of an earlier version, and cannot gain tasks or methods.")
        tasks = slice(0, result.tasks)
        block.done[row, tasks] = True
        block.accuracy[row, tasks] = result.per_task
        block.seconds[row] = result.seconds_per_task * result.tasks
        block.reliability[row] = result.reliability
        block.redrawn[tasks] |= result.redrawn
        if result.foreign is not None:
            block.foreign[row, tasks] = result.foreign
    return block


def _check_extension(stored: Evaluation, run: Run) -> None:
    given, wanted = stored.arguments, as_json(run.describe())
    for name in _DRAWING:
        if given.get(name) != wanted.get(name):
            raise ValueError(
                f"The stored result has {name} {given.get(name)}, not {wanted.get(name)}: its tasks are other ones."
            )
    if stored.version != __version__ and stored.identity() != run.identity():
        raise ValueError(
            f"The stored result is of version {stored.version}, this is {__version__}: their tasks cannot be mixed."
        )
    if given["tasks"] > run.n_tasks:
        raise ValueError(f"The stored result has {given['tasks']:,} tasks; ask for at least as many.")
    for label, settings in given["methods"].items():
        if label not in wanted["methods"]:
            raise ValueError(f"The stored result has the method {label!r} too: add it to --methods.")
        if settings != wanted["methods"][label]:
            raise ValueError(f"The stored result has {label!r} with other settings: give the new ones another name.")
    hashes = {bank.source: bank.content_hash for bank in run.banks}
    for record in stored.features:
        if hashes.get(record.source, record.sha256) != record.sha256:
            raise ValueError(f"The stored result was made with other features called {record.source!r}.")
    blocks = {(bank.source, settings.n_way, settings.n_shot) for bank, settings in run.blocks()}
    lost = next((result for result in stored.results if result.block not in blocks), None)
    if lost is not None:
        raise ValueError(
            f"The stored result also has {lost.features}, {lost.way} ways, {lost.shot} shots: ask for them too."
        )
    if not stored.complete or not all(np.isfinite(result.per_task).all() for result in stored.results):
        raise ValueError("The stored result is not complete.")
