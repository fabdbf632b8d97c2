"""The request of a run: the files that it reads, which no output replaces, and all that decides answers and outputs.

An unfinished run can only be resumed by an identical request; `outputs.resume` needs only its folder and transfer.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from marginshot.labelling.items.folders import find_files
from marginshot.labelling.items.sources import Source
from marginshot.labelling.items.store import file_digest

Action = Literal["copy", "move", "link"]


@dataclass(frozen=True)
class Job:
    """A transfer of pictures into class folders, with every option that decides the answers and the outputs.

    Parameters
    ----------
    action : {"copy", "move", "link"}
        What is done with each picture.
    folder : str
        Absolute path of the folder with the pictures.
    request : mapping of str to str
        All other options, as text by name.
    """

    action: Action
    folder: str
    request: Mapping[str, str] = field(default_factory=dict)

    def differences(self, other: Job) -> list[str]:
        """Names of options whose values differ from those of ``other``."""
        names = dict.fromkeys((*self.request, *other.request))
        return [name for name in names if self.request.get(name) != other.request.get(name)]


@dataclass(frozen=True)
class Request:
    """What a run reads, and every setting that decides its answers.

    Parameters
    ----------
    source : Source, optional
        What is labelled; None for texts and embeddings that are in memory.
    others : mapping of str to tuple of Path
        Other files and folders read, by what they are: examples, a model.
    settings : mapping of str to object
        What else decides the answers, by name.
    said : mapping of str to str, optional
        Labels that a person gave in tables that a run wrote, or in the session of the source, by item. None where
        these were not read.
    taken : frozenset of Path
        Outputs that may be replaced, because every change in them is in ``said``.
    options : mapping of str to object, optional
        Options for the next run into the same place, by parameter. None leaves those of the run before.
    """

    source: Source | None = None
    others: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    said: Mapping[str, str] | None = None
    options: Mapping[str, Any] | None = None
    taken: frozenset[Path] = frozenset()
    _states: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Taken now: what is added to the examples during the work has no part in the answers.
        pictures = Path() if self.source is None else self.source.path
        object.__setattr__(self, "_states", {name: _state(paths, pictures) for name, paths in self.others.items()})

    @property
    def inputs(self) -> list[Path]:
        """Every file and folder read."""
        of_source = [] if self.source is None else [self.source.path]
        return of_source + [path for paths in self.others.values() for path in paths]

    def job(self, action: Action, **outputs: Any) -> Job:
        """The transfer of pictures that this request and the options ``outputs`` describe."""
        options = {name: str(value) for name, value in {**self.settings, **outputs}.items()}
        if self.said:
            # Without the items: their names change once some of the pictures have been moved.
            options["said"] = hashlib.sha256(repr(sorted(self.said.values())).encode()).hexdigest()
        folder = "" if self.source is None else str(self.source.path.resolve())
        return Job(action, folder, options | self._states)


def _state(paths: Iterable[Path], pictures: Path) -> str:
    """A hash that changes when a file or folder among ``paths`` changes.

    Folders count by the names and sizes of their pictures, except those in ``pictures``, which the job itself moves;
    links count as such, for what they point to may be moved.
    """
    digest = hashlib.sha256()
    for path in paths:
        whole = path.resolve()
        digest.update(os.fsencode(whole))
        if path.is_file():
            digest.update(file_digest(path).encode())
        elif path.is_dir() and whole != pictures.resolve():
            found = find_files(whole, [pictures])
            digest.update(repr([(os.fsencode(picture), picture.lstat().st_size) for picture in found]).encode())
    return digest.hexdigest()
