"""Kills commands at their file-system events, repeats them, and compares what there is then with an unharmed run.

The network is closed meanwhile: nobody asked for it.

    python tests/safety/crash.py [--every N] [--half 0|1] [SCENARIO ...]

A trial is a fork of this process, which has run each command once before and so has all its libraries warm. It holds
every pool of threads to one thread, because a fork takes no other along.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402

from marginshot.cli.app import main as marginshot  # noqa: E402

KILLED = 137

_CHANGES = frozenset(
    {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"}
)


@dataclass(frozen=True)
class Scenario:
    """A command, what it works on, and which of its outputs are the same in every run.

    Parameters
    ----------
    command : sequence of str
    prepare : callable
        Fills an empty folder, in which the command then runs.
    same : sequence of str
        Suffixes of the files to be compared byte by byte; of the others only that they are there.
    """

    command: tuple[str, ...]
    prepare: Callable[[Path], None]
    same: tuple[str, ...] = (".csv", ".toml", ".png", ".npy")


def _pictures(folder: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    for place, colour in enumerate([(200, 40, 40), (40, 40, 200)]):
        for number in range(5):
            pixels = np.clip(np.array(colour) + rng.normal(0, 15, (8, 8, 3)), 0, 255).astype(np.uint8)
            where = folder / ("examples/" + "ab"[place] if number < 2 else "photos")
            where.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(where / f"{place}{number}.png")


def _corrected(folder: Path) -> None:
    """Pictures that were labelled, and the table of the labels, in which one is corrected."""
    _pictures(folder)
    _run(folder, _LABEL)
    table = folder / "out" / "labels.csv"
    rows = table.read_text().splitlines()
    cells = rows[1].split(",")
    cells[1] = "b" if cells[1] == "a" else "a"
    table.write_text("\n".join([rows[0], ",".join(cells), *rows[2:]]) + "\n")


def _with_model(folder: Path) -> None:
    _pictures(folder)
    made = ("label", "photos", "--examples", "examples", "--out", "made", "--save", "model", "--no-gallery")
    _run(folder, made)
    shutil.rmtree(folder / "made")


def _classes(folder: Path) -> None:
    from PIL import Image

    rng = np.random.default_rng(0)
    for name in (f"class{number:02d}" for number in range(30)):
        (folder / "data" / name).mkdir(parents=True)
        for number in range(3):
            pixels = rng.integers(0, 255, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / "data" / name / f"{number}.png")


def _nothing(folder: Path) -> None:
    pass


_LABEL = ("label", "photos", "--examples", "examples", "--out", "out", "--save", "model", "--export", "label-studio")
_TRAIN = (
    *(
        "train",
        "folder",
        "--data",
        "data",
        "--out",
        "run",
        "--backbone",
        "conv4",
        "--epochs",
        "2",
        "--batch-size",
        "32",
    ),
    *("--image-size", "16", "--validation-tasks", "5", "--validation-queries", "1", "--accelerator", "cpu"),
    *("--checkpoint-steps", "2"),
)
_BALANCED = ("--regime", "balanced", "--interval", "30")
_TWO = ("--methods", "simpleshot,protonet")
_DIGITS = ("digits", "--way", "5", "--shot", "1", "--query", "5")

SCENARIOS = {
    "label": Scenario((*_LABEL, "--suggest", "2"), _pictures),
    "no-session": Scenario((*_LABEL, "--no-session"), _pictures),
    "copy": Scenario((*_LABEL, "--copy"), _pictures),
    "move": Scenario((*_LABEL, "--move"), _pictures),
    "corrected": Scenario((*_LABEL, "--move"), _corrected),
    "link": Scenario((*_LABEL, "--link"), _pictures),
    "apply": Scenario(("apply", "model", "photos", "--out", "out", "--copy"), _with_model),
    "evaluate": Scenario(
        ("evaluate", *_DIGITS, "--tasks", "40", *_TWO, "--json", "r.json", "--resume"),
        _nothing,
    ),
    "regimes": Scenario(
        ("regimes", *_DIGITS, "--way", "3", *_BALANCED, *_TWO, "--of", "protonet", "--out", "out", "--resume"),
        _nothing,
        same=(),
    ),
    "tune": Scenario(("tune", *_DIGITS, "--tasks", "5", "--trials", "2", "--method", "fs-mmc"), _nothing),
    "train": Scenario(_TRAIN, _classes, same=(".safetensors", ".png")),
    "extract": Scenario(
        ("extract", "small", "--data", "data", "--out", "f.npz", "--batch-size", "30", "--device", "cpu"), _classes
    ),
}  # fmt: skip


def use_small_encoders() -> None:
    """Encoders that take no time: this is about files."""
    import torch

    from marginshot.data.pictures import read_picture
    from marginshot.labelling.items.encoders import PictureEncoder
    from marginshot.vision import encoders
    from marginshot.vision.preprocessing import plain_preprocessing

    def prepare(self: PictureEncoder, content: Path) -> np.ndarray:
        return np.asarray(read_picture(content).resize((2, 2)), dtype=np.float32).reshape(-1)

    PictureEncoder.load = lambda self: None
    PictureEncoder.prepare = prepare
    PictureEncoder.encode = lambda self, prepared: np.stack(prepared)
    small = encoders.Encoder("small", torch.nn.AdaptiveAvgPool2d(2), plain_preprocessing(8))
    encoders.load_encoder = lambda *_, **__: small
    torch.set_num_threads(1)


def _run(folder: Path, command: Iterable[str]) -> int:
    """Run a command here."""
    before = Path.cwd()
    os.chdir(folder)
    os.environ["MARGINSHOT_CACHE"] = str(folder / "cache")
    os.environ["MARGINSHOT_SESSIONS"] = str(folder / "sessions")
    try:
        marginshot(list(command))
    except SystemExit as leaving:
        return int(leaving.code or 0)
    finally:
        os.chdir(before)
    return 0


def run_forked(folder: Path, command: Iterable[str], kill_at: int = -1) -> tuple[int, str]:
    """Exit code and messages of a command in a fork, killed before its event ``kill_at``."""
    log = folder.with_suffix(".log")
    child = os.fork()
    if not child:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        count_events(folder, kill_at)
        code = 1
        try:
            code = _run(folder, command)
        except BaseException as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, log.read_text(errors="replace")


def count_events(folder: Path, kill_at: int) -> None:
    """Count what changes files below ``folder`` from now on, and end the process before number ``kill_at``."""
    n_events = 0
    flush = os.fsync

    def count() -> None:
        nonlocal n_events
        if n_events == kill_at:
            os._exit(KILLED)
        n_events += 1
        if kill_at < 0:
            folder.with_suffix(".events").write_text(str(n_events))

    busy = False

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal busy
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if busy or not (writes or event in _CHANGES) or isinstance(arguments[0], int):
            return
        busy = True  # what the counting itself writes
        try:
            if Path(os.fsdecode(arguments[0])).absolute().is_relative_to(folder):
                count()
        finally:
            busy = False

    def fsync(descriptor: int) -> None:
        hook("os.truncate", (str(folder / "flushed"),))
        flush(descriptor)

    os.fsync = fsync
    sys.addaudithook(hook)


def close_network() -> list[str]:
    """Let no connection leave this machine from now on; the list takes what was tried."""
    tried: list[str] = []

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("socket.getaddrinfo", "socket.gethostbyname") or (
            # The address of a socket of this machine is a path.
            event in ("socket.connect", "socket.sendto") and not isinstance(arguments[1], str | bytes)
        ):
            tried.append(f"{event} {arguments[1:] if event in ('socket.connect', 'socket.sendto') else arguments[0]}")
            raise OSError(f"the network is closed: {tried[-1]}")

    sys.addaudithook(hook)
    return tried


def picture_of(folder: Path, same: tuple[str, ...]) -> dict[str, bytes | str]:
    """Every file below ``folder``, cache aside, with its content where that is to be the same."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.startswith("cache") or path.is_dir() or "tensorboard" in name:
            continue
        logged = path.name in ("steps.csv", "epochs.csv")  # with times in them
        if path.is_symlink():
            found[name] = path.readlink().name
        else:
            found[name] = path.read_bytes() if path.suffix in same and not logged else "there"
    return found


def try_scenario(name: str, every: int) -> list[str]:
    """Kill at every ``every``-th event; what was not as after an unharmed run."""
    scenario = SCENARIOS[name]
    problems = []
    # One path for all trials: some outputs name the folder they are in.
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve() / "trial"

        def fresh() -> None:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            scenario.prepare(folder)

        fresh()
        if _run(folder, scenario.command):
            return [f"{name}: the unharmed run failed"]
        expected = picture_of(folder, scenario.same)
        fresh()
        run_forked(folder, scenario.command)
        n_events = int(folder.with_suffix(".events").read_text())
        if picture_of(folder, scenario.same) != expected:
            return [f"{name}: two unharmed runs differ"]
        for event in range(every // 2 % n_events, n_events, every):
            fresh()
            code, said = run_forked(folder, scenario.command, event)
            if code != KILLED:
                problems.append(f"{name}, event {event}: not killed but ended with {code}: {said}")
            if picture_of(folder, scenario.same) == expected:
                continue  # all was done, only not said
            code, said = run_forked(folder, scenario.command)
            problems += _compare(f"{name}, event {event} of {n_events}", code, said, folder, scenario, expected)
    return problems


def _compare(
    where: str, code: int, said: str, folder: Path, scenario: Scenario, expected: dict[str, bytes | str]
) -> list[str]:
    if code:
        return [f"{where}: repeated, the command ended with {code}: {said.strip()[-400:]}"]
    found = picture_of(folder, scenario.same)
    missing = sorted(set(expected) - set(found))
    strange = sorted(set(found) - set(expected))
    other = sorted(path for path in set(found) & set(expected) if found[path] != expected[path])
    if missing or strange or other:
        return [f"{where}: missing {missing}, left over {strange}, different {other}"]
    return []


def main() -> int:
    """Run the scenarios asked for; 1 where anything was lost, left over or refused."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", default=list(SCENARIOS))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--half", type=int, choices=(0, 1), help="Run every second scenario.")
    options = parser.parse_args()
    scenarios = options.scenarios if options.half is None else options.scenarios[options.half :: 2]
    tried = close_network()
    use_small_encoders()
    problems = []
    for name in scenarios:
        found = try_scenario(name, options.every)
        sys.stdout.write(f"{name}: {len(found)} problems\n")
        sys.stdout.flush()
        problems += found
    problems += [f"the network was looked for: {event}" for event in tried]
    sys.stdout.write("".join(f"{problem}\n" for problem in problems))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
