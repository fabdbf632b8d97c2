"""An unpickler that can build arrays, numbers and containers, and nothing else.

It does not use NumPy's own constructors. A pickle may call what it imports with any arguments and set the state of the
result; NumPy's dtypes and arrays with a forged state read memory at any address. So the pickle gets stand-ins that only
record arguments. Arrays are built from these records after reading: plain numbers, over exactly the bytes their shape
needs.
"""

from __future__ import annotations

import math
import pickle
import re
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.reading import reading
from marginshot.vision.datasets.splits import DatasetMismatchError

_DEEPEST = 8  # containers in containers; the published files have three
_MOST_AXES = 32
_PLAIN_NUMBERS = re.compile(r"[<>=|]?(b1|[iu][1248]|f[248])")


class UnsafePickleError(DatasetMismatchError):
    """A pickle that asks for something other than arrays and containers."""


def load_arrays(path: Path) -> Any:
    """The object pickled in ``path``; raises if it holds anything but arrays of numbers, containers and numbers."""
    try:
        with reading(path, "a complete pickle", "Download it again.", DatasetMismatchError), path.open("rb") as file:
            # latin1 is how arrays written by Python 2, as most of these files were, come back whole.
            return _build(_ArrayUnpickler(file, encoding="latin1").load(), {}, 0)
    except UnsafePickleError as error:
        raise UnsafePickleError(
            f"{path} asks for {error}, which pictures have no use for; nothing was run. Do not trust this file."
        ) from error


class _DtypeNote:
    """A recorded dtype of plain numbers; of its pickled state only the byte order is used."""

    __slots__ = ("_order", "_text")

    def __init__(self, text: str) -> None:
        self._text, self._order = text, "="

    def __setstate__(self, state: Any) -> None:
        _, order, *rest = state
        if order not in ("<", ">", "=", "|") or rest[:3] != [None, None, None]:
            raise UnsafePickleError("a type that is not of plain numbers")
        self._order = order

    def build(self) -> np.dtype[Any]:
        return np.dtype(self._order + self._text.lstrip("<>=|"))


class _ArrayNote:
    """A recorded array: shape, dtype, order and bytes."""

    __slots__ = ("_dtype", "_raw", "_shape", "_turned")

    def __init__(self) -> None:
        self._shape: Any = (0,)
        self._dtype: Any = _DtypeNote("u1")
        self._turned: Any = False
        self._raw: Any = b""

    def __setstate__(self, state: Any) -> None:
        # NumPy writes a version first, except in its oldest files.
        self._shape, self._dtype, self._turned, self._raw = state[-4:]

    def build(self) -> NDArray[Any]:
        shape = self._shape
        if not isinstance(self._dtype, _DtypeNote):
            raise UnsafePickleError("an array without a type")
        if not isinstance(shape, tuple) or len(shape) > _MOST_AXES or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"an array of shape {shape!r:.60}")
        raw = self._raw.encode("latin1") if isinstance(self._raw, str) else self._raw
        if not isinstance(raw, bytes | bytearray):
            raise UnsafePickleError("an array of objects")
        dtype = self._dtype.build()
        if math.prod(shape) * dtype.itemsize != len(raw):
            raise ValueError(f"an array of shape {shape} and type {dtype} over {len(raw)} bytes")
        return np.frombuffer(raw, dtype=dtype).reshape(shape, order="F" if self._turned else "C")


# Empty slots: a pickle cannot set attributes on these objects, which outlive the reading.
class _Dtype:
    __slots__ = ()

    def __call__(self, text: Any, *_: Any) -> _DtypeNote:
        if not (isinstance(text, str) and _PLAIN_NUMBERS.fullmatch(text)):
            raise UnsafePickleError(f"the type {text!r:.60}")
        return _DtypeNote(text)


class _Reconstruct:
    __slots__ = ()

    def __call__(self, *_: Any) -> _ArrayNote:
        return _ArrayNote()


class _FromBuffer:
    __slots__ = ()

    def __call__(self, raw: Any, dtype: Any, shape: Any, order: Any, *_: Any) -> _ArrayNote:
        note = _ArrayNote()
        note.__setstate__((shape, dtype, order == "F", raw))
        return note


class _Scalar:
    __slots__ = ()

    def __call__(self, dtype: Any, raw: Any) -> _ArrayNote:
        note = _ArrayNote()
        note.__setstate__(((), dtype, False, raw))
        return note


class _Encode:
    """Stand-in for the encoder by which Python 3 writes bytes in protocols that Python 2 can read."""

    __slots__ = ()

    def __call__(self, text: Any, encoding: Any) -> bytes:
        if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
            raise UnsafePickleError(f"the encoding {encoding!r:.60}")
        return text.encode("latin1")


class _Bytes:
    """bytes() of bytes or text only: bytes() of a number would allocate that much memory."""

    __slots__ = ()

    def __call__(self, content: Any = b"", *encoding: Any) -> bytes:
        if isinstance(content, str):
            return _Encode()(content, *encoding)
        if not isinstance(content, bytes | bytearray | list):
            raise UnsafePickleError(f"bytes of {type(content).__name__}")
        return bytes(content)


class _Subtype:
    __slots__ = ()


_HANDED_OUT: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Subtype(),
    ("numpy", "dtype"): _Dtype(),
    **{
        (f"numpy.{core}.{module}", name): stand_in
        for core in ("core", "_core")
        for module, name, stand_in in (
            ("multiarray", "_reconstruct", _Reconstruct()),
            ("multiarray", "scalar", _Scalar()),
            ("numeric", "_frombuffer", _FromBuffer()),
        )
    },
    ("_codecs", "encode"): _Encode(),
    ("collections", "OrderedDict"): OrderedDict,
    **{
        (module, name): stand_in
        for module in ("builtins", "__builtin__")
        for name, stand_in in (
            *((kind.__name__, kind) for kind in (list, dict, tuple, set, frozenset)),
            ("bytes", _Bytes()),
            ("bytearray", _Bytes()),
        )
    },
}


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _HANDED_OUT[module, name]
        except KeyError:
            raise UnsafePickleError(f"{module}.{name}") from None


@dataclass(frozen=True)
class _Built:
    """A container and its built copy; the reference keeps its id from being reused."""

    noted: Any
    result: Any


def _build(noted: Any, known: dict[int, _Built], depth: int) -> Any:
    """``noted`` with arrays in place of the notes; a container that is referred to twice is built once."""
    if isinstance(noted, _ArrayNote):
        array = noted.build()
        return array if array.ndim else array[()]
    if isinstance(noted, _DtypeNote):
        return noted.build()
    if not isinstance(noted, dict | list | tuple | set | frozenset):
        return noted
    if depth == _DEEPEST:
        raise UnsafePickleError(f"more than {_DEEPEST} containers in each other")
    if id(noted) not in known:
        result: Any
        if isinstance(noted, dict):
            result = {_build(k, known, depth + 1): _build(v, known, depth + 1) for k, v in noted.items()}
        else:
            result = type(noted)(_build(value, known, depth + 1) for value in noted)
        known[id(noted)] = _Built(noted, result)
    return known[id(noted)].result
