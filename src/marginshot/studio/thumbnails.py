"""Pictures for the page, always decoded, resized and encoded again as WebP. Thumbnails are cached by content hash."""

from __future__ import annotations

import io
import logging
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from marginshot._lib.files import PRIVATE
from marginshot.data.pictures import UnreadablePictureError, read_picture
from marginshot.labelling.store import file_digest

#: Pixels on the longer side.
THUMBNAIL, PICTURE = 160, 1600

DEFAULT_LIMIT = 1_000_000_000  # bytes of thumbnails: those of about 200,000 photographs

_log = logging.getLogger(__name__)

_FILE = "thumbnails.sqlite"
_SCHEMA = "CREATE TABLE IF NOT EXISTS thumbnails (key TEXT PRIMARY KEY, picture BLOB, made REAL) WITHOUT ROWID"
_DECODERS = 4  # pictures decoded at once; bounds the memory
_QUALITY = {THUMBNAIL: 75, PICTURE: 85}


class Thumbnails:
    """Reads pictures for the page, and caches thumbnails.

    Parameters
    ----------
    folder : Path
        Folder of the cache; created when missing.
    limit : int, default=1_000_000_000
        Largest size of the cache in bytes; the oldest thumbnails are deleted first.
    """

    def __init__(self, folder: Path, limit: int = DEFAULT_LIMIT) -> None:
        self.path = folder / _FILE
        self._decoders = threading.BoundedSemaphore(_DECODERS)
        self._digests: dict[Path, tuple[int, int, str]] = {}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._prepare(limit)
        except sqlite3.DatabaseError:
            self.path.unlink(missing_ok=True)  # a damaged cache is made again
            self._prepare(limit)

    def digest(self, path: Path) -> str:
        """Hash of a picture's content; computed again only if the size or time of the file has changed."""
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise UnreadablePictureError("is not a file")
        known = self._digests.get(path)
        if known is None or known[:2] != (found.st_mtime_ns, found.st_size):
            known = (found.st_mtime_ns, found.st_size, file_digest(path))
            self._digests[path] = known
        return known[2]

    def thumbnail(self, path: Path) -> bytes:
        """A picture as WebP, at most 160 pixels a side."""
        key = self.digest(path)
        with self._open() as connection:
            row = connection.execute("SELECT picture FROM thumbnails WHERE key = ?", (key,)).fetchone()
        if row is not None:
            return bytes(row[0])
        made = self._encoded(path, THUMBNAIL)
        try:
            with self._open() as connection:
                connection.execute("INSERT OR REPLACE INTO thumbnails VALUES (?, ?, ?)", (key, made, time.time()))
        except sqlite3.OperationalError as error:
            _log.warning("The thumbnail of %s was not cached (%s).", path.name, error)
        return made

    def picture(self, path: Path) -> bytes:
        """A picture as WebP, at most 1600 pixels a side; not cached."""
        return self._encoded(path, PICTURE)

    def _encoded(self, path: Path, side: int) -> bytes:
        with self._decoders:
            image = read_picture(path, side)
            image.thumbnail((side, side))
            written = io.BytesIO()
            image.save(written, "WEBP", quality=_QUALITY[side], method=2)
        return written.getvalue()

    def _prepare(self, limit: int) -> None:
        if not self.path.exists():
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE))
        with self._open() as connection:
            connection.execute("PRAGMA auto_vacuum = FULL")
            connection.execute(_SCHEMA)
            connection.execute(
                "DELETE FROM thumbnails WHERE key IN (SELECT key FROM (SELECT key, SUM(LENGTH(picture)) OVER "
                "(ORDER BY made DESC, key) AS size FROM thumbnails) WHERE size > ?)",
                (limit,),
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection for this thread. It does not wait for the disk, because thumbnails can be made again."""
        with closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
            connection.execute("PRAGMA synchronous = OFF")
            yield connection
