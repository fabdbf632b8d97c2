"""What a command does to pictures, so that only the same command goes on with what another run left unfinished."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from marginshot.labelling.store import file_digest
from marginshot.pictures import is_picture

Action = Literal["copy", "move", "link"]


@dataclass(frozen=True)
class Job:
    """What is done to the pictures of which folder, and all that decides the answers and the outputs.

    Parameters
    ----------
    action : {"copy", "move", "link"}
        What is done.
    folder : str
        Where the pictures are.
    request : mapping of str to str
        The rest of the command: each option as text.
    """

    action: Action
    folder: str
    request: Mapping[str, str] = field(default_factory=dict)

    def differences(self, other: Job) -> list[str]:
        """Options that the ``other`` has not, or otherwise."""
        names = dict.fromkeys((*self.request, *other.request))
        return [name for name in names if self.request.get(name) != other.request.get(name)]


def make_job(action: Action | None, folder: Path, **request: Any) -> Job | None:
    """The job of a command with the options ``request``; None where pictures stay as they are."""
    if action is None:
        return None
    return Job(action, str(folder.resolve()), {name: str(value) for name, value in request.items()})


def inputs_state(paths: Iterable[Path], pictures: Path) -> str:
    """A hash that is another when a file or folder among ``paths`` is.

    Folders count by the names and sizes of their pictures, but for those in ``pictures``, which the job itself moves.
    """
    moving = pictures.resolve()
    digest = hashlib.sha256()
    for path in paths:
        digest.update(os.fsencode(path.resolve()))
        if path.is_file():
            digest.update(file_digest(path).encode())
        elif path.is_dir():
            within = moving if moving.is_relative_to(path.resolve()) else None
            digest.update(repr(_sizes(path.resolve(), within)).encode())
    return digest.hexdigest()


def _sizes(folder: Path, leave_out: Path | None) -> list[tuple[bytes, int]]:
    """Name and size of every picture below ``folder``; links count as such, for what they point to may be moved."""
    found = []
    for here, children, files in os.walk(folder):
        if leave_out is not None and Path(here) == leave_out:
            children.clear()
            continue
        found += [(os.fsencode(path), path.lstat().st_size) for name in files if is_picture(path := Path(here, name))]
    return sorted(found)
