"""No import, encoder or command looks for a network that nobody asked for; crash.py sees to the longer commands."""

import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = """
for arguments in ("--help", "--version", "methods", "paper", "reproduce --list", "figure f.png", "cache"):
    assert crash._run(Path.cwd(), arguments.split()) == 0, arguments
"""

ENCODERS = """
from PIL import Image
from marginshot.labelling.items.encoders import PictureEncoder, TextEncoder
Image.new("RGB", (64, 64)).save("x.png")
for encoder, content in ((PictureEncoder(), Path("x.png")), (TextEncoder(), "a text")):
    encoder.identity
    encoder.load()
    assert encoder.encode([encoder.prepare(content)]).shape[0] == 1
"""


def test_nothing_connects_anywhere(tmp_path):
    for package in ("torch", "sentence_transformers"):
        pytest.importorskip(package, reason="needs all extras")
    script = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
import crash
tried = crash.close_network()
{COMMANDS}
{ENCODERS}
print(tried)
sys.exit(bool(tried))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_a_connection_would_be_noticed(tmp_path):
    folder = str(Path(__file__).parent)
    script = f"import sys; sys.path.insert(0, {folder!r}); import crash, socket; tried = crash.close_network()\n"
    script += "try: socket.create_connection(('192.0.2.1', 80))\nexcept OSError: sys.exit(len(tried))"
    assert subprocess.run([sys.executable, "-c", script], cwd=tmp_path).returncode == 1
