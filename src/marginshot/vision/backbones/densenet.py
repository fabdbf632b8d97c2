"""DenseNet-121 as in the paper."""

from __future__ import annotations

from torch import nn
from torchvision.models import densenet121 as torchvision_densenet121


def densenet121() -> nn.Module:
    """torchvision's DenseNet-121 without its first two down-samplings: (B, 3, 84, 84) -> (B, 1024).

    Section 4.2 of the paper: the first convolution is 3x3 with stride 1 and the max pooling is gone. The batch norm and
    ReLU between them are gone too: every dense layer begins with its own, and the checkpoints published by SimpleShot
    and LaplacianShot have none. The parameter names are those of these checkpoints.
    """
    network = torchvision_densenet121(weights=None)
    network.features.conv0 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=1, bias=False)
    nn.init.kaiming_normal_(network.features.conv0.weight)
    for name in ("norm0", "relu0", "pool0"):
        delattr(network.features, name)
    network.classifier = nn.Identity()
    return network
