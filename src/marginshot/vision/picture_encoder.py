"""An encoder for pictures one by one, as the labelling of a folder needs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from marginshot.vision.devices import place, torch_device
from marginshot.vision.encoders import encode, load_encoder

# Pictures encoded at a time on a CPU. With 32, each feature map is newly allocated from the system: three times the
# time, twice the memory.
_CPU_BATCH = 4


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
        self._device = torch_device(device)
        place(self._encoder.network, self._device)

    def prepare(self, picture: Image.Image) -> Any:
        """A picture -> (3, H, W)."""
        return self._encoder.preprocessing(picture)

    def encode(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Prepared pictures -> (n_pictures, n_features)."""
        size = _CPU_BATCH if self._device.type == "cpu" else len(prepared)
        parts = []
        for start in range(0, len(prepared), size):
            pictures = torch.stack(list(prepared[start : start + size]))
            parts.append(encode(self._encoder, pictures.to(self._device)).cpu().numpy())
        return np.concatenate(parts).astype(np.float32, copy=False)
