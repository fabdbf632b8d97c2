"""A labelling session: labels in a log, answers for all items, their expected accuracy, and what to label next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginshot._lib.warn import warn_user
from marginshot.labelling.answers.classes import as_classes
from marginshot.labelling.answers.groups import Group, find_groups
from marginshot.labelling.answers.suggestions import suggest_rows
from marginshot.labelling.answers.worklist import Estimate, Worklist
from marginshot.labelling.items.collection import FOREIGN, NONE, UNKNOWN, Collection, describe_labels
from marginshot.labelling.items.contents import words
from marginshot.labelling.items.embed import Progress as OnProgress
from marginshot.labelling.items.embed import printable, silent
from marginshot.labelling.items.encoders import ItemEncoder
from marginshot.labelling.items.events import usual_gap, with_events
from marginshot.labelling.items.folders import as_paths
from marginshot.labelling.items.sources import Source, open_source, with_boxes
from marginshot.labelling.items.store import open_store
from marginshot.labelling.items.tables import embedding_rows, stack_embeddings
from marginshot.labelling.outputs.labelling import Labelling
from marginshot.labelling.outputs.result import PathLike
from marginshot.labelling.outputs.surveys import with_deployments
from marginshot.labelling.session import audits
from marginshot.labelling.session.acts.act import Act, Saying
from marginshot.labelling.session.acts.audits import DrawSample
from marginshot.labelling.session.acts.classes import AddClasses, DeleteClass, Merge, Rename, SetKey
from marginshot.labelling.session.acts.items import Clear, NoneOfThese
from marginshot.labelling.session.acts.label import AcceptAnswers, ConfirmAnswers, Label
from marginshot.labelling.session.acts.undo import Redo, Undo
from marginshot.labelling.session.answering import Answering
from marginshot.labelling.session.answers import SessionAnswers, examples_of
from marginshot.labelling.session.checks import carried, given_again
from marginshot.labelling.session.encoding import Encoding, Progress
from marginshot.labelling.session.events import EventLog, default_folder
from marginshot.labelling.session.journal import HistoryEntry, Items, Journal
from marginshot.labelling.session.lookup import Lookup
from marginshot.labelling.session.opening import log_of, open_collection
from marginshot.labelling.session.solving import Solver
from marginshot.labelling.session.state import Point, State, with_point

Rows = NDArray[np.int64]


class Session:
    """Items, their labels, and an answer for every item; made by `open` and `from_embeddings`.

    Acts may come from any thread, and are in the log when they return. `state` and `latest` never wait.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> session = Session.from_embeddings(load_iris().data)
    >>> session.label({"row 1": "setosa", 50: "versicolor"}), session.label([100, 101], "virginica")
    (1, 2)
    >>> session
    Session(150 embeddings; said: 2 virginica, 1 setosa, 1 versicolor)
    >>> sorted(set(session.solve().labels))
    ['setosa', 'versicolor', 'virginica']
    """

    def __init__(
        self,
        collection: Collection,
        log: EventLog,
        encoder: ItemEncoder | None = None,
        *,
        source: Source | None = None,
        cache: bool | PathLike = True,
        on_progress: OnProgress = silent,
    ) -> None:
        self._said = Journal(collection, log)
        self.kind, self.n_items = collection.kind, len(collection)
        self.items, self.contents = collection.items, collection.contents
        #: Sentences on what changed in the source since it was last opened, and on what is wrong with the log.
        self.notes = self._said.notes
        #: Rows that were not in the source when it was last opened; only of pictures, and none in a new session.
        self.new_rows = self._said.new_rows
        self.source = None if source is None else source.path
        self._collection, self._opened = collection, source
        store = None if encoder is None else open_store(cache)
        self._encoding = Encoding(collection, encoder, store, on_progress, self._said.note_contents)
        self.lookup = Lookup(self._encoding, encoder)
        self._solver = Solver(encoder, store, collection.listed, collection.events, lambda: self._encoding.domains)
        self._answering = Answering(self._said, self._encoding, self._solver)
        self._proposed: set[int] = set()  # rows that were shown as those to look at next

    @classmethod
    def open(
        cls,
        source: PathLike,
        *,
        text: str | None = None,
        label: str | None = None,
        encoder: str | None = None,
        examples: PathLike | Sequence[PathLike] = (),
        classes: Iterable[str] | Mapping[str, str | Sequence[str]] = (),
        folder: PathLike | None = None,
        cache: bool | PathLike = True,
        device: str = "auto",
        boxes: PathLike | None = None,
        box_confidence: float = 0.2,
        event_gap: float | None = None,
        deployments: PathLike | None = None,
        background: bool = False,
        on_progress: OnProgress = silent,
    ) -> Self:
        """Open a source, with all labels that its session has.

        Parameters
        ----------
        source : path
            A folder of pictures, or a table (``.csv``, ``.tsv``, ``.parquet``, ``.npz``) of texts or embeddings.
        text, label : str, optional
            Columns of a table, as in `marginshot.labelling.label_table`; no label needs to be known.
        encoder : str, optional
            As in `marginshot.labelling.label_images` and `label_texts`.
        examples : path or sequence of paths, optional
            As in `marginshot.labelling.label_images`. Examples and labels in the source are the first labels of a
            new session. Opened again, it takes those that are new, unless the item was labelled otherwise here.
        classes : sequence of str, or mapping, optional
            Names of classes that may have no example yet, or their descriptions by name.
        folder : path, optional
            Where sessions are kept; by default ``$MARGINSHOT_SESSIONS``, or the user's data folder.
        cache : bool or path, default=True
            Keep embeddings, in the user's cache folder or the one given.
        device : str, default="auto"
            Where the encoder runs.
        boxes, box_confidence, event_gap
            As in `marginshot.labelling.label_images`. The boxes of pictures have a session of their own.
        deployments : path, optional
            Table of where and when the cameras of a folder stood, for the export ``camtrap-dp``.
        background : bool, default=False
            Return at once and encode in a thread, while `ready` grows.
        on_progress : callable, optional
            Called with the name of a phase, the number of items done, and of all.
        """
        path = Path(source)
        named = as_classes(classes)
        opened = open_source(path, label)
        opened = opened if boxes is None else with_boxes(opened, Path(boxes), box_confidence)
        opened = with_deployments(opened, None if deployments is None else Path(deployments))
        collection = open_collection(opened, text, label, as_paths(examples), named)
        notes = collection.notes
        collection = with_events(collection, usual_gap(opened, event_gap))
        where = log_of(opened, text, default_folder() if folder is None else Path(folder))
        log = EventLog(where, {"source": printable(str(path.resolve())), "text": printable(text or "")})
        try:
            made = collection.kind.encoder(encoder, device, collection.contents)
            session = cls(collection, log, made, source=opened, cache=cache, on_progress=on_progress)
            in_folders = opened.table is None and not examples
            session._said.begin(collection.labels, named, folders=in_folders)
            session.notes += [*notes, *words("missing", session.missing)]
            session._encode(background)
        except BaseException:
            log.close()
            raise
        return session

    @classmethod
    def from_embeddings(cls, X: ArrayLike, *, items: Sequence[str] | None = None, log: PathLike | None = None) -> Self:
        """A session on embeddings in memory.

        Parameters
        ----------
        X : array of shape (n_items, n_features)
        items : sequence of str, optional
            Name of each row; "row 1" is the first unless given.
        log : path, optional
            File that keeps the labels; without, they are gone when the session ends.
        """
        collection = embedding_rows(stack_embeddings(X, "X"), None, items)
        session = cls(collection, EventLog(None if log is None else Path(log)))
        session._encode(background=False)
        return session

    def __repr__(self) -> str:
        names = {known.id: known.name for known in self.state.classes} | {NONE: FOREIGN}
        said = describe_labels(names[code] for code in self.state.given.tolist() if code != UNKNOWN)
        return f"{type(self).__name__}({self.n_items:,} {self.kind.plural}; said: {said})"

    def _encode(self, background: bool) -> None:
        if background:
            self._encoding.start()
        else:
            self._encoding.run()

    @property
    def state(self) -> State:
        """Classes and labels after the last act; never waits."""
        return self._said.state

    def refresh(self) -> State:
        """The newest state, with the acts of other processes."""
        return self._said.refresh()

    @property
    def missing(self) -> tuple[str, ...]:
        """Items with a label that are no longer in the source; their labels are kept."""
        return self._said.missing

    def rows(self, items: Items) -> list[int]:
        """Row numbers of items given by number or by name, each once."""
        return self._said.rows(items)

    def keys_of(self, items: Items) -> list[str]:
        """Keys of items given by number or by name, by which acts name them."""
        return self._said.keys_of(items)

    def history(self, row: int | str) -> list[HistoryEntry]:
        """Events about an item, oldest first."""
        return self._said.history(row)

    def save(self) -> str | None:
        """Bring the whole log into one file, for copying it, and return its path. Acts are kept without it, too."""
        return self._said.save()

    @property
    def item_events(self) -> NDArray[np.int64] | None:
        """Event of each item, (n_items,): items of one event have one answer, unless their labels differ."""
        return self._collection.events

    @property
    def ready(self) -> NDArray[np.bool_]:
        """Items, (n_items,), that are embedded; others have no answer yet, or are in `problems`."""
        return self._encoding.ready

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong with each item that cannot be read."""
        return self._encoding.problems

    @property
    def encoding(self) -> Progress:
        """How far the encoding is; its phase is empty when it has ended."""
        return self._encoding.progress

    @property
    def latest(self) -> SessionAnswers | None:
        """The newest answers there are; never waits."""
        solved = self._answering.latest
        return None if solved is None else solved.answers

    def solve(self, *, complete: bool = False) -> SessionAnswers:
        """Answers for the newest state, which start from the last ones; one thread solves at a time.

        Where many labels are new, a complete fit is made in a thread, and takes their place. A ``complete`` fit is the
        one that `marginshot.labelling.label_embeddings` makes.
        """
        return self._answering.solve(complete=complete).answers

    @property
    def answers(self) -> SessionAnswers:
        """Deprecated name of `solve`, to be removed in version 0.4."""
        warn_user("Session.answers is called Session.solve() since version 0.3.", FutureWarning)
        return self.solve()

    def do(self, saying: Saying, seen: int | None = None) -> int:
        """Do an act: one event, in the log when this returns its version. Methods such as `label` are shorthands.

        Where ``seen`` is not the newest version any more, `ChangedMeanwhileError` is raised, and nothing is written.

        Examples
        --------
        >>> from marginshot.labelling.session.acts.label import Label
        >>> session = Session.from_embeddings([[0.0, 1.0], [1.0, 0.0]])
        >>> session.do(Label({"ash": ["row 1"], "oak": ["row 2"]}))
        1
        """
        confirmed: dict[int, int] = {}

        def kept(act: Act, state: State) -> Mapping[str, Any]:
            confirmed.update(given_again(act, state, self._said.keys.slots_of))
            return self._carried(act, state)

        version = self._said.do(saying, seen, kept)
        self._solver.confirmed |= confirmed  # only now is the act in the log
        return version

    def _carried(self, act: Act, state: State) -> Mapping[str, Any]:
        """What the log keeps with an act: the answers that it checks, and the accuracy expected before it."""
        solved = self._answering.latest
        if solved is None or solved.answers.expected is None:
            return {}
        point = solved.point if solved.state.version == state.version else None
        return carried(act, solved.answers, point, self._proposed, self._said.keys.slots_of)

    def label(self, items: Mapping[Any, str] | Items, name: str | None = None) -> int:
        """Label items, by name or row number: ``{item: class}``, or several and one class, created where it is new."""
        return self.do(Label(self._said.by_class(items, name)))

    def none_of_these(self, items: Items) -> int:
        """Label items as none of the classes."""
        return self.do(NoneOfThese(self.keys_of(items)))

    def clear(self, items: Items) -> int:
        """Take the labels of items away."""
        return self.do(Clear(self.keys_of(items)))

    def confirm(self, items: Items) -> int:
        """Confirm that the present answers for these items are right."""
        return self.do(ConfirmAnswers(np.array(self.rows(items), dtype=np.int64), self._present()))

    def accept(self, at_least: float = 0.95) -> int:
        """Take the answers of all unlabelled items of at least this probability, without looking at each."""
        return self.do(AcceptAnswers(at_least, self._present()))

    def preview_accept(self, at_least: float = 0.95) -> tuple[int, float]:
        """How many items `accept` would label, and how many of these are expected to be wrong, by the checks made."""
        rows = AcceptAnswers(at_least, self._present()).acceptable(self.state)
        return len(rows), float((1.0 - self._present().chances[rows]).sum())

    def add_class(self, name: str, description: str | Sequence[str] = ()) -> int:
        """Create a class that has no example yet."""
        return self.do(AddClasses.described({name: description}))

    def add_classes(self, names: Sequence[str]) -> int:
        """Create several classes that have no example yet, in one act."""
        return self.do(AddClasses.described(dict.fromkeys(names, ())))

    def rename(self, old: str, new: str) -> int:
        """Give a class another name."""
        return self.do(Rename(old, new))

    def set_key(self, name: str, key: str) -> int:
        """Give a class the key by which a page labels items with it; the class that had it gets the key of this one."""
        return self.do(SetKey(name, key))

    def merge(self, old: str, into: str) -> int:
        """Give all items of the class ``old`` to another."""
        return self.do(Merge(old, into))

    def delete_class(self, name: str) -> int:
        """Take a class away, and its labels with it."""
        return self.do(DeleteClass(name))

    def undo(self) -> int:
        """Take back the last act that still holds; raises where another process has acted since the last refresh."""
        return self.do(Undo(), self.state.version)

    def redo(self) -> int:
        """Bring back what was undone last; raises where another process has acted since the last refresh."""
        return self.do(Redo(), self.state.version)

    def audit(self, n: int = 30) -> Rows:
        """Rows of a random sample to check by hand; a new sample is drawn once all of the last are checked."""
        self.do(DrawSample(n, self.solve()))
        return self._propose(audits.rows_of(self.state, self.state.audits[-1]))

    def _present(self) -> SessionAnswers:
        """What the user sees: the newest answers, made now where there are none yet."""
        return self.latest or self.solve()

    def next(self, n: int = 20) -> Rows:
        """Rows worth labelling next, the most useful first, (at most n,)."""
        solved = self._answering.solve()
        probabilities = np.zeros((len(solved.view), len(solved.answers.classes)))
        probabilities[: len(solved.rows)] = solved.answers.probabilities[solved.rows]
        asked = solved.padded(self.state.given[solved.rows])
        if not len(solved.rows):
            return solved.rows
        return self._propose(solved.rows[suggest_rows(solved.view, probabilities, asked, n)])

    def worklist(self, target: float = 0.95) -> Worklist:
        """What to check, the answer most likely wrong first, for this share of all items to be right."""
        found = self._answering.solve().worklist(target)
        self._propose(found.rows)
        return found

    def _propose(self, rows: Rows) -> Rows:
        """The ``rows`` (n,), remembered as proposed: their answers, once checked, are evidence of the others."""
        self._proposed.update(rows.tolist())
        return rows

    def expected_accuracy(self) -> Estimate | None:
        """Share of right answers over all embedded items, as their probabilities and the answers checked promise.

        None before there are answers: they need examples of at least two classes.
        """
        return self.solve().expected

    def audit_result(self) -> Estimate | None:
        """Accuracy over all embedded items by the newest finished audit; None before one is finished."""
        return audits.audit_result(self.state, max(int(self.ready.sum()), 1))

    def groups_of_none(self) -> list[Group]:
        """Proposals for new classes: groups of items that belong to none of the classes, the largest first."""
        solved = self._answering.solve()
        found = find_groups(solved.view, np.flatnonzero(solved.answers.foreign[solved.rows]))
        return [Group(solved.rows[group.rows], solved.rows[group.typical]) for group in found]

    def nearest_examples(self, row: int | str, n: int = 5) -> list[tuple[int, str, float]]:
        """The checked examples most like an item: row, class name and cosine, the nearest first."""
        place, solved, state = self._said.row(row), self._answering.latest or self._answering.solve(), self.state
        given = examples_of(state, solved.rows)
        examples = np.flatnonzero((given >= 0) & (solved.rows != place))
        if not len(examples) or place not in solved.rows:
            return []
        cosines = solved.view.unit[examples] @ solved.view.unit[np.searchsorted(solved.rows, place)]
        nearest = np.argsort(-cosines, kind="stable")[:n].tolist()
        return [
            (int(solved.rows[examples[i]]), state.classes[given[examples[i]]].name, float(cosines[i])) for i in nearest
        ]

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The columns of the table that was opened, embeddings left out; none for a folder."""
        return {} if self._opened is None or self._opened.table is None else self._opened.own_columns(self.items)

    def map(self) -> NDArray[np.float32]:
        """A point (n_items, 2) for every item, NaN where it is not embedded; computed once for the same embeddings."""
        return self.lookup.map()

    @property
    def curve(self) -> list[Point]:
        """Number of checked labels and the accuracy expected with them, from the first answers to those now."""
        state, solved = self.state, self._answering.latest
        is_new = solved is not None and solved.state.version == state.version
        return list(with_point(state.curve, solved.point if solved is not None and is_new else None))

    def labelling(self) -> Labelling:
        """The labels by a complete fit as `marginshot.labelling.label_images` gives them, with writers and a model.

        The items marked to be checked are those of `worklist` after that fit.
        """
        solved = self._answering.solve(complete=True)
        readable = self._collection.select(solved.rows.tolist())
        found = self._solver.labelling(solved, readable, solved.view.X[: len(solved.rows)], self._opened)
        return replace(found, problems=self.problems)

    def close(self) -> None:
        """End the encoding and close the log, which holds all acts."""
        self._encoding.stop()
        self._answering.close()
        self._said.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
