from __future__ import annotations

import io
import sys
import time

from marginshot.cli import _output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch):
    """Not a fixture: pytest gives every test its own stderr after these."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    return sys.stderr


def test_a_log_gets_a_line_every_few_seconds(monkeypatch, capsys):
    monkeypatch.setattr(_output, "LINE_SECONDS", 0.05)
    with _output.phases("items") as on_progress:
        on_progress("loading the encoder", 0, 0)
        time.sleep(0.2)
        on_progress("encoding", 640, 5000)
        time.sleep(0.2)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Loading the encoder (0 s)"
    assert lines[-1] == "Encoding 640 of 5,000"
    assert set(lines) == {lines[0], lines[-1]}


def test_a_short_run_leaves_no_line(capsys):
    with _output.phases("items") as on_progress:
        on_progress("encoding", 1, 2)
    assert capsys.readouterr().err == ""


def test_the_bar_names_the_phase_and_never_asks_how_many(monkeypatch):
    terminal = open_terminal(monkeypatch)
    with _output.phases("items") as on_progress:
        on_progress("loading the encoder", 0, 0)
        time.sleep(0.2)
        on_progress("encoding", 640, 5000)
        time.sleep(0.2)
    screen = terminal.getvalue()
    assert "Loading the encoder" in screen
    assert "Encoding" in screen
    assert "640 of 5,000" in screen
    assert "?" not in screen.replace("\x1b[?25", "")


def test_a_log_gets_a_line_now_and_then(monkeypatch, capsys):
    clock = iter([0.0, 1.0, 29.0, 31.0, 40.0, 62.0])
    monkeypatch.setattr(_output.time, "monotonic", lambda: next(clock))
    with _output.progress_bar("tasks") as on_progress:
        for done in (0, 10, 1000, 1010):
            on_progress(done, 5000)
        on_progress(2000, 5000, "loss 0.5")
    assert capsys.readouterr().err == "Tasks 1,000 of 5,000, 0:00:08 left\nTasks 2,000 of 5,000, loss 0.5\n"


def test_other_bars_never_ask_how_many(monkeypatch):
    terminal = open_terminal(monkeypatch)
    with _output.progress_bar("tasks") as on_progress:
        time.sleep(0.2)
        on_progress(3, 10)
        time.sleep(0.2)
    assert "3 of 10" in terminal.getvalue()
    assert "?" not in terminal.getvalue().replace("\x1b[?25", "")
