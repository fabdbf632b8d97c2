"""The log of a labelling session: what was said, event by event, on the disk before it is acknowledged.

One SQLite file a source. Events are only ever added. Several processes may write to one log: each reads what it has not
seen inside the transaction in which it adds.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from marginshot._lib.files import PRIVATE, flush_folder
from marginshot._lib.reading import reading
from marginshot.labelling.contents import Content
from marginshot.labelling.errors import RefusedError
from marginshot.labelling.session.state import Event

FORMAT = 2  # 1 had no contents

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL,
                                   payload TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS contents (key TEXT PRIMARY KEY, digest TEXT NOT NULL, stamp TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_PATIENCE = 30  # seconds to wait for another process that is writing

#: Kind and payload of an event that is to be.
Act = tuple[str, Mapping[str, Any]]


def default_folder() -> Path:
    """``$MARGINSHOT_SESSIONS``, else ``marginshot/sessions`` in the user's data folder."""
    chosen = os.environ.get("MARGINSHOT_SESSIONS")
    if chosen:
        return Path(chosen)
    if os.name == "nt" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "marginshot" / "sessions"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "marginshot" / "sessions"


def log_path(folder: Path, source: Path, text: str | None) -> Path:
    """Where the log of a source lives: its name is a hash of the resolved path and the column of texts."""
    name = os.fsencode(source.resolve()) + b"\0" + (text or "").encode("utf-8", "surrogatepass")
    return folder / f"{hashlib.sha256(name).hexdigest()[:32]}.sqlite"


class EventLog:
    """An append-only log; any thread may use it.

    Parameters
    ----------
    path : Path or None
        The file, created when missing, for its owner alone; None keeps events in memory only.
    about : mapping of str to str
        What the log belongs to, for people who look into the file.
    """

    def __init__(self, path: Path | None, about: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._lock = threading.RLock()
        if path is not None:
            _create(path)
        with self._readable():
            self._connection = sqlite3.connect(
                ":memory:" if path is None else path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
        try:
            self._prepare(about or {})
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, about: Mapping[str, str]) -> None:
        with self._readable():
            found = self._connection.execute("PRAGMA user_version").fetchone()[0]
            if found > FORMAT:
                raise RefusedError(
                    f"The session {self.path} was written by a newer marginshot (format {found}, this one reads "
                    f"{FORMAT}). Install the newer version."
                )
            tables = {name for (name,) in self._connection.execute("SELECT tbl_name FROM sqlite_master")}
            if tables and not {"events", "about"} <= tables:
                raise RefusedError(
                    f"{self.path} is a database of another program; give the session's log another name."
                )
            _choose_journal(self._connection)
            # In WAL mode the default would leave the last events to the operating system's memory.
            self._connection.execute("PRAGMA synchronous = FULL")
            with self.transaction():
                for statement in _SCHEMA.split(";"):
                    self._connection.execute(statement)
                self._connection.executemany("INSERT OR IGNORE INTO about VALUES (?, ?)", about.items())
                self._connection.execute(f"PRAGMA user_version = {FORMAT}")
        if self.path is not None:
            flush_folder(self.path.parent)

    def after(self, version: int) -> list[Event]:
        """The events that follow the one of that number, oldest first."""
        with self._lock, self._readable():
            rows = self._connection.execute(
                "SELECT seq, time, kind, payload FROM events WHERE seq > ? ORDER BY seq", (version,)
            ).fetchall()
        events = []
        for seq, moment, kind, payload in rows:
            with self.sound(f"event {seq} ({kind})"):
                events.append(Event(seq, moment, kind, json.loads(payload)))
        return events

    def sound(self, part: str) -> AbstractContextManager[None]:
        """Turn whatever is raised by a damaged ``part`` of the log into one sentence."""
        advice = "Move it away to begin anew, or bring back a copy."
        return reading(self.path or "The log", f"the log of a session: {part}", advice, RefusedError)

    def add(self, act: Callable[[], Act]) -> Event:
        """Add the event that ``act`` returns, which runs while no other process can add; on the disk on return."""
        with self._lock, self.transaction():
            kind, payload = act()
            text, now = json.dumps(payload), time.time()
            row = self._connection.execute(
                "INSERT INTO events (seq, time, kind, payload) SELECT COALESCE(MAX(seq), 0) + 1, ?, ?, ? FROM events "
                "RETURNING seq",
                (now, kind, text),
            ).fetchone()
        return Event(row[0], now, kind, json.loads(text))

    def contents(self) -> dict[str, Content]:
        """What each picture held when it was last seen, by key."""
        with self._lock, self._readable():
            rows = self._connection.execute("SELECT key, digest, stamp FROM contents").fetchall()
        with self.sound("contents"):
            return {json.loads(key): Content(digest, stamp) for key, digest, stamp in rows}

    def keep_contents(self, contents: Mapping[str, Content | None]) -> None:
        """Note what pictures hold, by key; None forgets one that is under another key now."""
        # As JSON, for a key may hold what is not UTF-8.
        kept = [(json.dumps(key), c.digest, c.stamp) for key, c in contents.items() if c is not None]
        gone = [(json.dumps(key),) for key, content in contents.items() if content is None]
        with self.transaction():
            self._connection.executemany("DELETE FROM contents WHERE key = ?", gone)
            self._connection.executemany("INSERT OR REPLACE INTO contents VALUES (?, ?, ?)", kept)

    def flush(self) -> None:
        """Bring all events from the write-ahead log into the file itself, for copying it."""
        with self._lock, self._readable():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is added in the body is added, or nothing; no other process adds meanwhile."""
        with self._lock, self._readable():
            if self._connection.in_transaction:
                yield
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """SQLite's errors in our words."""
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise RefusedError("The session is closed; open it again.") from error
        except sqlite3.OperationalError as error:
            raise RefusedError(
                f"The session {self.path} cannot be used ({error}), and nothing was changed. Try again, or check the "
                "disk."
            ) from error
        except sqlite3.DatabaseError as error:
            raise RefusedError(
                f"The session {self.path} cannot be read ({error}). Move it away to begin anew, or bring back a copy."
            ) from error


def _create(path: Path) -> None:
    """An empty file that only its owner can read; SQLite gives its rights to the files beside it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE))
    except OSError as error:
        raise RefusedError(
            f"The session's log {path} cannot be written ({error.strerror}). Choose another folder with "
            "MARGINSHOT_SESSIONS."
        ) from error


def _choose_journal(connection: sqlite3.Connection) -> None:
    """A write-ahead log, or a truncated journal where it cannot work, as on network drives."""
    patience = time.monotonic() + _PATIENCE
    while True:
        try:
            found = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            # Another process is making the same file this very moment; SQLite does not wait for this by itself.
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY and time.monotonic() < patience:
                time.sleep(0.02)
                continue
            found = ""
        break
    if found not in ("wal", "memory"):
        connection.execute("PRAGMA journal_mode = TRUNCATE")
