"""Ctrl-C during acts of a session in the main thread, as in a notebook (issue 31): what was acknowledged is kept."""

from __future__ import annotations

import json
import linecache
import os
import signal
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from marginshot.labelling import Session
from marginshot.labelling.session.events import EventLog

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of Unix")


class Interrupting:
    """A connection after whose statement of this beginning Ctrl-C is pressed, once."""

    def __init__(self, connection: sqlite3.Connection, statement: str) -> None:
        self._connection, self._statement = connection, statement

    def execute(self, text: str, *values: object) -> sqlite3.Cursor:
        found = self._connection.execute(text, *values)
        if text.startswith(self._statement):
            self._statement = "never again"
            signal.raise_signal(signal.SIGINT)
        return found

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT", "COMMIT"])
def test_later_acts_are_kept_and_others_can_write(tmp_path, statement):
    path = tmp_path / "log.sqlite"
    log = EventLog(path)
    log._connection = Interrupting(log._connection, statement)
    with pytest.raises(KeyboardInterrupt):
        log.add(lambda: ("add_class", {"classes": [["first", []]]}), id)
    later = [log.add(lambda: ("add_class", {"classes": [["later", []]]}), id).version for _ in range(20)]
    other = EventLog(path)
    assert [event.version for event in other.after(0)][-20:] == later
    other.add(lambda: ("add_class", {"classes": [["of another", []]]}), id)
    log.close()
    other.close()


_SCRIPT = """
import json, os, random, signal, sys, threading, time
import numpy as np
from marginshot.labelling import Session

X = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
journal = Session.from_embeddings(X, log=sys.argv[1])
said, stop = {}, threading.Event()

def press():
    while not stop.is_set():
        time.sleep(random.random() * 0.002)
        os.kill(os.getpid(), signal.SIGINT)

presses = 0
signal.signal(signal.SIGINT, signal.SIG_IGN)
thread = threading.Thread(target=press, daemon=True)
thread.start()
for row in range(300):
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        version = journal.label([row], f"class {row % 7}")
        said[row] = version
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        presses += 1
stop.set()
thread.join()
names = {known.id: known.name for known in journal.refresh().classes}
given = [names.get(code, "") for code in journal.state.given.tolist()]
print(json.dumps({"said": said, "presses": presses, "given": given, "keys": journal.keys_of(range(300))}))
"""


def test_acknowledged_acts_survive_interrupts_at_any_moment(tmp_path):
    path = tmp_path / "log.sqlite"
    done = subprocess.run([sys.executable, "-c", _SCRIPT, str(path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["presses"] > 20, "interrupts were pressed"
    log = EventLog(path)
    written = {event.version: event.payload for event in log.after(0)}
    log.close()
    for row, version in found["said"].items():
        name = f"class {int(row) % 7}"
        assert written[version]["labels"] == {name: [found["keys"][int(row)]]}
        assert found["given"][int(row)] == name
    assert len(found["keys"]) == 300


_FILES = ("journal.py", "events.py", "interrupts.py", "act.py", "items.py", "label.py", "undo.py", "changes.py")


def _interrupted_at(step, do):
    """Press Ctrl-C at the line of that number in our files while ``do`` runs; whether there was such a line."""
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        name = frame.f_code.co_filename.rpartition(os.sep)[2]
        # Python never interrupts between the body of a `with` of C and its end, where a tracer can.
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
        if name in _FILES and event == "line" and not line.startswith("with self._lock"):
            count += 1
            if count == step:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return trace if name in _FILES else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        do()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return count >= step


@pytest.mark.parametrize("act", ["label", "undo"])
def test_ctrl_c_at_any_line_of_an_act_leaves_a_session_that_works(tmp_path, act):
    """Undo bound its thread to a version; interrupted then, it left every later act of the thread refused."""
    step, path = 0, tmp_path / "log.sqlite"
    session = Session.from_embeddings(np.eye(6), log=path)
    session.label([0], "a")
    while True:
        step += 3
        there = _interrupted_at(step, session.undo if act == "undo" else lambda: session.label([1], "b"))
        later = [session.label([row], "later") for row in (2, 3)]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        with Session.from_embeddings(np.eye(6), log=path) as other:
            assert other.state.version == later[1] == session.state.version
            assert list(other.state.given) == list(session.state.given)
        if not there:
            break
    assert step > 30
    session.close()
