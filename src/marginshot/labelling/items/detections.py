"""Boxes that a detector found in the pictures of a folder, from its file; no path in it leads out of the folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from marginshot._lib.names import codings, counted, is_plain
from marginshot._lib.reading import DamagedFileError, read_json
from marginshot.data.pictures import is_picture, is_video
from marginshot.labelling.errors import MissingInputError
from marginshot.labelling.items.detector_formats import FORMATS, Box, DetectorFormat, UnusableError

#: A detector's category for animals. Where a detector has it, only boxes of this category are classified.
ANIMAL = "animal"

_DEEPEST = 50  # levels of lists and objects; both formats have five, and copying hundreds raises RecursionError
_ADVICE = "Give a file in MegaDetector's output format or in COCO's."


@dataclass(frozen=True)
class DetectedPicture:
    """A picture that a detector was given.

    Parameters
    ----------
    file : str
        Its path in the folder, with slashes.
    boxes : tuple of Box
        Those found in it, of any confidence.
    failure : str
        Why the detector could not read it; empty where it could.
    """

    file: str
    boxes: tuple[Box, ...]
    failure: str = ""


@dataclass(frozen=True, eq=False)
class Detections:
    """What a detector found in the pictures of a folder.

    Parameters
    ----------
    path : Path
        Its file.
    form : DetectorFormat
    content : dict
        All that the file holds.
    least : float
        Confidence from which on a box is an item.
    categories : frozenset of str
        Categories that the detector distinguishes.
    pictures : tuple of DetectedPicture
        Those that are in the folder.
    unusable : mapping of str to int
        Entries that cannot be used, counted by why.
    """

    path: Path
    form: DetectorFormat
    content: dict[str, Any]
    least: float
    categories: frozenset[str]
    pictures: tuple[DetectedPicture, ...]
    unusable: Mapping[str, int] = field(default_factory=dict)

    def boxes(self, picture: DetectedPicture) -> list[Box]:
        """Boxes of a picture that are to be classified."""
        return [box for box in self._sure(picture) if self._is_asked(box)]

    def others(self, picture: DetectedPicture) -> list[Box]:
        """Boxes of people, vehicles and the like, whose class the detector knows."""
        return [box for box in self._sure(picture) if not self._is_asked(box)]

    def is_empty(self, picture: DetectedPicture) -> bool:
        """Whether the detector read the picture and found nothing in it."""
        return not picture.failure and not self._sure(picture)

    def _sure(self, picture: DetectedPicture) -> list[Box]:
        return [box for box in picture.boxes if box.confidence >= self.least]

    def _is_asked(self, box: Box) -> bool:
        return box.category == ANIMAL or ANIMAL not in self.categories

    @property
    def notes(self) -> list[str]:
        """Sentences on what is in the file besides boxes to classify."""
        n_empty = sum(map(self.is_empty, self.pictures))
        others = Counter(box.category for picture in self.pictures for box in self.others(picture))
        failed = [picture for picture in self.pictures if picture.failure]
        told = [f"{counted(n_empty, 'picture is', 'pictures are')} empty: no box of confidence {self.least:g} or more."]
        if others:
            named = ", ".join(f"{n:,} {name or 'of no category'}" for name, n in others.most_common())
            told.append(f"Boxes of other things than animals keep the detector's category, and get no class: {named}.")
        if failed:
            told.append(
                f"{counted(len(failed), 'picture', 'pictures')} could not be read by the detector: "
                f"{failed[0].file} {failed[0].failure}{' and others' if len(failed) > 1 else ''}."
            )
        if self.unusable:
            listed = ", ".join(f"{n:,} x {why}" for why, n in self.unusable.items())
            told.append(f"Left out of {self.path.name}: {listed}.")
        return told


def read_detections(path: Path, folder: Path, least: float) -> Detections:
    """What a detector found in the pictures of a ``folder``; boxes of confidence ``least`` or more are items."""
    if not 0 <= least <= 1:
        raise ValueError(f"The least confidence of a box lies between 0 and 1; got {least:g}.")
    if not path.is_file():
        raise MissingInputError(f"{path} is not there. {_ADVICE}")
    content = read_json(path, "a detector's file", _ADVICE)
    form = next((form for form in FORMATS if form.fits(content)), None)
    if form is None:
        raise DamagedFileError(f"{path} holds no list 'images' of a detector. {_ADVICE}")
    if _is_deep(content):
        raise DamagedFileError(f"{path} is nested in more than {_DEEPEST} levels. {_ADVICE}")
    unusable: Counter[str] = Counter()
    pictures: dict[str, DetectedPicture] = {}
    for name, failure, boxes in form.pictures(content, lambda why: unusable.update([why])):
        try:
            file = _inside(name, folder)
            if file in pictures:
                raise UnusableError("a picture named twice")
            pictures[file] = DetectedPicture(file, tuple(boxes), failure)
        except UnusableError as error:
            unusable[str(error)] += 1
    if not pictures:
        told = ", ".join(f"{n:,} x {why}" for why, n in unusable.items()) or "it lists no pictures"
        raise ValueError(
            f"{path} has no picture that is in {folder} ({told}). Give the folder that the detector was given."
        )
    categories = frozenset(form.categories(content).values())
    found = Detections(path, form, content, least, categories, tuple(pictures.values()))
    return _without_doubles(found, unusable)


def _without_doubles(found: Detections, unusable: Counter[str]) -> Detections:
    """The detections with one box to classify, and one other, at each `Box.corner`; the most confident stays."""
    pictures = []
    for picture in found.pictures:
        boxes = found.boxes(picture), found.others(picture)
        kept = {box.place for alike in boxes for box in _singles(alike)}
        if n_doubles := sum(map(len, boxes)) - len(kept):
            unusable["a box at the same place as another"] += n_doubles
        own = tuple(box for box in picture.boxes if box.confidence < found.least or box.place in kept)
        pictures.append(replace(picture, boxes=own))
    return replace(found, pictures=tuple(pictures), unusable=dict(unusable))


def _singles(boxes: Iterable[Box]) -> list[Box]:
    """The most confident box of each corner, or the first of those."""
    best: dict[str, Box] = {}
    for box in boxes:
        if box.corner not in best or box.confidence > best[box.corner].confidence:
            best[box.corner] = box
    return list(best.values())


def _is_deep(content: Any) -> bool:
    """Whether lists and objects are nested in more than `_DEEPEST` levels."""
    level = [content]
    for _ in range(_DEEPEST):
        inner = (one.values() if isinstance(one, dict) else one for one in level)
        level = [part for parts in inner for part in parts if isinstance(part, dict | list)]
    return bool(level)


def _inside(name: Any, folder: Path) -> str:
    """The path of a picture below ``folder``; raises if it is not a path, leads elsewhere, or nothing is there."""
    if not isinstance(name, str) or not name.strip() or not is_plain(name):
        raise UnusableError("a picture without a path")
    # Detectors on Windows write backslashes, which are letters of a name elsewhere.
    pure = PurePosixPath(name if _is_file(folder / name) else PureWindowsPath(name).as_posix())
    if pure.is_absolute() and pure.is_relative_to(folder.absolute().as_posix()):
        pure = pure.relative_to(folder.absolute().as_posix())
    if pure.is_absolute() or PureWindowsPath(name).drive or ".." in pure.parts:
        raise UnusableError("a picture in another folder")
    if is_video(Path(pure)):
        raise UnusableError("a video, which cannot be opened")
    there = next((file for file in codings(str(pure)) if _is_file(folder / file)), None)
    if there is None:
        raise UnusableError("a picture that is not there")
    if not is_picture(folder / there):
        raise UnusableError("a file that is no picture")
    return there


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long
        return False
