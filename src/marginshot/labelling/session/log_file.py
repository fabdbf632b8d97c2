"""The file of a log while it is in use: removed, moved, replaced or overwritten by others, it is noticed and mended.

An open database goes on writing to a file that has no name any more, and nobody would find what it wrote.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from marginshot._lib.files import PRIVATE, atomic_path
from marginshot.labelling.errors import RefusedError

#: Device, number, size and time of the last change of a file.
Mark = tuple[int, int, int, int]

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_PATIENCE = 30  # seconds to wait for another process that is writing


def mark(path: Path) -> Mark | None:
    """Which file has the name ``path``, and how it was left; None where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def is_whole(connection: sqlite3.Connection, path: Path, before: Mark | None) -> bool:
    """Whether the file at ``path`` is the one that ``connection`` has open, with all its events.

    ``before`` is its mark after the last act. The connection itself may not notice a change, because it keeps what it
    has read. Only SQLite opens the file: to close another handle would release the locks of this process.
    """
    now = mark(path)
    if now == before or now is None or before is None or now[:2] != before[:2]:
        return now == before
    ours = _events(connection)
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", timeout=_PATIENCE, uri=True)) as fresh:
            return _events(fresh)[: len(ours)] == ours
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF in _BUSY:
            raise
        return False


def mend(connection: sqlite3.Connection, path: Path) -> str:
    """Bring the events of ``connection`` back to the name ``path``, and close it; returns what was done, in words.

    A file at ``path`` with all these events, or more, is kept. One with only the first of them is replaced. Any other
    is refused, and the events are written to a file beside it.
    """
    ours, theirs = _events(connection), _events_at(path)
    if theirs is not None and theirs[: len(ours)] == ours:
        connection.close()
        return f"The log {path} was replaced while it was in use; the new file has all labels."
    if os.path.lexists(path) and (theirs is None or ours[: len(theirs)] != theirs):
        raise RefusedError(
            f"The log {path} was replaced by another file, or written over, while it was in use, and nothing was "
            f"changed. All labels given here are in {_set_aside(connection, path, ours)}. Put that in its place, then "
            "open the session again."
        )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with atomic_path(path, private=True) as temporary:
        _copy(connection, temporary)
        # Closed before the name is given: SQLite removes the files beside it by their names.
        connection.close()
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    return f"The log {path} was gone, or replaced by an older one, while it was in use; it was written again in full."


def _events(connection: sqlite3.Connection) -> list[tuple[int, str]]:
    return connection.execute("SELECT seq, checksum FROM events ORDER BY seq").fetchall()


def _events_at(path: Path) -> list[tuple[int, str]] | None:
    """Number and checksum of the events in a file; None where there is no log.

    They are read from a copy: beside the name ``path`` is the write-ahead log of another file.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "log.sqlite")
        try:
            shutil.copyfile(path, copy)
            with closing(sqlite3.connect(copy)) as connection:
                return _events(connection)
        except (OSError, sqlite3.Error):
            return None


def _set_aside(connection: sqlite3.Connection, path: Path, events: list[tuple[int, str]]) -> Path:
    """Write the ``events`` into a file beside ``path``, whose name depends on them; the same events make one file."""
    name = events[-1][1][:8] if events else "nothing"
    aside = path.with_name(f"{path.stem}-kept-{name}{path.suffix}")
    if not aside.exists():
        with atomic_path(aside, private=True) as temporary:
            _copy(connection, temporary)
    return aside


def _copy(connection: sqlite3.Connection, path: Path) -> None:
    with closing(sqlite3.connect(path)) as copy:
        connection.backup(copy)
    path.chmod(PRIVATE)
