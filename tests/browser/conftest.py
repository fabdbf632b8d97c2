"""A real browser on a real `marginshot studio`, each in a process of its own."""

import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs extra `studio`")
sync_api = pytest.importorskip("playwright.sync_api", reason="needs Playwright for Python")

CHROMIUM = os.environ.get("MARGINSHOT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE = 60_000  # milliseconds: machines that run many tests at once are slow

DESK = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="session")
def chromium():
    if CHROMIUM is None:
        pytest.skip("needs Chromium: install it, or name it in MARGINSHOT_CHROMIUM")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


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


@pytest.fixture
def studio(tmp_path):
    """Start studios: ``with studio(source, *options) as running``; all of a test share log and cache."""
    return lambda source, *options: served(tmp_path, source, *options)


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
        self.page.wait_for_function("document.querySelector('#grid .cell') || !document.querySelector('#empty').hidden")
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
        self.says(name)

    def says(self, words):
        sync_api.expect(self.page.locator("#status")).to_contain_text(words, timeout=PATIENCE)

    def show(self, view):
        self.page.get_by_role("tab", name=view).click()

    def counts(self):
        """Items of each class, as the left part tells them."""
        names = self.page.locator("#class-list .look .name").all_text_contents()
        numbers = self.page.locator("#class-list .look .number").all_text_contents()
        return {name: int(number.replace(",", "")) for name, number in zip(names, numbers, strict=True)}

    def wait_for_counts(self, wanted):
        """Until ``wanted(counts)`` is true."""
        end = time.monotonic() + PATIENCE / 1000
        while not wanted(self.counts()):
            assert time.monotonic() < end, self.counts()
            self.page.wait_for_timeout(50)
        return self.counts()


@pytest.fixture
def page(chromium):
    """Open pages: ``page(address)``; a test fails where one of its pages had an error."""
    opened, contexts = [], []

    def open_page(address, *, context=None, **settings):
        if context is None:
            context = chromium.new_context(**{"viewport": DESK, **settings})
            contexts.append(context)
        opened.append(Page(context.new_page()))
        return opened[-1].open(address)

    yield open_page
    faults = [fault for each in opened for fault in each.faults]
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """200 pictures of the digits 0 to 3, and {name: digit}."""
    image = pytest.importorskip("PIL.Image", reason="pictures need the extra vision")
    datasets = pytest.importorskip("sklearn.datasets")
    images, targets = datasets.load_digits(n_class=4, return_X_y=True)
    folder = tmp_path_factory.mktemp("digits")
    truth = {}
    for number, (values, target) in enumerate(zip(images[:200], targets[:200], strict=True)):
        name = f"{number:03d}.png"
        ink = (255 - 15.9 * values.reshape(8, 8)).astype(np.uint8)
        image.fromarray(ink).resize((48, 48), image.Resampling.BICUBIC).save(folder / name)
        truth[name] = int(target)
    return folder, truth


@pytest.fixture
def own_digits(digits, tmp_path):
    """A copy of the pictures for one test, which may move them."""
    folder, truth = digits
    return shutil.copytree(folder, tmp_path / "digits"), truth


def embeddings(path, n_items, n_classes=5):
    """Write `.npz` of ``n_items`` rows; row r belongs to class r % n_classes."""
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(n_classes, 16))
    X = centres[np.arange(n_items) % n_classes] + rng.normal(size=(n_items, 16))
    np.savez(path, X=X.astype(np.float32))
    return path
