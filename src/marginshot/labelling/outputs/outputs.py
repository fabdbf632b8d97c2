"""What a labelling run writes: every file known and checked before the work, written after it, marked as ours.

Pictures may go into class folders as well. An interrupted transfer is resumed by the same request, or by `resume`.
"""

from __future__ import annotations

import os
from collections.abc import Collection as Paths
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from marginshot._lib.files import atomic_path, check_writable
from marginshot._lib.names import is_plain
from marginshot._lib.warn import warn_user
from marginshot.labelling.errors import Option, OutputExistsError, RefusedError
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.embed import Progress, silent
from marginshot.labelling.items.folders import check_apart, check_can_be_made
from marginshot.labelling.items.store import Store
from marginshot.labelling.items.tables import TABLE_SUFFIXES, write_table
from marginshot.labelling.outputs.earlier import load_earlier
from marginshot.labelling.outputs.exports import EXPORTS, Export
from marginshot.labelling.outputs.formats import Tool
from marginshot.labelling.outputs.gallery import write_gallery
from marginshot.labelling.outputs.moved import check_moved, moved_rows
from marginshot.labelling.outputs.placed import Placed, Transfer
from marginshot.labelling.outputs.records import Rows, load_record, moved_before, name_beside, record_path, remember
from marginshot.labelling.outputs.requests import Action, Job, Request
from marginshot.labelling.outputs.result import Result
from marginshot.labelling.outputs.transfers import (
    check_folder_names,
    check_record,
    check_same_files,
    check_same_job,
    check_whole,
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
        The pictures in class folders; None without ``transfer``.
    """

    files: tuple[Path, ...] = ()
    placed: Placed | None = None


def table_path(path: Path, *, pictures: bool) -> Path:
    """Where the labels go if ``path`` is given for all outputs."""
    return path / "labels.csv" if pictures else path


def check_can_move(transfer: Action | None, request: Request) -> None:
    """Raise RefusedError where pictures with boxes are to go into class folders."""
    if transfer is not None and request.source is not None and request.source.boxes is not None:
        raise RefusedError(
            "a picture may hold boxes of several classes, so pictures with boxes stay where they are.",
            at_fault=Option(transfer),
        )


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Everything that is written, and where.

    `Labelling.write` does all of it at once. The steps are there for those who want the checks before a long run.

    Parameters
    ----------
    path : Path
        A folder for pictures, a table for texts and embeddings.
    pictures : bool
        Whether ``path`` is such a folder.
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
    make_folder : bool, default=False
        Whether the folder of a table or of the model is made where there is none.

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
    make_folder: bool = False

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
        for export in self.formats:
            if not self.pictures and export.only:
                raise RefusedError(f"{export.only}; choose label-studio or bulk.", at_fault=Option.EXPORTS)
            if self.transfer == "move" and export.in_place:
                raise RefusedError(f"{export.in_place}; copy or link them instead.", at_fault=Option.MOVE)

    @property
    def formats(self) -> list[Export]:
        """The formats to export to."""
        return [EXPORTS[Tool(tool)] for tool in self.exports]

    @property
    def folder(self) -> Path:
        """Where the files beside the table go."""
        return self.path if self.pictures else self.path.parent

    @property
    def prefix(self) -> str:
        """Prefix of the files beside a table, so that several tables can share a folder."""
        return "" if self.pictures else f"{self.path.stem}-"

    @property
    def table(self) -> Path:
        """Path of the table of labels."""
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
        for export in self.formats:
            wanted += export.paths(self.folder, self.prefix)
        return wanted + ([self.model] if self.model else [])

    @property
    def n_kept(self) -> int:
        """Number of rows that the present table kept from earlier ones: their pictures were moved by earlier runs."""
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
        return finish_transfers(self.path, on_progress)

    def check(self, request: Request, store: Store | None, *, force: bool = False) -> None:
        """Raise unless all of it can be written without touching an input or anything somebody made or changed.

        Parameters
        ----------
        request : Request
            What is read.
        store : Store or None
            Knows which files are ours.
        force : bool, default=False
            Replace what others made or changed; inputs are safe all the same.
        """
        self._check_kind()
        check_can_move(self.transfer, request)
        self._check_names(request.inputs)
        check_apart(self.path, (*request.others.get("examples", ()), *request.others.get("like", ())))
        self._check_inputs(request.inputs)
        load_record(record_path(self.table))  # damaged ones are reported before the work
        load_earlier(self.path)
        for file in self.files:
            known = file in request.taken or (file.is_file() and store is not None and store.is_own_output(file))
            if file.exists() and not known and not force:
                raise OutputExistsError(
                    "{file} exists and is not, or no longer, as this command wrote it. Move it elsewhere if it holds "
                    "your work, or use {force} to replace it.",
                    file=file,
                    force=Option.FORCE,
                )
            # Folders of ours are made later; a missing one of a table or the model is made only where one is missing.
            may_be_made = self.make_folder and file.parent.parent.is_dir()
            must_be_there = file == self.model or (not self.pictures and file == self.table)
            if file.parent.is_dir() or (must_be_there and not may_be_made):
                check_writable(file)
            check_can_be_made(file.parent)
        if not force and self.labels:
            check_moved(self.table, request)
        if self.transfer == "move" and request.source is not None and not force:
            kept = moved_rows(self.table, request).items
            check_record(self.table, request.source.path, moved_before(self.table), kept)

    def check_items(self, collection: Collection) -> None:
        """Raise RefusedError where what is to be written has no place for such items."""
        for export in self.formats:
            export.check(collection)
        if self.transfer is not None:
            check_whole(collection)

    def check_classes(self, classes: Iterable[str]) -> None:
        """Raise where pictures are to go into folders that these ``classes`` cannot have."""
        classes = list(classes)
        for export in self.formats:
            export.check_classes(classes)
        if self.transfer is not None:
            check_folder_names(classes, self.path, self.files)

    def plan(self, labelling: Result) -> dict[int, Transfer]:
        """Each picture, by its row, and where it will go; empty without ``transfer``."""
        check_can_move(self.transfer, labelling.request)
        return {} if self.transfer is None else plan_transfers(labelling, self.path)

    def write(
        self, labelling: Result, store: Store | None, *, force: bool = False, on_progress: Progress = silent
    ) -> Written:
        """Resume an interrupted run of the same request; else check, tell the session, write, and place the pictures.

        Parameters
        ----------
        labelling : Result
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
        self.check_items(labelling.collection)
        self.check_classes(labelling.classes)
        for note in labelling.tell() if labelling.tell is not None else ():
            warn_user(note)
        self.write_files(labelling, store, on_progress)
        return Written(tuple(self.files), self.place_pictures(labelling, on_progress))

    def write_files(self, labelling: Result, store: Store | None, on_progress: Progress = silent) -> None:
        """Write all but the pictures; each file is known as ours from the moment it is there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        before = labelling
        labelling = moved(labelling, self.plan(labelling), self.path) if self.transfer == "move" else labelling
        there = replace(labelling.collection, contents=before.collection.contents)  # not moved yet
        readable = replace(labelling, collection=there)
        if self.labels:
            self._write_labels(labelling, before, store)
        if self.suggestions:
            with _owned(store, self.beside("suggestions.csv")) as table:
                write_table(labelling.suggestions(), table)
        for export in self.formats:
            with ExitStack() as stack:
                paths = [stack.enter_context(_owned(store, path)) for path in export.paths(self.folder, self.prefix)]
                export.write(readable if export.reads_files else labelling, paths)
        if self.model is not None:
            with _owned(store, self.model, private=True) as model:  # it holds the embeddings of all items
                labelling.model.save(model)
        if self.gallery:
            on_progress("writing the gallery", 0, 0)
            with _owned(store, self.beside("gallery.html")) as page:
                write_gallery(readable, page)

    def _write_labels(self, labelling: Result, before: Result, store: Store | None) -> None:
        """Write the table and its record; ``before`` has the paths of today.

        The record, which knows the old table too, takes its place once the new table is whole, and just before that
        does: a full disk leaves no record of a table that is not there, and a kill no table without a record.
        """
        source, columns = labelling.request.source, labelling.columns()
        names = [before.collection.keys[row] for row in before.rows]
        if source is not None:
            names, columns = source.in_rows(columns["item"], names), source.filled(columns)
        earlier = names if labelling is not before else []
        known = labelling.collection.digests if self.pictures else ()
        digests = [known[row] for row in labelling.rows] if known else []
        kept = moved_rows(self.table, labelling.request, columns.get("item", ()))
        if kept.items:
            columns = {name: [*values, *kept.columns[name]] for name, values in columns.items()}
            earlier, digests = [*earlier, *kept.items] if earlier else [], [*digests, *kept.digests]
            names = [*names, *(name_beside(self.table, key) for key in kept.items)]
        with _owned(store, self.table) as table:
            write_table(columns, table)
            remember(self.table, columns, labelling.request, Rows(names, earlier, digests, kept.items))

    def place_pictures(self, labelling: Result, on_progress: Progress = silent) -> Placed | None:
        """Copy, move or link every labelled picture into the folder of its class; None without ``transfer``."""
        job = self._job(labelling.request)
        if job is None:
            return None
        plan = self.plan(labelling)
        placed = start_transfers(plan.values(), job, self.path, on_progress, self._unplaced(labelling, plan))
        return replace(placed, stale=tuple(dict.fromkeys((*placed.stale, *stale(labelling, self.path.absolute())))))

    def outdated(self, labelling: Result) -> list[Path]:
        """Copies and links of earlier runs that go, unless they were changed: their pictures have another class now."""
        if self.transfer is None:
            return []
        plan = self.plan(labelling)
        places = dict.fromkeys(self._unplaced(labelling, plan)) | {item.source: item.target for item in plan.values()}
        return load_earlier(self.path).outdated(places)

    def _unplaced(self, labelling: Result, plan: Paths[int]) -> list[Path]:
        """The pictures that get no label."""
        return [Path(labelling.collection.contents[row]).absolute() for row in labelling.rows if row not in plan]

    def _job(self, request: Request) -> Job | None:
        """The transfer of the pictures, with every option that decides it; None without ``transfer``."""
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


def resume(
    path: str | os.PathLike[str],
    folder: str | os.PathLike[str],
    transfer: Action,
    on_progress: Progress = silent,
) -> Placed | None:
    """Complete an interrupted transfer: copy, move or link the pictures that the stopped run did not reach.

    Nothing is labelled again: the table and the other files are those of the run that was stopped. A list of pictures
    of another folder, or of another transfer, is refused: whoever may write into ``path`` could have left it there.

    Parameters
    ----------
    path : path
        The folder of class folders.
    folder : path
        The folder whose pictures were labelled.
    transfer : {"copy", "move", "link"}
        What was to be done to them.
    on_progress : callable, optional
        Called with the name of a phase, the number of pictures in place, and of all; 0 of 0 where none are counted.

    Returns
    -------
    Placed or None
        None where nothing was left unfinished.

    Examples
    --------
    >>> if resume("labelled", "photos", "move") is None:                                  # doctest: +SKIP
    ...     label_images("photos", "my-examples").write("labelled", transfer="move")
    """
    if not unfinished(Path(path)):
        return None
    check_same_files(transfer, Path(folder), Path(path))
    placed = finish_transfers(Path(path), on_progress)
    placed.check_complete()
    return placed


@contextmanager
def _owned(store: Store | None, file: Path, *, private: bool = False) -> Iterator[Path]:
    """A temporary path that takes the place of ``file``, which a ``store`` remembers as ours."""
    file.parent.mkdir(exist_ok=True)  # that of FiftyOne's files
    writing = atomic_path(file, private=private) if store is None else store.own_output(file, private=private)
    with writing as temporary:
        yield temporary
