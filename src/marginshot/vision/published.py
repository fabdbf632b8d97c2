"""Checkpoints published by SimpleShot and LaplacianShot."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

from marginshot._lib.reading import reading
from marginshot.vision.backbones import build_backbone

# What these projects call a network, and what we call it.
_ARCHITECTURES = {"resnet18": "resnet18", "wideres": "wrn28-10", "densenet121": "densenet121"}
_HEADS = ("fc.", "linear.", "classifier.")
# DenseNet files older than torchvision 0.3 write norm.1 for norm1, and so on.
_OLD_DENSE = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12])\.")


class CheckpointError(ValueError):
    """A checkpoint file that cannot be used."""


def load_published(path: Path, backbone: str | None = None) -> tuple[str, nn.Module]:
    """Name and network of a checkpoint, in evaluation mode.

    Parameters
    ----------
    path : Path
        ``model_best.pth.tar`` or ``checkpoint.pth.tar``: a dict with ``state_dict`` and usually ``arch``.
    backbone : str, optional
        Our name of the network, needed when the file does not say.
    """
    content = _load(path)
    name = backbone or _ARCHITECTURES.get(str(content.get("arch")))
    if name is None:
        raise CheckpointError(
            f"{path} does not say which network it holds (arch is {content.get('arch')!r}); name it with --backbone."
        )
    network = build_backbone(name)
    with reading(path, "a checkpoint", "Download it again.", CheckpointError):
        weights = {_our_key(key): value for key, value in content["state_dict"].items()}
        weights = {key: value for key, value in weights.items() if not key.startswith(_HEADS)}
    try:
        network.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError) as error:
        differences = " ".join(str(error).split())[:200]
        raise CheckpointError(
            f"{path} does not fit {name}: {differences}; name its network with --backbone."
        ) from error
    return name, network.eval()


def _load(path: Path) -> dict[str, Any]:
    try:
        with reading(path, "a checkpoint", "Download it again.", CheckpointError), path.open("rb") as file:
            content = torch.load(file, map_location="cpu", weights_only=True)
    except CheckpointError as error:
        if not isinstance(error.__cause__, pickle.UnpicklingError):
            raise
        raise CheckpointError(
            f"{path} holds more than tensors, or is damaged; it was not run. Do not trust it, or download it again."
        ) from error
    if not isinstance(content, dict) or not isinstance(content.get("state_dict"), dict):
        raise CheckpointError(f"{path} has no state_dict; it is not a checkpoint of SimpleShot or LaplacianShot.")
    return content


def _our_key(key: str) -> str:
    # These projects train inside DataParallel, which puts "module." before every name.
    return _OLD_DENSE.sub(r"\1\2.", key.removeprefix("module."))
