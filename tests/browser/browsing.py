"""What the browser tests stand on: a studio in a process of its own, and a page in a person's words."""

import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass

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

    process: subprocess.Popen
    address: str

    def kill(self):
        """End it as a power cut would: it gets no chance to write."""
        self.process.kill()
        self.process.wait()


@contextmanager
def served(folder, source, *options):
    """Run `marginshot studio`, with its log and cache in ``folder``."""
    settings = {"MARGINSHOT_SESSIONS": str(folder / "sessions"), "MARGINSHOT_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "marginshot", "studio", str(source), "--no-browser", "--port", "0", *options]
    with subprocess.Popen(
        command, env=os.environ | settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    ) as process:
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:"), process.stderr.read()
            yield Studio(process, address)
        finally:
            process.kill()


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
