"""Labels as data sets for training: metadata of Hugging Face's ImageFolder, and the folders of YOLO's classifiers."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from marginshot._lib.files import atomic_path
from marginshot._lib.names import folder_name
from marginshot._lib.warn import warn_user
from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.outputs.result import Result

# What torchvision's ImageFolder reads, through which Ultralytics finds pictures.
_READ_BY_YOLO = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp"})

_SHARE_OF_VALIDATION = 0.2  # as Ultralytics splits a folder of classes itself
_FORBIDDEN = frozenset('<>:"/\\|?*%')  # by some system; and the sign that escapes them
_LONGEST_NAME = 255  # bytes
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # so that equal labels make equal archives


def check_whole_files(collection: Collection) -> None:
    """Raise RefusedError unless every item is a file of its own, which alone can have a line of metadata."""
    kind, part = collection.kind, collection.first_part()
    if not kind.in_files:
        raise RefusedError(f"metadata.jsonl lists files, and a {kind} is not one.", at_fault=Option.EXPORTS)
    if part is not None:
        raise RefusedError(
            f"{part!r} is a part of a recording, and metadata.jsonl is of whole files; choose bulk.",
            at_fault=Option.EXPORTS,
        )


def write_metadata(labelling: Result, path: Path) -> None:
    """Write a line of JSON for every file: its path, which begins in the folder of the files, and its label.

    A file without a label has null, because ImageFolder wants a line for each.
    """
    items = labelling.collection.items
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
        for row in labelling.rows.tolist():
            line = {"file_name": items[row], "label": labelling.labels[row] or None}
            file.write(f"{json.dumps(line, ensure_ascii=False)}\n")


def check_pictures(collection: Collection) -> None:
    """Raise RefusedError unless every item is a picture of its own."""
    if not (collection.kind.are_pictures and collection.kind.in_files):
        raise RefusedError(f"YOLO's folders hold pictures; a {collection.kind} is not one.", at_fault=Option.EXPORTS)


def check_folders_of_classes(classes: Iterable[str]) -> None:
    """Raise RefusedError where a class has a name too long for a folder."""
    for name in classes:
        if len(portable(name).encode()) > _LONGEST_NAME:
            raise RefusedError(
                f"the class {name[:30]!r}…, of {len(name):,} characters, cannot be the name of a folder; rename it.",
                at_fault=Option.EXPORTS,
            )


def write_yolo(labelling: Result, path: Path) -> None:
    """Write an archive with every labelled picture as ``train/CLASS/…`` or ``val/CLASS/…``."""
    items, contents = labelling.collection.items, labelling.collection.contents
    gone, not_read = [], Counter[str]()
    with atomic_path(path) as temporary, ZipFile(temporary, "w", ZIP_STORED) as archive:
        for row, folders in split(labelling).items():
            picture = Path(contents[row])
            if picture.suffix.lower() not in _READ_BY_YOLO:
                not_read[picture.suffix.lower()] += 1
                continue
            inner = "/".join(map(portable, Path(items[row]).parts))
            try:
                for folder in folders:
                    _pack(picture, f"{folder}/{portable(labelling.labels[row])}/{inner}", archive)
            except FileNotFoundError:
                gone.append(items[row])
    if not_read:
        told = ", ".join(f"{count:,} {suffix}" for suffix, count in not_read.most_common())
        warn_user(f"{not_read.total():,} pictures are not in the archive, because YOLO does not read them: {told}.")
    if gone:
        warn_user(f"{len(gone):,} pictures are not in the archive, because they are gone, such as {gone[0]!r}.")


def split(labelling: Result) -> dict[int, tuple[str, ...]]:
    """The folders, ``train`` or ``val``, of each labelled row.

    The content of a picture decides, so that it keeps its folder in later exports. Copies of a picture stay together,
    as do the pictures of an event. About a fifth is for validation. Every class is in both folders, because classes are
    numbered in each folder: one that is missing would shift the numbers after it. So the only picture of a class is in
    both.
    """
    digests, events = labelling.collection.digests, labelling.collection.events
    groups: dict[str, dict[int | str, list[int]]] = defaultdict(lambda: defaultdict(list))
    drawn: dict[int, float] = {}
    for row in labelling.rows.tolist():
        if labelling.labels[row]:
            name = digests[row] if digests else labelling.collection.items[row]
            drawn[row] = int.from_bytes(hashlib.sha256(name.encode()).digest()[:6]) / 2**48
            groups[labelling.labels[row]][name if events is None else int(events[row])].append(row)
    folders: dict[int, tuple[str, ...]] = {}
    for of_class in groups.values():
        units = sorted(of_class.values(), key=lambda rows: min(drawn[row] for row in rows))
        n_low = sum(min(drawn[row] for row in rows) < _SHARE_OF_VALIDATION for rows in units)
        n_validation = min(max(n_low, 1), len(units) - 1)
        for place, rows in enumerate(units):
            wanted = ("train", "val") if len(units) == 1 else ("val",) if place < n_validation else ("train",)
            folders |= dict.fromkeys(rows, wanted)
    return dict(sorted(folders.items()))


def portable(name: str) -> str:
    r"""A name that is one file or folder on every system and leads nowhere else; no two names become one.

    Examples
    --------
    >>> portable("grey heron"), portable("../tern"), portable("con"), portable("50 %")
    ('grey heron', '%2E.%2Ftern', '%63on', '50 %25')
    """
    escaped = [_escaped(letter) if letter in _FORBIDDEN or not letter.isprintable() else letter for letter in name]
    if escaped and (name.startswith(".") or folder_name(name) != name):
        escaped[0] = _escaped(name[0])
    if name.endswith((".", " ")):
        escaped[-1] = _escaped(name[-1])
    return "".join(escaped)


def _escaped(letter: str) -> str:
    return "".join(f"%{byte:02X}" for byte in letter.encode("utf-8", "surrogateescape"))


def _pack(picture: Path, name: str, archive: ZipFile) -> None:
    """Add a picture to the archive, uncompressed; raises FileNotFoundError if it is no file (any more)."""
    if not picture.is_file():
        raise FileNotFoundError(picture)
    with picture.open("rb") as file:
        member = ZipInfo(name, _FIRST_DAY)
        member.file_size = picture.stat().st_size
        member.external_attr = 0o644 << 16
        with archive.open(member, "w") as packed:
            shutil.copyfileobj(file, packed)
