"""The command line as a user runs it, inside this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from marginshot.cli.app import main


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def cli(capsys, tmp_path, monkeypatch) -> Callable[..., Outcome]:
    """Run ``marginshot ARGUMENTS`` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as leaving:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(int(leaving.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def fails(cli) -> Callable[..., str]:
    """Run a command that must fail on the user's account: code 2, one line, no file left behind; return the line."""

    def run(*arguments: object) -> str:
        from pathlib import Path

        before = sorted((path, path.stat().st_mtime_ns) for path in Path().rglob("*"))
        outcome = cli(*arguments)
        assert outcome.code == 2
        assert outcome.out == ""
        assert outcome.err.startswith("Error: ")
        assert outcome.err.count("\n") == 1
        assert sorted((path, path.stat().st_mtime_ns) for path in Path().rglob("*")) == before
        return outcome.err

    return run
