"""Networks that read pictures and texts: CLIP and SigLIP, as transformers keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from marginshot.networks.hub import first_line, is_online
from marginshot.vision.devices import torch_device


class LoadedClip:
    """A network of two sides with its preprocessing; embeddings of both have unit length.

    Parameters
    ----------
    name : str
        A folder, or a name that transformers knows and downloads on first use.
    device : str, default="auto"
        Where the network runs.
    """

    def __init__(self, name: str, device: str = "auto") -> None:
        from transformers import AutoModel, AutoProcessor

        try:
            options = {
                "local_files_only": Path(name).is_dir() or not is_online(name),
                "trust_remote_code": False,
            }
            self._network = AutoModel.from_pretrained(name, **options)
            self._processor = AutoProcessor.from_pretrained(name, **options)
        except (OSError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"The model {name!r} could not be loaded ({first_line(error)}); name a CLIP or SigLIP model of "
                "transformers, or the folder of one."
            ) from error
        if not hasattr(self._network, "get_text_features"):
            raise ValueError(f"The model {name!r} has no text side; name a CLIP or SigLIP model.")
        self._device = torch_device(device)
        self._network.to(self._device).eval()

    def prepare(self, picture: Image.Image) -> Any:
        """A picture -> (3, H, W)."""
        return self._processor(images=picture, return_tensors="pt")["pixel_values"][0]

    def encode(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Prepared pictures -> (n_pictures, n_features)."""
        pixels = torch.stack(list(prepared)).to(self._device)
        with torch.inference_mode():
            return _unit(self._network.get_image_features(pixel_values=pixels))

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Texts -> (n_texts, n_features)."""
        # SigLIP was trained on texts filled up to the full length; CLIP does not mind.
        length = self._network.config.text_config.max_position_embeddings
        options = {"padding": "max_length", "truncation": True, "max_length": length, "return_tensors": "pt"}
        tokens = self._processor.tokenizer(list(texts), **options)
        with torch.inference_mode():
            return _unit(self._network.get_text_features(**tokens.to(self._device)))


def _unit(found: Any) -> NDArray[np.float32]:
    """Rows of unit length, (n, n_features), of what the network gives: a tensor, or in transformers 5 an output."""
    features = found if torch.is_tensor(found) else found.pooler_output
    return np.asarray(torch.nn.functional.normalize(features.float(), dim=1).cpu().numpy())
