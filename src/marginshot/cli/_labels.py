"""What `label` and `apply` share: the input by its kind, outputs checked before the work and written after."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from marginshot.cli._errors import INTERRUPTED
from marginshot.cli._output import check_outputs, emit, emit_grid, progress_bar, say

if TYPE_CHECKING:
    from marginshot.labelling.collection import Collection
    from marginshot.labelling.encoders import ItemEncoder
    from marginshot.labelling.jobs import Action, Job
    from marginshot.labelling.labelling import Labelling
    from marginshot.labelling.store import Store
    from marginshot.labelling.tables import Table
    from marginshot.labelling.transfers import Done

REVIEW_COLUMNS = ("probability", "runner_up", "review")


@dataclass(frozen=True)
class Source:
    """What is to be labelled: a folder of pictures, or a table whose column ``label`` is to be filled."""

    path: Path
    table: Table | None = None
    label: str = ""

    def columns(self, labelling: Labelling) -> dict[str, Any]:
        """What goes into the table of labels."""
        return labelling.columns() if self.table is None else _filled(self.table, self.label, labelling)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Everything that is written, and where.

    Parameters
    ----------
    out : Path
        A folder for pictures, a table for texts and embeddings.
    pictures : bool
        Which of the two.
    gallery : bool
        Whether to write the page.
    suggest : bool
        Whether to write the suggestions.
    exports : sequence of str
        Tools to export to: names of `Export`.
    save : Path, optional
        For the model.
    """

    out: Path
    pictures: bool
    gallery: bool = True
    suggest: bool = False
    exports: Sequence[str] = ()
    save: Path | None = None

    @property
    def folder(self) -> Path:
        """Where the files beside the table go."""
        return self.out if self.pictures else self.out.parent

    @property
    def prefix(self) -> str:
        """What distinguishes them where several tables share a folder."""
        return "" if self.pictures else f"{self.out.stem}-"

    @property
    def table(self) -> Path:
        """The labels."""
        return self.out / "labels.csv" if self.pictures else self.out

    def beside(self, name: str) -> Path:
        """Path of another output."""
        return self.folder / f"{self.prefix}{name}"

    def paths(self) -> list[Path]:
        """Every file that will be written."""
        from marginshot.labelling.exports import Export, export_paths

        wanted = [self.table]
        wanted += [self.beside("gallery.html")] if self.gallery else []
        wanted += [self.beside("suggestions.csv")] if self.suggest else []
        for form in self.exports:
            wanted += export_paths(Export(form), self.folder, self.prefix)
        return wanted + ([self.save] if self.save else [])

    def check(self, inputs: Sequence[Path], store: Store | None, *, force: bool) -> None:
        """Raise unless all of it can be written without touching the inputs or anything somebody made or changed."""
        from marginshot.labelling.tables import TABLE_SUFFIXES

        if self.pictures and self.out.exists() and not self.out.is_dir():
            raise typer.BadParameter(f"{self.out} is a file; labels of pictures go to a folder.", param_hint="--out")
        if not self.pictures and self.out.suffix.lower() not in TABLE_SUFFIXES:
            raise typer.BadParameter(
                f"labels of a table are written to {', '.join(TABLE_SUFFIXES)}; got {self.out.name!r}.",
                param_hint="--out",
            )
        if not self.pictures and "fiftyone" in self.exports:
            raise typer.BadParameter("FiftyOne holds pictures; choose label-studio or bulk.", param_hint="--export")
        taken = {path.resolve() for path in inputs}
        if self.out.resolve() in taken:
            raise typer.BadParameter("the output must not be the input.", param_hint="--out")
        for path in self.paths():
            if path.resolve() in taken:
                raise typer.BadParameter(
                    f"{path} is the input, or where another output goes; give another name.",
                    param_hint="--save" if path == self.save else "--out",
                )
            taken.add(path.resolve())
        for path in self.paths():
            known = path.is_file() and store is not None and store.is_own_output(path)
            if path.exists() and not known and not force:
                raise FileExistsError(
                    f"{path} exists and is not, or no longer, as this command wrote it. Move it elsewhere if it "
                    "holds your work, or use --force to replace it."
                )
            # Folders of ours are made later; that of a table, or of the model, must be there.
            if path.parent.is_dir() or path in (self.save, self.table if not self.pictures else None):
                check_outputs([path], force=True)
            _check_can_be_made(path.parent)

    def write(self, labelling: Labelling, columns: dict[str, Any], exported: Labelling, store: Store | None) -> None:
        """Write everything, and remember each file as ours once it is there: the rest may be interrupted."""
        from marginshot.labelling.exports import Export, export_paths, write_export
        from marginshot.labelling.tables import write_table

        def mark(*paths: Path) -> None:
            if store is not None:
                for path in paths:
                    store.mark_output(path)

        self.folder.mkdir(parents=True, exist_ok=True)
        write_table(columns, self.table)
        mark(self.table)
        if self.suggest:
            write_table(labelling.suggestions(), self.beside("suggestions.csv"))
            mark(self.beside("suggestions.csv"))
        for form in map(Export, self.exports):
            write_export(exported, form, self.folder, self.prefix)
            mark(*export_paths(form, self.folder, self.prefix))
        if self.save is not None:
            labelling.model.save(self.save)
            mark(self.save)
        if self.gallery:
            labelling.write_gallery(self.beside("gallery.html"))
            mark(self.beside("gallery.html"))


def _check_can_be_made(folder: Path) -> None:
    """Raise unless ``folder`` is one that can be written, or can become one."""
    whole = folder.absolute()
    above = next(place for place in (whole, *whole.parents) if os.path.lexists(place))
    if not above.is_dir():
        raise NotADirectoryError(
            f"{folder} cannot be a folder: {above} is a file, or a link to nowhere. Move that elsewhere, or give "
            "another --out."
        )
    if not os.access(above, os.W_OK):
        raise PermissionError(f"{folder} cannot be written: {above} does not allow it. Give another --out.")


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end the command with a word about what is kept."""
    try:
        yield
    except KeyboardInterrupt:
        say("Interrupted. Finished embeddings and files are kept; run the same command again to go on.")
        raise typer.Exit(INTERRUPTED) from None


def open_cache(folder: Path | None, megabytes: int, *, use: bool) -> Store | None:
    """The cache the options ask for."""
    from marginshot.labelling.store import Store, default_folder

    return Store(folder or default_folder(), megabytes * 1_000_000) if use else None


def open_source(path: Path, label: str | None) -> Source:
    """A folder, a table, or an ``.npz`` as one."""
    from marginshot.labelling.tables import read_npz, read_table

    if path.is_dir():
        if label is not None:
            raise typer.BadParameter(f"{path} is a folder of pictures and has no columns.", param_hint="--label")
        return Source(path)
    if not path.exists():
        raise FileNotFoundError(f"There is no {path}. Give a folder of pictures, a table or a file of embeddings.")
    npz = path.suffix.lower() == ".npz"
    table = read_npz(path, label) if npz else read_table(path)
    taken = [name for name in REVIEW_COLUMNS if name in table.columns]
    if taken:
        raise ValueError(f"{table.source} has a column {taken[0]!r} already, where ours would go. Rename or drop it.")
    return Source(path, table, label or ("y" if npz else "label"))


def chosen_action(*, copy: bool, move: bool, link: bool, dry_run: bool) -> Action | None:
    """At most one of the three."""
    chosen: list[Action] = []
    chosen += ["copy"] if copy else []
    chosen += ["move"] if move else []
    chosen += ["link"] if link else []
    if len(chosen) > 1:
        raise typer.BadParameter(f"choose one of --{' and --'.join(chosen)}.")
    if dry_run and not chosen:
        raise typer.BadParameter(
            "it lists what --copy, --move or --link would do; give one of them.", param_hint="--dry-run"
        )
    return chosen[0] if chosen else None


def check_no_action(action: Action | None) -> None:
    """Only pictures are files of their own."""
    if action is not None:
        raise typer.BadParameter("only pictures can go into class folders; this is a table.", param_hint=f"--{action}")


def resume(job: Job | None, out: Path) -> bool:
    """Complete what an earlier run of the same ``job`` into ``out`` left unfinished; whether there was anything."""
    from marginshot.labelling.transfers import finish_transfers, unfinished

    if not unfinished(out):
        return False
    with progress_bar("files") as on_progress:
        begun, done = finish_transfers(job, out, on_progress)
    if not done.conflicts:
        say(f"An earlier run left {out} half filled; that is complete now. Nothing was labelled again.")
    _report_transfer(begun, done, out)
    return True


def check_earlier_record(outputs: Outputs, source: Path, action: Action | None, *, force: bool) -> None:
    """Raise before the work where moving would end in a table without the pictures moved before."""
    from marginshot.labelling.transfers import check_record

    if action == "move" and outputs.pictures and not force:
        check_record(outputs.table, source)


def check_class_folders(classes: Iterable[str], outputs: Outputs, action: Action | None) -> None:
    """Raise before the work where pictures are to go into class folders that cannot be."""
    from marginshot.labelling.transfers import check_folder_names

    if action is not None:
        check_folder_names(classes, outputs.out, outputs.paths())


def collect_rows(table: Table, text: str | None, label: str | None) -> Collection:
    """The rows of a table as texts, or as embeddings where no text column is named."""
    from marginshot.labelling.tables import EMBEDDING_COLUMN, collect_embeddings, collect_texts

    if text is not None:
        return collect_texts(table, text, label)
    if EMBEDDING_COLUMN not in table.columns:
        raise typer.BadParameter(
            f"{table.source} has no column {EMBEDDING_COLUMN!r}; name the column of texts (one of "
            f"{', '.join(table.columns)}).",
            param_hint="--text",
        )
    return collect_embeddings(table, label)


def make_encoder(collection: Collection, name: str | None, device: str) -> ItemEncoder | None:
    """The encoder for what is to be labelled; None for embeddings."""
    from marginshot.labelling.encoders import PICTURE_ENCODER, TEXT_ENCODER, PictureEncoder, TextEncoder

    if collection.kind == "picture":
        return PictureEncoder(name or PICTURE_ENCODER, device)
    if collection.kind == "text":
        return TextEncoder(name or TEXT_ENCODER, device)
    return None


def finish(
    labelling: Labelling,
    source: Source,
    outputs: Outputs,
    store: Store | None,
    *,
    job: Job | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Write the outputs, then touch the pictures; or only say what would be done."""
    from marginshot.labelling.transfers import moved, plan_transfers, stale, start_transfers

    action = None if job is None else job.action
    plan = {} if action is None else plan_transfers(labelling, outputs.out)
    if dry_run:
        for item in plan.values():
            emit(f"{action} {item.source} -> {item.target}")
        say(f"Dry run: {len(plan):,} pictures would go into class folders. Nothing was written.")
        return
    exported = moved(labelling, plan) if action == "move" else labelling
    outputs.write(labelling, source.columns(labelling), exported, store)
    report(labelling, outputs, as_json=as_json)
    if job is None:
        return
    with progress_bar("files") as on_progress:
        done = start_transfers(plan.values(), job, outputs.out, on_progress)
    if earlier := stale(labelling, outputs.out):
        say(
            f"{len(earlier):,} pictures are in the folder of another class as well, from earlier answers; the first is "
            f"{earlier[0]}. Remove what you do not want."
        )
    _report_transfer(job.action, done, outputs.out)


def _filled(table: Table, label: str, labelling: Labelling) -> dict[str, Any]:
    """The table with its label column filled and our columns after it; embeddings are left out."""
    from marginshot.labelling.tables import EMBEDDING_COLUMN

    ours = labelling.columns()
    columns = {name: list(values) for name, values in table.columns.items() if name != EMBEDDING_COLUMN}
    if not set(columns) - {label}:
        columns = {"item": ours["item"], **columns}
    columns[label] = ours["label"]
    return columns | {name: ours[name] for name in REVIEW_COLUMNS}


def _report_transfer(action: Action, done: Done, out: Path) -> None:
    from marginshot.labelling.transfers import JOURNAL

    past = {"copy": "Copied", "move": "Moved", "link": "Linked"}[action]
    say(f"{past} {done.n_done:,} pictures into class folders.")
    if done.conflicts:
        first = done.conflicts[0]
        otherwise = f", or remove {out / JOURNAL} to leave them there" if action == "move" else ""
        raise FileExistsError(
            f"Left {len(done.conflicts):,} pictures where they are, because another file has their name; the first is "
            f"{first.target}. Move that away and run again{otherwise}."
        )


def report(labelling: Labelling, outputs: Outputs | None, *, as_json: bool) -> None:
    """The summary: items per class to stdout, everything else to stderr."""
    from marginshot.labelling.exports import Export, how_to_open
    from marginshot.reporting.grid import Cell, Grid

    rows = labelling.rows
    counts = labelling.counts()
    close = dict.fromkeys(counts, 0)
    for row in rows[labelling.answers.close[rows]].tolist():
        if labelling.labels[row]:
            close[labelling.labels[row]] += 1
    n_foreign = int(labelling.answers.foreign[rows].sum())
    for item, reason in list(labelling.problems.items())[:10]:
        say(f"Left out {item}: {reason}.")
    if len(labelling.problems) > 10:
        say(f"Left out {len(labelling.problems) - 10:,} more that cannot be read.")
    if as_json:
        content = {
            "counts": counts,
            "close_calls": close,
            "none_of_the_classes": n_foreign,
            "left_out": labelling.problems,
            "seconds": {name: round(value, 3) for name, value in labelling.seconds.items()},
            "files": [] if outputs is None else [str(path) for path in outputs.paths()],
        }
        emit(json.dumps(content, indent=1))
        return
    cells = tuple((Cell(name), Cell(f"{counts[name]:,}"), Cell(f"{close[name]:,}")) for name in labelling.classes)
    emit_grid(Grid(headers=("Class", "Items", "Close calls"), sections=(cells,), n_text=1))
    fate = "were given no label" if labelling.rejected else "are marked for review"
    say(f"{n_foreign:,} look like none of the classes and {fate}.")
    if outputs is not None:
        say(f"Labels: {outputs.table}")
        if outputs.gallery:
            say(f"Gallery: {outputs.beside('gallery.html')}")
        if outputs.suggest:
            say(f"Label these next: {outputs.beside('suggestions.csv')}")
        for form in map(Export, outputs.exports):
            say(f"Open in {form}: {how_to_open(form, labelling, outputs.folder, outputs.prefix)}")
