"""Networks ready to extract features: from a run, a published checkpoint, timm, or the offline encoder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import timm
import torch
from timm.data import create_transform, resolve_data_config
from torch import nn

from marginshot.networks.hub import first_line, is_online
from marginshot.vision.backbones import build_backbone
from marginshot.vision.efficientnet import OFFLINE_ENCODER, load_efficientnet_lite0
from marginshot.vision.preprocessing import Preprocessing, plain_preprocessing, published_preprocessing
from marginshot.vision.published import load_published
from marginshot.vision.runs import RunFolder, load_part, read_tensors


@dataclass(frozen=True)
class Encoder:
    """A network that turns pictures into features.

    Parameters
    ----------
    name : str
        Goes into feature files.
    network : torch.nn.Module
        (B, 3, H, W) -> (B, n_features), in evaluation mode.
    preprocessing : callable
        A picture -> (3, H, W).
    """

    name: str
    network: nn.Module
    preprocessing: Preprocessing


def load_encoder(
    spec: str, *, weights: str = "best", backbone: str | None = None, image_size: int | None = None
) -> Encoder:
    """Find out what ``spec`` is and load it.

    Parameters
    ----------
    spec : str
        The folder of a run; a checkpoint file published by SimpleShot or LaplacianShot (``.pth.tar``, ``.pth``,
        ``.pt``); ``efficientnet-lite0``; or the name of a timm model, whose weights timm downloads if it must.
    weights : {"best", "last"}, default="best"
        Which epoch of a run.
    backbone : str, optional
        Network of a published checkpoint, when the file does not say.
    image_size : int, optional
        Side of the pictures; by default what the encoder was trained with.
    """
    if image_size is not None and image_size < 1:
        raise ValueError(f"image_size must be at least 1; got {image_size}.")
    if spec == OFFLINE_ENCODER:  # whatever file has that name
        network, preprocessing = load_efficientnet_lite0(image_size)
        return Encoder(spec, network, preprocessing)
    path = Path(spec)
    if path.is_dir():
        return _from_run(path, weights, image_size)
    if path.is_file():
        name, network = load_published(path, backbone)
        return Encoder(f"{name} from {path.name}", network, published_preprocessing(image_size or 84))
    if spec in timm.list_models() or spec in timm.list_pretrained():
        return _from_timm(spec, image_size)
    raise ValueError(
        f"{spec!r} is neither a run folder, nor a checkpoint file, nor {OFFLINE_ENCODER}, nor a timm model; see "
        "timm.list_pretrained() for names."
    )


def _from_run(path: Path, weights: str, image_size: int | None) -> Encoder:
    if weights not in ("best", "last"):
        raise ValueError(f"weights must be 'best' or 'last'; got {weights!r}.")
    folder = RunFolder(path)
    settings, _ = folder.read_config()
    network = build_backbone(settings.backbone)
    file = folder.weights(weights)
    load_part(network, "backbone", read_tensors(file), file)
    name = f"{settings.backbone} trained on {settings.dataset}, {weights} epoch"
    return Encoder(name, network.eval(), plain_preprocessing(image_size or settings.image_size))


def _from_timm(name: str, image_size: int | None) -> Encoder:
    network = _with_weights(name)
    options = {"input_size": (3, image_size, image_size)} if image_size else {}
    preprocessing = create_transform(**resolve_data_config(options, model=network))
    return Encoder(name, network.eval(), preprocessing)


def _with_weights(name: str) -> nn.Module:
    """A model of timm, which fails in many ways without a network; one sentence for all of them."""
    try:
        described = timm.get_pretrained_cfg(name)
        if described is not None and described.hf_hub_id:
            is_online(described.hf_hub_id)
        return timm.create_model(name, pretrained=True, num_classes=0)
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"The weights of {name} could not be loaded ({first_line(error)}); they are downloaded on first use. "
            f"Without a network use {OFFLINE_ENCODER}."
        ) from error


def encode(encoder: Encoder, images: torch.Tensor) -> torch.Tensor:
    """(B, 3, H, W) -> (B, n_features) in float32, without gradients."""
    with torch.inference_mode():
        features = encoder.network(images)
    return features.flatten(1).float()
