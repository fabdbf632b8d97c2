"""Pictures into class folders: copied, moved or linked; never overwriting, never leaving a file in neither place.

A list of what is to be done is written before the first file is touched and removed after the last. Whatever stops the
work in between, a full disk or a power cut, the next run finds the list and goes on.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from marginshot._files import atomic_path
from marginshot.labelling.labelling import Labelling

Action = Literal["copy", "move", "link"]

JOURNAL = ".marginshot-unfinished.json"

# Names that some system gives a meaning of its own.
_FORBIDDEN = set('<>:"/\\|?*')


@dataclass(frozen=True)
class Transfer:
    """One file and where it goes."""

    source: Path
    target: Path


@dataclass(frozen=True)
class Done:
    """How a list of transfers went: files now in place, and those left alone because of what is already there."""

    n_done: int
    conflicts: tuple[Transfer, ...]


def plan_transfers(labelling: Labelling, out: Path) -> list[Transfer]:
    """Every labelled picture into the folder of its class below ``out``, under the path it has now."""
    if labelling.collection.kind != "picture":
        raise ValueError("Only pictures can be copied, moved or linked into class folders.")
    folders = {name: _folder_name(name) for name in labelling.classes}
    plan = []
    for row in labelling.rows.tolist():
        label = labelling.labels[row]
        if label:
            source = Path(labelling.collection.contents[row]).absolute()
            plan.append(Transfer(source, out.absolute() / folders[label] / labelling.collection.items[row]))
    return plan


def start_transfers(
    plan: Sequence[Transfer], action: Action, out: Path, on_progress: Callable[[int, int], None] | None = None
) -> Done:
    """Write the list of what is to be done into ``out``, then do it."""
    content = {"action": action, "transfers": [[str(item.source), str(item.target)] for item in plan]}
    with atomic_path(out / JOURNAL) as temporary:
        temporary.write_text(json.dumps(content), encoding="utf-8")
    return _run(plan, action, out, on_progress)


def unfinished(out: Path) -> bool:
    """Whether an earlier run into ``out`` was stopped while it copied, moved or linked."""
    return (out / JOURNAL).is_file()


def finish_transfers(out: Path, on_progress: Callable[[int, int], None] | None = None) -> tuple[Action, Done]:
    """Go on with the list an earlier run left in ``out``."""
    try:
        content = json.loads((out / JOURNAL).read_text(encoding="utf-8"))
        action: Action = content["action"]
        plan = [Transfer(Path(source), Path(target)) for source, target in content["transfers"]]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{out / JOURNAL} is damaged ({error}). Look at {out}, then remove that file.") from error
    return action, _run(plan, action, out, on_progress)


def _run(plan: Sequence[Transfer], action: Action, out: Path, on_progress: Callable[[int, int], None] | None) -> Done:
    transfer = {"copy": _copy, "move": _move, "link": _link}[action]
    conflicts = []
    n_done = 0
    for place, item in enumerate(plan, start=1):
        try:
            item.target.parent.mkdir(parents=True, exist_ok=True)
            if transfer(item.source, item.target):
                n_done += 1
            else:
                conflicts.append(item)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise OSError(
                f"Stopped at {item.source} ({reason}): {n_done} of {len(plan)} files are in place, the others are "
                f"untouched where they were. Put that right and run the same command again to {action} the rest."
            ) from error
        if on_progress is not None:
            on_progress(place, len(plan))
    (out / JOURNAL).unlink(missing_ok=True)
    return Done(n_done, tuple(conflicts))


def _copy(source: Path, target: Path) -> bool:
    """Whether ``target`` now is a copy of ``source``; False leaves another file of that name alone."""
    if target.exists():
        return filecmp.cmp(source, target, shallow=False)
    handle, name = tempfile.mkstemp(prefix=".marginshot-", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        shutil.copy2(source, temporary)
        return _place(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _place(temporary: Path, target: Path) -> bool:
    """Give a finished file its name, unless the name was taken meanwhile."""
    try:
        # Unlike a rename, a second link fails where there is a file already.
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError:
        # File systems without links, such as FAT.
        if target.exists():
            return False
        temporary.rename(target)
    return True


def _move(source: Path, target: Path) -> bool:
    """Whether the file now is at ``target`` only. The source goes after the target is complete, never before."""
    if not source.exists():
        if target.exists():
            return True  # moved by the run that was stopped
        raise FileNotFoundError(2, "No such file", str(source))
    if source.resolve() == target.resolve():
        return True
    # Of a symbolic link the picture it points to is copied and the link goes; that picture is not in our folder.
    if source.is_symlink() or not _rename_new(source, target):
        if not _copy(source, target):
            return False
        source.unlink()
    return True


def _rename_new(source: Path, target: Path) -> bool:
    """Move within one file system without ever overwriting; False where that is not possible."""
    try:
        os.link(source, target)
    except OSError:
        return False
    source.unlink()
    return True


def _link(source: Path, target: Path) -> bool:
    if target.is_symlink():
        return target.readlink() == source
    if target.exists():
        return False
    target.symlink_to(source)
    return True


def _folder_name(name: str) -> str:
    """The class as a folder; a name that no folder can have is an error."""
    if set(name) & _FORBIDDEN or name.startswith(".") or name.endswith(".") or not name.isprintable():
        raise ValueError(
            f"The class {name!r} cannot be the name of a folder. Rename it, or leave out --copy/--move/--link."
        )
    return name
