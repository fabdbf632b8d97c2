"""A real browser on a real `marginshot studio`, each in a process of its own.

Nothing here is imported from Playwright before a test asks for it: pytest loads this file also where it is missing, and
`browsing` then skips the modules.
"""

import os
import shutil

import numpy as np
import pytest

CHROMIUM = os.environ.get("MARGINSHOT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="session")
def chromium():
    if CHROMIUM is None:
        pytest.skip("needs Chromium: install it, or name it in MARGINSHOT_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def studio(tmp_path):
    """Start studios: ``with studio(source, *options) as running``; all of a test share log and cache."""
    from browsing import served

    return lambda source, *options: served(tmp_path, source, *options)


@pytest.fixture
def page(chromium):
    """Open pages: ``page(address)``; a test fails where one of its pages had an error."""
    from browsing import DESK, Page

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
    image = pytest.importorskip("PIL.Image", reason="pictures need the extra pictures")
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
