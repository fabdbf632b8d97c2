"""WRN-28-10, the wide residual network of the paper."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class WideResNet(nn.Module):
    """Wide residual network of depth 28 and widening factor 10: (B, 3, 84, 84) -> (B, 640).

    Zagoruyko and Komodakis, "Wide Residual Networks", BMVC 2016; in few-shot learning since LEO. Batch norm and ReLU
    come before each convolution. As in the checkpoints published by SimpleShot and LaplacianShot, whose parameter
    names these are, convolutions carry a bias and the second one of a block has the stride.
    """

    def __init__(self, depth: int = 28, widening: int = 10) -> None:
        super().__init__()
        blocks = (depth - 4) // 6
        self.conv1 = nn.Conv2d(3, 16, kernel_size=3, padding=1)
        self.layer1 = _stage(16, 16 * widening, blocks, stride=1)
        self.layer2 = _stage(16 * widening, 32 * widening, blocks, stride=2)
        self.layer3 = _stage(32 * widening, 64 * widening, blocks, stride=2)
        self.bn1 = nn.BatchNorm2d(64 * widening)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, 3, H, W) -> (B, 64 * widening)."""
        maps = self.layer3(self.layer2(self.layer1(self.conv1(images))))
        return functional.relu(self.bn1(maps)).mean(dim=(2, 3))


class _WideBlock(nn.Module):
    """Two pre-activated 3x3 convolutions and a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, in_channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(in_channels)
        self.conv1 = nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, kernel_size=3, stride=stride, padding=1)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_channels != out_channels:
            self.shortcut.append(nn.Conv2d(in_channels, out_channels, kernel_size=1, stride=stride))

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        residual = self.conv1(functional.relu(self.bn1(maps)))
        residual = self.conv2(functional.relu(self.bn2(residual)))
        return residual + self.shortcut(maps)


def _stage(in_channels: int, out_channels: int, blocks: int, stride: int) -> nn.Sequential:
    first = _WideBlock(in_channels, out_channels, stride)
    return nn.Sequential(first, *(_WideBlock(out_channels, out_channels, 1) for _ in range(blocks - 1)))
