"""Writing files so that nothing is ever half-written, and what reading a damaged archive raises."""

from __future__ import annotations

import os
import secrets
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: What an ``.npz`` or another zip archive raises that was cut off, or whose bytes have changed.
DAMAGED_ARCHIVE = (EOFError, zipfile.BadZipFile, zlib.error)


def check_writable(path: Path) -> None:
    """Raise OSError unless a file can be written to ``path``."""
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"Cannot write {path}: there is no folder {folder}. Create it first.")
    if path.is_dir():
        raise IsADirectoryError(f"Cannot write {path}: it is a folder. Give the name of a file.")
    try:
        # The real test: a mode bit says nothing about a read-only or full disk.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise PermissionError(f"Cannot write {path}: {os.strerror(error.errno or 0)}.") from error


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the body ends without an exception.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with atomic_path(target) as temporary:
    ...     _ = temporary.write_text("1 2 3")
    >>> target.read_text()
    '1 2 3'
    """
    target = Path(path)
    # The suffix stays, because NumPy and Parquet writers choose by it.
    temporary = target.with_name(f".{target.stem}-{secrets.token_hex(4)}{target.suffix}")
    temporary.touch(exist_ok=False)
    try:
        yield temporary
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o777)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
