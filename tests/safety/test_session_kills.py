"""A session killed at some random moments; ``make crash`` kills it at 200."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a trial is a fork")


def test_a_killed_session_loses_nothing_it_acknowledged():
    command = [sys.executable, str(Path(__file__).with_name("session_kills.py")), "--kills", "12", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    kills, told, problems = re.fullmatch(
        r"(\d+) kills, ([\d,]+) acknowledged events, (\d+) problems", done.stdout.strip()
    ).groups()
    assert (kills, problems) == ("12", "0")
    assert int(told.replace(",", "")) > 12
