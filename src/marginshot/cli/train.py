"""``marginshot train``: a backbone on the base classes of a dataset, the paper's way."""

from __future__ import annotations

import sys
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginshot.cli._output import clean, emit, progress_bar, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from marginshot.vision.settings import Hardware, TrainSettings
    from marginshot.vision.training import StepReport, TrainResult


def command(
    context: typer.Context,
    dataset: Annotated[
        str, typer.Argument(help="miniimagenet, tieredimagenet, cub, glyphs, or folder (any folder of class folders).")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder of the run; the same command again resumes it.")],
    backbone: Annotated[
        str, typer.Option("--backbone", help="resnet18, wrn28-10, densenet121, resnet12, conv4 or small-resnet.")
    ] = "resnet18",
    data: Annotated[Path | None, typer.Option("--data", help="Folder with the dataset's files.")] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", help="Passes over the base classes (default 90).")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option("--batch-size", help="Pictures per step, over all devices (default: the paper's)."),
    ] = None,
    image_size: Annotated[int | None, typer.Option("--image-size", help="Side of the pictures (default 84).")] = None,
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", help="First learning rate (default 0.1).")
    ] = None,
    learning_rate_step: Annotated[
        int | None, typer.Option("--learning-rate-step", help="Epochs until it is multiplied by 0.1 (default 30).")
    ] = None,
    momentum: Annotated[
        float | None, typer.Option("--momentum", help="Momentum of SGD; 0 for none (default 0.9).")
    ] = None,
    nesterov: Annotated[
        bool | None, typer.Option("--nesterov/--no-nesterov", help="Momentum by Nesterov's rule (default yes).")
    ] = None,
    weight_decay: Annotated[
        float | None, typer.Option("--weight-decay", help="Weight decay of SGD (default 0.0001).")
    ] = None,
    label_smoothing: Annotated[
        float | None,
        typer.Option("--label-smoothing", help="Share of each target spread over all classes (default 0.1)."),
    ] = None,
    crop_scale: Annotated[
        float | None,
        typer.Option("--crop-scale", help="Smallest area a random crop keeps; 1 for no crops (default 0.08)."),
    ] = None,
    color_jitter: Annotated[float | None, typer.Option("--color-jitter", help="0 for none (default 0.4).")] = None,
    flip: Annotated[
        bool | None, typer.Option("--flip/--no-flip", help="Mirror half of the pictures (default yes).")
    ] = None,
    validation_tasks: Annotated[
        int | None, typer.Option("--validation-tasks", help="5-way 1-shot tasks at every validation (default 500).")
    ] = None,
    validate_every: Annotated[
        int | None, typer.Option("--validate-every", help="Epochs from one validation to the next (default 1).")
    ] = None,
    validation_queries: Annotated[
        int | None, typer.Option("--validation-queries", help="Queries per class in these tasks (default 15).")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of weights, order, augmentation (default 0).")
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option("--start-from", help="Run, or file of weights, to start from (default: random weights)."),
    ] = None,
    subset: Annotated[bool, typer.Option("--subset", help="Accept an incomplete dataset, for a trial.")] = False,
    skip_corrupt: Annotated[
        bool, typer.Option("--skip-corrupt", help="Leave out pictures that cannot be read, and count them.")
    ] = False,
    accelerator: Annotated[str, typer.Option("--accelerator", help="auto, cpu, cuda or mps.")] = "auto",
    devices: Annotated[int, typer.Option("--devices", help="GPUs (or processes on a CPU) per machine.")] = 1,
    nodes: Annotated[int, typer.Option("--nodes", help="Machines.")] = 1,
    precision: Annotated[str, typer.Option("--precision", help="32-true, 16-mixed or bf16-mixed.")] = "32-true",
    workers: Annotated[int, typer.Option("--workers", help="Processes that read pictures, per device.")] = 0,
    checkpoint_steps: Annotated[
        int, typer.Option("--checkpoint-steps", help="Steps between two saved states inside an epoch.")
    ] = 500,
    checkpoint_minutes: Annotated[
        float, typer.Option("--checkpoint-minutes", help="Minutes after which the state is saved in any case.")
    ] = 5.0,
    log_steps: Annotated[int, typer.Option("--log-steps", help="Steps between two logged losses.")] = 10,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Time a few steps, print the hours it will take, write nothing.")
    ] = False,
) -> None:
    """Train a backbone on the base classes; a run that was stopped goes on when the command is repeated.

    Example: marginshot train miniimagenet --data DIR --backbone resnet18 --out runs/mini-rn18
    """
    from marginshot.vision.settings import Hardware, TrainSettings

    # Every option has the name of its setting; options not given keep the setting's default.
    given = {name: value for name, value in context.params.items() if value is not None and name != "start_from"}
    settings = TrainSettings(**_of(TrainSettings, given))
    hardware = Hardware(**_of(Hardware, given))
    if dry_run:
        say_hours(settings, hardware, data, start_from)
    else:
        run_training(settings, hardware, data, out, start_from)


def say_hours(settings: TrainSettings, hardware: Hardware, data: Path | None, start_from: Path | None) -> None:
    """Time a few steps and print what the whole training will take."""
    from marginshot.vision.training import estimate

    measured = estimate(settings, hardware, data, start_from)
    if measured is not None:
        emit(
            f"{settings.epochs} epochs of {measured.n_steps:,} steps of {settings.batch_size} pictures: about "
            f"{measured.hours:.2g} hours on this machine at its present load ({measured.step_seconds:.2g} s a step, "
            f"{measured.validation_seconds:.2g} s a validation). Nothing was written."
        )


def _of(kind: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in given.items() if name in names}


def run_training(
    settings: TrainSettings, hardware: Hardware, data: Path | None, out: Path, start_from: Path | None = None
) -> TrainResult:
    """Train with progress on stderr."""
    from marginshot.vision.training import train

    clean([out])
    with progress_bar("steps") as on_progress:
        result = train(settings, hardware, data, out, TerminalObserver(on_progress), start_from)
    if result.is_first_process:
        if result.skipped:
            say(f"Left out {len(result.skipped)} pictures that cannot be read; the first: {result.skipped[0]}")
        say(
            f"Trained {settings.epochs} epochs: {out}. Best epoch {result.best_epoch}, "
            f"{100 * result.best_accuracy:.2f} % on {result.validation_way}-way 1-shot validation tasks."
        )
    return result


class TerminalObserver:
    """One line per epoch with the time left, and a bar that moves with every step (in a log, a line now and then)."""

    def __init__(self, on_progress: Callable[[int, int, str], None]) -> None:
        self._on_progress = on_progress
        self._first: tuple[float, int] | None = None
        self._left = ""

    def on_step(self, report: StepReport) -> None:
        """Move the bar and work out the time left."""
        done = (report.epoch - 1) * report.n_steps + report.step
        total = report.n_epochs * report.n_steps
        if self._first is None:
            self._first = time.monotonic(), done
        elif done > self._first[1]:
            rate = (time.monotonic() - self._first[0]) / (done - self._first[1])
            self._left = f", {_clock(rate * (total - done))} left"
        self._on_progress(done, total, f"epoch {report.epoch}, loss {report.loss:.3f}{self._left}")

    def on_epoch(self, epoch: int, values: dict[str, float | None]) -> None:
        """Say how the epoch went."""
        found = {name: value for name, value in values.items() if value is not None}
        validation = found.get("validation_accuracy")
        validated = "" if validation is None else f"validation {100 * validation:.2f} %, "
        # Written to stderr directly: rich redirects it, so that the line appears above the bar.
        sys.stderr.write(
            f"Epoch {epoch}: loss {found['loss']:.4f}, base accuracy {100 * found['base_accuracy']:.2f} %, "
            f"{validated}{_clock(found['seconds'])}{self._left}\n"
        )


def _clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
