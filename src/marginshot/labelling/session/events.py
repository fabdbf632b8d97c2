"""The log of a labelling session: one event an act, on the disk before it is acknowledged.

One SQLite file a source. Events are only ever added, each with a checksum. Several processes may write to one log: each
reads what it has not seen inside the transaction in which it adds.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from marginshot._lib.files import PRIVATE, flush_folder
from marginshot._lib.interrupts import uninterrupted
from marginshot._lib.reading import reading
from marginshot.labelling.errors import RefusedError
from marginshot.labelling.items.contents import Content
from marginshot.labelling.session.log_file import is_whole, mark, mend
from marginshot.labelling.session.state import LOST, Event

FORMAT = 3  # 1 had no contents, 2 no checksums and no keys of classes

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, time REAL NOT NULL, kind TEXT NOT NULL,
                                   payload TEXT NOT NULL, checksum TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS contents (key TEXT PRIMARY KEY, digest TEXT NOT NULL, stamp TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
_COUNT = "INSERT OR REPLACE INTO about SELECT 'last', COALESCE(MAX(seq), 0) FROM events"
_PATIENCE = 30  # seconds to wait for another process that is writing


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
    copy : bool, default=False
        Work on a copy in memory, of what is in the file: neither the file nor its folder is made or changed.
    """

    def __init__(self, path: Path | None, about: Mapping[str, str] | None = None, *, copy: bool = False) -> None:
        self.path = path
        self._file_path = None if copy else path
        #: Events that are damaged or missing, in words; they are left out.
        self.damage: list[str] = []
        self._lock = threading.RLock()
        #: What happened to the file while it was in use, in words.
        self.incidents: list[str] = []
        self._about = dict(about or {})
        self._open()

    def _open(self) -> None:
        if self._file_path is not None:
            _create(self._file_path)
        with self._readable():
            self._connection = sqlite3.connect(
                self._file_path or ":memory:", timeout=_PATIENCE, isolation_level=None, check_same_thread=False
            )
            # Python 3.13 warns of a connection that is left to the collector, such as that of a session nobody closed.
            weakref.finalize(self, self._connection.close).atexit = False
            if self._file_path is None and self.path is not None and self.path.exists():
                with closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as file:
                    file.backup(self._connection)
        self._is_watched = False  # whether harm to the file is looked for
        try:
            self._prepare(self._about)
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
                self._add_checksums()
                self._connection.executemany("INSERT OR IGNORE INTO about VALUES (?, ?)", about.items())
                self._connection.execute(f"PRAGMA user_version = {FORMAT}")
        if self._file_path is not None:
            flush_folder(self._file_path.parent)
        self._is_watched = self._file_path is not None

    def _add_checksums(self) -> None:
        """Give the events of an earlier format their checksums."""
        if "checksum" in {row[1] for row in self._connection.execute("PRAGMA table_info(events)")}:
            return
        self._connection.execute("ALTER TABLE events ADD COLUMN checksum TEXT NOT NULL DEFAULT ''")
        rows = self._connection.execute("SELECT seq, time, kind, payload FROM events").fetchall()
        sums = [(_checksum(*row), row[0]) for row in rows]
        self._connection.executemany("UPDATE events SET checksum = ? WHERE seq = ?", sums)
        self._connection.execute(_COUNT)

    def after(self, version: int) -> list[Event]:
        """The events that follow the one of that number, oldest first.

        A damaged or missing event is replaced by one of the kind ``lost``, which does nothing.
        """
        with self._lock, self._readable():
            # Read first: others may add events in between.
            last = self._connection.execute("SELECT value FROM about WHERE name = 'last'").fetchone()
            rows = self._connection.execute(
                "SELECT seq, time, kind, payload, checksum FROM events WHERE seq > ? ORDER BY seq", (version,)
            ).fetchall()
        events = []
        for seq, moment, kind, payload, checksum in rows:
            if seq != version + 1:
                events.append(self.lose(seq - 1, f"events {version + 1} to {seq - 1} are missing"))
            if checksum == _checksum(seq, moment, kind, payload):
                with self.sound(f"event {seq} ({kind})"):
                    events.append(Event(seq, moment, kind, json.loads(payload)))
            else:
                events.append(self.lose(seq, f"event {seq} is damaged"))
            version = seq
        if last is not None and not (str(last[0]).isdigit() and int(last[0]) <= version):
            self.lose(version, f"the last event is {version}, and should be {last[0]!r:.20}")
        return events

    def lose(self, version: int, why: str) -> Event:
        """An event that does nothing, in the place of one that cannot be used."""
        if why not in self.damage:
            self.damage.append(why)
        return Event(version, 0.0, LOST, {})

    def sound(self, part: str) -> AbstractContextManager[None]:
        """Turn whatever is raised by a damaged ``part`` of the log into one sentence."""
        advice = "Move it away to begin anew, or bring back a copy."
        return reading(self.path or "The log", f"the log of a session: {part}", advice, RefusedError)

    def add(
        self, entry: Callable[[], tuple[str, Mapping[str, Any]] | None], check: Callable[[Event], object]
    ) -> Event | None:
        """Add an event of the kind and payload that ``entry`` returns; on the disk on return.

        It runs while no other process can add. Nothing is added where it returns None, nor where ``check`` raises for
        the event as it would be read back.
        """
        with self._lock, self.transaction():
            made = entry()
            if made is None:
                return None
            kind, payload = made
            text, now = json.dumps(payload, allow_nan=False), time.time()
            (seq,) = self._connection.execute("SELECT COALESCE(MAX(seq), 0) + 1 FROM events").fetchone()
            row = (seq, now, kind, text)
            self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)", (*row, _checksum(*row)))
            self._connection.execute(_COUNT)
            event = Event(seq, now, kind, json.loads(text))
            check(event)
        return event

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
            self._file = None if self._file_path is None else mark(self._file_path)

    def close(self) -> None:
        """Close the file; if others have damaged it since the last act, write the events again first."""
        with self._lock:
            try:
                with self._readable():
                    self._mend()
            except RefusedError as error:  # another file is there; the events are kept beside it
                self.incidents.append(str(error))
            finally:
                self._is_watched = False
                self._connection.close()

    def _mend(self) -> bool:
        """Restore the file if others have damaged it; returns whether they had."""
        path = self._file_path
        if path is None or not self._is_watched or is_whole(self._connection, path, self._file):
            return False
        self.incidents.append(mend(self._connection, path))
        return True

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Add all events of the body or none, while no other process can add any.

        Ctrl-C waits until it has ended: later acts would go into a transaction left open, and be lost.
        """
        with self._lock, self._readable():
            if self._connection.in_transaction:
                yield
                return
            with uninterrupted():
                if self._mend():
                    self._open()
                try:
                    self._connection.execute("BEGIN IMMEDIATE")
                    yield
                    self._connection.execute("COMMIT")
                    self._file = None if self._file_path is None else mark(self._file_path)
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn errors of SQLite into RefusedError, with a way out."""
        try:
            yield
        except sqlite3.ProgrammingError as error:
            raise RefusedError("The session is closed; open it again.") from error
        except sqlite3.OperationalError as error:
            raise RefusedError(
                f"The session {self.path} cannot be used ({error}), and nothing was changed. Try again, or check the "
                "disk."
            ) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise RefusedError(
                f"The session {self.path} cannot be read ({error}). Move it away to begin anew, or bring back a copy."
            ) from error


def _checksum(seq: object, moment: object, kind: object, payload: object) -> str:
    """Checksum of an event: finds damage, not forgery."""
    return hashlib.sha256(repr((seq, moment, kind, payload)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


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
