"""The studio from an act to its answers: time to be acknowledged, time to new answers, memory of the server.

    python benchmarks/studio.py [--items 5000,20000] [--acts 30] [--page] [--scroll 100000]

Prints a Markdown table. Items are embeddings of ten classes, mixed from those of real photographs (EfficientNet-lite0);
the server is the command in a process of its own. Every act labels one more item.

With ``--page`` a browser (Playwright and Chromium) does the acts: from a key press to new captions on screen, from the
command to items on screen when all is cached, and the longest time that scrolling through ``--scroll`` items blocks.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

SHARED = Path(os.environ.get("MARGINSHOT_DATA", Path(__file__).parents[2] / "shared" / "data"))
N_CLASSES = 10


@dataclass
class Studio:
    """The running command, and what its pages are told."""

    process: subprocess.Popen[str]
    address: str
    seconds: float
    cookie: str = ""
    place: str = ""
    told: queue.Queue[tuple[float, str, dict[str, int]]] = field(default_factory=queue.Queue)

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc

    def request(self, method: str, path: str, body: object = None) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.host)
        headers = {"Cookie": self.cookie}
        if body is not None:
            headers |= {"Origin": f"http://{self.host}", "X-Marginshot": "1", "Content-Type": "application/json"}
        connection.request(method, self.place + path, None if body is None else json.dumps(body), headers)
        return connection.getresponse()

    def sign_in(self) -> None:
        response = self.request("GET", "/?" + urlsplit(self.address).query)
        self.cookie = response.headers["Set-Cookie"].partition(";")[0]
        self.place = response.headers["Location"].rstrip("/")
        threading.Thread(target=self._listen, args=(self.request("GET", "/api/events"),), daemon=True).start()

    def _listen(self, stream: http.client.HTTPResponse) -> None:
        kind = ""
        for line in stream:
            if line.startswith(b"event: "):
                kind = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                self.told.put((time.perf_counter(), kind, json.loads(line[6:])))

    def act(self, **fields: object) -> tuple[float, float, float]:
        """Seconds until an act is acknowledged, until its answers are announced, and until they are here."""
        began = time.perf_counter()
        version = json.loads(self.request("POST", "/api/act", fields).read())["version"]
        acknowledged = time.perf_counter()
        while True:
            announced, kind, content = self.told.get(timeout=120)
            if kind == "error":
                raise RuntimeError(content)
            if kind == "answers" and content["version"] >= version:
                break
        self.request("GET", "/api/answers").read()
        return acknowledged - began, announced - began, time.perf_counter() - began

    @property
    def megabytes(self) -> float:
        """Largest memory of the process so far."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


@contextmanager
def studio(source: Path, folder: Path) -> Iterator[Studio]:
    """The command on a source, its session and cache in ``folder``."""
    words = [sys.executable, "-m", "marginshot", "studio", str(source), "--no-browser", "--port", "0"]
    own = {"MARGINSHOT_SESSIONS": str(folder / "sessions"), "MARGINSHOT_CACHE": str(folder / "cache")}
    began = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=os.environ | own) as process:
        try:
            assert process.stdout is not None
            found = Studio(process, process.stdout.readline().strip(), time.perf_counter() - began)
            yield found
        finally:
            process.terminate()


def mixed_rows(n_items: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Embeddings (n_items, 1280), each between two photographs of one of ten classes, and their classes (n_items,)."""
    with np.load(SHARED / "features" / "efficientnet_lite0-test.npz") as file:
        X, y = file["X"].astype(np.float32), file["y"]
    rng = np.random.default_rng(0)
    members = np.stack([rng.permutation(np.flatnonzero(y == label))[:60] for label in np.unique(y)[:N_CLASSES]])
    classes = rng.integers(N_CLASSES, size=n_items)
    first, second = (members[classes, rng.integers(60, size=n_items)] for _ in range(2))
    weight = rng.uniform(size=(n_items, 1)).astype(np.float32)
    return weight * X[first] + (1 - weight) * X[second], classes


def measure(n_items: int, n_acts: int) -> str:
    """One line of the table."""
    X, y = mixed_rows(n_items)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "rows.npz", X=X)
        with studio(folder / "rows.npz", folder) as page:
            page.sign_in()
            for label in range(N_CLASSES):
                page.act(action="label", rows=[int(np.flatnonzero(y == label)[0])], name=f"class {label}")
            rows = np.random.default_rng(1).permutation(n_items)[:n_acts].tolist()
            times = [page.act(action="label", rows=[row], name=f"class {y[row]}") for row in rows]
            memory = page.megabytes
            started = page.seconds
    cells = [f"{np.median(part):.3f} / {np.quantile(part, 0.95):.3f}" for part in zip(*times, strict=True)]
    return f"| {n_items:,} | {started:.1f} | {' | '.join(cells)} | {memory:,.0f} |"


# Milliseconds from a key press to the frame that shows the captions of its answers.
_ACT = """(key) => new Promise((resolve) => {
  const status = document.getElementById("status");
  const began = performance.now();
  const seen = new MutationObserver(() => {
    if (!/labels? changed/.test(status.textContent)) return;
    seen.disconnect();
    requestAnimationFrame(() => resolve(performance.now() - began));
  });
  seen.observe(status, { childList: true, subtree: true });
  document.getElementById("grid").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
})"""

# Milliseconds between frames, and of tasks that blocked the page, while it is scrolled slowly and then wildly.
_SCROLL = """async () => {
  const grid = document.getElementById("grid");
  const frames = [], blocked = [0];
  const watch = new PerformanceObserver((list) => list.getEntries().forEach((task) => blocked.push(task.duration)));
  watch.observe({ type: "longtask" });
  let last = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < 400; frame++) {
    grid.scrollTop += frame < 200 ? 60 : grid.scrollHeight / 250;
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - last);
    last = now;
  }
  await new Promise((resolve) => setTimeout(resolve, 200));
  return { frames, longest: Math.max(...blocked) };
}"""


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser, as the tests have it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser: Any, address: str) -> Any:
    """A page of the studio with items on screen."""
    tab = browser.new_page(viewport={"width": 1440, "height": 900})
    tab.goto(address)
    tab.locator("#grid .cell").first.wait_for()
    return tab


def label_by_key(tab: Any, y: NDArray[np.int64], n_acts: int) -> list[float]:
    """Seconds from key to captions of ``n_acts`` items; before them each class gets its first example."""
    firsts = [int(np.flatnonzero(y == label)[0]) for label in range(N_CLASSES)]
    for label, row in enumerate(firsts):
        tab.locator(f"#item-{row}").click()
        tab.keyboard.press("l")
        tab.keyboard.type(f"class {label}")
        tab.keyboard.press("Enter")
        tab.get_by_role("button", name=f"Label the selection class {label}").wait_for()
    others = [row for row in range(n_acts + max(firsts) + 1) if row not in firsts][:n_acts]
    seconds = []
    for row in others:
        tab.locator(f"#item-{row}").click()
        seconds.append(tab.evaluate(_ACT, str((y[row] + 1) % 10 or 9)) / 1000)
    return seconds


def measure_page(browser: Any, n_items: int, n_acts: int) -> str:
    """One line: from key to captions; from the command to items on screen when it is started again."""
    X, y = mixed_rows(n_items)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "rows.npz", X=X)
        with studio(folder / "rows.npz", folder) as server:
            seconds = label_by_key(opened(browser, server.address), y, n_acts)
        began = time.perf_counter()
        with studio(folder / "rows.npz", folder) as server:
            opened(browser, server.address)
            usable = time.perf_counter() - began
            started = server.seconds
    middle, late = np.quantile(seconds, (0.5, 0.95))
    return f"| {n_items:,} | {middle:.3f} / {late:.3f} | {started:.1f} | {usable - started:.1f} |"


def measure_scrolling(browser: Any, n_items: int) -> str:
    """How long the page was blocked at most while it was scrolled."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "rows.npz", X=np.random.default_rng(0).normal(size=(n_items, 8)).astype(np.float32))
        with studio(folder / "rows.npz", folder) as server:
            found = opened(browser, server.address).evaluate(_SCROLL)
    middle, late = np.quantile(found["frames"], (0.5, 0.95))
    return (
        f"Scrolling {n_items:,} items: {middle:.0f} ms a frame, 95 % within {late:.0f}; the page was blocked for "
        f"{found['longest']:.0f} ms at most (0: never longer than 50)."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", default="5000,20000")
    parser.add_argument("--acts", type=int, default=30)
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--scroll", type=int, default=100_000)
    given = parser.parse_args()
    sizes = [int(n_items) for n_items in given.items.split(",")]
    if given.page:
        with chromium() as browser:
            print("| items | key to captions, median / 95th percentile | start again | then to items on screen |")
            print("|---:|---:|---:|---:|")
            for n_items in sizes:
                print(measure_page(browser, n_items, given.acts), flush=True)
            print("\n" + measure_scrolling(browser, given.scroll))
        return
    print("Seconds, median / 95th percentile; ten classes, 1280 features.\n")
    print("| items | start | acknowledged | answers announced | answers here | server, MB |")
    print("|---:|---:|---:|---:|---:|---:|")
    for n_items in sizes:
        print(measure(n_items, given.acts), flush=True)


if __name__ == "__main__":
    main()
