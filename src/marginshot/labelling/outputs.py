"""What a labelling run writes: every file known and checked before the work, written after it, marked as ours.

Pictures may go into class folders as well. Whatever stops that is gone on with by the same request, or by `resume`.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from marginshot._lib.files import atomic_path, check_writable
from marginshot._lib.names import is_plain
from marginshot.labelling.embed import Progress, silent
from marginshot.labelling.errors import Option, OutputExistsError, RefusedError
from marginshot.labelling.exports import export_paths, write_export
from marginshot.labelling.folders import check_apart
from marginshot.labelling.formats import Tool
from marginshot.labelling.labelling import Labelling
from marginshot.labelling.moved import check_moved, moved_rows
from marginshot.labelling.records import load_record, moved_before, record_path, remember
from marginshot.labelling.requests import Action, Job, Request
from marginshot.labelling.store import Store
from marginshot.labelling.tables import TABLE_SUFFIXES, write_table
from marginshot.labelling.transfers import (
    Placed,
    Transfer,
    check_folder_names,
    check_record,
    check_same_job,
    finish_transfers,
    moved,
    plan_transfers,
    stale,
    start_transfers,
    unfinished,
)


@dataclass(frozen=True)
class Written:
    """What a labelling run left behind.

    Parameters
    ----------
    files : tuple of Path
        Every file written, the table first; none where only the pictures of an earlier run were completed.
    placed : Placed, optional
        The pictures in class folders; None where pictures stay as they are.
    """

    files: tuple[Path, ...] = ()
    placed: Placed | None = None


def table_path(path: Path, *, pictures: bool) -> Path:
    """Where the labels go if ``path`` is given for all outputs."""
    return path / "labels.csv" if pictures else path


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Everything that is written, and where.

    `Labelling.write` does all of it at once. The steps are there for those who want the checks before a long run.

    Parameters
    ----------
    path : Path
        A folder for pictures, a table for texts and embeddings.
    pictures : bool
        Which of the two.
    transfer : {"copy", "move", "link"}, optional
        What to do with pictures: into the folder of their class, below ``path``.
    labels : bool, default=True
        Whether to write the table.
    gallery : bool, default=True
        Whether to write the page.
    suggestions : bool, default=False
        Whether to write the suggestions.
    exports : sequence of str, default=()
        Tools to export to: names of `Tool`.
    model : Path, optional
        Where to save the model.

    Examples
    --------
    >>> outputs = Outputs(path=Path("labelled"), pictures=True, transfer="move", exports=["bulk"])
    >>> [str(file) for file in outputs.files]
    ['labelled/labels.csv', 'labelled/gallery.html', 'labelled/bulk.csv']
    """

    path: Path
    pictures: bool
    transfer: Action | None = None
    labels: bool = True
    gallery: bool = True
    suggestions: bool = False
    exports: Sequence[str] = ()
    model: Path | None = None

    def __post_init__(self) -> None:
        if self.transfer is not None and self.transfer not in get_args(Action):
            raise ValueError(f"transfer must be one of {', '.join(get_args(Action))}; got {self.transfer!r}.")
        for tool in self.exports:
            if tool not in set(Tool):
                raise ValueError(f"exports must be among {', '.join(Tool)}; got {tool!r}.")
        if not self.pictures and self.transfer is not None:
            raise RefusedError(
                "only pictures can go into class folders; this is a table.", at_fault=Option(self.transfer)
            )
        if not self.pictures and Tool.FIFTYONE in self.exports:
            raise RefusedError("FiftyOne holds pictures; choose label-studio or bulk.", at_fault=Option.EXPORTS)

    @property
    def folder(self) -> Path:
        """Where the files beside the table go."""
        return self.path if self.pictures else self.path.parent

    @property
    def prefix(self) -> str:
        """What distinguishes them where several tables share a folder."""
        return "" if self.pictures else f"{self.path.stem}-"

    @property
    def table(self) -> Path:
        """The labels."""
        return table_path(self.path, pictures=self.pictures)

    def beside(self, name: str) -> Path:
        """Path of another output."""
        return self.folder / f"{self.prefix}{name}"

    @property
    def files(self) -> list[Path]:
        """Every file that will be written, class folders aside."""
        wanted = [self.table] if self.labels else []
        wanted += [self.beside("gallery.html")] if self.gallery else []
        wanted += [self.beside("suggestions.csv")] if self.suggestions else []
        for tool in self.exports:
            wanted += export_paths(Tool(tool), self.folder, self.prefix)
        return wanted + ([self.model] if self.model else [])

    @property
    def n_kept(self) -> int:
        """Number of rows of the table as it is now that were kept: their pictures were moved by earlier runs."""
        record = load_record(record_path(self.table))
        return 0 if record is None else len(record.written[0].kept)

    @property
    def unfinished(self) -> bool:
        """Whether an earlier run was stopped while it put pictures into class folders here."""
        return unfinished(self.path)

    def resume(self, request: Request, on_progress: Progress = silent) -> Placed | None:
        """Complete what an earlier run of the same ``request`` left unfinished; None where there is nothing."""
        if not self.unfinished:
            return None
        check_same_job(self._job(request), self.path)
        return _complete(self.path, on_progress)

    def check(
        self, request: Request, store: Store | None, *, force: bool = False, taken: Collection[Path] = ()
    ) -> None:
        """Raise unless all of it can be written without touching an input or anything somebody made or changed.

        Parameters
        ----------
        request : Request
            What is read.
        store : Store or None
            Knows which files are ours.
        force : bool, default=False
            Replace what others made or changed; inputs are safe all the same.
        taken : collection of Path
            Files that may be replaced: what was changed in them is in the request.
        """
        self._check_kind()
        self._check_names(request.inputs)
        check_apart(self.path, request.others.get("examples", ()))
        self._check_inputs(request.inputs)
        load_record(record_path(self.table))  # a damaged one is reported before the work
        for file in self.files:
            known = file in taken or (file.is_file() and store is not None and store.is_own_output(file))
            if file.exists() and not known and not force:
                raise OutputExistsError(
                    "{file} exists and is not, or no longer, as this command wrote it. Move it elsewhere if it holds "
                    "your work, or use {force} to replace it.",
                    file=file,
                    force=Option.FORCE,
                )
            # Folders of ours are made later; that of a table, or of the model, must be there.
            if file.parent.is_dir() or file == self.model or (not self.pictures and file == self.table):
                check_writable(file)
            _check_can_be_made(file.parent)
        if not force and self.labels:
            check_moved(self.table, request)
        if self.transfer == "move" and request.source is not None and not force:
            kept = moved_rows(self.table, request).items
            check_record(self.table, request.source.path, moved_before(self.table), kept)

    def check_classes(self, classes: Iterable[str]) -> None:
        """Raise where pictures are to go into folders that these ``classes`` cannot have."""
        if self.transfer is not None:
            check_folder_names(classes, self.path, self.files)

    def plan(self, labelling: Labelling) -> dict[int, Transfer]:
        """Each picture, by its row, and where it will go; empty where pictures stay as they are."""
        return {} if self.transfer is None else plan_transfers(labelling, self.path)

    def write(
        self, labelling: Labelling, store: Store | None, *, force: bool = False, on_progress: Progress = silent
    ) -> Written:
        """Go on with what an earlier run of the same request left; else check, write the files, place the pictures.

        Parameters
        ----------
        labelling : Labelling
            The answers.
        store : Store or None
            Where files are marked as ours, so that the next run may replace them.
        force : bool, default=False
            Replace what others made or changed.
        on_progress : callable, optional
            Called with the name of a phase, the number of pictures in place, and of all; 0 of 0 where none are counted.
        """
        resumed = self.resume(labelling.request, on_progress)
        if resumed is not None:
            return Written((), resumed)
        self.check(labelling.request, store, force=force)
        self.check_classes(labelling.classes)
        self.write_files(labelling, store, on_progress)
        return Written(tuple(self.files), self.place_pictures(labelling, on_progress))

    def write_files(self, labelling: Labelling, store: Store | None, on_progress: Progress = silent) -> None:
        """Write all but the pictures; each file is known as ours from the moment it is there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        before = labelling
        labelling = moved(labelling, self.plan(labelling), self.path) if self.transfer == "move" else labelling
        if self.labels:
            self._write_labels(labelling, before, store)
        if self.suggestions:
            with _owned(store, self.beside("suggestions.csv")) as table:
                write_table(labelling.suggestions(), table)
        for tool in map(Tool, self.exports):
            with ExitStack() as stack:
                paths = export_paths(tool, self.folder, self.prefix)
                write_export(labelling, tool, [stack.enter_context(_owned(store, path)) for path in paths])
        if self.model is not None:
            with _owned(store, self.model) as model:
                labelling.model.save(model)
        if self.gallery:
            on_progress("writing the gallery", 0, 0)
            with _owned(store, self.beside("gallery.html")) as page:
                there = replace(labelling.collection, contents=before.collection.contents)  # not moved yet
                replace(labelling, collection=there).write_gallery(page)

    def _write_labels(self, labelling: Labelling, before: Labelling, store: Store | None) -> None:
        """Write the table and its record; ``before`` has the paths of today.

        The record, which knows the old table too, takes its place once the new table is whole, and just before that
        does: a full disk leaves no record of a table that is not there, and a kill no table without a record.
        """
        source, columns = labelling.request.source, labelling.columns()
        columns = columns if source is None else source.filled(columns)
        earlier = before.columns()["item"] if labelling is not before else []
        known = labelling.collection.digests if self.pictures else ()
        digests = [known[row] for row in labelling.rows] if known else []
        kept = moved_rows(self.table, labelling.request, columns.get("item", ()))
        if kept.items:
            columns = {name: [*values, *kept.columns[name]] for name, values in columns.items()}
            earlier, digests = [*earlier, *kept.items] if earlier else [], [*digests, *kept.digests]
        with _owned(store, self.table) as table:
            write_table(columns, table)
            remember(self.table, columns, labelling.request, earlier, digests, kept.items)

    def place_pictures(self, labelling: Labelling, on_progress: Progress = silent) -> Placed | None:
        """Copy, move or link every labelled picture into the folder of its class; None where they stay as they are."""
        job = self._job(labelling.request)
        if job is None:
            return None
        done = start_transfers(self.plan(labelling).values(), job, self.path, on_progress)
        earlier = tuple(stale(labelling, self.path))
        return Placed(job.action, self.path, done.n_done, done.conflicts, earlier, done.vanished)

    def _job(self, request: Request) -> Job | None:
        """What is done to the pictures, with all that decides it; None where they stay as they are."""
        if self.transfer is None:
            return None
        model = self.model and self.model.resolve()
        return request.job(self.transfer, save=model, export=sorted(self.exports), gallery=self.gallery)

    def _check_kind(self) -> None:
        if self.pictures and self.path.exists() and not self.path.is_dir():
            raise RefusedError(f"{self.path} is a file; labels of pictures go to a folder.", at_fault=Option.PATH)
        if not self.pictures and self.path.suffix.lower() not in TABLE_SUFFIXES:
            raise RefusedError(
                f"labels of a table are written to {', '.join(TABLE_SUFFIXES)}; got {self.path.name!r}.",
                at_fault=Option.PATH,
            )

    def _check_names(self, inputs: Iterable[Path]) -> None:
        """Raise where a path that goes into an output cannot be written there."""
        for path in (self.path, *inputs) if self.exports else ():
            if not is_plain(str(path.absolute())):
                raise RefusedError(
                    f"the path {str(path)!a} is not UTF-8 or holds control characters, and no other tool would find "
                    "the files; rename it, or export nothing.",
                    at_fault=Option.EXPORTS,
                )

    def _check_inputs(self, inputs: Iterable[Path]) -> None:
        """Raise where an output would go over an input or over another output."""
        taken = {path.resolve() for path in inputs}
        if self.path.resolve() in taken:
            raise RefusedError("the output must not be the input.", at_fault=Option.PATH)
        for file in self.files:
            if file.resolve() in taken:
                raise RefusedError(
                    f"{file} is the input, or where another output goes; give another name.",
                    at_fault=Option.MODEL if file == self.model else Option.PATH,
                )
            taken.add(file.resolve())


def resume(path: str | os.PathLike[str], on_progress: Progress = silent) -> Placed | None:
    """Complete what a stopped run left in a folder: the pictures it had yet to copy, move or link.

    Nothing is labelled again: the table and the other files are those of the run that was stopped.

    Parameters
    ----------
    path : path
        The folder of class folders.
    on_progress : callable, optional
        Called with the name of a phase, the number of pictures in place, and of all; 0 of 0 where none are counted.

    Returns
    -------
    Placed or None
        None where nothing was left unfinished.

    Examples
    --------
    >>> if resume("labelled") is None:                                                    # doctest: +SKIP
    ...     label_images("photos", "my-examples").write("labelled", transfer="move")
    """
    if not unfinished(Path(path)):
        return None
    placed = _complete(Path(path), on_progress)
    placed.check_complete()
    return placed


def _complete(path: Path, on_progress: Progress) -> Placed:
    begun, done = finish_transfers(path, on_progress)
    return Placed(begun.action, path, done.n_done, done.conflicts, vanished=done.vanished)


@contextmanager
def _owned(store: Store | None, file: Path) -> Iterator[Path]:
    """A temporary path that takes the place of ``file``, which a ``store`` remembers as ours."""
    file.parent.mkdir(exist_ok=True)  # that of FiftyOne's files
    with atomic_path(file, private=True) if store is None else store.own_output(file) as temporary:
        yield temporary


def _check_can_be_made(folder: Path) -> None:
    """Raise unless ``folder`` is one that can be written, or can become one."""
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
