"""ResNet-12, the network many few-shot papers compare on."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn


class ResNet12(nn.Module):
    """Four stages of three 3x3 convolutions, 64, 160, 320 and 640 channels: (B, 3, 84, 84) -> (B, 640).

    Lee et al., "Meta-Learning with Differentiable Convex Optimization", CVPR 2019, without their DropBlock: base
    training as in our paper has no dropout, and a forward pass without random numbers resumes exactly.
    """

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 64, 160, 320, 640)
        self.stages = nn.Sequential(*(_Stage(*pair) for pair in pairwise(widths)))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", a=0.1, nonlinearity="leaky_relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, 3, H, W) -> (B, 640)."""
        return self.stages(images).mean(dim=(2, 3))


class _Stage(nn.Module):
    """Three convolutions with a 1x1 shortcut, then 2x2 max pooling: (B, in, H, W) -> (B, out, H // 2, W // 2)."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _convolution(in_channels, out_channels, 3),
            nn.LeakyReLU(0.1, inplace=True),
            _convolution(out_channels, out_channels, 3),
            nn.LeakyReLU(0.1, inplace=True),
            _convolution(out_channels, out_channels, 3),
        )
        self.shortcut = _convolution(in_channels, out_channels, 1)
        self.finish = nn.Sequential(nn.LeakyReLU(0.1, inplace=True), nn.MaxPool2d(2))

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        return self.finish(self.body(maps) + self.shortcut(maps))


def _convolution(in_channels: int, out_channels: int, size: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size=size, padding=size // 2, bias=False),
        nn.BatchNorm2d(out_channels),
    )
