"""Items in the files of folders, pictures or sounds, and the examples among or beside them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection as Names
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from marginshot.labelling.errors import MissingInputError, Option, RefusedError
from marginshot.labelling.items.collection import Collection, check_classes, check_names
from marginshot.labelling.items.example_tables import FileNames, is_trusted, read_pairs
from marginshot.labelling.items.kind import FileKind
from marginshot.labelling.items.kinds import FILE_KINDS, describe_unread
from marginshot.labelling.items.label_studio import TASK_SUFFIX
from marginshot.labelling.items.tables import TABLE_SUFFIXES, read_table
from marginshot.labelling.items.xmp import is_keywords, labels_by_keyword

#: Sub-folders that hold unlabelled pictures where all others are classes.
UNLABELLED_FOLDERS = frozenset({"unlabelled", "unlabeled"})


@dataclass(frozen=True)
class Example:
    """One item with its class: its content, as its kind has it."""

    content: Any
    label: str


@dataclass(frozen=True)
class _Found:
    """Files of one kind below a folder, the number of others by suffix, and by name why some are not looked into."""

    kind: FileKind
    paths: list[Path]
    others: dict[str, int]
    skipped: dict[str, str]


def collect_files(
    source: Path,
    examples: Sequence[Path],
    leave_out: Sequence[Path] = (),
    said: Sequence[Example] = (),
    classes: Names[str] = (),
    kind: FileKind | None = None,
    *,
    alone: bool = True,
) -> Collection:
    """The items of ``source`` at any depth, with labels from ``examples`` or from class folders inside ``source``.

    Parameters
    ----------
    source : Path
        Folder of pictures or sounds. Without ``examples`` its direct sub-folders are classes, except ``unlabelled``;
        items directly in it are unlabelled.
    examples : sequence of Path
        Folders with one sub-folder per class, or tables with a column of files and one of labels; `xmp.KEYWORDS` for
        the keywords of the pictures.
    leave_out : sequence of Path
        Folders inside ``source`` that are no input, such as the output.
    said : sequence of Example
        Items that the user labelled in tables that a run wrote; these labels override other examples.
    classes : collection of str
        Names that are labels in tables of examples, whatever they look like: see `tables.given_labels`.
    kind : FileKind, optional
        What is labelled; by default the kind of most files.
    alone : bool, default=True
        Whether no labels come from elsewhere, so that those of two classes at least are needed here. Otherwise
        sub-folders are no classes.
    """
    _check_folder(source)
    kind = kind or kind_of_folder(source, leave_out)
    if alone:
        for folder in leave_out:
            check_apart(folder, examples)
        if not examples:
            said = _corrected(_own_classes(kind, source, leave_out, {example.label for example in said}), said)
    given, notes = read_examples(kind, examples, source, classes, leave_out=leave_out)
    given = _corrected(given, said)
    check_names((example.label for example in given), "Examples")  # before pictures are compared
    collection = _among(source, kind, given, [*examples, *leave_out])
    if alone:
        check_classes(filter(None, collection.labels), "Examples")
    return replace(collection, notes=tuple(notes))


def _check_folder(source: Path) -> None:
    if not source.is_dir():
        raise ValueError(
            f"{source} is not a folder. Give a folder of pictures or sounds, a table or a file of embeddings."
        )


def _corrected(given: Sequence[Example], said: Sequence[Example]) -> list[Example]:
    """The examples ``given``, overridden by those ``said`` of the same items."""
    since = {example.content for example in said}
    return [*(example for example in given if example.content not in since), *said]


def _among(source: Path, kind: FileKind, given: Sequence[Example], leave_out: Sequence[Path]) -> Collection:
    """The items of ``source`` with the labels of the examples ``given``, and after them the examples elsewhere."""
    found = _search(source, [path for path in leave_out if path.is_dir()], kind)
    contents = [content for path in found.paths for content in kind.contents_of(path)]
    labels, outside = match_examples(kind, contents, given)
    folders_of_examples = {folder for example in given for folder in Path(example.content).parents}
    items = [item_name(kind, content, source) for content in contents]
    items += [f"{os.fspath(example.content)}{kind.ending(example.content)}" for example in outside]
    return Collection(
        kind,
        tuple(items),
        [*contents, *(example.content for example in outside)],
        (*labels, *(example.label for example in outside)),
        np.arange(len(items)) < len(contents),
        found.others,
        {name: why for name, why in found.skipped.items() if source / name not in folders_of_examples},
    )


def item_name(kind: FileKind, content: Any, folder: Path) -> str:
    """The name of an item in ``folder``: where its file is, and what distinguishes it there from others."""
    return f"{Path(content).relative_to(folder).as_posix()}{kind.ending(content)}"


def as_paths(given: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    """One path or several, as a list."""
    return [Path(given)] if isinstance(given, str | os.PathLike) else [Path(path) for path in given]


def check_apart(out: Path, examples: Iterable[Path]) -> None:
    """Raise RefusedError where ``out``, which is to hold answers, is among the ``examples``."""
    if any(out.resolve().is_relative_to(folder.resolve()) for folder in examples if folder.is_dir()):
        raise RefusedError(
            f"{out} holds the examples or is among them, and answers there would be taken for examples; give another "
            "folder.",
            at_fault=Option.PATH,
        )


def collect_unlabelled(source: Path, leave_out: Iterable[Path] = (), kind: FileKind | None = None) -> Collection:
    """All items of ``source`` at any depth, none labelled."""
    _check_folder(source)
    found = _search(source, [path for path in leave_out if path.is_dir()], kind)
    contents = [content for path in found.paths for content in found.kind.contents_of(path)]
    items = tuple(item_name(found.kind, content, source) for content in contents)
    listed = np.ones(len(items), dtype=bool)
    return Collection(found.kind, items, contents, ("",) * len(items), listed, found.others, found.skipped)


def kind_of_folder(source: Path, leave_out: Iterable[Path] = ()) -> FileKind:
    """The kind of most files below ``source``; that of pictures where there are none."""
    counts = Counter(kind for path in find_files(source, leave_out) for kind in FILE_KINDS if kind.is_file(path))
    return max(FILE_KINDS, key=lambda kind: counts[kind])


def _search(source: Path, leave_out: Sequence[Path], kind: FileKind | None) -> _Found:
    kind = kind or kind_of_folder(source, leave_out)
    paths, others, skipped = [], Counter[str](), {}
    for path in _all_files(source, leave_out):
        name = path.relative_to(source).as_posix()
        if path.is_dir():
            skipped[name] = "is a link to a folder, and not followed; give that folder itself"
        elif kind.is_file(path):
            # A link to nowhere is reported when it is to be opened; a pipe or a device would never end.
            if path.is_file() or not path.exists():
                paths.append(path)
            else:
                skipped[name] = "is a pipe or a device, not a file"
        elif not path.name.startswith("."):
            others[path.suffix.lower()] += 1
    if not paths:
        instead = f"; there are {describe_unread(others)}" if others else ""
        linked = next((f"; {name} {why}" for name, why in skipped.items()), "")
        suffixes = ", ".join(sorted(kind.suffixes))
        raise ValueError(f"{source} holds no {kind.plural} ({suffixes}){instead}{linked}.")
    return _Found(kind, paths, dict(others), skipped)


def find_files(root: Path, leave_out: Iterable[Path], kinds: Sequence[FileKind] = FILE_KINDS) -> Iterator[Path]:
    """Files of these kinds below ``root`` in a fixed order, hidden ones and the folders ``leave_out`` aside."""
    for path in _all_files(root, leave_out):
        if any(kind.is_file(path) for kind in kinds) and (path.is_file() or not path.exists()):
            yield path


def _all_files(root: Path, leave_out: Iterable[Path]) -> Iterator[Path]:
    """Files below ``root``, and links to folders, which are not followed."""
    skipped = {folder.resolve() for folder in leave_out} - {root.resolve()}
    for folder, children, files in os.walk(root, onerror=_not_searched):
        here = Path(folder)
        children[:] = sorted(c for c in children if not c.startswith(".") and (here / c).resolve() not in skipped)
        linked = [child for child in children if (here / child).is_symlink()]
        yield from (here / name for name in sorted([*files, *linked]))


def _not_searched(error: OSError) -> None:
    raise PermissionError(
        f"The folder {error.filename} cannot be searched ({error.strerror}). Make it readable, or move it elsewhere."
    ) from error


def _own_classes(kind: FileKind, source: Path, leave_out: Iterable[Path], known: Names[str]) -> list[Example]:
    """Examples from the class sub-folders of the tree to be labelled; those of ``known`` classes may be empty."""
    skipped = {folder.resolve() for folder in leave_out}
    classes = [folder for folder in _subfolders(source) if folder.resolve() not in skipped]
    classes = [folder for folder in classes if folder.name.lower() not in UNLABELLED_FOLDERS]
    classes = [folder for folder in classes if folder.name.strip() not in known or any(find_files(folder, (), [kind]))]
    if not classes and not known:
        raise RefusedError(
            "There are no examples: {source} has no class folders inside, and no {examples} were given. Put a few "
            "{kinds} of each class into a folder named after it, and pass the folder of these with {examples}.",
            source=source,
            kinds=kind.plural,
            examples=Option.EXAMPLES,
        )
    return _from_class_folders(kind, classes)


def read_examples(
    kind: FileKind,
    sources: Sequence[Path],
    folder: Path,
    classes: Names[str],
    items: Names[str] = (),
    leave_out: Sequence[Path] = (),
) -> tuple[list[Example], list[str]]:
    """The examples in class folders and tables, and sentences on how these were read.

    Tables may name ``items``, and files in the ``folder`` except those in folders to ``leave_out``.
    """
    examples: list[Example] = []
    notes: list[str] = []
    left_out = [path for path in (*sources, *leave_out) if path.is_dir()]
    for source in sources:
        if source.is_dir():
            folders = [folder for folder in _subfolders(source) if folder.name.lower() not in UNLABELLED_FOLDERS]
            if not folders:
                raise ValueError(
                    f"{source} has no class folders; put the examples of each class in a folder of its own."
                )
            examples += _from_class_folders(kind, folders)
        elif is_keywords(source):
            if not kind.are_pictures:
                raise RefusedError(f"pictures have keywords, and these are {kind.plural}.", at_fault=Option.EXAMPLES)
            tagged, told = labels_by_keyword(folder, find_files(folder, left_out, [kind]), classes)
            examples += [Example(picture, label) for picture, label in tagged]
            notes += told
        elif not source.exists():
            raise MissingInputError(
                "{source} does not exist. Give {examples} a folder of class folders, or a table.",
                source=source,
                examples=Option.EXAMPLES,
            )
        elif source.suffix.lower() in (*TABLE_SUFFIXES, TASK_SUFFIX):
            files = find_files(folder, left_out, [kind])
            names = FileNames(kind, folder, source.parent, files, items, is_trusted(source))
            pairs, note = read_pairs(read_table(source), source, names, classes)
            examples += [Example(content, label) for content, label in pairs]
            notes += [note] if note else []
        else:
            raise ValueError(
                f"Examples are a folder of class folders, a table with path,label or Label Studio's JSON; got {source}."
            )
    return examples, notes


def _subfolders(folder: Path) -> list[Path]:
    return sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))


def _from_class_folders(kind: FileKind, folders: Iterable[Path]) -> list[Example]:
    examples = []
    for folder in folders:
        if not folder.name.strip():
            raise ValueError(f"The class folder {folder.name!r} in {folder.parent} has no name but spaces; rename it.")
        paths = list(find_files(folder, (), [kind]))
        if not paths:
            raise ValueError(
                f"The class {folder.name!r} has no examples: {folder} holds no {kind.plural}. Put one there or "
                "remove the folder."
            )
        examples += [Example(content, folder.name.strip()) for path in paths for content in kind.contents_of(path)]
    return examples


def find_item(kind: FileKind, name: str, table: Path, items: Path) -> Sequence[Any]:
    """What a row of ``table`` names, in the folder ``items`` or beside the table: an item, or all in one file."""
    for folder in (items, table.parent):
        if found := kind.find(folder, name):
            return found
    raise ValueError(f"{table}: there is no {kind} {name!r}, neither in {items} nor beside the table.")


def match_examples(
    kind: FileKind, contents: Sequence[Any], examples: Sequence[Example]
) -> tuple[list[str], list[Example]]:
    """Label of each content, empty where unknown, and the examples that are not among the contents.

    A copy of an example, under any name, is the same example and counts once.
    """
    by_digest: dict[str, Example] = {}
    for example in examples:
        digest = kind.digest(example.content)
        other = by_digest.setdefault(digest, example)
        if other.label != example.label:
            raise ValueError(
                f"One {kind} is an example of two classes: {os.fspath(other.content)} of {other.label!r} and "
                f"{os.fspath(example.content)} of {example.label!r}. Remove one of them."
            )
    # Only a file as long as an example can be one: the others need not be read for this.
    sizes = {Path(example.content).stat().st_size for example in examples}
    digests = [_digest(kind, content, sizes) for content in contents]
    labels = [by_digest[digest].label if digest in by_digest else "" for digest in digests]
    there = set(digests)
    return labels, [example for digest, example in by_digest.items() if digest not in there]


def _digest(kind: FileKind, content: Any, sizes: set[int]) -> str:
    """Hash of what is in a file of one of these sizes; empty for others, and for what cannot be opened."""
    try:
        return kind.digest(content) if Path(content).stat().st_size in sizes else ""
    except OSError:
        return ""


def check_can_be_made(folder: Path) -> None:
    """Raise unless ``folder`` can be written, or created."""
    whole = folder.absolute()
    above = next(place for place in (whole, *whole.parents) if os.path.lexists(place))
    if not above.is_dir():
        raise RefusedError(
            "{folder} cannot be a folder: {above} is a file, or a link to nowhere. Move that elsewhere, or give "
            "another {path}.",
            folder=folder,
            above=above,
            path=Option.PATH,
        )
    if not os.access(above, os.W_OK):
        raise RefusedError(
            "{folder} cannot be written: {above} does not allow it. Give another {path}.",
            folder=folder,
            above=above,
            path=Option.PATH,
        )
