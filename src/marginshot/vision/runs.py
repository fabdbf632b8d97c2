"""The folder of a training run: its settings, weights and the state it resumes from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from marginshot import __version__
from marginshot._lib.files import atomic_path
from marginshot.vision.settings import Hardware, TrainSettings


class RunError(ValueError):
    """A run folder that cannot be used."""


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """What a run was trained on, so that it is never resumed on something else."""

    classes: tuple[str, ...]
    n_images: int


@dataclass(kw_only=True)
class Progress:
    """How far a run is.

    Parameters
    ----------
    epoch, step : int
        Epochs finished, and steps finished in the epoch under way.
    best_accuracy, best_epoch : float, int
        Highest validation accuracy so far and the epoch that gave it; 0 when there is none.
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
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
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
        try:
            content: dict[str, Any] = json.loads(self.config.read_text(encoding="utf-8"))
            settings, data = content["settings"], content["data"]
            found = TrainingData(classes=tuple(data["classes"]), n_images=int(data["n_images"]))
        except FileNotFoundError as error:
            raise RunError(f"{self.path} is not a run: it has no config.json; train one with --out.") from error
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(f"{self.config} is damaged ({error}); train the run again.") from error
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
        """Put the saved state back into ``network`` and ``optimizer``; from the start when there is none."""
        if not self.state.is_file():
            return Progress()
        tensors = read_tensors(self.state)
        progress = _read_progress(self.state)
        network.load_state_dict(
            {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
        )
        for name, parameter in network.named_parameters():
            momentum = tensors.get(f"momentum.{name}")
            if momentum is not None:
                optimizer.state[parameter]["momentum_buffer"] = momentum.to(parameter.device)
        return progress

    def save_weights(self, which: str, network: torch.nn.Module) -> None:
        """Write the weights as ``best`` or ``last``."""
        tensors = {name: value.contiguous() for name, value in network.state_dict().items()}
        with atomic_path(self.weights(which)) as temporary:
            save_file(tensors, temporary)


def _read_progress(path: Path) -> Progress:
    try:
        with safe_open(path, framework="pt") as file:
            return Progress(**json.loads(file.metadata()["progress"]))
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise RunError(f"{path} is damaged or incomplete ({error}); delete it and train again.") from error


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """All tensors of a safetensors file."""
    try:
        return load_file(path)
    except FileNotFoundError as error:
        raise RunError(f"{path} is not there; the run has not finished its first epoch.") from error
    except SafetensorError as error:
        raise RunError(f"{path} is damaged or incomplete ({error}); delete it and train again.") from error
