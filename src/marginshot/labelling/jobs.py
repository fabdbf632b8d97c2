"""What a command does to pictures, so that only the same command goes on with what another run left unfinished."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from marginshot.labelling.folders import find_pictures
from marginshot.labelling.store import file_digest

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


def make_job(action: Action | None, folder: Path, inputs: Mapping[str, Iterable[Path]], **request: Any) -> Job | None:
    """The job of a command with these ``inputs`` and options, by name; None where pictures stay as they are."""
    if action is None:
        return None
    options = {name: str(value) for name, value in request.items()}
    states = {name: _state(paths, folder) for name, paths in inputs.items()}
    return Job(action, str(folder.resolve()), options | states)


def _state(paths: Iterable[Path], pictures: Path) -> str:
    """A hash that is another when a file or folder among ``paths`` is.

    Folders count by the names and sizes of their pictures, but for those in ``pictures``, which the job itself moves;
    links count as such, for what they point to may be moved.
    """
    digest = hashlib.sha256()
    for path in paths:
        whole = path.resolve()
        digest.update(os.fsencode(whole))
        if path.is_file():
            digest.update(file_digest(path).encode())
        elif path.is_dir() and whole != pictures.resolve():
            found = find_pictures(whole, [pictures])
            digest.update(repr([(os.fsencode(picture), picture.lstat().st_size) for picture in found]).encode())
    return digest.hexdigest()
