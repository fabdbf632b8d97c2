"""Pictures in folders, and the examples among or beside them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection as Names
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marginshot.data.pictures import describe_unread, is_picture, picture_suffixes
from marginshot.labelling.collection import Collection, check_classes
from marginshot.labelling.errors import MissingInputError, Option, RefusedError
from marginshot.labelling.store import file_digest
from marginshot.labelling.tables import TABLE_SUFFIXES, given_labels, read_table

#: Sub-folders that hold unlabelled pictures where all others are classes.
UNLABELLED_FOLDERS = frozenset({"unlabelled", "unlabeled"})

_PATH_COLUMNS = ("path", "item", "file", "filename")


@dataclass(frozen=True)
class Example:
    """One picture with its class."""

    path: Path
    label: str


def collect_pictures(
    source: Path,
    examples: Sequence[Path],
    leave_out: Sequence[Path] = (),
    said: Sequence[Example] = (),
    classes: Names[str] = (),
) -> Collection:
    """The pictures of ``source`` at any depth, with labels from ``examples`` or from class folders inside ``source``.

    Parameters
    ----------
    source : Path
        Folder of pictures. Without ``examples`` its direct sub-folders are classes, except ``unlabelled``; pictures
        directly in it are unlabelled.
    examples : sequence of Path
        Folders with one sub-folder per class, or CSV files with columns ``path`` and ``label``.
    leave_out : sequence of Path
        Folders inside ``source`` that are no input, such as the output.
    said : sequence of Example
        Pictures that the user labelled in tables that a run wrote, beside the other examples.
    classes : collection of str
        Names that are labels in tables of examples, whatever they look like: see `tables.given_labels`.
    """
    if not source.is_dir():
        raise ValueError(f"{source} is not a folder. Give a folder of pictures, a table or a file of embeddings.")
    for folder in leave_out:
        check_apart(folder, examples)
    own_classes = not examples
    known = {example.label for example in said}
    given = _own_classes(source, leave_out, known) if own_classes else _read_examples(examples, source, classes)
    given = [*given, *said]
    found = check_classes((example.label for example in given), "Examples")
    folders = [path for path in (*examples, *leave_out) if path.is_dir()]
    paths, others, skipped = _search(source, folders)
    labels, outside = _match(paths, given)
    if len(paths) == sum(1 for label in labels if label):
        raise ValueError(
            f"{source} holds no unlabelled picture ({len(paths)} pictures, all of them examples of "
            f"{len(found)} classes)."
        )
    folders_of_examples = {folder for example in given for folder in example.path.parents}
    items = [path.relative_to(source).as_posix() for path in paths] + [str(example.path) for example in outside]
    return Collection(
        "picture",
        tuple(items),
        [*paths, *(example.path for example in outside)],
        (*labels, *(example.label for example in outside)),
        np.arange(len(items)) < len(paths),
        others,
        {name: why for name, why in skipped.items() if source / name not in folders_of_examples},
    )


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


def collect_unlabelled(source: Path, leave_out: Iterable[Path] = ()) -> Collection:
    """All pictures of ``source`` at any depth, none labelled."""
    if not source.is_dir():
        raise ValueError(f"{source} is not a folder of pictures.")
    folders = [path for path in leave_out if path.is_dir()]
    paths, others, skipped = _search(source, folders)
    items = tuple(path.relative_to(source).as_posix() for path in paths)
    return Collection("picture", items, paths, ("",) * len(paths), np.ones(len(paths), dtype=bool), others, skipped)


def _search(source: Path, leave_out: Sequence[Path]) -> tuple[list[Path], dict[str, int], dict[str, str]]:
    """Pictures of ``source``, the number of other files by suffix, and by name why something is not looked into."""
    paths, others, skipped = [], Counter[str](), {}
    for path in _find_files(source, leave_out):
        name = path.relative_to(source).as_posix()
        if path.is_dir():
            skipped[name] = "is a link to a folder, and not followed; give that folder itself"
        elif is_picture(path):
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
        kinds = ", ".join(sorted(picture_suffixes()))
        raise ValueError(f"{source} holds no pictures ({kinds}){instead}{linked}.")
    return paths, dict(others), skipped


def find_pictures(root: Path, leave_out: Iterable[Path]) -> Iterator[Path]:
    """Pictures below ``root`` in a fixed order, hidden files and the folders ``leave_out`` aside."""
    for path in _find_files(root, leave_out):
        if is_picture(path) and (path.is_file() or not path.exists()):
            yield path


def _find_files(root: Path, leave_out: Iterable[Path]) -> Iterator[Path]:
    """Files below ``root``, and links to folders, which are not followed."""
    skipped = {folder.resolve() for folder in leave_out} - {root.resolve()}
    for folder, children, files in os.walk(root, onerror=_not_searched):
        here = Path(folder)
        children[:] = sorted(c for c in children if not c.startswith(".") and (here / c).resolve() not in skipped)
        linked = [child for child in children if (here / child).is_symlink()]
        yield from (here / name for name in sorted([*files, *linked]))


def _not_searched(error: OSError) -> None:
    raise PermissionError(
        f"The folder {error.filename} cannot be searched for pictures ({error.strerror}). Make it readable, or move it "
        "elsewhere."
    ) from error


def _own_classes(source: Path, leave_out: Iterable[Path], known: Names[str]) -> list[Example]:
    """Examples from the class sub-folders of the tree to be labelled; those of ``known`` classes may be empty."""
    skipped = {folder.resolve() for folder in leave_out}
    classes = [folder for folder in _subfolders(source) if folder.resolve() not in skipped]
    classes = [folder for folder in classes if folder.name.lower() not in UNLABELLED_FOLDERS]
    classes = [folder for folder in classes if folder.name.strip() not in known or any(find_pictures(folder, ()))]
    if not classes and not known:
        raise RefusedError(
            "There are no examples: {source} has no class folders inside, and no {examples} were given. Put a few "
            "pictures of each class into a folder named after it, and pass the folder of these with {examples}.",
            source=source,
            examples=Option.EXAMPLES,
        )
    return _from_class_folders(classes)


def _read_examples(sources: Sequence[Path], pictures: Path, classes: Names[str]) -> list[Example]:
    examples: list[Example] = []
    for source in sources:
        if source.is_dir():
            folders = [folder for folder in _subfolders(source) if folder.name.lower() not in UNLABELLED_FOLDERS]
            if not folders:
                raise ValueError(
                    f"{source} has no class folders; put the examples of each class in a folder of its own."
                )
            examples += _from_class_folders(folders)
        elif not source.exists():
            raise MissingInputError(
                "{source} does not exist. Give {examples} a folder of class folders, or a table.",
                source=source,
                examples=Option.EXAMPLES,
            )
        elif source.suffix.lower() in TABLE_SUFFIXES:
            examples += _from_table(source, pictures, classes)
        else:
            raise ValueError(f"Examples are a folder of class folders or a table with path,label; got {source}.")
    return examples


def _subfolders(folder: Path) -> list[Path]:
    return sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))


def _from_class_folders(folders: Iterable[Path]) -> list[Example]:
    examples = []
    for folder in folders:
        if not folder.name.strip():
            raise ValueError(f"The class folder {folder.name!r} in {folder.parent} has no name but spaces; rename it.")
        paths = list(find_pictures(folder, ()))
        if not paths:
            raise ValueError(
                f"The class {folder.name!r} has no examples: {folder} holds no pictures. Put one there or "
                "remove the folder."
            )
        examples += [Example(path, folder.name.strip()) for path in paths]
    return examples


def _from_table(path: Path, pictures: Path, classes: Names[str]) -> list[Example]:
    table = read_table(path)
    column = next((name for name in _PATH_COLUMNS if name in table.columns), None)
    if column is None or "label" not in table.columns:
        raise ValueError(f"{path}: examples need the columns path and label; it has {', '.join(table.columns)}.")
    names = [str(name or "").strip() for name in table.column(column)]
    rows = zip(names, given_labels(table.column("label"), classes), strict=True)
    # A row without a label is one the user has not come to yet.
    return [Example(find_picture(name, path, pictures), label) for name, label in rows if name and label]


def find_picture(name: str, table: Path, pictures: Path) -> Path:
    """The picture that a row of ``table`` names: in the folder ``pictures``, or beside the table."""
    tried = [Path(name)] if Path(name).is_absolute() else [pictures / name, table.parent / name]
    for path in tried:
        if path.is_file():
            return path
    raise ValueError(f"{table}: there is no picture {name!r}, neither in {pictures} nor beside the table.")


def _match(paths: Sequence[Path], examples: Sequence[Example]) -> tuple[list[str], list[Example]]:
    """Label of each path, empty where unknown, and the examples that are not among the paths.

    A copy of an example, under whatever name, is that example, and counts once.
    """
    by_content: dict[str, Example] = {}
    for example in examples:
        digest = file_digest(example.path)
        other = by_content.setdefault(digest, example)
        if other.label != example.label:
            raise ValueError(
                f"One picture is an example of two classes: {other.path} of {other.label!r} and {example.path} of "
                f"{example.label!r}. Remove one of them."
            )
    # Only a file as long as an example can be one: the others need not be read for this.
    sizes = {example.path.stat().st_size for example in examples}
    digests = [_digest(path, sizes) for path in paths]
    labels = [by_content[digest].label if digest in by_content else "" for digest in digests]
    return labels, [example for digest, example in by_content.items() if digest not in set(digests)]


def _digest(path: Path, sizes: set[int]) -> str:
    """Hash of a file of one of these sizes; empty for others, and for those that cannot be opened, reported later."""
    try:
        return file_digest(path) if path.stat().st_size in sizes else ""
    except OSError:
        return ""
