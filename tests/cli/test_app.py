"""What holds for every command."""

from __future__ import annotations

import os
import re
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


def test_what_the_console_cannot_show_is_escaped():
    """Issue 29: consoles of Windows lack characters of our tables."""
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "marginshot", "paper"]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"\\xb1" in done.stdout  # ±


def test_the_help_has_two_groups_of_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    panels = re.split(r"─ (?=Options|Label|Compare)", printed)
    names = [re.findall(r"^│ ([a-z]+) ", panel, flags=re.MULTILINE) for panel in panels[2:]]
    assert names == [
        ["studio", "label", "apply", "cache"],
        ["evaluate", "methods", "regimes", "tune", "paper", "figure", "train", "extract", "reproduce"],
    ]
