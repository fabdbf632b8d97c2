"""The networks that turn a picture into a feature vector, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from marginshot.vision.backbones.conv4 import Conv4
from marginshot.vision.backbones.densenet import densenet121
from marginshot.vision.backbones.resnet import SmallResNet, resnet18
from marginshot.vision.backbones.resnet12 import ResNet12
from marginshot.vision.backbones.wide_resnet import WideResNet

__all__ = ["BACKBONES", "BackboneSpec", "backbone_spec", "build_backbone"]


@dataclass(frozen=True, kw_only=True)
class BackboneSpec:
    """One network of the registry.

    Parameters
    ----------
    build : callable
        Makes the network with random weights; called on (B, 3, H, W) images it returns (B, n_features) features.
    batch_size : int
        Batch size of base training; the paper's where the paper has the network.
    """

    build: Callable[[], nn.Module]
    batch_size: int


BACKBONES: dict[str, BackboneSpec] = {
    "resnet18": BackboneSpec(build=resnet18, batch_size=256),
    "wrn28-10": BackboneSpec(build=WideResNet, batch_size=128),
    "densenet121": BackboneSpec(build=densenet121, batch_size=100),
    "conv4": BackboneSpec(build=Conv4, batch_size=256),
    "resnet12": BackboneSpec(build=ResNet12, batch_size=128),
    "small-resnet": BackboneSpec(build=SmallResNet, batch_size=128),
}


def build_backbone(name: str, seed: int = 0) -> nn.Module:
    """The network called ``name`` with weights drawn from ``seed``; torch's global generator is left as it was."""
    spec = backbone_spec(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return spec.build()


def backbone_spec(name: str) -> BackboneSpec:
    """The registry's entry for ``name``."""
    if name not in BACKBONES:
        raise ValueError(f"There is no backbone {name!r}; choose one of {', '.join(sorted(BACKBONES))}.")
    return BACKBONES[name]
