"""Every result of the pages: the command that prints it, what it reads, where it stands, and how long it takes.

    make results                              # measures what is older than its code, and goes on where it stopped
    make results ONLY="folders calibration"   # these only
    python benchmarks/results.py --list       # minutes on two cores, and what is up to date

A command prints Markdown. It is stored with its origin in docs/results/data/NAME.json, and written into its page
between the lines ``<!-- results: NAME -->`` and ``<!-- end of results -->``. A result is up to date while command,
inputs and code are those it was measured with. Comments and docstrings do not count as code.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import marginshot
from marginshot._lib.files import atomic_path

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "results"
DATA = "../shared/data/features"  # as commands are shown, wherever the features are
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
ROOMS = ("batch", "classifier", "data", "evaluation", "methods", "model", "solvers")
LABELLING = ("labelling", "networks")
#: What a block begins with before its result is first measured.
NOT_YET = "*Not measured by `make results` yet.*"

_BLOCK = re.compile(r"<!-- results: (\S+) -->\n(.*?)<!-- end of results -->", re.DOTALL)


@dataclass(frozen=True)
class Result:
    """A command that prints Markdown; in its words, {data} is the folder of features.

    Parameters
    ----------
    name, page : str
        The page is a file of docs/results.
    minutes : float
        Time it takes on two cores.
    command : tuple of str
    reads : tuple of str
        Files that the command reads and does not name.
    """

    name: str
    page: str
    minutes: float
    command: tuple[str, ...]
    reads: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The command as a reader types it."""
        return shlex.join(word.replace("{data}", DATA) for word in self.command)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Files of data, which may follow an equals sign."""
        words = (word.rpartition("=")[2] for word in (*self.command, *self.reads))
        return tuple(dict.fromkeys(word for word in words if word.endswith((".npz", ".tar", ".csv", ".json"))))

    @property
    def code(self) -> tuple[str, ...]:
        """The script, and the rooms of the package that it goes through."""
        rooms = (*ROOMS, *(LABELLING if self.page == "labelling.md" or self.name in ("session", "people") else ()))
        return (*(f"src/marginshot/{room}" for room in rooms), *(word for word in self.command if word.endswith(".py")))

    @property
    def stored(self) -> Path:
        """File of the measured result."""
        return PAGES / "data" / f"{self.name}.json"


def features(*names: str) -> tuple[str, ...]:
    return tuple(f"{{data}}/{name}.npz" for name in names)


def benchmark(script: str, *words: str) -> tuple[str, ...]:
    return ("python", f"benchmarks/{script}.py", *words)


LITE0, RESNET = features("efficientnet_lite0-test"), features("small_resnet-test")
CUB, CLINC = features("cub_lite0-val"), features("clinc_minilm-val")
OTHERS = ("esc50_yamnet-val", "clinc_minilm-val", "cub_lite0-val", "efficientnet_lite0-test", "small_resnet-test")
PHOTOS, BIRDS, INTENTS = "{data}/../photos/photos.tar", "{data}/../photos/birds.tar", "{data}/../texts/clinc150.csv"
COMPARED = "fs-tmmc-auto,fs-tmmc-balanced,fs-tmmc,fs-mmc,laplacianshot,laplacianshot-easyfsl,alpha-tim,pt-map,bpa"


def held_out(name: str, bank: tuple[str, ...], *words: str) -> Result:
    command = ("marginshot", "evaluate", *bank, "--shot", "1", "--shot", "5", "--tasks", "1000", "--methods", COMPARED)
    return Result(f"heldout-{name}", "heldout.md", 2, (*command, *words, "--format", "markdown"))


def rounds(part: str, minutes: float, draws: int, *reads: str) -> Result:
    command = benchmark("labelling_rounds", "--only", part, "--draws", str(draws))
    return Result(f"labelling-{part}", "labelling.md", minutes, command, reads)


def photographs(name: str, minutes: float, *words: str) -> Result:
    return Result(f"labelling-{name}", "labelling.md", minutes, benchmark("labelling", *words), (PHOTOS,))


RESULTS = (
    held_out("lite0", LITE0),
    held_out("resnet", RESNET),
    held_out("lite0-unbalanced", LITE0, "--dirichlet", "2"),
    held_out("resnet-unbalanced", RESNET, "--dirichlet", "2"),
    Result(
        "folders",
        "folders.md",
        5,
        benchmark("folders", "--data", "{data}", "--before", "benchmarks/folders-before.json"),
        features(
            *("efficientnet_lite0-val", "small_resnet-val", "cub_lite0-val", "clinc_minilm-val", "trash_lite0-val"),
            *("esc50_yamnet-val", "trec_minilm-val", "birds_night-val", "birds_burst-val"),
        ),
    ),
    Result(
        "people",
        "people.md",
        25,
        benchmark("people", "--data", "{data}/..", "--draws", "2", "--rounds", "12"),
        (
            *features("efficientnet_lite0-val", "cub_lite0-val", "clinc_minilm-val", "trash_lite0-val"),
            *features("esc50_yamnet-val", "birds_night-val", "birds_burst-val"),
            "{data}/../texts/trec.csv",
        ),
    ),
    Result(
        "calibration",
        "calibration.md",
        25,
        benchmark("calibration", *LITE0, *RESNET, *CUB, *CLINC, "--tasks", "100", "--whole", "5"),
    ),
    Result("ablation", "ablation.md", 15, benchmark("ablation", *LITE0, *RESNET, "digits")),
    Result("departures", "departures.md", 3, benchmark("departures", *LITE0, *RESNET, "--tasks", "300")),
    photographs("accuracy", 10, "--only", "balanced,unbalanced", "--draws", "50"),
    photographs("time", 10, "--only", "time,folder"),
    rounds("suggest", 15, 10, PHOTOS, BIRDS, *CLINC, INTENTS),
    rounds("worklist", 20, 8, PHOTOS, BIRDS, *CLINC, INTENTS),
    photographs("foreign", 3, "--only", "foreign", "--draws", "30"),
    rounds("none", 5, 20, PHOTOS, BIRDS, *CLINC, INTENTS),
    rounds("names", 5, 20, *CLINC, INTENTS),
    rounds("corrections", 5, 12, *CLINC, INTENTS),
    Result(
        "session",
        "speed.md",
        6,
        ("env", "OMP_NUM_THREADS=1", *benchmark("session")),
        features("clinc_minilm-val", "efficientnet_lite0-val"),
    ),
    Result(
        "regimes",
        "regimes.md",
        40,
        benchmark(
            *("regimes", *CUB, *CLINC, *LITE0, *RESNET, "digits", "--way", "5", "--way", "10", "--shot", "1"),
            *("--shot", "5", "--interval", "2", "--max-tasks", "100", "--budget", "30"),
            *("--of", "fs-tmmc-auto,fs-tmmc-balanced", "--out", "runs/regimes", "--force"),
            *("--plot", "docs/images/regimes.png"),
        ),
    ),
    Result(
        "gaps",
        "miniimagenet.md",
        5,
        benchmark(
            "gaps",
            *("--measure", "mini=benchmarks/features/mini_resnet18-test.npz"),
            *("--measure", "mini-cub=benchmarks/features/mini_resnet18-cub-test.npz"),
            *(word for path in features(*OTHERS, "trash_lite0-val") for word in ("--measure", f"other={path}")),
        ),
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [result.name for result in RESULTS]
    parser.add_argument("--only", nargs="+", default=names, choices=names, metavar="NAME")
    parser.add_argument("--data", type=Path, default=ROOT / DATA, help=f"folder of features (default: {DATA})")
    parser.add_argument("--list", action="store_true", help="print what there is, and measure nothing")
    parser.add_argument("--force", action="store_true", help="measure what is up to date as well")
    options = parser.parse_args()
    data = os.path.relpath(options.data, ROOT)
    chosen = [result for result in RESULTS if result.name in options.only]
    if options.list:
        for result in chosen:
            print(f"{result.name:26}{result.minutes:4g} min   {result.page:18} {state(result, data)}")
        return 0
    try:
        failed = [result.name for result in chosen if not bring_up_to_date(result, data, force=options.force)]
    except KeyboardInterrupt:
        print("Stopped. What was measured is stored; the same command goes on.")
        return 130
    if failed:
        print(f"Failed: {', '.join(failed)}. What is printed above says why.")
    return bool(failed)


def bring_up_to_date(result: Result, data: str, *, force: bool) -> bool:
    """Measure a result unless it is up to date or its inputs are missing; whether its command succeeded."""
    now = state(result, data)
    if now.startswith("no "):
        print(f"{result.name}: left out, {now}. --data DIR says where the features are.")
        return True
    if force or now != "up to date":
        print(f"{result.name}: {now}, about {result.minutes:g} minutes: {result.shown}", flush=True)
        try:
            found = measure(result, data)
        except subprocess.CalledProcessError as error:
            print(f"{result.name}: ended with code {error.returncode}, nothing is stored.")
            return False
        result.stored.parent.mkdir(exist_ok=True)
        with atomic_path(result.stored) as path:
            path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    else:
        print(f"{result.name}: up to date")
    write_into_page(result)
    return True


def state(result: Result, data: str) -> str:
    """What there is of a result: "no FILE", "not measured", "old: …" or "up to date"."""
    missing = [word for word in result.inputs if not place_of(word, data).exists()]
    if missing:
        return f"no {', '.join(word.replace('{data}', DATA) for word in missing)}"
    if not result.stored.exists():
        return "not measured"
    stored = json.loads(result.stored.read_text(encoding="utf-8"))
    changed = [name for name, value in origin(result, data).items() if stored[name] != value]
    return f"old: {', '.join(changed)} changed" if changed else "up to date"


def origin(result: Result, data: str) -> dict[str, Any]:
    """What the numbers depend on: command, and hashes of code and inputs."""
    return {
        "command": result.shown,
        "code": {path: hash_of_code(path) for path in result.code},
        "inputs": {word.replace("{data}", DATA): hash_of_file(place_of(word, data)) for word in result.inputs},
    }


def place_of(word: str, data: str) -> Path:
    return ROOT / word.replace("{data}", data)


@cache
def hash_of_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def hash_of_code(path: str) -> str:
    """SHA-256 of a script, or of all modules of a package."""
    modules = sorted((ROOT / path).rglob("*.py")) or [ROOT / path]
    hashes = [
        f"{module.relative_to(ROOT).as_posix()} {hash_of_module(module.read_text('utf-8'))}" for module in modules
    ]
    return hashlib.sha256("\n".join(hashes).encode()).hexdigest()


@cache
def hash_of_module(text: str) -> str:
    """SHA-256 of what Python runs, without comments and docstrings."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [part for part in node.body if not is_text(part)] or [ast.Pass()]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()


def is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def measure(result: Result, data: str) -> dict[str, Any]:
    """Run the command; its Markdown and where it comes from."""
    before, commit = origin(result, data), git("rev-parse", "HEAD")
    environment = dict(os.environ, MARGINSHOT_DATA=str(Path(data).parent), PYTHONUTF8="1")
    environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    words = [word.replace("{data}", data) for word in result.command]
    started = time.perf_counter()
    done = subprocess.run(
        words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, encoding="utf-8", check=True, stdin=subprocess.DEVNULL
    )
    seconds = round(time.perf_counter() - started)
    if before["code"] != {path: hash_of_code(path) for path in result.code}:
        before["code"] = {}  # changed meanwhile: never up to date
    return {
        "name": result.name,
        **before,
        "commit": commit,
        "dirty": bool(git("status", "--porcelain", "--", *result.code)),
        "versions": {
            "marginshot": marginshot.__version__,
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "date": date.today().isoformat(),
        "seconds": seconds,
        "markdown": done.stdout.strip().replace(data, DATA),
    }


def git(*words: str) -> str:
    return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def block_of(stored: dict[str, Any]) -> str:
    """What a page shows of a stored result: its command, its tables, and when they were measured."""
    about = f"{stored['commit'][:7]}{' and changes' * stored['dirty']}, {stored['date']}, {stored['machine']}"
    minutes = max(1, round(stored["seconds"] / 60))
    about += f", {minutes} minute{'s' * (minutes > 1)}"
    lines = textwrap.wrap(stored["command"], 110, break_long_words=False, break_on_hyphens=False)
    command = " \\\n      ".join(lines)
    return f"```console\n$ {command}\n```\n\n{stored['markdown']}\n\n*Measured at {about}.*"


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Name and content of each result on a page."""
    return ((match[1], match[2].strip()) for match in _BLOCK.finditer(page))


def write_into_page(result: Result) -> None:
    """Replace what stands between the lines of a result by what is stored."""
    page = PAGES / result.page
    text, block = page.read_text(encoding="utf-8"), block_of(json.loads(result.stored.read_text(encoding="utf-8")))
    if result.name not in dict(blocks(text)):
        raise ValueError(
            f"docs/results/{result.page} has no lines <!-- results: {result.name} --> … <!-- end of results -->."
        )
    new = f"<!-- results: {result.name} -->\n\n{block}\n\n<!-- end of results -->"
    text = _BLOCK.sub(lambda match: new if match[1] == result.name else match[0], text)
    with atomic_path(page) as path:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
