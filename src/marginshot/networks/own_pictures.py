"""A user's own network for pictures, in an ``.onnx`` file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginshot.networks.own_files import files_of
from marginshot.networks.own_settings import picture_settings
from marginshot.networks.pictures import square
from marginshot.networks.runtime import open_graph_file

if TYPE_CHECKING:
    from PIL import Image

_OUTPUTS = ("image_embeds", "pooler_output")
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}


class OwnPictureNetwork:
    """A network of one input, pictures (n, 3, H, W) or (n, H, W, 3), and features as an output.

    Bytes go in as they are. Other inputs are pixels scaled to 0..1, less ``mean``, divided by ``std``: lists of three
    numbers in the file's metadata, by default those of ImageNet. Where the graph leaves H and W open, ``image_size`` in
    the metadata says them, by default 224. What the metadata do not say is taken from ``preprocessor_config.json``.

    Of the outputs, ``image_embeds`` or ``pooler_output`` is taken where there is one, else the first. Features of shape
    (n, d, h, w) are averaged; of (n, places, d), the first place is taken, which is a transformer's class token.

    Parameters
    ----------
    path : Path
        The ``.onnx`` file.
    """

    def __init__(self, path: Path) -> None:
        files_of(path)
        self._path = path
        self._session = open_graph_file(path, n_threads=1)
        inputs = self._session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or 3 not in (inputs[0].shape[1], inputs[0].shape[3]):
            shapes = ", ".join(f"{one.name} {one.shape}" for one in inputs)
            raise ValueError(
                f"{path} is no network for pictures, (n, 3, H, W) or (n, H, W, 3): its inputs are {shapes}."
            )
        if inputs[0].type not in _TYPES:
            raise ValueError(f"{path} wants pictures as {inputs[0].type}; export it for float or uint8.")
        self._name, self._dtype = inputs[0].name, _TYPES[inputs[0].type]
        self._channels_first = inputs[0].shape[1] == 3
        sides = inputs[0].shape[2:] if self._channels_first else inputs[0].shape[1:3]
        fixed = {side for side in sides if isinstance(side, int)}
        if len(fixed) > 1:
            raise ValueError(f"{path} wants pictures of {sides[0]} x {sides[1]} pixels; only squares are cut.")
        told = self._session.get_modelmeta().custom_metadata_map
        self._settings = picture_settings(path, told, fixed.pop() if fixed else None)
        outputs = [one.name for one in self._session.get_outputs()]
        self._output = next((name for name in _OUTPUTS if name in outputs), outputs[0])

    def prepare(self, picture: Image.Image) -> NDArray[np.float32]:
        """A picture in RGB -> (n_features,); threads may call it at the same time."""
        told = self._settings
        pixels: NDArray[Any] = square(picture, told.size, told.shorter, told.resample)
        if self._dtype is not np.uint8:
            pixels = ((pixels.astype(np.float32) * told.scale - told.mean) / told.std).astype(self._dtype)
        if self._channels_first:
            pixels = np.ascontiguousarray(pixels.transpose(2, 0, 1))
        found = np.asarray(self._session.run([self._output], {self._name: pixels[None]})[0], dtype=np.float32)
        if found.ndim == 4:
            found = found.mean(axis=(2, 3))
        if found.ndim == 3 and found.shape[1]:
            found = found[:, 0]
        if found.ndim != 2 or len(found) != 1:
            raise ValueError(f"{self._path} gives {found.shape} for one picture; (1, n_features) is needed.")
        return found[0]

    def encode(self, prepared: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """What `prepare` gave -> (n_pictures, n_features)."""
        return np.stack(prepared)
