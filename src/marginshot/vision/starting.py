"""Weights that a training starts from: those of another run, or of a published checkpoint."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from torch import nn

from marginshot.vision.published import load_published
from marginshot.vision.runs import RunError, RunFolder, load_part, read_tensors
from marginshot.vision.settings import TrainSettings


def starting_from(settings: TrainSettings, source: Path | None) -> TrainSettings:
    """``settings`` with the hash of the weights in ``source``: a run's folder, or a file of weights."""
    if source is None:
        return replace(settings, start_from="")
    file = _weights_file(source)
    if not file.is_file():
        raise RunError(f"There are no weights to start from in {source}; give a run's folder, or a file of weights.")
    with file.open("rb") as content:
        return replace(settings, start_from=hashlib.file_digest(content, "sha256").hexdigest())


def load_start(backbone: nn.Module, head: nn.Linear, source: Path, name: str, classes: tuple[str, ...]) -> None:
    """Put the weights of ``source`` into a network; its head keeps its own if it was trained on other classes.

    Parameters
    ----------
    backbone : torch.nn.Module
        Pictures to features, (B, 3, H, W) -> (B, n_features).
    head : torch.nn.Linear
        Features to logits, (B, n_features) -> (B, n_classes).
    source : Path
        A run's folder, of which the best epoch is taken; a file in it; or a published checkpoint.
    name : str
        Name of the backbone; other ones are refused.
    classes : tuple of str
        Base classes of the new training.
    """
    file = _weights_file(source)
    run = RunFolder(file.parent)
    if not run.config.is_file():
        backbone.load_state_dict(load_published(file, name)[1].state_dict())
        return
    settings, data = run.read_config()
    if settings.backbone != name:
        raise RunError(f"{source} holds the weights of {settings.backbone}, and {name} cannot start from them.")
    tensors = read_tensors(file)
    load_part(backbone, "backbone", tensors, file)
    old = tensors.get("head.weight")
    # Conv-4 has more features for larger pictures, which a head trained on smaller ones does not know.
    if data.classes == classes and old is not None and old.shape == head.weight.shape:
        load_part(head, "head", tensors, file)


def _weights_file(source: Path) -> Path:
    return RunFolder(source).weights("best") if source.is_dir() else source
