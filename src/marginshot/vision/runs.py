"""The folder of a training run: its settings, weights and the state it resumes from."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from marginshot import __version__
from marginshot._lib.files import atomic_path, is_temporary
from marginshot._lib.reading import read_json, reading
from marginshot.vision.settings import Hardware, TrainSettings

_AGAIN = "Delete it and train again."


class RunError(ValueError):
    """A run folder that cannot be used."""


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """The data of a run, so that it is never resumed on other data."""

    classes: tuple[str, ...]
    n_images: int


@dataclass(kw_only=True)
class Progress:
    """Progress of a run.

    Parameters
    ----------
    epoch, step : int
        Epochs finished, and steps finished in the epoch under way.
    best_accuracy, best_epoch : float, int
        Highest validation accuracy so far and the epoch that gave it; 0 before the first.
    loss_sum, correct : float
        Summed over the steps of the epoch under way.
    """

    epoch: int = 0
    step: int = 0
    best_accuracy: float = -1.0
    best_epoch: int = 0
    loss_sum: float = 0.0
    correct: float = 0.0


@dataclass(frozen=True)
class RunFolder:
    """Paths and files of one run."""

    path: Path

    @property
    def config(self) -> Path:
        """Every setting of the run."""
        return self.path / "config.json"

    @property
    def state(self) -> Path:
        """Weights, momentum and progress: what a killed run goes on from."""
        return self.path / "state.safetensors"

    def weights(self, which: str) -> Path:
        """Weights of the ``best`` or the ``last`` epoch."""
        return self.path / f"{which}.safetensors"

    def open(self, settings: TrainSettings, hardware: Hardware, data: TrainingData) -> None:
        """Create the folder, or make sure that the run in it is this one."""
        if self.config.is_file():
            self._require_same(settings, data)
            return
        # A run killed while it wrote its settings leaves a folder with nothing else in it.
        if self.path.exists() and (not self.path.is_dir() or not all(map(is_temporary, self.path.iterdir()))):
            raise RunError(f"{self.path} exists and holds no run; choose another --out.")
        self.path.mkdir(parents=True, exist_ok=True)
        content = {
            "marginshot": __version__,
            "torch": torch.__version__,
            "settings": settings.as_dict(),
            "hardware": asdict(hardware),
            "data": asdict(data),
        }
        with atomic_path(self.config) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    def finished_epochs(self) -> int:
        """Epochs finished so far; 0 where there is no run yet."""
        if not self.state.is_file():
            return 0
        return _read_progress(self.state).epoch

    def read_config(self) -> tuple[TrainSettings, TrainingData]:
        """Settings and data of the run."""
        if not self.config.is_file():
            raise RunError(f"{self.path} is not a run: it has no config.json; train one with --out.")
        content = read_json(self.config, "the settings of a run", "Train the run again.", RunError)
        with reading(self.config, "the settings of a run", "Train the run again.", RunError):
            settings, data = content["settings"], content["data"]
            found = TrainingData(classes=tuple(data["classes"]), n_images=int(data["n_images"]))
            return TrainSettings.from_dict(settings, str(self.config)), found

    def _require_same(self, settings: TrainSettings, data: TrainingData) -> None:
        old, old_data = self.read_config()
        different = [
            f"{name} was {value!r} and is now {settings.as_dict()[name]!r}"
            for name, value in old.as_dict().items()
            if settings.as_dict()[name] != value
        ]
        if old_data != data:
            different.append(
                f"the base split had {len(old_data.classes)} classes with {old_data.n_images} pictures and now has "
                f"{len(data.classes)} with {data.n_images}, or other classes"
            )
        if different:
            raise RunError(f"{self.path} holds another run: {'; '.join(different)}. Choose another --out.")

    def save_state(self, network: torch.nn.Module, optimizer: torch.optim.Optimizer, progress: Progress) -> None:
        """Write, in one file, all that the next step needs."""
        tensors = {f"model.{name}": value.contiguous() for name, value in network.state_dict().items()}
        for name, parameter in network.named_parameters():
            momentum = optimizer.state.get(parameter, {}).get("momentum_buffer")
            if momentum is not None:
                tensors[f"momentum.{name}"] = momentum.contiguous()
        with atomic_path(self.state) as temporary:
            save_file(tensors, temporary, metadata={"progress": json.dumps(asdict(progress))})

    def load_state(self, network: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
        """Put the saved state back into ``network`` and ``optimizer``; a run without one starts from the beginning."""
        if not self.state.is_file():
            return Progress()
        tensors = read_tensors(self.state)
        progress = _read_progress(self.state)
        with reading(self.state, "the state of this run", _AGAIN, RunError):
            network.load_state_dict(
                {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
            )
            for name, parameter in network.named_parameters():
                momentum = tensors.get(f"momentum.{name}")
                if momentum is not None:
                    if momentum.shape != parameter.shape:
                        raise ValueError(f"the momentum of {name} has another shape")
                    # In the layout of its parameter: with another one, sums are rounded differently.
                    optimizer.state[parameter]["momentum_buffer"] = torch.empty_like(parameter).copy_(momentum)
        return progress

    def save_weights(self, which: str, network: torch.nn.Module) -> None:
        """Write the weights as ``best`` or ``last``."""
        tensors = {name: value.contiguous() for name, value in network.state_dict().items()}
        with atomic_path(self.weights(which)) as temporary:
            save_file(tensors, temporary)


def _read_progress(path: Path) -> Progress:
    with reading(path, "the state of a run", _AGAIN, RunError), safe_open(_opened(path), framework="pt") as file:
        progress = Progress(**json.loads(file.metadata()["progress"]))
        numbers = astuple(progress)
        if not (all(type(number) is int for number in (progress.epoch, progress.step, progress.best_epoch))):
            raise ValueError("epochs and steps are not whole numbers")
        if not all(math.isfinite(number) for number in numbers) or min(progress.epoch, progress.step) < 0:
            raise ValueError("a number of its progress is negative or not finite")
    return progress


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """All tensors of a safetensors file."""
    try:
        with reading(path, "the weights of a run", _AGAIN, RunError):
            return load_file(_opened(path))
    except FileNotFoundError as error:
        raise RunError(f"{path} is not there; the run has not finished its first epoch.") from error


def load_part(module: torch.nn.Module, part: str, tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Put ``part`` (``backbone`` or ``head``) of a run's ``tensors``, read from ``path``, into ``module``."""
    own = {name.removeprefix(f"{part}."): value for name, value in tensors.items() if name.startswith(f"{part}.")}
    try:
        module.load_state_dict(own)
    except (RuntimeError, TypeError) as error:
        raise RunError(f"{path} does not fit the {part} of its run; train the run again.") from error


def _opened(path: Path) -> Path:
    """``path``, after a check that it can be opened: safetensors reports a file without permission as damaged."""
    with path.open("rb"):
        return path
