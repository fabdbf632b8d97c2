"""Items in files known by their content: which of them were renamed, and which replaced, since they were last seen.

Also the sentences that report changes of a source.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marginshot.labelling.items.kind import Kind

_NAMED = 5  # items named in a sentence


@dataclass(frozen=True)
class Content:
    """What a file held when it was last seen.

    Parameters
    ----------
    digest : str
        Hash of the content.
    stamp : str, default=""
        Size and times of the file: while these stay, so does the content. Empty where they are not known.
    """

    digest: str
    stamp: str = ""

    @property
    def size(self) -> str:
        """Bytes of the file; empty where not known."""
        return self.stamp.partition(" ")[0]


@dataclass(frozen=True)
class Changes:
    """Which of the files that have labels were renamed or replaced.

    Parameters
    ----------
    renamed : dict of str to str
        New key by the old one.
    replaced : list of str
        Keys under which another content is now, while the old one is nowhere else.
    """

    renamed: dict[str, str]
    replaced: list[str]


class Files:
    """The present files of a source; a file is read once at most, and only if its stamp has changed.

    Parameters
    ----------
    kind : Kind
        That of the items.
    contents : mapping of str to object
        Every content by its key.
    known : mapping of str to Content
        What was last seen, by key; keys that are gone included.
    """

    def __init__(self, kind: Kind, contents: Mapping[str, Any], known: Mapping[str, Content]) -> None:
        self._kind, self._contents, self._known = kind, contents, known
        self._stamps = {key: _stamp(Path(content)) for key, content in contents.items()}
        self._read: dict[str, Content] = {}

    def knows(self, key: str) -> bool:
        """Whether there was a file of this key before."""
        return key in self._known

    def unknown(self, keys: Sequence[str], renamed: Collection[str]) -> list[int]:
        """Places of the ``keys`` that no file had before, except those that a file was ``renamed`` to.

        The list is empty where no file at all was known.
        """
        known = {*self._known, *renamed}
        return [place for place, key in enumerate(keys) if key not in known] if self._known else []

    def content(self, key: str) -> Content | None:
        """What is under ``key`` now; None where it cannot be opened, which is reported elsewhere."""
        stamp, known = self._stamps[key], self._known.get(key)
        if known is not None and stamp and known.stamp == stamp:
            return known
        if key not in self._read:
            try:
                self._read[key] = Content(self._kind.digest(self._contents[key]), stamp)
            except OSError:
                return None
        return self._read[key]

    def changes(self, said: Collection[str]) -> Changes:
        """Which files with one of the keys ``said`` were renamed or replaced.

        A content that is gone from its key and is now under as many new keys, or fewer, was renamed.
        """
        lost = sorted(key for key in said if key in self._known and (key not in self._contents or self._differs(key)))
        sizes = {self._known[key].size for key in lost}
        old, new = _by_digest({key: self._known[key] for key in lost}), _by_digest(self._new(sizes))
        renamed: dict[str, str] = {}
        for digest, keys in old.items():
            here = new.get(digest, [])
            if len(here) <= len(keys):
                renamed.update(zip(keys, here, strict=False))
        return Changes(renamed, [key for key in lost if key in self._contents and key not in renamed])

    def seen(self, digests: Mapping[str, str]) -> dict[str, Content]:
        """Contents that are not known yet, by key, from the ``digests`` of all files read since."""
        now = {key: Content(digest, self._stamps[key]) for key, digest in digests.items()}
        return {key: content for key, content in now.items() if self._known.get(key) != content}

    def _differs(self, key: str) -> bool:
        content = self.content(key)
        return content is not None and content.digest != self._known[key].digest

    def _new(self, sizes: Collection[str]) -> dict[str, Content]:
        """Contents, of one of these sizes, that were not under their key before."""
        found = {}
        for key in sorted(self._contents):
            if "" not in sizes and self._stamps[key].partition(" ")[0] not in sizes:
                continue
            content = self.content(key) if key not in self._known or self._differs(key) else None
            if content is not None:
                found[key] = content
        return found


def _stamp(path: Path) -> str:
    try:
        about = path.stat()
    except OSError:
        return ""
    return f"{about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}"


def _by_digest(contents: Mapping[str, Content]) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for key, content in contents.items():
        keys.setdefault(content.digest, []).append(key)
    return keys


def words(what: str, items: Sequence[str]) -> list[str]:
    """A sentence on what happened to items, which names the first few; an empty list without items.

    Examples
    --------
    >>> words("renamed", ["a.jpg", "b.jpg"])
    ['2 items were renamed, and their labels went with them: a.jpg, b.jpg.']
    """
    if not items:
        return []
    one, several = _WORDS[what]
    named = ", ".join(items[:_NAMED]) + (", …" if len(items) > _NAMED else "")
    return [f"{f'1 {one}' if len(items) == 1 else f'{len(items):,} {several}'}: {named}."]


_WORDS = {
    "renamed": ("item was renamed, and its label went with it", "items were renamed, and their labels went with them"),
    "replaced": (
        "picture was replaced by another, and its label is set aside (undo brings it back)",
        "pictures were replaced by others, and their labels are set aside (undo brings them back)",
    ),
    "gone": (
        "item that you labelled is gone; its label is kept",
        "items that you labelled are gone; their labels are kept",
    ),
    "taken": ("label is new in the source and was taken", "labels are new in the source and were taken"),
    "overruled": (
        "label in the source differs from the label given here, which is kept",
        "labels in the source differ from the labels given here, which are kept",
    ),
    "missing": (
        "item with a label is gone from the source; the label is kept",
        "items with labels are gone from the source; the labels are kept",
    ),
}
