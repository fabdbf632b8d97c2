"""Weights in a file of ``torch.save``, read as arrays without torch.

The file is a row of pickles with raw numbers behind them. A pickle can call whatever it imports; this reader hands out
stand-ins that only record arguments, and builds the arrays itself, over exactly the bytes their shapes need. It knows
the layout that torch wrote before version 1.6, which is that of the weights we read.
"""

from __future__ import annotations

import math
import pickle
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from marginshot._lib.reading import DamagedFileError, reading

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_TYPES: dict[str, np.dtype[Any]] = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}


class UnsafeWeightsError(DamagedFileError):
    """A file of weights that asks for something other than arrays."""


def read_torch_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Every tensor in the file by its name; nothing in it is run."""
    what, advice = "weights saved by torch before version 1.6", "Install its package again."
    with reading(path, what, advice), path.open("rb") as file:
        if (_next_pickle(file), _next_pickle(file)) != (_MAGIC, _PROTOCOL):
            raise ValueError("its first bytes are others")
        _next_pickle(file)  # sizes of the writer's integers, which the storages do not depend on
        tensors, keys = _next_pickle(file), _next_pickle(file)
        if not isinstance(tensors, dict) or not isinstance(keys, list):
            raise TypeError("it holds no table of tensors")
        notes = {name: note for name, note in tensors.items() if isinstance(note, _Tensor)}
        types = {note.storage.key: note.storage.dtype for note in notes.values()}
        storages = {key: _read_storage(file, types[key]) for key in keys}
        return {str(name): note.build(storages) for name, note in notes.items()}


def _next_pickle(file: BinaryIO) -> Any:
    """The next pickle: numbers, texts, containers, and notes of tensors."""
    return _Unpickler(file).load()


def _read_storage(file: BinaryIO, dtype: np.dtype[Any]) -> NDArray[Any]:
    count = int.from_bytes(file.read(8), "little", signed=True)
    raw = file.read(max(count, 0) * dtype.itemsize)
    if count < 0 or len(raw) != count * dtype.itemsize:
        raise ValueError("it is cut off")
    return np.frombuffer(raw, dtype=dtype)


@dataclass(frozen=True)
class _Storage:
    """A recorded row of numbers, which comes later in the file."""

    key: str
    dtype: np.dtype[Any]


@dataclass(frozen=True)
class _Tensor:
    """A recorded array: its first number in a storage, its shape, and the steps along its axes in numbers."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def build(self, storages: dict[str, NDArray[Any]]) -> NDArray[Any]:
        values = storages[self.storage.key]
        if 0 in self.shape:
            return np.empty(self.shape, dtype=values.dtype)
        last = self.offset + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        if math.prod(self.shape) > len(values) or last >= len(values):
            raise ValueError(f"an array of shape {self.shape} reaches past its {len(values)} numbers")
        steps = tuple(step * values.itemsize for step in self.strides)
        return np.ascontiguousarray(as_strided(values[self.offset :], self.shape, steps)).reshape(self.shape)


class _Rebuild:
    """Stand-in for torch's constructor of tensors. Empty slots: a pickle cannot set attributes on it."""

    __slots__ = ()

    def __call__(self, storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> _Tensor:
        if not (isinstance(storage, _Storage) and _are_sizes((offset,)) and _are_sizes(shape) and _are_sizes(strides)):
            raise UnsafeWeightsError("It builds a tensor from something else than numbers; nothing was run.")
        return _Tensor(storage, offset, shape, strides)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, tuple) and all(type(value) is int and value >= 0 for value in values)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _Rebuild()
        if module == "torch" and name in _TYPES:
            return name
        raise UnsafeWeightsError(f"It asks for {module}.{name}, which weights have no use for; nothing was run.")

    def persistent_load(self, pid: Any) -> _Storage:
        kind, name, key, *_ = pid
        if kind != "storage" or name not in _TYPES or not isinstance(key, str):
            raise UnsafeWeightsError("It refers to something other than numbers; nothing was run.")
        return _Storage(key, _TYPES[name])
