"""Everything that decides how a backbone is trained."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from marginshot.vision.backbones import backbone_spec


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """Settings of a training; the defaults are those of section 4.4 of the paper.

    The paper gives neither the number of epochs nor momentum and weight decay; 90, 0.9 with Nesterov's rule and 1e-4
    are usual in this line of work, and ours to choose.

    Parameters
    ----------
    dataset : str
        Name of the dataset.
    backbone : str
        Name of the network.
    seed : int, default=0
        Decides the first weights, the order of the pictures and every random augmentation.
    subset : bool, default=False
        Accept an incomplete dataset.
    skip_corrupt : bool, default=False
        Leave out pictures that cannot be decoded.
    image_size : int, default=84
        Side of the square pictures given to the network.
    epochs : int, default=90
        Passes over the base classes.
    batch_size : int, default=0
        Pictures per step, over all devices together; 0 takes the backbone's (256, 128 and 100 in the paper).
    learning_rate : float, default=0.1
        First learning rate.
    learning_rate_step : int, default=30
        Epochs after which it is multiplied by 0.1, again and again.
    momentum, weight_decay : float
        Momentum and weight decay of stochastic gradient descent.
    nesterov : bool, default=True
        Momentum by Nesterov's rule; has no effect without momentum.
    label_smoothing : float, default=0.1
        Share of each target spread over all classes.
    crop_scale : float, default=0.08
        Smallest share of the picture's area that a random crop keeps; 1 turns cropping off.
    color_jitter : float, default=0.4
        Largest relative change of brightness, contrast and saturation; 0 turns it off.
    flip : bool, default=True
        Mirror half of the pictures.
    validation_tasks : int, default=500
        1-shot tasks on the validation classes at every validation, of five classes or all where there are fewer.
    validation_queries : int, default=15
        Queries per class in these tasks.
    validate_every : int, default=1
        Epochs from one validation to the next; the last epoch is always validated.
    start_from : str, default=""
        SHA-256 of the file of weights that the training starts from; empty for random weights.
    """

    dataset: str
    backbone: str
    seed: int = 0
    subset: bool = False
    skip_corrupt: bool = False
    image_size: int = 84
    epochs: int = 90
    batch_size: int = 0
    learning_rate: float = 0.1
    learning_rate_step: int = 30
    momentum: float = 0.9
    weight_decay: float = 1e-4
    nesterov: bool = True
    label_smoothing: float = 0.1
    crop_scale: float = 0.08
    color_jitter: float = 0.4
    flip: bool = True
    validation_tasks: int = 500
    validation_queries: int = 15
    validate_every: int = 1
    start_from: str = ""

    def __post_init__(self) -> None:
        spec = backbone_spec(self.backbone)
        if self.batch_size == 0:
            object.__setattr__(self, "batch_size", spec.batch_size)
        for name in (
            "image_size",
            "epochs",
            "batch_size",
            "learning_rate_step",
            "validation_tasks",
            "validation_queries",
            "validate_every",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}.")
        if self.learning_rate <= 0:
            raise ValueError(f"learning_rate must be above 0; got {self.learning_rate}.")
        for name in ("momentum", "weight_decay", "color_jitter"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative; got {getattr(self, name)}.")
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and below 1; got {self.label_smoothing}.")
        if not 0 < self.crop_scale <= 1:
            raise ValueError(f"crop_scale must be above 0 and at most 1; got {self.crop_scale}.")

    def learning_rate_at(self, epoch: int) -> float:
        """Learning rate during ``epoch``, counted from 0."""
        return self.learning_rate * 0.1 ** (epoch // self.learning_rate_step)

    def validates_after(self, epoch: int) -> bool:
        """Whether ``epoch``, counted from 0, ends with a validation."""
        return (epoch + 1) % self.validate_every == 0 or epoch + 1 == self.epochs

    def as_dict(self) -> dict[str, Any]:
        """Name and value of every setting."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any], origin: str) -> TrainSettings:
        """Settings read from a file; a name that does not exist is an error that names ``origin``."""
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            raise ValueError(f"{origin} has the unknown setting {unknown[0]!r}; remove it.")
        try:
            return cls(**values)
        except TypeError as error:
            raise ValueError(f"{origin} does not hold usable training settings ({error}).") from error


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """Devices and processes of a run; they change its result by rounding only.

    Parameters
    ----------
    accelerator : str, default="auto"
        Lightning Fabric's name: auto, cpu, cuda, mps.
    devices : int, default=1
        Processes per machine, one device each.
    nodes : int, default=1
        Machines.
    precision : str, default="32-true"
        Lightning Fabric's name: 32-true, 16-mixed, bf16-mixed.
    workers : int, default=0
        Extra processes that decode and augment pictures, per device.
    checkpoint_steps : int, default=500
        Steps between two saved states inside an epoch; the end of an epoch is always saved.
    checkpoint_minutes : float, default=5
        Most minutes between two saved states, whatever the number of steps.
    log_steps : int, default=10
        Steps between two logged losses.
    """

    accelerator: str = "auto"
    devices: int = 1
    nodes: int = 1
    precision: str = "32-true"
    workers: int = 0
    checkpoint_steps: int = 500
    checkpoint_minutes: float = 5.0
    log_steps: int = 10

    def __post_init__(self) -> None:
        for name in ("devices", "nodes", "checkpoint_steps", "log_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1; got {getattr(self, name)}.")
        if self.workers < 0:
            raise ValueError(f"workers must not be negative; got {self.workers}.")
        if not self.checkpoint_minutes > 0:
            raise ValueError(f"checkpoint_minutes must be above 0; got {self.checkpoint_minutes}.")
