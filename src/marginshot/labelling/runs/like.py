"""Labels of an earlier session or run, found by its source or by its outputs; nothing of it is changed."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from marginshot.labelling.answers.classes import read_classes
from marginshot.labelling.answers.classify import LabelSettings
from marginshot.labelling.errors import MissingInputError, Option, RefusedError
from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.encoders import check_own
from marginshot.labelling.items.events import usual_gap, with_events
from marginshot.labelling.items.folders import find_files
from marginshot.labelling.items.sources import Source, open_source, with_boxes
from marginshot.labelling.items.store import Store
from marginshot.labelling.outputs.outputs import Outputs, table_path
from marginshot.labelling.outputs.records import Record, load_record, name_beside, record_path
from marginshot.labelling.outputs.result import GIVEN
from marginshot.labelling.runs.old import Old
from marginshot.labelling.runs.run import Run
from marginshot.labelling.session.events import EventLog, default_folder
from marginshot.labelling.session.journal import Journal
from marginshot.labelling.session.opening import log_of, open_collection


def open_old(
    path: Path, new: Source, text: str | None, event_gap: float | None, store: Store | None, encoder: str | None = None
) -> Old:
    """The items of an earlier source with the labels that a person gave.

    Parameters
    ----------
    path : Path
        That source, or the folder or table that a run wrote.
    new : Source
        What is to be labelled.
    text : str or None
        Column of texts; that of the earlier run holds where it is known.
    event_gap : float or None
        Seconds between pictures of an event; those of the earlier run hold where they are known.
    store : Store or None
        The cache.
    encoder : str, optional
        The one that was asked for; without, that of the earlier run is taken.
    """
    if not path.exists():
        raise MissingInputError(
            f"{path} does not exist. Give the folder or table that was labelled before, or what `label` wrote."
        )
    table = table_path(path, pictures=path.is_dir())
    record = load_record(record_path(table))
    old = _of_session(path, new, text, event_gap) if record is None else _of_run(path, table, record, text, store)
    _check_apart(old.source, new.path)
    if not any(old.collection.labels):
        raise RefusedError(
            f"no person has labelled an item of {old.source}, so nothing can be learned from it.",
            at_fault=Option.LIKE,
        )
    if encoder is not None:
        return replace(old, encoder=encoder)
    if old.encoder is not None:
        check_own(old.encoder, record_path(table))
    return old


def _check_apart(old: Path, new: Path) -> None:
    """Raise RefusedError where one source is the other, or lies in it."""
    first, second = old.resolve(), new.resolve()
    if first.is_relative_to(second) or second.is_relative_to(first):
        raise RefusedError(
            f"{old} and {new} are one source, or one lies in the other. What was labelled in {new} before is known "
            "there anyway.",
            at_fault=Option.LIKE,
        )


def _of_session(path: Path, new: Source, text: str | None, event_gap: float | None) -> Old:
    """What the session of a source knows."""
    opened = open_source(path, None)
    if new.boxes is not None:
        raise RefusedError(
            f"which boxes were labelled in {path} is known to what `label` wrote; give that folder.",
            at_fault=Option.LIKE,
        )
    log = log_of(opened, text, default_folder())
    if not log.exists():
        raise RefusedError(
            "{path} was not labelled before: there is no session of it here, and no record of a run in it. Give what "
            "`label` wrote from it, or its labelled items with {examples}.",
            at_fault=Option.LIKE,
            path=path,
            examples=Option.EXAMPLES,
        )
    collection = open_collection(opened, text, None, (), ())
    with closing(Journal(collection, EventLog(log, copy=True))) as journal:
        journal.begin(collection.labels, {}, folders=opened.table is None)  # finds pictures that were renamed since
        labels = tuple(journal.state.label_of(row) for row in range(len(collection)))
    return Old(path, path, with_events(replace(collection, labels=labels), usual_gap(opened, event_gap)))


def _of_run(path: Path, table: Path, record: Record, text: str | None, store: Store | None) -> Old:
    """What a run that left this ``record`` beside its ``table`` knows, with what was corrected there since."""
    source, options = Path(record.source), record.options
    if not source.exists():
        raise MissingInputError(
            "{path} was written from {source}, which is not there any more. Bring it back, or give its labelled items "
            "with {examples}.",
            path=path,
            source=source,
            examples=Option.EXAMPLES,
        )
    opened = open_source(source, None if source.is_dir() else record.column)
    if options.get("boxes"):
        opened = with_boxes(opened, Path(options["boxes"]), float(options.get("box_confidence", 0.2)))
    column = None if opened.table is None else options.get("text") or text
    run = Run(
        opened,
        LabelSettings(),
        store,
        outputs=Outputs(path=path, pictures=opened.table is None),
        text=column,
        classes=read_classes(options.get("classes") or ""),
        session=options.get("session", True),
        rehearsal=True,
    )
    collection = with_events(_collect(run, table, record), usual_gap(opened, options.get("event_gap")))
    return Old(path, source, collection, options.get("encoder"))


def _collect(run: Run, table: Path, record: Record) -> Collection:
    """The items of an earlier ``run`` with the labels given in its source, its tables and its session."""
    said, last = run.hear(()), record.written[0]
    said.examples = [folder for folder in said.examples if folder.exists()]
    source, folder = run.source.path, run.source.table is None
    if folder:
        known = {*said.labels, *said.news.labels}  # the latter may have been taken away
        names = [name_beside(table, key) if key in last.moved else key for key in last.keys]
        marked = zip(names, last.label, last.review, strict=True)
        said.labels |= {name: label for name, label, mark in marked if mark == GIVEN and name not in known}
    if folder and run.outputs is not None and last.moved and not any(find_files(source, [run.outputs.path])):
        run.source = Source(run.outputs.path)  # where the run moved them
    return run.collect(alone=False)
