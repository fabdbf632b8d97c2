"""Base training: cross-entropy over the base classes, on any number of devices, resumed to the same result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import numpy as np
import torch
from lightning_fabric import Fabric
from lightning_fabric.utilities.exceptions import MisconfigurationException
from numpy.typing import NDArray
from torch.nn import functional
from torch.utils.data import DataLoader

from marginshot.data.pictures import pillow_silenced
from marginshot.vision.batch_norm import share_batch_norm
from marginshot.vision.batches import EpochBatches
from marginshot.vision.datasets import ImageSet, drop_corrupt, open_dataset
from marginshot.vision.devices import place
from marginshot.vision.logs import RunLog
from marginshot.vision.network import Classifier, build_classifier
from marginshot.vision.preprocessing import AugmentedImages, PlainImages, plain_preprocessing
from marginshot.vision.runs import Progress, RunError, RunFolder, TrainingData
from marginshot.vision.settings import Hardware, TrainSettings
from marginshot.vision.starting import load_start, starting_from
from marginshot.vision.validation import nearest_mean_accuracy, require_validation_tasks, validation_way

# Steps and seconds after which a dry run has seen enough: the time of a step varies by some per cent.
_LEAST_STEPS, _MEASURED_SECONDS = 3, 10.0


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """Report to an observer after each step; epoch and step count from 1."""

    epoch: int
    n_epochs: int
    step: int
    n_steps: int
    loss: float


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a training will take: steps of an epoch, seconds of a step and of a validation, hours of the whole."""

    n_steps: int
    step_seconds: float
    validation_seconds: float
    hours: float


class Observer(Protocol):
    """Watches a run; called by the first process only."""

    def on_step(self, report: StepReport) -> None:
        """After each step."""
        ...

    def on_epoch(self, epoch: int, values: dict[str, float | None]) -> None:
        """After each epoch, with the columns of epochs.csv; an epoch may have no validation."""
        ...


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """How a run ended.

    Parameters
    ----------
    best_accuracy, best_epoch : float, int
        Highest 1-shot accuracy on the validation classes, and the epoch that gave it.
    validation_way : int
        Classes of a validation task: five, or all where there are fewer.
    skipped : tuple of str
        What was wrong with each picture left out.
    is_first_process : bool
        Whether this process is the one that reports.
    """

    best_accuracy: float
    best_epoch: int
    validation_way: int
    skipped: tuple[str, ...]
    is_first_process: bool


def train(
    settings: TrainSettings,
    hardware: Hardware,
    data: Path | None,
    out: Path,
    observer: Observer | None = None,
    start_from: Path | None = None,
) -> TrainResult:
    """Train a backbone, or go on with the run in ``out`` where it stopped.

    Parameters
    ----------
    settings : TrainSettings
        Settings of the training.
    hardware : Hardware
        On what; with several devices this process starts the others.
    data : Path or None
        The dataset's files.
    out : Path
        The run's folder; the same settings again resume the run in it.
    observer : Observer, optional
        Called after every step and epoch.
    start_from : Path, optional
        Folder of another run, or a file of weights: the network starts from them and not from random ones.
    """
    settings = starting_from(settings, start_from)
    fabric = launch(hardware)
    base, validation, skipped = open_splits(settings, data)
    network = build_classifier(settings, len(base.classes))
    if start_from is not None:
        load_start(network.backbone, network.head, start_from, settings.backbone, base.classes)
    folder = RunFolder(out)
    description = TrainingData(classes=base.classes, n_images=len(base))
    _open_together(fabric, lambda: folder.open(settings, hardware, description))
    trainer = _Trainer(fabric, settings, hardware, network, base, validation, folder)
    # Identical weights after a resume need deterministic kernels on GPUs too.
    with torch.backends.cudnn.flags(enabled=True, deterministic=True, benchmark=False), pillow_silenced():
        progress = trainer.run(observer if fabric.is_global_zero else None)
    return TrainResult(
        best_accuracy=progress.best_accuracy,
        best_epoch=progress.best_epoch,
        validation_way=validation_way(validation),
        skipped=skipped,
        is_first_process=fabric.is_global_zero,
    )


def estimate(
    settings: TrainSettings, hardware: Hardware, data: Path | None, start_from: Path | None = None
) -> Estimate | None:
    """Time a few steps of the training that `train` would do, without a folder; None in all but the first process."""
    settings = starting_from(settings, start_from)
    fabric = launch(hardware)
    base, validation, _ = open_splits(settings, data)
    network = build_classifier(settings, len(base.classes))
    with TemporaryDirectory() as nowhere, pillow_silenced():
        trainer = _Trainer(fabric, settings, hardware, network, base, validation, RunFolder(Path(nowhere)))
        measured = trainer.measure()
    return measured if fabric.is_global_zero else None


def _open_together(fabric: Fabric, open_folder: Callable[[], None]) -> None:
    """Open the run's folder in the first process; if that fails, all processes raise, so that none waits forever."""
    problem: Exception | None = None
    if fabric.is_global_zero:
        try:
            open_folder()
        except (OSError, ValueError) as error:
            problem = error
    problem = fabric.broadcast(problem)
    if problem is not None:
        raise problem


def launch(hardware: Hardware) -> Fabric:
    """A started Fabric; with several devices or machines, one process each."""
    several = hardware.devices * hardware.nodes > 1
    try:
        fabric = Fabric(
            accelerator=hardware.accelerator,
            devices=hardware.devices,
            num_nodes=hardware.nodes,
            strategy="ddp" if several else "auto",
            precision=hardware.precision,
        )
    except (MisconfigurationException, RuntimeError, ValueError) as error:
        raise ValueError(f"This machine cannot train as asked: {error}") from error
    fabric.launch()
    return fabric


def open_splits(settings: TrainSettings, data: Path | None) -> tuple[ImageSet, ImageSet, tuple[str, ...]]:
    """Base and validation split, and what was wrong with each picture left out."""
    skipped: tuple[str, ...] = ()
    found = []
    for split in ("base", "validation"):
        images = open_dataset(settings.dataset, data, split, subset=settings.subset, seed=settings.seed)
        if settings.skip_corrupt:
            images, problems = drop_corrupt(images)
            skipped += problems
        found.append(images)
    require_validation_tasks(found[1], settings.validation_queries)
    return found[0], found[1], skipped


class _Trainer:
    """One process of a run."""

    def __init__(
        self,
        fabric: Fabric,
        settings: TrainSettings,
        hardware: Hardware,
        network: Classifier,
        base: ImageSet,
        validation: ImageSet,
        folder: RunFolder,
    ) -> None:
        self.fabric, self.settings, self.hardware, self.folder = fabric, settings, hardware, folder
        self.network, self.validation = network, validation
        self.batches = EpochBatches(
            len(base), settings.batch_size, settings.seed, fabric.global_rank, fabric.world_size
        )
        if fabric.world_size > 1:
            share_batch_norm(self.network, fabric.device.type)
        place(self.network, fabric.device)
        self.optimizer = torch.optim.SGD(
            self.network.parameters(),
            lr=settings.learning_rate,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            nesterov=settings.nesterov and settings.momentum > 0,
        )
        self.model, self.stepper = fabric.setup(self.network, self.optimizer)
        self.progress = folder.load_state(self.network, self.optimizer)
        self._saved = time.monotonic()
        loader = DataLoader(
            AugmentedImages(base, settings),
            batch_sampler=self.batches,
            num_workers=hardware.workers,
            persistent_workers=hardware.workers > 0,
            pin_memory=fabric.device.type == "cuda",
        )
        self.loader = fabric.setup_dataloaders(loader, use_distributed_sampler=False)

    def run(self, observer: Observer | None) -> Progress:
        """All epochs that are left."""
        done = self.progress.epoch, self.progress.step
        writes = self.fabric.is_global_zero
        log = RunLog(self.folder.path, *done, self.batches.steps_per_epoch) if writes else None
        with log or nullcontext():
            while self.progress.epoch < self.settings.epochs:
                self._run_epoch(log, observer)
        if writes:
            # Written again in case the run was killed between its last two files.
            self.folder.save_weights("last", self.network)
        self.fabric.barrier()
        return self.progress

    def _run_epoch(self, log: RunLog | None, observer: Observer | None) -> None:
        progress, started = self.progress, time.monotonic()
        rate = self.settings.learning_rate_at(progress.epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.network.train()
        self.batches.go_to(progress.epoch, progress.step)
        for images, labels in self.loader:
            loss = self._step(images, labels)
            self._report_step(loss, rate, log, observer)
            if log is not None and self._is_due():
                self.folder.save_state(self.network, self.optimizer, progress)
                self._saved = time.monotonic()
        accuracy = self._validate() if self.settings.validates_after(progress.epoch) else None
        n_steps = self.batches.steps_per_epoch
        values: dict[str, float | None] = {
            "loss": progress.loss_sum / n_steps,
            "base_accuracy": progress.correct / (n_steps * self.settings.batch_size),
            "validation_accuracy": accuracy,
            "learning_rate": rate,
            "seconds": time.monotonic() - started,
        }
        self._finish_epoch(accuracy)
        if log is not None:
            log.log_epoch(self.progress.epoch, values)
        if observer is not None:
            observer.on_epoch(self.progress.epoch, values)

    def measure(self) -> Estimate:
        """Seconds of a step and of a validation, from a few steps and a few pictures; nothing is written."""
        self.network.train()
        self.batches.go_to(0, 0)
        started, times = time.monotonic(), list[float]()
        for images, labels in self.loader:
            self._step(images, labels)
            times.append(time.monotonic() - started)
            if len(times) > _LEAST_STEPS and times[-1] > _MEASURED_SECONDS:
                break
        # The first step also sets up the libraries.
        step = (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else times[0]
        few = np.arange(min(len(self.validation), 2 * self.settings.batch_size))
        started = time.monotonic()
        self._features_of(self.validation.select(few))
        validation = (time.monotonic() - started) * len(self.validation) / len(few)
        return Estimate(
            n_steps=self.batches.steps_per_epoch,
            step_seconds=step,
            validation_seconds=validation,
            hours=(
                self.settings.epochs * self.batches.steps_per_epoch * step
                + sum(map(self.settings.validates_after, range(self.settings.epochs))) * validation
            )
            / 3600,
        )

    def _is_due(self) -> bool:
        """Whether the state is to be saved, by steps or by time."""
        by_time = time.monotonic() - self._saved >= 60 * self.hardware.checkpoint_minutes
        return by_time or self.progress.step % self.hardware.checkpoint_steps == 0

    def _step(self, images: torch.Tensor, labels: torch.Tensor) -> float:
        """One step of gradient descent; the loss over all processes."""
        logits = self.model(images)
        loss = functional.cross_entropy(logits, labels, label_smoothing=self.settings.label_smoothing)
        self.stepper.zero_grad()
        self.fabric.backward(loss)
        self.stepper.step()
        hits = (logits.detach().argmax(dim=1) == labels).sum()
        both = torch.stack([loss.detach().float(), hits.float()])
        mean_loss, mean_hits = self.fabric.all_reduce(both, reduce_op="mean").tolist()
        self.progress.step += 1
        self.progress.loss_sum += mean_loss
        self.progress.correct += mean_hits * self.fabric.world_size
        return float(mean_loss)

    def _report_step(self, loss: float, rate: float, log: RunLog | None, observer: Observer | None) -> None:
        epoch, step = self.progress.epoch + 1, self.progress.step
        if not math.isfinite(loss):
            raise RunError(
                f"The loss became {loss} at step {step} of epoch {epoch}; lower the learning rate, now {rate}, and "
                "train into another folder."
            )
        if log is not None and step % self.hardware.log_steps == 0:
            log.log_step(epoch, step, loss, rate)
        if observer is not None:
            observer.on_step(
                StepReport(
                    epoch=epoch,
                    n_epochs=self.settings.epochs,
                    step=step,
                    n_steps=self.batches.steps_per_epoch,
                    loss=loss,
                )
            )

    def _finish_epoch(self, accuracy: float | None) -> None:
        old = self.progress
        is_best = accuracy is not None and accuracy > old.best_accuracy
        best = (accuracy, old.epoch + 1) if accuracy is not None and is_best else (old.best_accuracy, old.best_epoch)
        self.progress = Progress(epoch=old.epoch + 1, best_accuracy=best[0], best_epoch=best[1])
        if self.fabric.is_global_zero:
            # The state comes last: a run killed before it repeats the epoch and writes the same weights again.
            if is_best:
                self.folder.save_weights("best", self.network)
            self.folder.save_weights("last", self.network)
            self.folder.save_state(self.network, self.optimizer, self.progress)
            self._saved = time.monotonic()
        self.fabric.barrier()

    def _validate(self) -> float:
        """1-shot accuracy of the nearest mean on the validation classes; every process takes its share."""
        features = self._features_of(self.validation)
        settings = self.settings
        return nearest_mean_accuracy(
            features, self.validation.labels, settings.validation_tasks, settings.validation_queries, settings.seed
        )

    def _features_of(self, images: ImageSet) -> NDArray[np.float32]:
        """Features of pictures, shape (n_images, n_features)."""
        rank, world, n_images = self.fabric.global_rank, self.fabric.world_size, len(images)
        share = np.arange(rank, n_images, world)
        dataset = PlainImages(images.select(share), plain_preprocessing(self.settings.image_size))
        loader = DataLoader(dataset, batch_size=self.settings.batch_size, num_workers=self.hardware.workers)
        self.network.eval()
        dtype = next(self.network.parameters()).dtype
        with torch.inference_mode(), self.fabric.autocast():
            parts = [self.network.backbone(images.to(self.fabric.device, dtype)).float() for images in loader]
            own = torch.cat(parts)
            features = own.new_zeros(n_images, own.shape[1])
            features[torch.as_tensor(share, device=own.device)] = own
        # Every other process has zeros where this one has features, so the sum gathers them.
        gathered: NDArray[np.float32] = self.fabric.all_reduce(features, reduce_op="sum").cpu().numpy()
        return gathered
