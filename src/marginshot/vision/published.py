"""Checkpoints published by SimpleShot and LaplacianShot."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import torch
from torch import nn

from marginshot._lib.reading import reading
from marginshot.vision.backbones import BACKBONES, build_backbone

# Names of networks in these projects -> our names.
_ARCHITECTURES = {"conv4": "conv4", "resnet18": "resnet18", "wideres": "wrn28-10", "densenet121": "densenet121"}
_HEADS = ("fc.", "linear.", "classifier.", "logits.")
# DenseNet files older than torchvision 0.3 write norm.1 for norm1, and so on.
_OLD_DENSE = re.compile(r"(denselayer\d+\.(?:norm|relu|conv))\.([12])\.")
# SimpleShot's Conv-4 has its four blocks as conv1 to conv4, each with a convolution 0 and a batch norm 1.
_CONV4_BLOCK = re.compile(r"conv([1-4])\.([01]\.)")


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
    said = str(content.get("arch"))
    name = backbone or _ARCHITECTURES.get(said)
    if name is None:
        raise CheckpointError(
            f"{path} holds the network {said!r}, and of published checkpoints only {', '.join(_ARCHITECTURES)} are "
            f"read. If it is one of {', '.join(BACKBONES)} under another name, say so with --backbone. {_OTHERWISE}"
        )
    network = build_backbone(name)
    with reading(path, "a checkpoint", "Download it again.", CheckpointError):
        weights = {_our_key(key): value for key, value in content["state_dict"].items()}
        weights = {key: value for key, value in weights.items() if not key.startswith(_HEADS)}
    try:
        network.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"{path} is not our {name}: {_first_difference(network, weights)}. {_OTHERWISE}"
        ) from error
    return name, network.eval()


_OTHERWISE = "Otherwise extract the features with the project's own code and evaluate that file (.npz with X and y)."


def _first_difference(network: nn.Module, weights: dict[str, Any]) -> str:
    """The first tensor that only one of the two has, or has in another shape."""
    ours = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    for name, shape in ours.items():
        theirs = tuple(getattr(weights.get(name), "shape", ()))
        if name not in weights:
            return f"it has no {name} {shape}; its first tensor is {next(iter(weights), 'none at all')}"
        if theirs != shape:
            return f"its {name} has the shape {theirs}, ours {shape}"
    return f"it has {sorted(set(weights) - set(ours))[0]}, which ours has not"


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
    name = _OLD_DENSE.sub(r"\1\2.", key.removeprefix("module."))
    return _CONV4_BLOCK.sub(lambda found: f"blocks.{int(found[1]) - 1}.{found[2]}", name)
