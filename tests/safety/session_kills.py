"""Kills a labelling session at random moments, and compares its log with what it had acknowledged.

    python tests/safety/session_kills.py [--kills 200] [--seed 0]

A trial is a fork of this process, which opens the session, says one thing after the other and tells each version it was
given, with a hash of the state it saw, through a pipe. In every fourth trial two of them write to the same log. After
kill -9 every acknowledged version must be there, and lead to the state that was seen. The log is never made anew: a
trial begins with what the one before left.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sqlite3
import struct
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from marginshot.labelling.items.tables import embedding_rows
from marginshot.labelling.session.acts.act import apply
from marginshot.labelling.session.events import EventLog
from marginshot.labelling.session.opening import KeyTable
from marginshot.labelling.session.session import Session
from marginshot.labelling.session.state import State

X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
NAMES = ("ant", "bee", "cat", "δelta", "=1+1")
LONGEST = 0.15  # seconds until a kill, once the session is open
RECORD = struct.Struct("<q16s")


def digest(state: State) -> bytes:
    said = repr((state.classes, state.given.tolist(), state.checked.tolist(), state.can_undo, state.can_redo))
    return hashlib.sha256(said.encode()).digest()[:16]


def say_something(session: Session, rng: np.random.Generator) -> int:
    rows = rng.permutation(len(X))[: rng.integers(1, 8)]
    name, other = rng.permutation(NAMES)[:2].tolist()
    choices = [
        lambda: session.label(rows, name),
        lambda: session.label({int(row): name for row in rows} | {int(rows[0]): other}),
        lambda: session.none_of_these(rows),
        lambda: session.clear(rows),
        lambda: session.rename(name, f"{name} {rng.integers(1000)}"),
        lambda: session.merge(name, other),
        lambda: session.delete_class(name),
        session.undo,
        session.undo,
        session.redo,
    ]
    return choices[rng.integers(len(choices))]()


def talk(log: Path, pipe: int, seed: int) -> None:
    """Say things for ever, and tell each version that was acknowledged."""
    rng = np.random.default_rng(seed)
    session = Session.from_embeddings(X, log=log)
    os.write(pipe, RECORD.pack(0, bytes(16)))
    while True:
        try:
            version = say_something(session, rng)
        except ValueError:
            continue
        os.write(pipe, RECORD.pack(version, digest(session.state)))


def start(log: Path, seed: int) -> tuple[int, int]:
    """Process id of a talker, and the end of the pipe to read."""
    read, write = os.pipe()
    child = os.fork()
    if child:
        os.close(write)
        return child, read
    try:
        talk(log, write, seed)
    finally:
        os._exit(1)


def kill_and_listen(talkers: list[tuple[int, int]], rng: np.random.Generator) -> dict[int, bytes]:
    """What they had acknowledged, by version, when they were killed."""
    acknowledged: dict[int, bytes] = {}
    for _, read in talkers:
        os.read(read, RECORD.size)  # the session is open
    time.sleep(rng.uniform(0, LONGEST))
    for child, _ in talkers:
        os.kill(child, signal.SIGKILL)
    for child, read in talkers:
        os.waitpid(child, 0)
        with os.fdopen(read, "rb") as pipe:
            told = pipe.read()
        for place in range(0, len(told) - RECORD.size + 1, RECORD.size):
            version, seen = RECORD.unpack_from(told, place)
            acknowledged[version] = seen
    return acknowledged


def problems_of(log: Path, acknowledged: dict[int, bytes]) -> list[str]:
    """What of it is not in the log, or otherwise."""
    with sqlite3.connect(log) as connection:
        healthy = connection.execute("PRAGMA integrity_check").fetchone()[0]
    connection.close()
    found = [] if healthy == "ok" else [f"the file is damaged: {healthy}"]
    events = EventLog(log)
    keys, state = KeyTable(embedding_rows(X, None).keys), State.empty(len(X))
    there: dict[int, bytes] = {}
    for event in events.after(0):
        state, _ = apply(state, event, keys.slots_of)
        there[event.version] = digest(state)
    events.close()
    if list(there) != list(range(1, len(there) + 1)):
        found.append("versions are missing in between")
    return found + [
        f"version {version} is {'lost' if version not in there else 'another'}"
        for version, seen in acknowledged.items()
        if there.get(version) != seen
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    n_told, n_problems = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "session.sqlite")
        for trial in range(arguments.kills):
            talkers = [start(log, 1000 * arguments.seed + 2 * trial + which) for which in range(1 + (trial % 4 == 3))]
            acknowledged = kill_and_listen(talkers, rng)
            n_told += len(acknowledged)
            for problem in problems_of(log, acknowledged):
                n_problems += 1
                print(f"kill {trial}: {problem}")  # noqa: T201
    print(f"{arguments.kills} kills, {n_told:,} acknowledged events, {n_problems} problems")  # noqa: T201
    return 1 if n_problems or not n_told else 0


if __name__ == "__main__":
    sys.exit(main())
