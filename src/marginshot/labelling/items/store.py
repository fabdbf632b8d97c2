"""What is kept between runs: embeddings by content and encoder, unreadable contents, a mark on every table we wrote.

One SQLite file in the user's cache folder. It can be deleted at any time; embeddings are then computed again, and
existing outputs are no longer known as ours, so that replacing them has to be asked for.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.files import PRIVATE, atomic_path
from marginshot._lib.warn import warn_user
from marginshot.labelling.errors import Option, RefusedError

DEFAULT_LIMIT = 2_000_000_000  # bytes of embeddings

_FILE = "labelling.sqlite"
_LOOKUP = 500  # keys asked for at a time, below SQLite's limit on variables
_ONE_USE = 3600.0  # seconds in which several uses count as one: to note a use, its whole embedding is written again

_SCHEMA = """
CREATE TABLE IF NOT EXISTS embeddings (key TEXT PRIMARY KEY, vector BLOB NOT NULL, used REAL NOT NULL,
                                       checksum INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unreadable (key TEXT PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS outputs (path TEXT PRIMARY KEY, digest TEXT NOT NULL);
"""


def default_folder() -> Path:
    """``$MARGINSHOT_CACHE``, else the folder ``marginshot`` in the user's cache folder."""
    chosen = os.environ.get("MARGINSHOT_CACHE")
    if chosen:
        return Path(chosen)
    if os.name == "nt" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "marginshot"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "marginshot"


class DamagedCacheError(RefusedError):
    """The cache's file is not what we wrote."""


class Store:
    """The cache.

    Parameters
    ----------
    folder : Path
        Where it lives; created when missing.
    limit : int, default=2_000_000_000
        Bytes of embeddings kept; those unused longest go first.
    optional : bool, default=False
        Whether the work can be done without a cache; a refusal then tells how.
    """

    def __init__(self, folder: Path, limit: int = DEFAULT_LIMIT, *, optional: bool = False) -> None:
        if limit < 0:
            raise ValueError(f"The size limit of the cache must not be negative; got {limit}.")
        self.path = folder / _FILE
        self.limit = limit
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self.path.exists():
                # Embeddings reveal private pictures; SQLite gives the rights of this file to those beside it.
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE))
        except OSError as error:
            raise RefusedError(
                "The cache folder {folder} cannot be made ({reason}). Choose another with {cache}"
                + (", or do without by {no_cache}." if optional else "."),
                folder=folder,
                reason=error.strerror,
                cache=Option.CACHE,
                no_cache=Option.NO_CACHE,
            ) from error
        with self._open() as connection:
            connection.execute("PRAGMA auto_vacuum = FULL")
            connection.executescript(_SCHEMA)
            if "checksum" not in {row[1] for row in connection.execute("PRAGMA table_info(embeddings)")}:
                connection.execute("ALTER TABLE embeddings ADD COLUMN checksum INTEGER")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection whose changes are kept when the body ends well; opened anew each time, so threads may share."""
        try:
            with closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
                yield connection
        except sqlite3.OperationalError as error:
            raise RefusedError(
                "The cache {path} cannot be used ({reason}). Try again later, or choose another folder with {cache}.",
                path=self.path,
                reason=error,
                cache=Option.CACHE,
            ) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise DamagedCacheError(
                "The cache {path} cannot be used ({reason}). Remove it with `marginshot cache --clear`, or choose "
                "another folder with {cache}.",
                path=self.path,
                reason=error,
                cache=Option.CACHE,
            ) from error

    def load(self, keys: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The embeddings that are there, by key; all of them now count as used, to the hour.

        Damaged ones are left out, to be computed again, with a warning.
        """
        found: dict[str, NDArray[np.float32]] = {}
        now, n_damaged = time.time(), 0
        with self._open() as connection:
            for start in range(0, len(keys), _LOOKUP):
                part = tuple(keys[start : start + _LOOKUP])
                marks = ",".join("?" * len(part))
                select = f"SELECT key, vector, checksum FROM embeddings WHERE key IN ({marks})"
                for key, vector, checksum in connection.execute(select, part):
                    if _is_sound(key, vector, checksum):
                        found[key] = np.frombuffer(vector, dtype="<f4")
                    else:
                        n_damaged += 1
                connection.execute(
                    f"UPDATE embeddings SET used = ? WHERE used <= ? AND key IN ({marks})", (now, now - _ONE_USE, *part)
                )
        if n_damaged:
            warn_user(
                f"The cache {self.path} is damaged: {n_damaged:,} of its embeddings are not as they were written, and "
                "are computed again. If this comes back, empty it with `marginshot cache --clear`.",
                RuntimeWarning,
            )
        return found

    def keep(self, keys: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Store one embedding per key; only warn where the cache cannot be written."""
        now = time.time()
        content = [(key, vector.astype("<f4").tobytes()) for key, vector in zip(keys, vectors, strict=True)]
        self._add("embeddings", [(key, vector, now, _checksum(key, vector)) for key, vector in content])

    def load_unreadable(self, keys: Sequence[str]) -> dict[str, str]:
        """What was wrong with the contents that could not be read, by key."""
        found: dict[str, str] = {}
        with self._open() as connection:
            for start in range(0, len(keys), _LOOKUP):
                part = tuple(keys[start : start + _LOOKUP])
                marks = ",".join("?" * len(part))
                found.update(connection.execute(f"SELECT key, reason FROM unreadable WHERE key IN ({marks})", part))
        return found

    def keep_unreadable(self, reasons: Mapping[str, str]) -> None:
        """Remember what is wrong with contents, by key, so that the encoder is not loaded for them again."""
        self._add("unreadable", list(reasons.items()))

    def _add(self, table: str, rows: Sequence[tuple[object, ...]]) -> None:
        if not rows:
            return
        marks = ", ".join("?" * len(rows[0]))
        try:
            with self._open() as connection:
                connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", rows)
        except ValueError as error:
            warn_user(f"Embeddings are not kept for the next run: {error}", RuntimeWarning)

    def trim(self) -> None:
        """Drop the embeddings unused longest until the rest fits the limit."""
        with self._open() as connection:
            excess = _size(connection) - self.limit
            if excess <= 0:
                return
            doomed = []
            for key, size in connection.execute("SELECT key, LENGTH(vector) FROM embeddings ORDER BY used, key"):
                doomed.append((key,))
                excess -= size
                if excess <= 0:
                    break
            connection.executemany("DELETE FROM embeddings WHERE key = ?", doomed)

    def count(self) -> tuple[int, int]:
        """Number of embeddings and their bytes."""
        with self._open() as connection:
            return connection.execute("SELECT COUNT(*) FROM embeddings").fetchone()[0], _size(connection)

    def clear(self) -> None:
        """Drop all embeddings, and what could not be read; what is known about outputs stays."""
        with self._open() as connection:
            connection.execute("DELETE FROM embeddings")
            connection.execute("DELETE FROM unreadable")

    @contextmanager
    def own_output(self, path: Path, *, private: bool = False) -> Iterator[Path]:
        """A temporary path whose content takes the place of ``path``, which is known as ours from then on.

        The digest of the new content is stored before the content takes its place. Whichever of the two is at ``path``
        after a kill, it is known as ours.
        """
        name = str(path.resolve())
        with atomic_path(path, private=private) as temporary:
            yield temporary
            new = file_digest(temporary)
            with self._open() as connection:
                known = " ".join((new, *self._digests(connection, name)[:1]))
                connection.execute("INSERT OR REPLACE INTO outputs VALUES (?, ?)", (name, known))
        with self._open() as connection:
            connection.execute("INSERT OR REPLACE INTO outputs VALUES (?, ?)", (name, new))

    def _digests(self, connection: sqlite3.Connection, name: str) -> list[str]:
        """Digest of what was last written under ``name``; after a kill, also of what may still be there instead."""
        row = connection.execute("SELECT digest FROM outputs WHERE path = ?", (name,)).fetchone()
        return [] if row is None else str(row[0]).split()

    def is_own_output(self, path: Path) -> bool:
        """Whether ``path`` is exactly what we last wrote, there or in a place it was copied or moved from."""
        with self._open() as connection:
            known = {digest for (held,) in connection.execute("SELECT digest FROM outputs") for digest in held.split()}
        return bool(known) and file_digest(path) in known

    def outputs(self) -> list[Path]:
        """Where we ever wrote a file known as ours."""
        with self._open() as connection:
            return [Path(path) for (path,) in connection.execute("SELECT path FROM outputs ORDER BY path")]


def open_store(cache: bool | str | os.PathLike[str], limit: int = DEFAULT_LIMIT) -> Store | None:
    """The cache in the user's folder, in the one given, or none."""
    if isinstance(cache, bool):
        return Store(default_folder(), limit, optional=True) if cache else None
    return Store(Path(cache), limit, optional=True)


def clear_folder(folder: Path) -> None:
    """Empty the cache in ``folder``; a damaged one is removed."""
    if not (folder / _FILE).exists():
        return
    try:
        Store(folder).clear()
    except DamagedCacheError:
        (folder / _FILE).unlink()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum(key: str, vector: bytes) -> int:
    return zlib.crc32(vector, zlib.crc32(key.encode("utf-8", "surrogatepass")))


def _is_sound(key: str, vector: object, checksum: object) -> bool:
    """Whether an embedding is as it was written; earlier versions wrote no checksum."""
    if not isinstance(vector, bytes) or len(vector) % 4 or not vector:
        return False
    if checksum is not None and checksum != _checksum(key, vector):
        return False
    return bool(np.isfinite(np.frombuffer(vector, dtype="<f4")).all())


def _size(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT COALESCE(SUM(LENGTH(vector)), 0) FROM embeddings").fetchone()[0])
