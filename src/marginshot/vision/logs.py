"""CSV and TensorBoard logs of a run, cut back to where a resumed run goes on."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TextIO

from tensorboardX import SummaryWriter

from marginshot._lib.files import atomic_path

_STEP_COLUMNS = ("epoch", "step", "loss", "learning_rate")
_EPOCH_COLUMNS = ("epoch", "loss", "base_accuracy", "validation_accuracy", "learning_rate", "seconds")


class RunLog:
    """Writes ``steps.csv``, ``epochs.csv`` and ``tensorboard/`` in the folder of a run.

    Parameters
    ----------
    folder : Path
        The run's folder.
    epoch, step : int
        Where the run goes on; what an interrupted run had logged after that is dropped.
    steps_per_epoch : int
        For TensorBoard, which counts steps over all epochs.
    """

    def __init__(self, folder: Path, epoch: int, step: int, steps_per_epoch: int) -> None:
        self._steps_per_epoch = steps_per_epoch
        self._steps = _reopen(
            folder / "steps.csv", _STEP_COLUMNS, lambda row: (int(row[0]), int(row[1])) <= (epoch + 1, step)
        )
        self._epochs = _reopen(folder / "epochs.csv", _EPOCH_COLUMNS, lambda row: int(row[0]) <= epoch)
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=epoch * steps_per_epoch + step + 1)

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._steps.close()
        self._epochs.close()
        self._board.close()

    def log_step(self, epoch: int, step: int, loss: float, learning_rate: float) -> None:
        """One step; ``epoch`` and ``step`` count from 1."""
        _write(self._steps, (epoch, step, repr(loss), learning_rate))
        position = (epoch - 1) * self._steps_per_epoch + step
        self._board.add_scalar("base/loss", loss, position)
        self._board.add_scalar("learning_rate", learning_rate, position)

    def log_epoch(self, epoch: int, values: dict[str, float | None]) -> None:
        """One finished epoch, with the columns of epochs.csv but the first; a value that is missing stays empty."""
        _write(self._epochs, (epoch, *(values[name] for name in _EPOCH_COLUMNS[1:])))
        position = epoch * self._steps_per_epoch
        self._board.add_scalar("base/accuracy", values["base_accuracy"], position)
        if values["validation_accuracy"] is not None:
            self._board.add_scalar("validation/accuracy", values["validation_accuracy"], position)
        self._board.flush()


def _reopen(path: Path, columns: tuple[str, ...], keep: Callable[[list[str]], bool]) -> TextIO:
    rows: list[list[str]] = []
    if path.is_file():
        with path.open(newline="", encoding="utf-8") as file:
            # A killed run may leave half a line at the end.
            rows = [row for row in list(csv.reader(file))[1:] if len(row) == len(columns) and keep(row)]
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])
    return path.open("a", newline="", encoding="utf-8")


def _write(file: TextIO, row: tuple[object, ...]) -> None:
    csv.writer(file).writerow(row)
    file.flush()
