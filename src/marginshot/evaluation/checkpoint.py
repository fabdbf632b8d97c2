"""Progress of an evaluation, in memory and on disk, so that an interrupted run can be continued."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.files import atomic_path
from marginshot._lib.reading import read_npz, reading
from marginshot.evaluation.results import beside_result, check_shares
from marginshot.evaluation.statistics import N_BINS

# Seconds between two writes: the most work that a power cut can lose.
_INTERVAL = 5.0


@dataclass
class BlockProgress:
    """Finished tasks of one block, method by method.

    Parameters
    ----------
    done : ndarray of bool of shape (n_methods, n_tasks)
    accuracy : ndarray of shape (n_methods, n_tasks)
    seconds : ndarray of shape (n_methods,)
        Summed over the tasks done.
    reliability : ndarray of int64 of shape (n_methods, N_BINS, 3)
        See `count_reliability`; zero for a method without probabilities.
    redrawn : ndarray of bool of shape (n_tasks,)
    foreign : ndarray of shape (n_methods, n_tasks, 2)
        See `detect_foreign`.
    """

    done: NDArray[np.bool_]
    accuracy: NDArray[np.float64]
    seconds: NDArray[np.float64]
    reliability: NDArray[np.int64]
    redrawn: NDArray[np.bool_]
    foreign: NDArray[np.float64]

    @classmethod
    def empty(cls, n_methods: int, n_tasks: int) -> BlockProgress:
        """Progress with no task done."""
        return cls(
            done=np.zeros((n_methods, n_tasks), dtype=bool),
            accuracy=np.zeros((n_methods, n_tasks)),
            seconds=np.zeros(n_methods),
            reliability=np.zeros((n_methods, N_BINS, 3), dtype=np.int64),
            redrawn=np.zeros(n_tasks, dtype=bool),
            foreign=np.zeros((n_methods, n_tasks, 2)),
        )

    @property
    def n_tasks(self) -> int:
        """Tasks there is room for."""
        return self.done.shape[1]

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Which tasks every method has done, (n_tasks,)."""
        finished: NDArray[np.bool_] = np.all(self.done, axis=0)
        return finished

    def extend(self, n_tasks: int) -> BlockProgress:
        """Progress with room for ``n_tasks`` tasks, no fewer than before."""
        more = n_tasks - self.n_tasks
        return replace(
            self,
            done=np.pad(self.done, ((0, 0), (0, more))),
            accuracy=np.pad(self.accuracy, ((0, 0), (0, more))),
            redrawn=np.pad(self.redrawn, (0, more)),
            foreign=np.pad(self.foreign, ((0, 0), (0, more), (0, 0))),
        )

    def keep_methods(self, chosen: NDArray[np.bool_]) -> BlockProgress:
        """Progress of some of the methods; ``chosen`` is a mask of shape (n_methods,)."""
        return replace(
            self,
            done=self.done[chosen],
            accuracy=self.accuracy[chosen],
            seconds=self.seconds[chosen],
            reliability=self.reliability[chosen],
            foreign=self.foreign[chosen],
        )

    def missing(self) -> list[tuple[tuple[int, ...], int, int]]:
        """Tasks not done: rows of methods, start, stop; methods that miss the same tasks are together."""
        groups: dict[bytes, list[int]] = {}
        for row, done in enumerate(self.done):
            groups.setdefault(done.tobytes(), []).append(row)
        found = []
        for rows in groups.values():
            edges = np.flatnonzero(np.diff(np.concatenate([[True], self.done[rows[0]], [True]]).astype(np.int8)))
            found += [(tuple(rows), int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]
        return found


_ARRAYS = tuple(BlockProgress.__dataclass_fields__)


class Checkpoint:
    """A file that follows the progress of an evaluation.

    Parameters
    ----------
    path : Path
        See `checkpoint_path`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last_write = time.monotonic()

    def load(self, identity: Mapping[str, Any]) -> list[BlockProgress] | None:
        """The stored progress, or None if nothing is stored.

        Raises where the stored run differs from ``identity`` in anything that changes its result.
        """
        if not self.path.exists():
            return None
        what, advice = "the progress of an evaluation", "Its run cannot be continued. Start over with --force."
        arrays = read_npz(self.path, what, advice)
        with reading(self.path, what, advice):
            stored: dict[str, Any] = dict(json.loads(str(arrays["marginshot-output"])))
        for name in identity:
            if stored.get(name) != identity[name]:
                raise ValueError(
                    f"{self.path.name} belongs to another run: its {name} is {_short(stored.get(name))}, not "
                    f"{_short(identity[name])}. Repeat the first command with --resume, or start over with --force."
                )
        with reading(self.path, what, advice):
            n_blocks = sum(name.startswith("done_") for name in arrays)
            blocks = [BlockProgress(**{name: arrays[f"{name}_{i}"] for name in _ARRAYS}) for i in range(n_blocks)]
            for block in blocks:
                _check_block(block, len(identity["methods"]), identity["tasks"])
        return blocks

    def save(self, blocks: Sequence[BlockProgress], identity: Mapping[str, Any], *, at_once: bool) -> None:
        """Write the progress, unless the last write was a moment ago and this one need not be ``at_once``."""
        if not at_once and time.monotonic() - self._last_write < _INTERVAL:
            return
        arrays = {f"{name}_{i}": getattr(block, name) for i, block in enumerate(blocks) for name in _ARRAYS}
        with atomic_path(self.path) as temporary:
            np.savez(temporary, allow_pickle=False, **({"marginshot-output": np.array(json.dumps(identity))} | arrays))
        self._last_write = time.monotonic()

    def discard(self) -> None:
        """Remove the file once the result is written."""
        self.path.unlink(missing_ok=True)


def _check_block(block: BlockProgress, n_methods: int, n_tasks: int) -> None:
    """Raise ValueError if the arrays of a block have wrong shapes or impossible values."""
    wanted = BlockProgress.empty(n_methods, n_tasks)
    for name in _ARRAYS:
        array, expected = getattr(block, name), getattr(wanted, name)
        if (array.shape, array.dtype) != (expected.shape, expected.dtype):
            raise ValueError(f"{name} is {array.dtype} {array.shape}, not {expected.dtype} {expected.shape}")
    check_shares("accuracies", block.accuracy[block.done])
    check_shares("areas under curves", block.foreign)
    if not (np.isfinite(block.seconds) & (block.seconds >= 0)).all() or (block.reliability < 0).any():
        raise ValueError("a time or a count is negative")


def checkpoint_path(result: Path) -> Path:
    """Path of the progress file of an evaluation that writes its result to ``result``."""
    return beside_result(result, "partial.npz")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
