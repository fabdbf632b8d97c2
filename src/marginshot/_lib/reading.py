"""Reading files that may be damaged: whatever NumPy, Arrow, Pillow and others raise becomes one sentence."""

from __future__ import annotations

import errno
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: System errors that a damaged file causes, such as a seek to before its start; other codes are genuine system errors.
_OF_CONTENT = frozenset({errno.EINVAL, errno.EOVERFLOW})

_OF_THE_SYSTEM = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)

_LONGEST_REASON = 200


class DamagedFileError(ValueError):
    """A file whose content is not what its name or its first bytes promise."""


class UnreadableError(ValueError):
    """A content, or its bytes, that cannot be read as what it should be."""


@contextmanager
def reading(
    path: str | os.PathLike[str], what: str, advice: str = "", error: type[ValueError] = DamagedFileError
) -> Iterator[None]:
    """Turn any exception of a body that reads the file at ``path`` into ``error``.

    A file that cannot be opened (missing, a folder, no permission, a failing disk) is not damaged: the system's error
    passes unchanged. So does an exception of the type ``error``.

    Parameters
    ----------
    path : str or path
    what : str
        What the file should be, with its article: ``an .npz archive``.
    advice : str, default=""
        What to do about it, a sentence of its own.
    error : type of ValueError, default=DamagedFileError

    Examples
    --------
    >>> with reading("result.json", "a result", "Evaluate again."):
    ...     json.loads("{")
    Traceback (most recent call last):
        ...
    marginshot._lib.reading.DamagedFileError: result.json is damaged, or not a result (Expecting property name ...
    """
    try:
        yield
    except (error, *_OF_THE_SYSTEM):
        raise
    except OSError as problem:
        if problem.errno is not None and problem.errno not in _OF_CONTENT:
            raise
        raise error(_sentence(path, what, problem, advice)) from problem
    except MemoryError as problem:
        told = f"{os.fspath(path)} is damaged, or needs more memory than there is. {advice}"
        raise error(told.strip()) from problem
    except Exception as problem:
        # Readers may raise anything for a damaged file, RecursionError and SyntaxError included.
        raise error(_sentence(path, what, problem, advice)) from problem


def _sentence(path: str | os.PathLike[str], what: str, problem: Exception, advice: str) -> str:
    words = " ".join(str(problem).split()).rstrip(".")
    reason = f"{words} is missing" if isinstance(problem, KeyError) else words or type(problem).__name__
    if len(reason) > _LONGEST_REASON:
        reason = f"{reason[:_LONGEST_REASON]}…"
    return f"{os.fspath(path)} is damaged, or not {what} ({reason}). {advice}".strip()


def read_json(path: Path, what: str, advice: str = "", error: type[ValueError] = DamagedFileError) -> dict[str, Any]:
    """The JSON object in the file at ``path``."""
    with reading(path, what, advice, error):
        content = json.loads(path.read_bytes().decode("utf-8"))
        if not isinstance(content, dict):
            raise TypeError(f"it holds a {type(content).__name__}, not an object")
    return content


def read_npz(path: Path, what: str, advice: str = "", error: type[ValueError] = DamagedFileError) -> dict[str, Any]:
    """Every array of an ``.npz`` archive by its name; none may hold Python objects."""
    with reading(path, what, advice, error), path.open("rb") as file, open_npz(file) as archive:
        return {name: _plain_member(archive, name, path, error) for name in archive.files}


def _plain_member(archive: Any, name: str, path: Path, error: type[ValueError]) -> NDArray[Any]:
    try:
        return npz_member(archive, name)
    except ValueError as problem:
        if "allow_pickle" not in str(problem):  # NumPy's words for an array of objects
            raise
        raise error(
            f"{path}: {name} holds Python objects, which are never read, because they can run code. Save numbers or "
            f"text, such as {name}.astype(str)."
        ) from problem


def open_npz(file: Any, *, allow_pickle: bool = False) -> Any:
    """An opened ``.npz``; a file that is not a zip archive is an error, where NumPy would read it as a pickle."""
    if not zipfile.is_zipfile(file):
        raise ValueError("it is cut off, or not a zip archive")
    file.seek(0)
    return np.load(file, allow_pickle=allow_pickle)


def npz_member(archive: Any, name: str) -> NDArray[Any]:
    """One array of an opened ``.npz``; raises for a damaged member, which NumPy returns as bytes."""
    array = archive[name]
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} is not an array")
    return array


def read_npy(path: Path, what: str, advice: str = "") -> NDArray[Any]:
    """The array of an ``.npy`` file; NumPy's own function would read a damaged one as a pickle."""
    with reading(path, what, advice), path.open("rb") as file:
        return np.lib.format.read_array(file, allow_pickle=False)
