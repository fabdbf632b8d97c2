"""Pictures that earlier runs put into class folders: a list beside the folders names them.

When the answer for a picture changes, its copy or link is removed from the folder of the old class. Only files on the
list are removed, and only while their content also exists at the picture's new place, or where it was copied from.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from marginshot._lib.files import atomic_path, same_contents
from marginshot._lib.reading import read_json, reading

LIST = ".marginshot-placed.json"
FORMAT = "marginshot-placed-1"


@dataclass(frozen=True)
class Earlier:
    """Copies and links that earlier runs made below a folder.

    Parameters
    ----------
    out : Path
        The folder of class folders.
    sources : mapping of str to str
        The picture that each was made from, by its own path as seen from ``out``.
    """

    out: Path
    sources: Mapping[str, str]

    def outdated(self, places: Mapping[Path, Path | None]) -> list[Path]:
        """Copies and links whose picture has another place now: ``places`` by the picture's path, None for no place."""
        targets = {str(source): target for source, target in places.items()}
        found = []
        for name, source in self.sources.items():
            path = self.out.absolute() / name
            if source in targets and os.path.lexists(path) and not _is_same(path, targets[source]):
                found.append(path)
        return found

    def remove_outdated(self, places: Mapping[Path, Path | None]) -> tuple[list[Path], list[Path]]:
        """Remove `outdated` copies and links; returns those removed, and those kept because they were changed since."""
        removed, changed = [], []
        sources = dict(self.sources)
        for path in self.outdated(places):
            source = Path(sources.pop(self._name(path)))
            if self._is_copy(path, source, places[source]):
                path.unlink()
                self._remove_empty(path.parent)
                removed.append(path)
            else:
                changed.append(path)
        if removed or changed:
            save_earlier(Earlier(self.out, sources))
        return removed, changed

    def with_new(self, places: Mapping[Path, Path]) -> Earlier:
        """The list, and those of the ``places`` (by picture) that are free now or hold a link to the picture."""
        new = {
            self._name(target): str(source)
            for source, target in places.items()
            if not os.path.lexists(target) or (target.is_symlink() and target.readlink() == source)
        }
        return Earlier(self.out, {**self.sources, **new})

    def without(self, places: Collection[Path]) -> Earlier:
        """The list without these ``places``: a picture that is moved there is not a copy."""
        gone = {self._name(target) for target in places}
        return Earlier(self.out, {name: source for name, source in self.sources.items() if name not in gone})

    def _name(self, path: Path) -> str:
        return path.relative_to(self.out.absolute()).as_posix()

    def _is_copy(self, path: Path, source: Path, place: Path | None) -> bool:
        """Whether ``path`` is a link to the picture, or holds what the picture does, which is somewhere else too."""
        if any(above.is_symlink() for above in path.parents if above.is_relative_to(self.out.absolute())):
            return False
        if path.is_symlink():
            return path.readlink() == source
        kept = next((one for one in (place, source) if one is not None and one.is_file()), None)
        return kept is not None and not kept.samefile(path) and same_contents(kept, path)

    def _remove_empty(self, folder: Path) -> None:
        """Remove a folder below ``out`` with nothing in it, and those above it."""
        with suppress(OSError):  # raised for one that holds something
            while folder != self.out.absolute():
                folder.rmdir()
                folder = folder.parent


def load_earlier(out: Path) -> Earlier:
    """The list in ``out``; an empty one where there is none."""
    path = out / LIST
    if not path.is_file():
        return Earlier(out, {})
    what, advice = "the list of pictures put here before", "Remove it; none of them is then taken for a copy."
    content = read_json(path, what, advice)
    with reading(path, what, advice):
        if content["format"] != FORMAT:
            raise ValueError(f"its format is not {FORMAT}")
        sources = dict(content["pictures"])
        for name, source in sources.items():
            parts = PurePosixPath(name).parts
            if not isinstance(source, str) or len(parts) < 2 or ".." in parts or name.startswith("/"):
                raise ValueError(f"{name!r} is not in a class folder")
    return Earlier(out, sources)


def save_earlier(earlier: Earlier) -> None:
    """Write the list; no file for an empty one."""
    path = earlier.out / LIST
    if not earlier.sources:
        path.unlink(missing_ok=True)
        return
    with atomic_path(path, private=True) as temporary:
        temporary.write_text(json.dumps({"format": FORMAT, "pictures": dict(earlier.sources)}), encoding="utf-8")


def _is_same(path: Path, place: Path | None) -> bool:
    """Whether both paths are one file, also where its name is spelled in two ways."""
    if place is None or not os.path.lexists(place):
        return path == place
    return path == place or os.path.samestat(path.lstat(), place.lstat())
