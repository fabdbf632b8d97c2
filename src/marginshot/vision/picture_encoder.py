"""An encoder for pictures one by one, as the labelling of a folder needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from marginshot.vision.encoders import encode, load_encoder
from marginshot.vision.extraction import ExtractSettings


class LoadedPictureEncoder:
    """A network with its preprocessing.

    Parameters
    ----------
    spec : str
        What `load_encoder` understands.
    device : str, default="auto"
        Where the network runs.
    """

    def __init__(self, spec: str, device: str = "auto") -> None:
        self._encoder = load_encoder(spec)
        self._device = ExtractSettings(device=device).torch_device()
        self._encoder.network.to(self._device)

    def prepare(self, picture: Image.Image) -> Any:
        """A picture -> (3, H, W)."""
        return self._encoder.preprocessing(picture)

    def encode(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Prepared pictures -> (n_pictures, n_features)."""
        features = encode(self._encoder, torch.stack(list(prepared)).to(self._device))
        return np.asarray(features.cpu().numpy(), dtype=np.float32)
