"""What a kind of item has to know: how its items are found, named, hashed, encoded, shown and exported.

All other code asks a kind for these. `marginshot.labelling.items.kinds` lists the kinds there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from marginshot.labelling.items.encoders import ItemEncoder

if TYPE_CHECKING:
    from PIL.Image import Image


OTHER_CAMERA = "by another camera or light (infrared?)"


@dataclass(frozen=True)
class Kind(ABC):
    """One kind of item.

    Attributes
    ----------
    name : str
        One item in a sentence; also what saved models and pages call the kind.
    in_folder : bool
        Whether items come from a folder, so that what is written goes into one.
    in_files : bool
        Whether items are in files, which can be renamed and replaced, copied, moved and linked: see `FileKind`.
    has_image, has_text, has_sound : bool
        Whether `image` shows an item, whether it has words that `text` gives, and whether `sound` plays it.
    are_pictures : bool
        Whether its files are pictures, which other tools show as such.
    in_boxes : bool
        Whether an item is what a detector found in a picture.
    other_source : str
        What may make items unlike the others whatever their class, as it ends a sentence.
    tag : str
        Its tag in a configuration of Label Studio.
    """

    name: ClassVar[str]
    in_folder: ClassVar[bool] = False
    in_files: ClassVar[bool] = False
    has_image: ClassVar[bool] = False
    has_text: ClassVar[bool] = False
    has_sound: ClassVar[bool] = False
    are_pictures: ClassVar[bool] = False
    in_boxes: ClassVar[bool] = False
    other_source: ClassVar[str] = "from another source"
    tag: ClassVar[str] = "Text"

    def __str__(self) -> str:
        return self.name

    @property
    def plural(self) -> str:
        """Several items in a sentence."""
        return f"{self.name}s"

    @abstractmethod
    def encoder(self, name: str | None = None, device: str = "auto", contents: Any = ()) -> ItemEncoder | None:
        """The encoder of that ``name``, or the usual one for these ``contents``; None where contents are embeddings."""

    @abstractmethod
    def digest(self, content: Any) -> str:
        """Hash of a content; raises OSError where it cannot be opened."""

    def problem(self, content: Any) -> str:
        """Why a content cannot be encoded, as far as that is known without opening it; empty where it can."""
        return ""

    @property
    def reader(self) -> str:
        """What reads contents here; another version of it may read what this one cannot."""
        return ""

    def reading(self) -> AbstractContextManager[None]:
        """A context in which many contents are read."""
        return nullcontext()

    def keys(self, items: Sequence[str], contents: Any) -> Sequence[str]:
        """Keys (n_items,) of items in a log, which stay when others are added or all are sorted; some may be equal."""
        return items

    def called(self, key: str, item: str | None) -> str:
        """What people call an item of this ``key``; the ``item`` is its name, None where it is gone."""
        return key if item is None else item

    def text(self, content: Any) -> str:
        """The words in a content; empty where it holds none."""
        return ""

    def image(self, content: Any, side: int) -> Image:
        """A picture of a content, at most ``side`` pixels high and wide, where `has_image`."""
        raise TypeError(f"A {self.name} has no image.")

    def scene(self, content: Any, side: int) -> Image:
        """The content large, with what is around it, where `has_image`; at most ``side`` pixels high and wide."""
        return self.image(content, side)

    def file(self, content: Any) -> Path:
        """The file that a content is in, where `in_folder`."""
        return Path(content)

    def sound(self, content: Any) -> bytes:
        """A content as a WAV file, where `has_sound`."""
        raise TypeError(f"A {self.name} has no sound.")

    def fragment(self, content: Any) -> str:
        """What a player adds to the address of the file, where `has_sound`; empty where it plays all of it."""
        return ""

    def is_whole(self, content: Any) -> bool:
        """Whether a content is a file, or row, of its own; a part of a file cannot go into a class folder."""
        return True

    def moved(self, content: Any, path: Path) -> Any:
        """The content once its file is at ``path``; for kinds in files."""
        return path

    def exported(self, item: str, content: Any) -> str:
        """What stands for an item in the files of other tools: a path, a text, or its name."""
        return item


class FileKind(Kind):
    """A kind whose items are in files; each content is a path, or has one (`os.PathLike`)."""

    in_folder = True
    in_files = True
    #: Suffixes of files like its own that may not be read here, with what they are or what would read them.
    not_read: ClassVar[Sequence[tuple[frozenset[str], str]]] = ()

    @property
    @abstractmethod
    def suffixes(self) -> frozenset[str]:
        """Suffixes of its files that can be read here."""

    def is_file(self, path: Path) -> bool:
        """Whether a file's name is one of this kind, and not hidden."""
        return path.suffix.lower() in self.suffixes and not path.name.startswith(".")

    def contents_of(self, path: Path) -> Sequence[Any]:
        """The contents in a file, at least one."""
        return [path]

    def ending(self, content: Any) -> str:
        """What follows the path of the file in the name of an item; empty where the item is the whole file."""
        return ""

    def find(self, folder: Path, name: str) -> Sequence[Any]:
        """The contents of that item in ``folder``, or of all items in the file of that name; none where it is gone."""
        return [folder / name] if (folder / name).is_file() else []
