"""Tables of examples from anywhere: which column names the files, which holds the labels, and which file is meant."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection as Names
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from unicodedata import normalize
from urllib.parse import unquote, urlsplit

from marginshot._lib.names import codings, listed
from marginshot.labelling.items.kind import FileKind
from marginshot.labelling.items.label_studio import LABEL_COLUMN, LOCAL_FILES, TASK_SUFFIX
from marginshot.labelling.items.tables import Table, as_text, given_labels

#: Columns taken for the names of files where some of their values are.
_PATH_COLUMNS = ("path", "item", "file", "filename")

# Label Studio calls an uploaded file so, and writes its name without spaces and signs.
_UPLOADED = re.compile(r"[0-9a-f]{8}-(.+)")
_NOT_KEPT = re.compile(r"[^-\w.]")


@dataclass(frozen=True, eq=False)
class FileNames:
    """Finds the file of a folder that a table from elsewhere means.

    Parameters
    ----------
    kind : FileKind
        What is looked for.
    folder : Path
        Where items are.
    beside : Path
        The folder of the table, where items may be as well.
    files : iterable of Path
        The files of the folder; read once, where a name is not simply a path.
    items : collection of str
        Names that stand for themselves, such as those of boxes.
    trusted : bool, default=True
        Whether a name may lead out of the folder. Those of other tools' exports may not.
    """

    kind: FileKind
    folder: Path
    beside: Path
    files: Iterable[Path]
    items: Names[str] = ()
    trusted: bool = True
    _meant: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> Sequence[Any]:
        """The contents that a name means; empty where there is no such file.

        A name is a path in the folder or beside the table. Otherwise it is a URL, or a path on another machine: it
        means the file whose path ends with it, or whose path it ends with. Two such files are an error.
        """
        if name in self.items:
            return [Path(name)]
        if found := self._simply(name):
            return found
        if (file := self._ending_alike(name)) is None:
            return []
        other = self._meant.setdefault(file, name)
        if other != name:
            raise ValueError(
                f"{other!r} and {name!r} both match {file} in {self.folder}. Remove the one that means another file."
            )
        return self.kind.find(self.folder, file)

    def count(self, values: Iterable[Any]) -> int:
        """How many of the values name a file, several of which may be alike."""
        names = (as_text(value).strip() for value in values)
        return sum(name in self.items or bool(self._simply(name) or self._candidates(name)) for name in names if name)

    def _simply(self, name: str) -> Sequence[Any]:
        """What is at a path. Only a trusted one may be followed: it may lead out, also through a link."""
        if not self.trusted:
            return []
        try:
            places = ((folder, one) for folder in (self.folder, self.beside) for one in codings(name))
            return next((found for place in places if (found := self.kind.find(*place))), [])
        except OSError:  # a text too long for a name, or a folder that may not be read
            return []

    def _ending_alike(self, name: str) -> str | None:
        found = self._candidates(name)
        if len(found) > 1:
            raise ValueError(
                f"{name!r} may be {found[0]} or {found[1]} in {self.folder}. Write the path of the one that is meant."
            )
        return found[0] if found else None

    def _candidates(self, name: str) -> list[str]:
        """Files whose path is the end of this one, or ends with it; of the former only the longest."""
        parts = parts_of(name)
        if not parts:
            return []
        named = self._by_name.get(parts[-1], [])
        if not named and (uploaded := _UPLOADED.fullmatch(parts[-1])):
            return self._by_kept_name.get(_kept(uploaded[1]), [])
        shorter = [file for file in named if parts[-len(own := _split(file)) :] == own]
        if shorter:
            longest = max(file.count("/") for file in shorter)
            return [file for file in shorter if file.count("/") == longest]
        return [file for file in named if _split(file)[-len(parts) :] == parts]

    @cached_property
    def _listed(self) -> list[str]:
        return [file.relative_to(self.folder).as_posix() for file in self.files]

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        return _grouped((_split(file)[-1], file) for file in self._listed)

    @cached_property
    def _by_kept_name(self) -> dict[str, list[str]]:
        return _grouped((_kept(file.rpartition("/")[2]), file) for file in self._listed)


def parts_of(name: str) -> list[str]:
    r"""The parts of a path, or of the path in an address, accents as one character each; none where it leads upwards.

    Examples
    --------
    >>> parts_of("/data/local-files/?d=photos/a%20b.jpg"), parts_of("s3://bucket/photos/c.jpg?v=1")
    (['photos', 'a b.jpg'], ['bucket', 'photos', 'c.jpg'])
    >>> parts_of("C:\\photos\\d.jpg"), parts_of("../e.jpg")
    (['C:', 'photos', 'd.jpg'], [])
    """
    path = name
    if LOCAL_FILES in name:
        path = unquote(name.partition(LOCAL_FILES)[2])
    elif "://" in name:
        try:
            address = urlsplit(name)
        except ValueError:
            return []
        path = f"{address.netloc}/{unquote(address.path)}"
    parts = [normalize("NFC", part) for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    return [] if ".." in parts else parts


def read_pairs(table: Table, path: Path, names: FileNames, classes: Names[str]) -> tuple[list[tuple[Any, str]], str]:
    """Contents with their labels, and a sentence on the columns taken, empty where they have the usual names.

    Rows without a name or a label are skipped: the user has not filled them in yet.
    """
    of_files = _column_of_files(table, path, names)
    of_labels = _column_of_labels(table, path, of_files)
    told = [as_text(value).strip() for value in table.column(of_files)]
    rows = zip(told, given_labels(table.column(of_labels), classes), strict=True)
    pairs = []
    for name, label in rows:
        if name and label:
            found = names.find(name)
            if not found:
                raise ValueError(_not_there(path, name, names))
            pairs += [(content, label) for content in found]
    plain = of_files in _PATH_COLUMNS and of_labels == LABEL_COLUMN
    note = f"{path}: files are taken from the column {of_files!r}, labels from {of_labels!r}."
    return pairs, "" if plain else note


def _column_of_files(table: Table, path: Path, names: FileNames) -> str:
    """The column of a usual name, else the one whose values are names of files."""
    usual = [name for name in _PATH_COLUMNS if name in table.columns]
    rest = [name for name in table.columns if name not in usual and name != LABEL_COLUMN]
    for among in (usual[:1], [*usual[1:], *rest]):
        counts = Counter({column: n for column in among if (n := names.count(table.column(column)))})
        ranked = counts.most_common()
        if len(ranked) > 1 and ranked[0][1] == ranked[1][1]:
            raise ValueError(
                f"{path}: the columns {ranked[0][0]!r} and {ranked[1][0]!r} both name {names.kind.plural} of "
                f"{names.folder}. Call the right one path."
            )
        if ranked:
            return ranked[0][0]
    if usual:
        return usual[0]
    raise ValueError(
        f"{path}: no column names {names.kind.plural} of {names.folder}; it has {listed(table.columns)}. Examples need "
        "a column path with their files and a column label."
    )


def _column_of_labels(table: Table, path: Path, of_files: str) -> str:
    """The column ``label``, else the only one beside that of the files."""
    others = [name for name in table.columns if name != of_files]
    if LABEL_COLUMN in others:
        return LABEL_COLUMN
    if len(others) == 1:
        return others[0]
    if not others:
        raise ValueError(f"{path}: examples need a column label beside {of_files!r}.")
    raise ValueError(
        f"{path}: which of the columns {listed(others)} holds the labels? Call that one label; {of_files!r} has the "
        "files."
    )


def _not_there(path: Path, name: str, names: FileNames) -> str:
    if names.trusted:
        return f"{path}: there is no {names.kind} {name!r}, neither in {names.folder} nor beside the table."
    return f"{path}: there is no {names.kind} {name!r} in {names.folder}."


def _kept(name: str) -> str:
    """What Label Studio keeps of the name of an uploaded file."""
    return _NOT_KEPT.sub("", name.strip().replace(" ", "_"))


def _split(file: str) -> list[str]:
    """The parts of the path of a file, accents as in `parts_of`."""
    return normalize("NFC", file).split("/")


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return dict(found)


def is_trusted(path: Path) -> bool:
    """Whether the names in a table may lead anywhere: in a table of the user's, not in another tool's export."""
    return path.suffix.lower() != TASK_SUFFIX
