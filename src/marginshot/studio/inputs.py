"""The fields of requests, checked once: numbers, rows, names and texts. Invalid fields are errors of the sender."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from starlette.exceptions import HTTPException
from starlette.requests import Request

#: Largest size in bytes of a request that changes something; enough for two million row numbers.
MOST_BYTES = 2**24

_MOST_LETTERS = 1_000  # of a name, a path or a search
_INTEGER = re.compile(r"[0-9]{1,9}")
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,20})?")


class Conflict(ValueError):  # noqa: N818 - what it is called in HTTP
    """An act on a state that is no longer the newest."""


async def read_body(request: Request) -> Body:
    """The JSON object in a request; HTTPException 413 if it is too long, 415 if it is not declared as JSON."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "The request must be JSON (Content-Type: application/json).")
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MOST_BYTES:
            raise HTTPException(413, f"The request is longer than {MOST_BYTES:,} bytes.")
    try:
        fields = json.loads(content, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("The request is nested too deeply.") from None
    except ValueError as error:
        raise ValueError(f"The request is not JSON ({error}).") from None
    if not isinstance(fields, dict):
        raise ValueError("The request must be a JSON object.")
    return Body(fields)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")


class Body:
    """The fields of a request. Each method returns the field of that name, or raises ValueError if it is not valid.

    Parameters
    ----------
    fields : mapping of str to object
        The decoded JSON object.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def __contains__(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def text(self, name: str) -> str:
        """A text of one to a thousand characters that UTF-8 can hold."""
        return _checked_text(self._fields.get(name), name)

    def texts(self, name: str) -> list[str]:
        """A list of such texts, at least one."""
        value = self._fields.get(name)
        if not isinstance(value, list) or not value:
            raise ValueError(f"{name} must be a list of texts, at least one.")
        return [_checked_text(text, name) for text in value]

    def integer(self, name: str, most: int = 2**31 - 1) -> int:
        """A whole number from 0 to ``most``."""
        value = self._fields.get(name)
        if type(value) is not int or not 0 <= value <= most:
            raise ValueError(f"{name} must be a whole number from 0 to {most:,}.")
        return value

    def share(self, name: str) -> float:
        """A number from 0 to 1."""
        value = self._fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
            raise ValueError(f"{name} must be a number from 0 to 1.")
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false; false if the field is missing."""
        value = self._fields.get(name, False)
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false.")
        return value

    def rows(self, n_items: int) -> NDArray[np.int64]:
        """Distinct row numbers in ascending order, (n_rows,), at least one."""
        value = self._fields.get("rows")
        if not isinstance(value, list) or not value or not all(type(row) is int for row in value):
            raise ValueError("rows must be a list of whole numbers, at least one.")
        if min(value) < 0 or max(value) >= n_items:
            raise ValueError(f"rows must be from 0 to {n_items - 1:,}; got {min(value)} to {max(value)}.")
        return np.unique(np.array(value, dtype=np.int64))


def _checked_text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _MOST_LETTERS:
        raise ValueError(f"{name} must be a text of 1 to {_MOST_LETTERS:,} characters.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} holds half a character (a lone surrogate).") from None
    return value


def query_integer(request: Request, name: str, default: int | None = None, most: int = 999_999_999) -> int:
    """A whole number from 0 to ``most`` in the query."""
    text = request.query_params.get(name)
    if text is None and default is not None:
        return default
    if text is None or not _INTEGER.fullmatch(text) or int(text) > most:
        raise ValueError(f"{name} must be a whole number from 0 to {most:,}.")
    return int(text)


def query_rows(request: Request, n_items: int, most: int) -> list[int]:
    """Rows in the query: ``rows=5,9``, in that order, or all from ``start`` to before ``stop``; at most ``most``."""
    listed = request.query_params.get("rows")
    if listed is None:
        start, stop = query_integer(request, "start"), min(query_integer(request, "stop"), n_items)
        rows: Sequence[int] = range(start, stop)
    else:
        texts = listed.split(",", most + 1)
        if not all(_INTEGER.fullmatch(text) and int(text) < n_items for text in texts[: most + 1]):
            raise ValueError(f"rows must be whole numbers from 0 to {n_items - 1:,} with commas between.")
        rows = [int(text) for text in texts[: most + 1]]
    if len(rows) > most:
        raise ValueError(f"At most {most} items can be asked for at once.")
    return list(rows)


def query_share(request: Request, name: str, default: float) -> float:
    """A number from 0 to 1 in the query."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or not math.isfinite(float(text)) or float(text) > 1.0:
        raise ValueError(f"{name} must be a number from 0 to 1.")
    return float(text)


def query_text(request: Request, name: str) -> str:
    """A text in the query."""
    text = request.query_params.get(name, "")
    if not 0 < len(text) <= _MOST_LETTERS:
        raise ValueError(f"{name} must be a text of 1 to {_MOST_LETTERS:,} characters.")
    return text


def path_row(request: Request, n_items: int) -> int:
    """The row number in the path; HTTPException 404 if there is no such row."""
    text = request.path_params["row"]
    if not _INTEGER.fullmatch(text) or int(text) >= n_items:
        raise HTTPException(404, "There is no such item.")
    return int(text)
