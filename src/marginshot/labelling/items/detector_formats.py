"""The formats of files that detectors write: MegaDetector's output format 1.x, and COCO.

A file may come from anybody: an entry that cannot be used is left out, with the reason.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar

#: Class and probability, the most probable first.
Ranked = Sequence[tuple[str, float]]

_LONGEST_KEY = 4_000  # digits of the longest category id; Python converts at most 4,300 to a number


class UnusableError(ValueError):
    """An entry of a detector's file that cannot be used; entries are counted by reason, not shown one by one."""


@dataclass(frozen=True)
class Box:
    """A box in a picture, in shares of its width and height.

    Parameters
    ----------
    x, y : float
        The left upper corner.
    width, height : float
    confidence : float
        How sure the detector is.
    category : str
        What the detector takes it for.
    place : tuple of int
        Where it stands in the file.
    """

    x: float
    y: float
    width: float
    height: float
    confidence: float = 1.0
    category: str = ""
    place: tuple[int, int] = (-1, -1)

    @property
    def corner(self) -> str:
        """The box in thousandths of the picture: its name, which does not depend on other entries of the file."""
        return "-".join(str(round(1000 * value)) for value in (self.x, self.y, self.width, self.height))


#: A box that is the whole picture.
WHOLE = Box(0.0, 0.0, 1.0, 1.0)


class DetectorFormat(ABC):
    """A format of a detector's files: how pictures and boxes are read, and how classes are written back."""

    name: ClassVar[str]

    @abstractmethod
    def fits(self, content: Mapping[str, Any]) -> bool:
        """Whether a file of this content is of this format."""

    @abstractmethod
    def categories(self, content: Mapping[str, Any]) -> dict[Any, str]:
        """Names of the detector's categories by their ids."""

    @abstractmethod
    def pictures(
        self, content: Mapping[str, Any], count: Callable[[str], None]
    ) -> Iterator[tuple[Any, str, list[Box]]]:
        """Path, failure and boxes of each picture; entries that cannot be used are counted by reason."""

    @abstractmethod
    def classified(self, content: dict[str, Any], ranked: Mapping[tuple[int, int], Ranked], by: str) -> dict[str, Any]:
        """The content with the classes of boxes by place; ``by`` names the classifier."""


class MegaDetectorFormat(DetectorFormat):
    """MegaDetector's output format 1.x: relative boxes beside the name of each picture.

    https://lila.science/megadetector-output-format
    """

    name = "MegaDetector"

    def fits(self, content: Mapping[str, Any]) -> bool:
        """Whether each picture would hold its own boxes."""
        return isinstance(content.get("images"), list) and "annotations" not in content

    def categories(self, content: Mapping[str, Any]) -> dict[Any, str]:
        """Names of the categories under ``detection_categories``, by id."""
        held = content.get("detection_categories")
        return {str(key): str(name) for key, name in held.items()} if isinstance(held, dict) else {}

    def pictures(
        self, content: Mapping[str, Any], count: Callable[[str], None]
    ) -> Iterator[tuple[Any, str, list[Box]]]:
        """Path, failure and boxes of each picture."""
        names = self.categories(content)
        for at, entry in enumerate(content["images"]):
            if not isinstance(entry, dict):
                count("an entry that is no picture")
                continue
            found, failure = entry.get("detections"), entry.get("failure")
            if failure is None and not isinstance(found, list):
                failure = "has no list of detections"
            boxes = []
            for number, one in enumerate(found if isinstance(found, list) else ()):
                try:
                    boxes.append(_relative_box(one, names, (at, number)))
                except UnusableError as error:
                    count(str(error))
            yield entry.get("file"), "" if failure is None else str(failure)[:200], boxes

    def classified(self, content: dict[str, Any], ranked: Mapping[tuple[int, int], Ranked], by: str) -> dict[str, Any]:
        """``classifications`` of each box, ``classification_categories``, and the classifier in ``info``."""
        content = deepcopy(content)
        held = content.get("classification_categories")
        held = {str(key): str(name) for key, name in held.items()} if isinstance(held, dict) else {}
        numbers = {name: key for key, name in held.items()}
        free = 1 + max((int(key) for key in held if key.isdecimal() and len(key) <= _LONGEST_KEY), default=0)
        for name in (name for name in _names(ranked) if name not in numbers):
            numbers[name] = str(free)
            free += 1
        for (at, number), own in ranked.items():
            found = content["images"][at]["detections"][number]
            found["classifications"] = [[numbers[name], probability] for name, probability in own]
        content["classification_categories"] = held | {number: name for name, number in numbers.items()}
        info = content.get("info")
        content["info"] = {**(info if isinstance(info, dict) else {}), "classifier": by}
        content["info"].setdefault("format_version", "1.3")
        content.setdefault("detection_categories", {})
        return content


class CocoFormat(DetectorFormat):
    """COCO: pictures, boxes in pixels, and categories in three lists."""

    name = "COCO"

    def fits(self, content: Mapping[str, Any]) -> bool:
        """Whether boxes stand in a list of their own."""
        return isinstance(content.get("images"), list) and isinstance(content.get("annotations"), list)

    def categories(self, content: Mapping[str, Any]) -> dict[Any, str]:
        """Names of the categories in the list ``categories``, by id."""
        return {_key(one.get("id")): str(one.get("name", "")) for one in _objects(content.get("categories"))}

    def pictures(
        self, content: Mapping[str, Any], count: Callable[[str], None]
    ) -> Iterator[tuple[Any, str, list[Box]]]:
        """Path and boxes of each picture; COCO knows no failures."""
        names = self.categories(content)
        known = {_key(one.get("id")): one for one in _objects(content["images"])}
        boxes: dict[Any, list[Box]] = {key: [] for key in known}
        for number, one in enumerate(content["annotations"]):
            try:
                picture = known.get(_key(one.get("image_id"))) if isinstance(one, dict) else None
                if picture is None:
                    raise UnusableError("a box of no picture in the file")
                boxes[_key(picture["id"])].append(_pixel_box(one, picture, names, (0, number)))
            except UnusableError as error:
                count(str(error))
        for key, picture in known.items():
            yield picture.get("file_name"), "", boxes[key]

    def classified(self, content: dict[str, Any], ranked: Mapping[tuple[int, int], Ranked], by: str) -> dict[str, Any]:
        """The class of each box in place of its category, with a ``score`` and all ``classifications``.

        The detector's own category and score go to ``detection_category_id`` and ``detection_score``.
        """
        content = deepcopy(content)
        known = list(_objects(content.get("categories")))
        numbers = {one["name"]: one["id"] for one in known if isinstance(one.get("name"), str) and "id" in one}
        free = 1 + max((one["id"] for one in known if isinstance(one.get("id"), int)), default=0)
        for name in (name for name in _names(ranked) if name not in numbers):
            numbers[name] = free
            known.append({"id": free, "name": name})
            free += 1
        for (_, number), own in ranked.items():
            found = content["annotations"][number]
            found.setdefault("detection_category_id", found.get("category_id"))
            if "score" in found:
                found.setdefault("detection_score", found["score"])
            found["category_id"], found["score"] = numbers[own[0][0]], own[0][1]
            found["classifications"] = [[numbers[name], probability] for name, probability in own]
        content["categories"] = known
        info = content.get("info")
        content["info"] = {**(info if isinstance(info, dict) else {}), "classifier": by}
        return content


#: Every format that is read, the first that fits counts.
FORMATS: tuple[DetectorFormat, ...] = (MegaDetectorFormat(), CocoFormat())


def _relative_box(entry: Any, names: Mapping[Any, str], place: tuple[int, int]) -> Box:
    """A box of MegaDetector's."""
    if not isinstance(entry, dict):
        raise UnusableError("an entry that is not a box")
    category = str(entry.get("category", ""))
    return _box(_four(entry.get("bbox")), entry.get("conf"), names.get(category, category), place)


def _pixel_box(
    entry: Mapping[str, Any], picture: Mapping[str, Any], names: Mapping[Any, str], place: tuple[int, int]
) -> Box:
    """A box of COCO's; one without a score was drawn by hand."""
    try:
        width, height = (_number(picture.get(side)) for side in ("width", "height"))
    except UnusableError:
        raise UnusableError("a box in a picture of unknown size") from None
    if min(width, height) <= 0:
        raise UnusableError("a box in a picture of unknown size")
    x, y, wide, high = _four(entry.get("bbox"))
    relative = (x / width, y / height, wide / width, high / height)
    return _box(relative, entry.get("score", 1.0), names.get(_key(entry.get("category_id")), ""), place)


def _box(values: tuple[float, float, float, float], confidence: Any, category: str, place: tuple[int, int]) -> Box:
    """A box, cut to its part inside the picture."""
    x, y, width, height = values
    left, top, right, bottom = (min(max(value, 0.0), 1.0) for value in (x, y, x + width, y + height))
    if not (width > 0 and height > 0 and right > left and bottom > top):
        raise UnusableError("a box without an area in its picture")
    sure = _number(confidence)
    if not 0 <= sure <= 1:
        raise UnusableError("a box without a confidence between 0 and 1")
    return Box(left, top, right - left, bottom - top, sure, category, place)


def _four(value: Any) -> tuple[float, float, float, float]:
    if not isinstance(value, list) or len(value) != 4:
        raise UnusableError("a box without four numbers")
    x, y, width, height = map(_number, value)
    return x, y, width, height


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e9 or not math.isfinite(value):
        raise UnusableError("a box with something else than a number")
    return float(value)


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    return (one for one in value if isinstance(one, dict)) if isinstance(value, list) else iter(())


def _key(value: Any) -> Any:
    """An id if it can be looked up, a number or text; None for anything else, such as a list."""
    return value if isinstance(value, int | str) else None


def _names(ranked: Mapping[tuple[int, int], Ranked]) -> list[str]:
    """The classes that are in the answers."""
    return sorted({name for own in ranked.values() for name, _ in own})
