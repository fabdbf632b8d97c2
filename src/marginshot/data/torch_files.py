"""Tensors in a file of ``torch.save``, read as NumPy arrays: without torch, and without running code of the file."""

from __future__ import annotations

import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.reading import reading

# Kinds of storage, by the name torch gives them. A bfloat16 is the upper half of a float32.
_BFLOAT16 = "BFloat16Storage"
_DTYPES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
    _BFLOAT16: "<u2",
}


def read_torch(path: Path) -> Any:
    """What ``torch.save`` wrote to ``path``: tensors as arrays, inside the dicts, lists and tuples they were saved in.

    The file is a pickle, of which only tensors, containers, numbers and text are accepted; anything else in it is an
    error, as with ``torch.load(weights_only=True)``.
    """
    advice = "Save tensors with torch.save, such as {'X': features, 'y': labels}."
    with reading(path, "a file of tensors", advice), path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is cut off, or in torch's format of before version 1.6")
        with zipfile.ZipFile(file) as archive:
            (listed,) = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
            with archive.open(listed) as content:
                return _TensorReader(content, archive, listed.removesuffix("data.pkl")).load()


class _TensorReader(pickle.Unpickler):
    """Builds containers and arrays, and nothing else."""

    def __init__(self, content: Any, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(content)
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        """The few names that a file of tensors needs."""
        if module in ("torch", "torch.storage") and name in _DTYPES:
            return name
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        raise pickle.UnpicklingError(f"it holds {module}.{name}, which is no tensor")

    def persistent_load(self, key: Any) -> NDArray[Any]:
        """The numbers of one storage."""
        _, kind, name, _, _ = key
        numbers: NDArray[Any] = np.frombuffer(self._archive.read(f"{self._folder}data/{name}"), dtype=_DTYPES[kind])
        return (numbers.astype(np.uint32) << 16).view(np.float32) if kind == _BFLOAT16 else numbers


def _rebuild(storage: NDArray[Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> Any:
    """A tensor from its numbers; one that reaches beyond them is an error."""
    if len(shape) != len(strides) or min((offset, *shape, *strides)) < 0:
        raise pickle.UnpicklingError("a tensor has an impossible shape")
    if 0 in shape:
        return np.empty(shape, dtype=storage.dtype)
    last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if last >= len(storage):
        raise pickle.UnpicklingError("a tensor is longer than its numbers")
    steps = [stride * storage.itemsize for stride in strides]
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, steps).copy()
