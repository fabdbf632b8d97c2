"""Commands killed at some of their file-system events; ``make crash`` kills at all of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a trial is a fork")


@pytest.mark.parametrize("half", [0, 1])  # so that two workers share the work
def test_killed_commands_go_on_and_leave_nothing_behind(tmp_path, half):
    for package in ("torch", "optuna"):
        pytest.importorskip(package, reason="needs all extras")
    # An odd distance, so that the events are of all kinds.
    command = [sys.executable, str(Path(__file__).with_name("crash.py")), "--every", "31", "--half", str(half)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert done.stdout.count(": 0 problems") == 6
