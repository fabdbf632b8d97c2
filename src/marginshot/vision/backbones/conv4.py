"""Conv-4: the four-block network of the first few-shot papers."""

from __future__ import annotations

import torch
from torch import nn


class Conv4(nn.Module):
    """Four blocks of 3x3 convolution, batch norm, ReLU and 2x2 max pooling, 64 channels each.

    Vinyals et al., "Matching Networks for One Shot Learning", NeurIPS 2016. The last map is flattened, as there:
    (B, 3, 84, 84) images give (B, 1600) features.
    """

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(_block(channels) for channels in (3, 64, 64, 64)))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, 3, H, W) -> (B, 64 * (H // 16) * (W // 16))."""
        return self.blocks(images).flatten(1)


def _block(in_channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, 64, kernel_size=3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
    )
