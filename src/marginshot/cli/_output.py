"""Results go to stdout, everything else to stderr; files are checked before the work starts."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import typer

from marginshot._lib.extras import need
from marginshot._lib.files import check_replaceable, check_writable, sweep
from marginshot._lib.names import shown

if TYPE_CHECKING:
    from marginshot.reporting.grid import Grid

#: A mark in every file the commands write, by which they recognise their own files.
OWN_MARK = b"marginshot-output"

#: Seconds between two lines about the progress in a log.
LINE_SECONDS = 5.0
#: Seconds between two lines in the log of a run of hours.
LOG_SECONDS = 30.0


# Whether messages are left out: of one command, in the thread and the context that runs it.
_quiet: ContextVar[bool] = ContextVar("quiet", default=False)


def say(message: str) -> None:
    """Print a message for the user, on stderr, unless the command is to be quiet."""
    if not _quiet.get():
        typer.echo(shown(message), err=True)


@contextmanager
def quietly(quiet: bool) -> Iterator[None]:
    """Print no messages and no progress in the body, where ``quiet`` asks for that; errors leave it."""
    before = _quiet.set(quiet)
    try:
        yield
    finally:
        _quiet.reset(before)


def emit(text: str) -> None:
    """Print a result, on stdout."""
    typer.echo(shown(text))


def emit_grid(grid: Grid, caption: Sequence[str] = ()) -> None:
    """Print a table for people to read."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=shown(grid.title) or None, caption=shown("\n".join(caption)) or None, box=box.SIMPLE_HEAD)
    table.title_justify = table.caption_justify = "left"
    for place, header in enumerate(grid.headers):
        numbers = place >= grid.n_text
        # Text, not str: rich would read square brackets in a name as markup.
        head = Text(shown(_fold(header) if numbers else header))
        table.add_column(head, justify="right" if numbers else "left", no_wrap=numbers)
    for section in grid.sections:
        for row in section:
            table.add_row(*(Text(shown(cell.text), style="bold" if cell.bold else "") for cell in row))
        table.add_section()
    # A pipe has no width, so the table takes what it needs.
    width = None if sys.stdout.isatty() else max(160, Console(width=10_000).measure(table).minimum)
    Console(file=sys.stdout, width=width).print(table)


def _fold(header: str) -> str:
    """Fold a long header over two lines."""
    first, _, rest = header.partition(" ")
    return f"{first}\n{rest}" if rest and len(header) > 10 else header


# What writes a file, by its suffix, where not every installation has it.
_WRITES = {".parquet": "pyarrow", ".pq": "pyarrow", **dict.fromkeys((".gif", ".pdf", ".png", ".svg"), "matplotlib")}


def check_writer(path: Path) -> None:
    """Raise where the package that writes such a file is missing."""
    if package := _WRITES.get(path.suffix.lower()):
        need(package)


def check_outputs(paths: Sequence[Path | None], *, force: bool, inputs: Iterable[str | Path] = ()) -> None:
    """Raise unless every path can be written, is another one, and is free or an earlier output of ours.

    A command replaces its own earlier result; a file that it did not write is replaced only with ``force``, and one of
    its ``inputs`` never. A package that writes one of them and is missing is reported, too.
    """
    taken = {Path(path).resolve(): "an input" for path in inputs}
    for path in paths:
        if path is None:
            continue
        if (place := path.resolve()) in taken:
            raise ValueError(f"{path} is {taken[place]} of this command; give the output another name.")
        taken[place] = "another output"
        check_replaceable(path)
        if path.exists() and not force and not _is_ours(path):
            raise FileExistsError(f"{path} exists and was not written by this command. Use --force to replace it.")
        check_writable(path)
        check_writer(path)
    clean({path.parent for path in paths if path is not None})


def clean(folders: Iterable[Path]) -> None:
    """Remove the temporary files that killed runs left in ``folders``, and report them."""
    for folder in sorted(folders):
        if n_removed := sweep(folder):
            say(f"Removed {n_removed} half-written temporary files that an earlier run, now ended, left in {folder}.")


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return OWN_MARK in file.read()


class Update(Protocol):
    """Moves a bar; ``note`` takes the place of the rate."""

    def __call__(self, done: int, total: int, note: str = "") -> None: ...


class Move(Protocol):
    """Moves the bar of a phase, which begins anew with each name."""

    def __call__(self, phase: str, done: int, total: int, note: str = "") -> None: ...


@contextmanager
def progress_bar(unit: str) -> Iterator[Update]:
    """A bar with rate and time left on a terminal; a line every half minute in a log."""
    if not sys.stderr.isatty():
        yield _log_lines(unit)
        return
    with _bar(unit) as move:
        yield lambda done, total, note="": move(unit.capitalize(), done, total, note)


def _log_lines(unit: str) -> Update:
    last = time.monotonic()
    first: int | None = None  # steps done before, of a run that is continued
    since: tuple[int, float] | None = None  # steps and time where the rate is measured from

    def update(done: int, total: int, note: str = "") -> None:
        nonlocal last, first, since
        now = time.monotonic()
        first = done if first is None else first
        if since is None and done > first:
            since = done, now  # not from the start: the first steps also wait for compilation
        if now - last < LOG_SECONDS:
            return
        last = now
        if not note and since and done > since[0]:
            note = f"{timedelta(seconds=int((now - since[1]) / (done - since[0]) * (total - done)))} left"
        say(f"{unit.capitalize()} {', '.join(filter(None, (_count(done, total), note)))}")

    return update


@contextmanager
def phases(unit: str) -> Iterator[Callable[[str, int, int], None]]:
    """Call with the name of a phase, the steps done and all steps (0 where it has none).

    A terminal gets a bar, a log a line every few seconds.
    """
    if _quiet.get():
        yield lambda phase, done, total: None
        return
    if sys.stderr.isatty():
        with _bar(unit) as move:
            yield move
        return
    now = ("", "", 0.0)  # phase, count, and when the phase began
    ended = threading.Event()

    def write_lines() -> None:
        while not ended.wait(LINE_SECONDS):
            phase, count, began = now
            if phase:
                say(f"{phase} {count or f'({time.monotonic() - began:.0f} s)'}")

    def note(phase: str, done: int, total: int) -> None:
        nonlocal now
        began = now[2] if now[0] == phase.capitalize() else time.monotonic()
        now = phase.capitalize(), _count(done, total), began

    thread = threading.Thread(target=write_lines, daemon=True)
    thread.start()
    try:
        yield note
    finally:
        ended.set()
        thread.join()


@contextmanager
def _bar(unit: str) -> Iterator[Move]:
    """A bar on the terminal that names the phase; it pulses while the phase has no number of steps."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = [
        TextColumn(f"{{task.{name}}}", markup=False) for name in ("description", "fields[count]", "fields[rate]")
    ]
    with Progress(
        columns[0], BarColumn(bar_width=None), *columns[1:], console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("", total=None, count="", rate="")

        def move(phase: str, done: int, total: int, note: str = "") -> None:
            if bar.tasks[0].description != phase.capitalize():
                bar.reset(task, description=phase.capitalize(), total=None, count="", rate="")
            speed, left = bar.tasks[0].speed, bar.tasks[0].time_remaining
            rate = f"{speed:,.0f} {unit}/s" if speed else ""
            rate += f"  {timedelta(seconds=int(left))} left" if left else ""
            bar.update(task, completed=done, total=total or None, count=_count(done, total), rate=note or rate)

        yield move


def _count(done: int, total: int) -> str:
    return f"{done:,} of {total:,}" if total else ""
