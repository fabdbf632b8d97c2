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
from typing import Any

from marginshot._lib.files import PRIVATE
from marginshot._lib.reading import UnreadableError
from marginshot.labelling.errors import RefusedError
from marginshot.labelling.items.kind import Kind
from marginshot.labelling.items.kinds import PICTURE

#: Pixels on the longer side.
THUMBNAIL, LARGE = 160, 1600

DEFAULT_LIMIT = 1_000_000_000  # bytes of thumbnails: those of about 200,000 photographs

_log = logging.getLogger(__name__)

_FILE = "thumbnails.sqlite"
_SCHEMA = "CREATE TABLE IF NOT EXISTS thumbnails (key TEXT PRIMARY KEY, picture BLOB, made REAL) WITHOUT ROWID"
_DECODERS = 4  # pictures decoded at once; bounds the memory
_QUALITY = {THUMBNAIL: 75, LARGE: 85}


class Thumbnails:
    """Reads pictures for the page, and caches thumbnails.

    Parameters
    ----------
    folder : Path
        Folder of the cache; created when missing.
    kind : Kind, default=PICTURE
        Kind of the items that the pictures show.
    limit : int, default=1_000_000_000
        Largest size of the cache in bytes; the oldest thumbnails are deleted first.
    """

    def __init__(self, folder: Path, kind: Kind = PICTURE, limit: int = DEFAULT_LIMIT) -> None:
        self.kind = kind
        self.path = folder / _FILE
        self._decoders = threading.BoundedSemaphore(_DECODERS)
        self._digests: dict[Any, tuple[int, int, str]] = {}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._prepare(limit)
        except sqlite3.OperationalError as error:  # locked, or the disk is full: nothing is wrong with the file
            raise RefusedError(
                f"The cache of thumbnails {self.path} cannot be used ({error}). Try again later, or choose another "
                "folder with --cache."
            ) from error
        except sqlite3.DatabaseError:
            self.path.unlink(missing_ok=True)  # a damaged cache is made again
            self._prepare(limit)

    def digest(self, content: Any) -> str:
        """Hash of a content; computed again only if the size or time of its file has changed."""
        found = self.kind.file(content).stat()
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableError("is not a file")
        known = self._digests.get(content)
        if known is None or known[:2] != (found.st_mtime_ns, found.st_size):
            known = (found.st_mtime_ns, found.st_size, self.kind.digest(content))
            self._digests[content] = known
        return known[2]

    def thumbnail(self, content: Any) -> bytes:
        """A picture as WebP, at most 160 pixels a side."""
        key = self.digest(content)
        with self._open() as connection:
            row = connection.execute("SELECT picture FROM thumbnails WHERE key = ?", (key,)).fetchone()
        if row is not None:
            return bytes(row[0])
        made = self._encoded(content, THUMBNAIL)
        try:
            with self._open() as connection:
                connection.execute("INSERT OR REPLACE INTO thumbnails VALUES (?, ?, ?)", (key, made, time.time()))
        except sqlite3.OperationalError as error:
            _log.warning("The thumbnail of %s was not cached (%s).", self.kind.file(content).name, error)
        return made

    def picture(self, content: Any) -> bytes:
        """A picture as WebP, with what is around it, at most 1600 pixels a side; not cached."""
        return self._encoded(content, LARGE)

    def sound(self, content: Any) -> bytes:
        """A sound as WAV; not cached."""
        with self._decoders:
            return self.kind.sound(content)

    def _encoded(self, content: Any, side: int) -> bytes:
        with self._decoders:
            image = (self.kind.scene if side == LARGE else self.kind.image)(content, side)
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
