"""What the browser tests stand on: a studio in a process of its own, and a page in a person's words."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs extra `studio`")
pytest.importorskip("playwright.sync_api", reason="needs Playwright for Python")

from playwright.sync_api import expect

PATIENCE = 60_000  # milliseconds: machines that run many tests at once are slow

expect.set_options(timeout=PATIENCE)

DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


@dataclass
class Studio:
    """A server's process and the address that it printed; the address lets one browser in."""

    number: int
    address: str

    def kill(self):
        """End it as a power cut would: it gets no chance to write."""
        with suppress(ProcessLookupError):
            while True:
                os.kill(self.number, signal.SIGKILL)
                time.sleep(0.01)


@cache
def forking():
    """The process that forks studios; it ends with the tests."""
    command = [sys.executable, str(Path(__file__).with_name("forking.py"))]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextmanager
def served(folder, source, *options):
    """Run `marginshot studio`, with its log and cache in ``folder``."""
    settings = {"MARGINSHOT_SESSIONS": str(folder / "sessions"), "MARGINSHOT_CACHE": str(folder / "cache")}
    with tempfile.TemporaryDirectory() as printed:
        output, errors = Path(printed, "output"), Path(printed, "errors")
        asked = {
            "arguments": ["studio", str(source), "--no-browser", "--port", "0", *options],
            "environment": {**os.environ, **settings},
            "folder": str(folder),
            "output": str(output),
            "errors": str(errors),
        }
        forking().stdin.write(json.dumps(asked) + "\n")
        forking().stdin.flush()
        studio = Studio(int(forking().stdout.readline()), "")
        try:
            studio.address = first_line(studio, output)
            assert studio.address.startswith("http://127.0.0.1:"), errors.read_text()
            yield studio
        finally:
            studio.kill()


def first_line(studio, output):
    """What the process printed first; an empty text where it ended before."""
    while not (output.is_file() and "\n" in output.read_text()):
        try:
            os.kill(studio.number, 0)
        except ProcessLookupError:
            return ""
        time.sleep(0.02)
    return output.read_text().partition("\n")[0]


class Page:
    """What a person sees and does, in their words."""

    def __init__(self, page):
        self.page = page
        self.faults = []
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda message: self.faults.append(message.text) if message.type == "error" else None)

    def __getattr__(self, name):
        return getattr(self.page, name)

    def open(self, address):
        self.page.goto(address)
        self.item(0).wait_for()
        return self

    def item(self, place):
        """The cell at a place of the view; the first lines are always in the page."""
        return self.page.locator("#grid .cell:not([hidden])").nth(place)

    def item_called(self, name):
        return self.page.get_by_role("gridcell", name=name).first

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    def type(self, text):
        self.page.keyboard.type(text)

    def label_as(self, name):
        """By keyboard: what is selected gets a class by its name."""
        self.press("l")
        self.type(name)
        self.press("Enter")
        expect(self.page.locator("#status")).to_contain_text(re.compile(f"Labelled .*“{re.escape(name)}”"))

    def agree(self):
        """Answer the question that is asked about many items, where it is asked."""
        if self.page.locator("dialog[open]").count():
            self.press("Enter")

    def says(self, words):
        expect(self.page.locator("#status")).to_contain_text(words)

    def show(self, view):
        """A way to look, or a step."""
        steps = self.page.locator("#steps").get_by_role("button", name=view)
        self.page.get_by_role("tab", name=view).or_(steps).click()

    def counts(self):
        """Items of each class, as the left part tells them."""
        rows = self.page.locator("#class-list .look").evaluate_all(
            "rows => rows.map((row) => ['.name', '.number'].map((part) => row.querySelector(part)?.textContent ?? '0'))"
        )
        return {name: int(number.replace(",", "")) for name, number in rows}

    def wait_for_counts(self, wanted):
        """Until ``wanted(counts)`` is true."""
        end = time.monotonic() + PATIENCE / 1000
        while not wanted(self.counts()):
            assert time.monotonic() < end, self.counts()
            self.page.wait_for_timeout(50)
        return self.counts()


def embeddings(path, n_items, n_classes=5):
    """Write `.npz` of ``n_items`` rows; row r belongs to class r % n_classes."""
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(n_classes, 16))
    X = centres[np.arange(n_items) % n_classes] + rng.normal(size=(n_items, 16))
    np.savez(path, X=X.astype(np.float32))
    return path
