"""The network that is trained: a backbone with one linear layer on top."""

from __future__ import annotations

import torch
from torch import nn

from marginshot.vision.backbones import build_backbone
from marginshot.vision.settings import TrainSettings


class Classifier(nn.Module):
    """A backbone with one linear layer on top: (B, 3, H, W) -> (B, n_classes) logits."""

    def __init__(self, backbone: nn.Module, n_features: int, n_classes: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(n_features, n_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, 3, H, W) -> (B, n_classes)."""
        return self.head(self.backbone(images))


def build_classifier(settings: TrainSettings, n_classes: int) -> Classifier:
    """The network a run starts from; the same for the same seed."""
    backbone = build_backbone(settings.backbone, settings.seed)
    side = settings.image_size
    with torch.inference_mode():
        n_features = backbone.eval()(torch.zeros(1, 3, side, side)).shape[1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed + 1)
        return Classifier(backbone, n_features, n_classes)
