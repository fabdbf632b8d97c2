"""ResNet-18 as in the paper, and a small ResNet for pictures of about 32x32 pixels."""

from __future__ import annotations

import torch
from torch import nn
from torchvision.models import resnet18 as torchvision_resnet18
from torchvision.models.resnet import BasicBlock


def resnet18() -> nn.Module:
    """torchvision's ResNet-18 without its first two down-samplings: (B, 3, 84, 84) -> (B, 512).

    Section 4.2 of the paper: the first convolution is 3x3 with stride 1 and the max pooling is gone. The parameters
    keep torchvision's names, which are also those of the checkpoints published by SimpleShot and LaplacianShot.
    """
    network = torchvision_resnet18(weights=None)
    network.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=1, bias=False)
    nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
    network.maxpool = nn.Identity()
    network.fc = nn.Identity()
    return network


class SmallResNet(nn.Module):
    """Four residual blocks of 32, 64, 128 and 256 channels: (B, 3, 32, 32) -> (B, 256).

    ResNet-10 at half the usual width, small enough to be trained on a CPU in minutes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 32, kernel_size=3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(inplace=True)
        )
        self.blocks = nn.Sequential(
            BasicBlock(32, 32, stride=2, downsample=_shortcut(32, 32)),
            BasicBlock(32, 64, stride=2, downsample=_shortcut(32, 64)),
            BasicBlock(64, 128, stride=2, downsample=_shortcut(64, 128)),
            BasicBlock(128, 256, stride=2, downsample=_shortcut(128, 256)),
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(B, 3, H, W) -> (B, 256)."""
        return self.blocks(self.stem(images)).mean(dim=(2, 3))


def _shortcut(in_channels: int, out_channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size=1, stride=2, bias=False), nn.BatchNorm2d(out_channels)
    )
