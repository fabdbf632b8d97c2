"""No command, and no import, looks for a network that nobody asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
reached = []

def hook(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        address = arguments[1] if event in ("socket.connect", "socket.sendto") else arguments[0]
        if not isinstance(address, str | bytes) or event.startswith("socket.get"):  # a path is a socket of this machine
            reached.append((event, address))
            raise OSError(f"the network is closed: {event} {address}")

sys.addaudithook(hook)

import crash
from pathlib import Path

{body}

print(reached)
sys.exit(bool(reached))
"""

COMMANDS = """
import tempfile
crash.use_small_encoders()
for arguments in ("--help", "--version", "methods", "paper", "reproduce --list", "figure f.png", "cache"):
    with tempfile.TemporaryDirectory() as scratch:
        code = crash._run(Path(scratch), arguments.split())
        assert code == 0, (arguments, code)
for name, scenario in crash.SCENARIOS.items():
    with tempfile.TemporaryDirectory() as scratch:
        scenario.prepare(Path(scratch))
        code = crash._run(Path(scratch), scenario.command)
        assert code == 0, (name, code)
"""

ENCODERS = """
import numpy as np
from PIL import Image
from marginshot.labelling.encoders import PictureEncoder, TextEncoder
Image.new("RGB", (64, 64)).save("x.png")
for encoder, content in ((PictureEncoder(), Path("x.png")), (TextEncoder(), "a text")):
    encoder.identity
    encoder.load()
    assert encoder.encode([encoder.prepare(content)]).shape[0] == 1
"""


@pytest.mark.parametrize("body", [COMMANDS, ENCODERS], ids=["commands", "encoders"])
def test_nothing_connects_anywhere(tmp_path, body):
    for package in ("torch", "optuna", "sentence_transformers"):
        pytest.importorskip(package, reason="needs all extras")
    script = SCRIPT.replace("{body}", body)
    command = [sys.executable, "-c", script, str(Path(__file__).parent)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
