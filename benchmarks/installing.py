"""From nothing to labelled pictures: size of an installation, and times on empty caches.

    python benchmarks/installing.py [--before COMMIT] [--all]

Installs the package into empty environments by pip, and prints a Markdown table of their sizes, byte code included, and
of the seconds that resolving, fetching, unpacking and compiling took; pip itself is not in them. In the largest one
it then runs the first commands of a new user, with connections refused: a folder of photographs and a table of texts
labelled, a table of results, the page of the studio. ``--before`` does all this for an older commit first, with the
extras that did the same there: PyTorch among them, so that only its core is installed without ``--all``.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("MARGINSHOT_DATA", ROOT.parent / "shared" / "data"))

EXTRAS = ("", "studio,pictures", "studio,pictures,texts", "evaluate,figures")
EXTRAS_BEFORE = ("", "studio,vision", "studio,vision,text")

# Connections other than to this machine are refused.
GUARD = """
import socket, sys
usual = socket.socket.connect
def connect(self, address):
    if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1"):
        raise AssertionError(f"a connection to {address} was opened")
    return usual(self, address)
socket.socket.connect = connect
from marginshot.cli.app import main
main(sys.argv[1:])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="A commit to compare with.")
    parser.add_argument("--all", action="store_true", help="Install PyTorch for the older commit too.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("| tree | extras | MB | of it byte code, MB | seconds to install |\n|---|---|---|---|---|")
        if asked.before:
            tree = unpack(asked.before, folder / "before")
            wanted = EXTRAS_BEFORE if asked.all else EXTRAS_BEFORE[:1]
            python = [install(tree, extras, folder, "before") for extras in wanted][-1]
            if asked.all:
                first_commands(python, folder / "first-before", "before")
        pythons = [install(ROOT, extras, folder, "now") for extras in EXTRAS]
        first_commands(pythons[2], folder / "first-now", "now", pythons[3])


def unpack(commit: str, folder: Path) -> Path:
    """The tree of a commit."""
    folder.mkdir()
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", commit], check=True, stdout=subprocess.PIPE).stdout
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
    return folder


def install(tree: Path, extras: str, folder: Path, name: str) -> Path:
    """Python of a new environment with the package; prints a row about it."""
    environment = folder / f"{name}-{extras.replace(',', '-') or 'core'}"
    venv.create(environment, symlinks=True, with_pip=False)
    python = environment / "bin" / "python"
    began = time.perf_counter()
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        f"{tree}[{extras}]" if extras else str(tree),
    ]
    subprocess.run(pip, check=True)
    seconds = time.perf_counter() - began
    size = sum(path.lstat().st_size for path in environment.rglob("*") if not path.is_dir())
    code = sum(path.stat().st_size for path in environment.rglob("*.pyc"))
    print(f"| {name} | {extras or '(none)'} | {size / 1e6:.0f} | {code / 1e6:.0f} | {seconds:.0f} |", flush=True)
    return python


def first_commands(python: Path, folder: Path, name: str, researcher: Path | None = None) -> None:
    """The first commands of a new user, and of a ``researcher``, each once; prints their seconds."""
    folder.mkdir()
    with tarfile.open(SHARED / "photos" / "photos.tar") as archive:
        archive.extractall(folder / "all", filter="data")
    for place in sorted((folder / "all").iterdir()):
        for number, picture in enumerate(sorted(place.iterdir())):
            target = folder / "examples" / place.name if number < 5 else folder / "photos"
            target.mkdir(parents=True, exist_ok=True)
            picture.rename(target / picture.name)
    tickets = str(ROOT / "examples" / "tickets.csv")
    print(f"\nFirst commands, {name}; seconds from the command to its end, all caches empty:\n")
    label = ["label", "photos", "--examples", "examples", "--out", "labelled"]
    timed(python, folder, f"{len(list((folder / 'photos').iterdir()))} photographs labelled", label)
    table = ["label", tickets, "--text", "body", "--label", "topic", "--out", "done.csv"]
    timed(python, folder, "60 tickets labelled", table)
    timed(researcher or python, folder, "the first table", ["evaluate", "digits", "--shot", "1", "--tasks", "100"])
    page(python, folder)
    print(flush=True)


def environment_in(folder: Path) -> dict[str, str]:
    """Environment with caches and sessions of its own."""
    own = {"MARGINSHOT_CACHE": "cache", "MARGINSHOT_SESSIONS": "sessions", "NUMBA_CACHE_DIR": "numba"}
    return os.environ | {key: str(folder / value) for key, value in own.items()}


def timed(python: Path, folder: Path, what: str, arguments: Sequence[str]) -> None:
    began, used = time.perf_counter(), processor_seconds()
    command = [str(python), "-c", GUARD, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment_in(folder), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(arguments)}:\n{done.stderr}")
    used = processor_seconds() - used
    print(f"- {what}: {time.perf_counter() - began:.1f} s, of the processor {used:.1f} s", flush=True)


def processor_seconds() -> float:
    """Of all processes that have ended: other work on the machine does not count."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def page(python: Path, folder: Path) -> None:
    """Seconds until the studio says its address."""
    began, used = time.perf_counter(), processor_seconds()
    command = [str(python), "-c", GUARD, "studio", "photos", "--no-browser", "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, env=environment_in(folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline()
        seconds = time.perf_counter() - began
        process.terminate()
        process.wait()
        used = processor_seconds() - used
        print(f"- the studio's page: {seconds:.1f} s, of the processor at most {used:.1f} s", flush=True)
        if not address.startswith("http"):
            sys.exit("The studio did not start.")


if __name__ == "__main__":
    main()
