"""A user's own network for pictures, in an ``.onnx`` file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginshot.networks.own_files import files_of, read_count
from marginshot.networks.pictures import middle_square
from marginshot.networks.runtime import open_graph_file

if TYPE_CHECKING:
    from PIL import Image

_IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
# Pixels a side: 1,024 are the most that published networks take, and a picture of 10,000 takes gigabytes.
_USUAL_SIZE, _LARGEST_SIZE = 224, 2_048
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}


class OwnPictureNetwork:
    """A network of one input, pictures (n, 3, H, W) or (n, H, W, 3), and features as its first output.

    Bytes go in as they are. Other inputs are pixels scaled to 0..1, less ``mean``, divided by ``std``: lists of three
    numbers in the file's metadata, by default those of ImageNet. Where the graph leaves H and W open, ``image_size`` in
    the metadata says them, by default 224. Features of more than one place, (n, d, h, w), are averaged.

    Parameters
    ----------
    path : Path
        The ``.onnx`` file.
    """

    def __init__(self, path: Path) -> None:
        files_of(path)
        self._path = path
        self._session = open_graph_file(path, n_threads=1)
        inputs, told = self._session.get_inputs(), self._session.get_modelmeta().custom_metadata_map
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or 3 not in (inputs[0].shape[1], inputs[0].shape[3]):
            shapes = ", ".join(f"{one.name} {one.shape}" for one in inputs)
            raise ValueError(
                f"{path} is no network for pictures, (n, 3, H, W) or (n, H, W, 3): its inputs are {shapes}."
            )
        if inputs[0].type not in _TYPES:
            raise ValueError(f"{path} wants pictures as {inputs[0].type}; export it for float or uint8.")
        self._name, self._dtype = inputs[0].name, _TYPES[inputs[0].type]
        self._channels_first = inputs[0].shape[1] == 3
        self._size = self._side(inputs[0].shape[2:] if self._channels_first else inputs[0].shape[1:3], told)
        self._mean, self._std = (self._numbers(told, name) for name in ("mean", "std"))

    def _side(self, sides: Sequence[Any], told: Mapping[str, str]) -> int:
        fixed = {side for side in sides if isinstance(side, int)}
        if len(fixed) > 1:
            raise ValueError(f"{self._path} wants pictures of {sides[0]} x {sides[1]} pixels; only squares are cut.")
        size = (
            fixed.pop() if fixed else read_count(told, "image_size", _USUAL_SIZE, _LARGEST_SIZE, "pixels", self._path)
        )
        if not 1 <= size <= _LARGEST_SIZE:
            raise ValueError(f"{self._path} wants pictures of {size:,} pixels a side; 1 to {_LARGEST_SIZE:,} are cut.")
        return size

    def _numbers(self, told: Mapping[str, str], name: str) -> NDArray[np.float32]:
        try:
            numbers = np.asarray(json.loads(told.get(name, str(_IMAGENET[name]))), dtype=np.float32)
        except (ValueError, TypeError, OverflowError, RecursionError):
            numbers = np.empty(0, dtype=np.float32)
        if numbers.shape != (3,) or not np.isfinite(numbers).all() or (name == "std" and not (numbers > 0).all()):
            raise ValueError(
                f"{name} in the metadata of {self._path} must be three numbers, such as {_IMAGENET[name]}; "
                f"got {told.get(name)!r:.60}."
            )
        return numbers

    def prepare(self, picture: Image.Image) -> NDArray[np.float32]:
        """A picture in RGB -> (n_features,); threads may call it at the same time."""
        pixels: NDArray[Any] = middle_square(picture, self._size)
        if self._dtype is not np.uint8:
            pixels = ((pixels.astype(np.float32) / 255.0 - self._mean) / self._std).astype(self._dtype)
        if self._channels_first:
            pixels = np.ascontiguousarray(pixels.transpose(2, 0, 1))
        found = np.asarray(self._session.run(None, {self._name: pixels[None]})[0], dtype=np.float32)
        if found.ndim == 4:
            found = found.mean(axis=(2, 3))
        if found.ndim != 2 or len(found) != 1:
            raise ValueError(f"{self._path} gives {found.shape} for one picture; (1, n_features) is needed.")
        return found[0]

    def encode(self, prepared: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """What `prepare` gave -> (n_pictures, n_features)."""
        return np.stack(prepared)
