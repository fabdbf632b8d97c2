"""The kinds of items there are, and three of them: pictures, texts and embeddings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marginshot.data import pictures
from marginshot.data.pictures import picture_suffixes, pillow_silenced, pillow_version, read_picture
from marginshot.labelling.items.crops import DetectedBox
from marginshot.labelling.items.encoders import (
    PICTURE_ENCODER,
    PIXELS,
    ItemEncoder,
    PictureEncoder,
    PixelEncoder,
    TextEncoder,
)
from marginshot.labelling.items.kind import OTHER_CAMERA, FileKind, Kind
from marginshot.labelling.items.languages import usual_text_encoder
from marginshot.labelling.items.sounds import SOUND
from marginshot.labelling.items.store import file_digest

if TYPE_CHECKING:
    from PIL.Image import Image

_SHOWN = 60  # characters of a text in its key, for people who look for a missing one


@dataclass(frozen=True)
class Picture(FileKind):
    """Pictures in files; a content is a path."""

    name = "picture"
    has_image = True
    are_pictures = True
    other_source = OTHER_CAMERA
    not_read = pictures.NOT_READ
    tag = "Image"

    @property
    def suffixes(self) -> frozenset[str]:
        """Suffixes of the pictures that can be read here."""
        return picture_suffixes()

    def encoder(self, name: str | None = None, device: str = "auto", contents: Any = ()) -> ItemEncoder:
        """The network of that ``name``, or grey values for "pixels"."""
        return PixelEncoder() if name == PIXELS else PictureEncoder(name or PICTURE_ENCODER, device)

    def digest(self, content: Path) -> str:
        """Hash of the file."""
        return file_digest(content)

    @cached_property
    def reader(self) -> str:
        """Pillow with its version, which reads the pictures."""
        return pillow_version()

    def reading(self) -> AbstractContextManager[None]:
        """Silence Pillow's warnings about readable files."""
        return pillow_silenced()

    def image(self, content: Path, side: int) -> Image:
        """The picture, made smaller; raises UnreadablePictureError."""
        image = read_picture(content, enough=side)
        image.thumbnail((side, side))
        return image

    def exported(self, item: str, content: Path) -> str:
        """The whole path. It is not resolved: what is a link now may be about to be replaced by the picture."""
        return str(Path(content).absolute())


@dataclass(frozen=True)
class Text(Kind):
    """Texts, rows of a table or in memory; a content is a string."""

    name = "text"
    has_text = True

    def encoder(self, name: str | None = None, device: str = "auto", contents: Any = ()) -> ItemEncoder:
        """A network; the language of the ``contents`` decides which one is usual."""
        return TextEncoder(name or usual_text_encoder(contents), device)

    def digest(self, content: str) -> str:
        """Hash of the text."""
        return hashlib.sha256(content.encode()).hexdigest()

    def problem(self, content: str) -> str:
        """Why a text cannot be encoded: it is empty, or holds half a character."""
        try:
            content.encode()
        except UnicodeEncodeError:
            return "holds half a character (a lone surrogate)"
        return "" if content.strip() else "has no text"

    def keys(self, items: Sequence[str], contents: Any) -> list[str]:
        """The hash of each text, and its beginning."""
        return [f"{_short_digest(text.encode('utf-8', 'surrogatepass'))} {text[:_SHOWN]}" for text in contents]

    def called(self, key: str, item: str | None) -> str:
        """The beginning of the text, taken from its key."""
        return key.partition(" ")[2]

    def text(self, content: str) -> str:
        """The content itself, which is a text."""
        return content

    def exported(self, item: str, content: str) -> str:
        """The text itself, which other tools show."""
        return content


@dataclass(frozen=True)
class Embedding(Kind):
    """Embeddings, rows of a table or of an array; a content is a row of numbers."""

    name = "embedding"

    def encoder(self, name: str | None = None, device: str = "auto", contents: Any = ()) -> None:
        """Return None: the contents are embeddings already."""

    def digest(self, content: Any) -> str:
        """Hash of the numbers."""
        return hashlib.sha256(np.ascontiguousarray(content).tobytes()).hexdigest()

    def keys(self, items: Sequence[str], contents: Any) -> Sequence[str]:
        """The names of the rows, or their hashes where rows are only numbered."""
        if items != row_names(len(items)):
            return items
        return [_short_digest(np.ascontiguousarray(row).tobytes()) for row in contents]


def row_names(n_rows: int) -> tuple[str, ...]:
    """Rows as people count them: ``row 1`` is the first below the header."""
    return tuple(f"row {place}" for place in range(1, n_rows + 1))


def _short_digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]


PICTURE, BOX, TEXT, EMBEDDING = Picture(), DetectedBox(), Text(), Embedding()

#: Every kind, by name.
KINDS: dict[str, Kind] = {kind.name: kind for kind in (PICTURE, BOX, SOUND, TEXT, EMBEDDING)}

#: Those whose items are in files.
FILE_KINDS = tuple(kind for kind in KINDS.values() if isinstance(kind, FileKind))


def describe_unread(counts: Mapping[str, int]) -> str:
    """Describe unread files, counted by suffix: what they are and what would read them.

    Examples
    --------
    >>> describe_unread({".mp4": 3, ".txt": 1, "": 2})
    '3 .mp4 (video), 2 without a suffix, 1 .txt'
    """
    told = [(kind, suffixes, words) for kind in FILE_KINDS for suffixes, words in kind.not_read]
    parts = []
    for suffix, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])):
        advice = next((f" ({words})" for kind, among, words in told if suffix in among - kind.suffixes), "")
        parts.append(f"{count:,} {suffix or 'without a suffix'}{advice}")
    return ", ".join(parts)
