"""One labelling run, from Python or the command line: open, read earlier labels, solve, keep labels, write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from marginshot.labelling.answers.classes import Classes
from marginshot.labelling.answers.classify import LabelSettings
from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.boxes import open_boxes
from marginshot.labelling.items.collection import Collection, means_none
from marginshot.labelling.items.embed import Progress, silent
from marginshot.labelling.items.encoders import PICTURE_ENCODER
from marginshot.labelling.items.events import usual_gap, with_events
from marginshot.labelling.items.folders import collect_files
from marginshot.labelling.items.kind import FileKind
from marginshot.labelling.items.sources import Source, collect_rows
from marginshot.labelling.items.store import Store
from marginshot.labelling.outputs.labelling import Labelling
from marginshot.labelling.outputs.outputs import Outputs
from marginshot.labelling.outputs.requests import Request
from marginshot.labelling.runs.corrections import Said, gather
from marginshot.labelling.runs.memory import Memory
from marginshot.labelling.runs.old import N_NARROWING, Old, beside
from marginshot.labelling.runs.solve import label_collection


@dataclass
class Run:
    """One labelling run; its methods are its steps, to be called in the order in which they are defined.

    Parameters
    ----------
    source : Source
    settings : LabelSettings
    store : Store or None
        The cache.
    outputs : Outputs, optional
        Where labels go, and where those of earlier runs are; without, no earlier run is known, and no session.
    text : str, optional
        Column of texts.
    classes : mapping of str to sequence of str
        Names of classes that may have no example, with descriptions.
    encoder : str, optional
    device : str, default="auto"
    event_gap : float, optional
        See `marginshot.labelling.label_images`.
    like : Old, optional
        An earlier source, whose labels are examples, so that the run needs no others.
    session : bool, default=True
        Whether labels given by hand are shared with the studio on the source; else they are kept beside the outputs.
    rehearsal : bool, default=False
        Whether nothing is to be written.
    leave_out : sequence of Path
        Folders that are no input, beside the outputs.
    kind : FileKind, optional
        What is looked for in a folder; by default what most of its files are.
    """

    source: Source
    settings: LabelSettings
    store: Store | None
    _: KW_ONLY
    outputs: Outputs | None = None
    text: str | None = None
    classes: Classes = field(default_factory=lambda: MappingProxyType({}))
    encoder: str | None = None
    device: str = "auto"
    event_gap: float | None = None
    like: Old | None = None
    session: bool = True
    rehearsal: bool = False
    leave_out: Sequence[Path] = ()
    kind: FileKind | None = None
    said: Said = field(default_factory=Said)
    memory: Memory | None = None
    request: Request = field(default_factory=Request)

    def hear(self, examples: Sequence[Path]) -> Said:
        """Read corrections in tables of runs, and labels in the session of the source, beside the ``examples``."""
        if self.outputs is None:
            self.said = Said(examples=list(examples))
        else:
            self.memory = Memory(self.source, self.text, self.outputs, shared=self.session, kind=self.kind)
            self.said = gather(self.memory, self.outputs, examples, self.store, self.classes)
        return self.said

    def ask(self, options: Mapping[str, Any] | None = None) -> Request:
        """The request, with the ``options`` to remember for the next run."""
        said = self.said
        settings = {"command": "label", "encoder": self.encoder or PICTURE_ENCODER}  # compared for pictures only
        others = {"examples": tuple(said.examples), **self.source.others}
        self.request = Request(
            self.source,
            others if self.like is None else {**others, "like": self.like.paths},
            settings | asdict(self.settings),
            None if self.outputs is None else said.labels,
            options,
            frozenset(said.taken),
        )
        return self.request

    def check(self, *, force: bool) -> None:
        """Raise unless there is something to label, and all outputs can be written."""
        if self.outputs is not None:
            self.said.check_not_moved(self.source.path, self.outputs.path)
            if not self.rehearsal:
                self.outputs.check(self.request, self.store, force=force)

    def solve(self, on_progress: Progress = silent) -> Labelling:
        """The answers for all items."""
        collection = self.collect(alone=self.like is None)
        collection, settings = with_events(collection, usual_gap(self.source, self.event_gap)), self.settings
        if self.like is not None:
            # Class names belong to neither the old items nor the new ones.
            collection = beside(collection, self.like)
            settings = replace(settings, names=False, suggest=settings.suggest or N_NARROWING)
        self.collection = collection
        names = {label for label in (*collection.labels, *self.classes) if label and not means_none(label)}
        if self.outputs is not None:
            self.outputs.check_items(collection)
            self.outputs.check_classes(sorted(names))
        chosen = collection.kind.encoder(self.encoder, self.device, collection.contents)
        return label_collection(collection, chosen, self.store, settings, self.request, on_progress, self.classes)

    def tell(self, labelling: Labelling) -> list[str]:
        """Write the labels of this run into the session of the source, just before the outputs; returns notes."""
        if self.memory is None or self.rehearsal:
            return []
        readable = labelling.collection
        digests = dict(zip(readable.items, readable.digests, strict=False))
        return self.memory.tell(self.collection, self.said.news, self.said.labels, digests)

    def again(self, examples: Sequence[Path]) -> Labelling:
        """Run all steps up to the answers; `Labelling.write` checks the outputs and tells the session later."""
        said = self.hear(examples)
        if self.outputs is not None:
            said.check_not_moved(self.source.path, self.outputs.path)
        self.ask()
        labelling = self.solve()
        collection = replace(labelling.collection, notes=(*said.notes, *labelling.collection.notes))
        tell = None if self.memory is None else partial(self.tell, labelling)
        return replace(labelling, collection=collection, tell=tell)

    def collect(self, *, alone: bool) -> Collection:
        """The items, with labels from the examples or the table, and those given since.

        Unless the items are ``alone``, any number of them may have a label: none, some or all.
        """
        source, said = self.source, self.said
        if source.boxes is not None:
            return open_boxes(source.path, source.boxes, said.examples, self.classes, said.labels, alone=alone)
        if source.table is None:
            if self.text is not None:
                raise RefusedError(f"{source.path} is a folder and has no columns.", at_fault=Option.TEXT)
            labelled = [] if self.outputs is None else said.files(source.path, self.outputs.table, self.kind)
            left_out = [*([] if self.outputs is None else [self.outputs.path]), *self.leave_out]
            return collect_files(source.path, said.examples, left_out, labelled, self.classes, self.kind, alone=alone)
        if said.examples:
            raise RefusedError(
                f"examples of a table are the rows with a label in column {source.label!r}; fill in some of these.",
                at_fault=Option.EXAMPLES,
            )
        column = source.column_of_labels(needed=alone and not (self.classes or said.labels))
        return said.fill(collect_rows(source.table, self.text, column, self.classes), source)
