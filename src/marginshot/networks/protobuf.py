"""Protocol Buffers as far as files of ONNX need them: fields are written, and read one by one, without a schema.

A message is a row of fields. Each has a number, and an integer, a single-precision number or bytes; bytes may be a text
or a message. Python's package ``onnx``, which knows the schema, is 33 MB installed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

#: A message as parts that are joined once, at the end: arrays of weights are large.
Parts = list[bytes | memoryview]

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}


def field(number: int, value: int | float | str | bytes | memoryview | Parts) -> Parts:
    """One field, encoded by the type of its value: an integer, a single-precision number, a text, bytes, a message."""
    if isinstance(value, int):
        return [_varint(number << 3 | _VARINT) + _varint(value % 2**64)]
    if isinstance(value, float):
        return [_varint(number << 3 | _FIXED32) + struct.pack("<f", value)]
    if isinstance(value, str):
        value = value.encode()
    parts = value if isinstance(value, list) else [value]
    return [_varint(number << 3 | _BYTES) + _varint(sum(map(len, parts))), *parts]


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field; raises ValueError where the message is cut off or not of this format."""
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, place = _read_varint(message, place)
            yield number, value
            continue
        if wire == _BYTES:
            length, place = _read_varint(message, place)
        elif wire in _WIDTHS:
            length = _WIDTHS[wire]
        else:
            raise ValueError(f"a field of the unknown type {wire}")
        if place + length > len(message):
            raise ValueError("it is cut off")
        yield number, message[place : place + length]
        place += length


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth bit says that another byte follows."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _read_varint(message: memoryview, place: int) -> tuple[int, int]:
    """The integer at ``place``, and the place behind it."""
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise ValueError("it is cut off")
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value % 2**64, place
    raise ValueError("an integer of more than ten bytes")
