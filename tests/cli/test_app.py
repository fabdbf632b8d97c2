"""What holds for every command."""

from __future__ import annotations

import subprocess
import sys

import pytest

import marginshot
from marginshot.cli.app import app, main

COMMANDS = sorted(command.name for command in app.registered_commands)


def test_the_installed_program_fails_in_one_line(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "marginshot", "evaluate", "nowhere.npz"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr == ("Error: No features at 'nowhere.npz'. Give a file, a folder of .npy files, or 'digits'.\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example(cli, name):
    outcome = cli(name, "--help")
    assert outcome.code == 0
    assert f"Example: marginshot {name}" in " ".join(outcome.out.split())


def test_version(cli):
    assert cli("--version").out == f"marginshot {marginshot.__version__}\n"


def test_debug_shows_the_traceback():
    with pytest.raises(FileNotFoundError, match=r"nowhere\.npz"):
        main(["--debug", "evaluate", "nowhere.npz"])


def test_unknown_command(fails):
    assert "No such command 'evalute'" in fails("evalute", "digits")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", "digits", "--json", ""), "Invalid value for --json: it is empty. Give a value, or leave it out."),
        (("evaluate", "digits", "--json="), "Invalid value for --json: it is empty"),
        (("evaluate", "digits", "--methods=fs="), "Unknown method 'fs='"),
        (("label", "", "--out", "x"), "Invalid value for an argument: it is empty"),
        (("evaluate", "digits", "-j", "-7"), "workers are at least 1, or -1 for all cores; got -7"),
    ],
)
def test_values_that_say_nothing_are_refused(fails, arguments, message):
    assert message in fails(*arguments)


def test_our_own_faults_are_not_hidden(monkeypatch):
    def broken(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("marginshot.cli.evaluate.parse_tasks", broken)
    with pytest.raises(KeyError, match="a bug"):
        main(["evaluate", "digits"])
