"""Atomic file writing: a file is whole or absent, and survives a power cut once it is reported as written."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

if sys.platform != "win32":
    import fcntl

#: Permissions of private files: embeddings, pictures, sessions.
PRIVATE = 0o600

#: Errors of writing, which the system reports without the name of the file.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
_NOFOLLOW, _BINARY = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_BINARY", 0)
_CHUNK = 2**20  # bytes
_TEMPORARY = re.compile(r"\.marginshot-[0-9a-f]{16}\.tmp(\..*)?")


def check_writable(path: Path) -> None:
    """Raise OSError unless a file can be written to ``path``."""
    folder = path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"Cannot write {path}: there is no folder {folder}. Create it first.")
    check_replaceable(path)
    try:
        # Write a file to find out: permission bits say nothing about a read-only or full disk.
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise PermissionError(f"Cannot write {path}: {os.strerror(error.errno or 0)}.") from error


@contextmanager
def atomic_path(path: str | os.PathLike[str], *, private: bool = False) -> Iterator[Path]:
    """A temporary path beside ``path`` that takes its place when the body ends without an exception.

    File and folder are on the disk before this returns. A replaced file keeps its permissions. A new one follows the
    user's umask, and ``private`` gives others none. Folders, devices and pipes are never replaced. Where ``path`` is
    itself the temporary path of an outer call, it is given back: the outer call replaces.

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
    if is_temporary(target):  # already the temporary file of a caller, who holds its lock
        yield target
        return
    check_replaceable(target)
    with _new_beside(target, PRIVATE if private else 0o666) as (held, temporary):
        if sys.platform == "win32":
            held.close()  # an open file cannot be renamed there
        try:
            yield temporary
            if target.exists():
                temporary.chmod(target.stat().st_mode & 0o777)
            flush(temporary)
            temporary.replace(target)
            flush_folder(target.parent)
        except OSError as error:
            # A full disk is reported without a name, or with one that nobody knows.
            ours = error.errno in _NO_ROOM if error.filename is None else error.filename == os.fspath(temporary)
            if not ours or error.errno is None:
                raise
            raise OSError(error.errno, os.strerror(error.errno), os.fspath(target)) from error


@contextmanager
def _new_beside(target: Path, mode: int) -> Iterator[tuple[FileIO, Path]]:
    """A new, open and locked file and its path in the folder of ``target``, which is gone at the end if not renamed.

    Nobody can know its name before, and what has that name all the same is neither opened nor followed.
    """
    # The suffix stays, because NumPy and Parquet writers choose by it.
    temporary = target.with_name(f".marginshot-{secrets.token_hex(8)}.tmp{target.suffix}")
    descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _NOFOLLOW | _BINARY, mode)
    try:
        with os.fdopen(descriptor, "r+b", buffering=0) as held:
            _lock(descriptor)
            yield held, temporary
    finally:
        temporary.unlink(missing_ok=True)


def copy_new(source: Path, target: Path) -> bool:
    """Whether ``target`` is a new copy of the file ``source``, on the disk and compared; False where it was taken.

    Raises OSError where the copy does not hold what the source does, which is then not to be removed.
    """
    with _new_beside(target, PRIVATE) as (held, temporary):
        with source.open("rb") as original, os.fdopen(os.dup(held.fileno()), "wb") as copy:
            shutil.copyfileobj(original, copy, _CHUNK)
        shutil.copystat(source, temporary)
        os.fsync(held.fileno())
        if not _place_new(temporary, target):
            return False
        if not same_contents(source, target):
            if os.path.samestat(os.fstat(held.fileno()), target.lstat()):
                target.unlink()
            raise OSError(f"{target} did not become a copy of it")
    flush_folder(target.parent)
    return True


def _place_new(temporary: Path, target: Path) -> bool:
    """Give a finished file its name, unless that is taken."""
    try:
        # Unlike a rename, a second link fails where there is a file already.
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError:
        # File systems without links, such as FAT.
        if os.path.lexists(target):
            return False
        temporary.rename(target)
    return True


def same_contents(source: Path, target: Path) -> bool:
    """Whether ``target`` is a regular file, not a link to one, that holds what ``source`` does."""
    if target.is_symlink() or not target.is_file():
        return False
    with source.open("rb") as one, os.fdopen(os.open(target, os.O_RDONLY | _NOFOLLOW | _BINARY), "rb") as other:
        if os.fstat(one.fileno()).st_size != os.fstat(other.fileno()).st_size:
            return False
        while part := one.read(_CHUNK):
            if part != other.read(_CHUNK):
                return False
        return not other.read(1)


def check_replaceable(path: Path) -> None:
    """Raise unless ``path`` is free, a regular file, or a link, which would be replaced and not followed."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"Cannot write {path}: it is a folder. Give the name of a file.")
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise FileExistsError(f"Cannot write {path}: it is a device or a pipe, not a file. Give another name.")


def sweep(folder: Path) -> int:
    """Remove the temporary files that killed runs left in ``folder``; returns their number.

    A run locks each file while it writes it, so files of a run still at work are not removed.
    """
    if sys.platform == "win32" or not folder.is_dir():
        return 0
    n_removed = 0
    for path in sorted(folder.iterdir()):
        if is_temporary(path) and _is_abandoned(path):
            with suppress(OSError):  # another run may sweep at the same time, or the folder be read-only
                path.unlink()
                n_removed += 1
    return n_removed


def is_temporary(path: Path) -> bool:
    """Whether ``path`` has the name of a file that `atomic_path` was writing."""
    return _TEMPORARY.fullmatch(path.name) is not None


def flush_folder(folder: Path) -> None:
    """Wait until the names in ``folder`` are on the disk."""
    if sys.platform != "win32":  # Windows cannot flush a folder
        flush(folder)


def flush(path: Path) -> None:
    """Wait until what is in a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY if sys.platform != "win32" else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    if sys.platform != "win32":
        with suppress(OSError):  # some network drives have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_abandoned(path: Path) -> bool:
    if sys.platform == "win32":
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True
