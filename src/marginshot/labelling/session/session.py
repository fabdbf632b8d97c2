"""A labelling session: labels in a log, answers for all items, their expected accuracy, and what to label next."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marginshot.labelling.classes import as_classes
from marginshot.labelling.collection import UNKNOWN, Collection
from marginshot.labelling.embed import Progress as OnProgress
from marginshot.labelling.embed import printable, silent
from marginshot.labelling.embedding_map import embedding_map
from marginshot.labelling.encoders import ItemEncoder, make_encoder
from marginshot.labelling.folders import as_paths
from marginshot.labelling.groups import Group, find_groups
from marginshot.labelling.labelling import Labelling, PathLike
from marginshot.labelling.session import acts, audits
from marginshot.labelling.session.answers import SessionAnswers, examples_of
from marginshot.labelling.session.checks import with_answers
from marginshot.labelling.session.encoding import Encoding, Progress
from marginshot.labelling.session.events import Act, EventLog, default_folder, log_path
from marginshot.labelling.session.journal import Items, Journal
from marginshot.labelling.session.opening import open_collection
from marginshot.labelling.session.solving import Solved, Solver
from marginshot.labelling.session.state import Point, State, with_point
from marginshot.labelling.sources import Source
from marginshot.labelling.store import open_store
from marginshot.labelling.suggestions import suggest_rows
from marginshot.labelling.tables import embedding_rows, stack_embeddings
from marginshot.labelling.worklist import Estimate, Worklist

Rows = NDArray[np.int64]


# `Refitter.drift` from which on a complete fit pays: until then 99 % of the items have the label it would give
# (benchmarks/session.py, CLINC150 and Tiny-ImageNet, 1 to 5 examples a class). Flat: 0.2 on CLINC150.
_DRIFT = 0.1


class _ClosedError(Exception):
    """The session was closed while a complete fit ran."""


class Session(Journal):
    """Items, what was said about them, and a label for every one; made by `open` and `from_embeddings`.

    Acts may come from any thread, and are in the log when they return. `state` and `latest` never wait.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> session = Session.from_embeddings(load_iris().data)
    >>> session.label({"row 1": "setosa", 50: "versicolor"}), session.label([100, 101], "virginica")
    (1, 2)
    >>> session
    Session(150 embeddings; said: 2 virginica, 1 setosa, 1 versicolor)
    >>> sorted(set(session.answers.labels))
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
        super().__init__(collection, log)
        self.source = None if source is None else source.path
        self._collection, self._opened = collection, source
        store = None if encoder is None else open_store(cache)
        self._encoding = Encoding(collection, encoder, store, on_progress, self._note_contents)
        self._solver = Solver(encoder, store, collection.listed)
        self._solving, self._mapping = threading.Lock(), threading.Lock()
        self._solved: Solved | None = None
        self._completing: threading.Thread | None = None
        self._quiet, self._closed = threading.Event(), False  # no act is being answered
        self._quiet.set()
        self._map: tuple[int, NDArray[np.float32]] | None = None

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
        background: bool = False,
        on_progress: OnProgress = silent,
    ) -> Self:
        """Open a source, with all that was said about it before.

        Parameters
        ----------
        source : path
            A folder of pictures, or a table (``.csv``, ``.tsv``, ``.parquet``, ``.npz``) of texts or embeddings.
        text, label : str, optional
            Columns of a table, as in `marginshot.labelling.label_table`; no label needs to be known.
        encoder : str, optional
            As in `marginshot.labelling.label_images` and `label_texts`.
        examples : path or sequence of paths, optional
            As in `marginshot.labelling.label_images`. Examples and labels in the source are the first thing said in a
            new session. Opened again, it takes those that are new, unless something else was said of the item here.
        classes : sequence of str, or mapping, optional
            Names of classes that may have no example yet, or their descriptions by name.
        folder : path, optional
            Where sessions are kept; by default ``$MARGINSHOT_SESSIONS``, or the user's data folder.
        cache : bool or path, default=True
            Keep embeddings, in the user's cache folder or the one given.
        device : str, default="auto"
            Where the encoder runs.
        background : bool, default=False
            Return at once and encode in a thread, while `ready` grows.
        on_progress : callable, optional
            Called with the name of a phase, the number of items done, and of all.
        """
        path = Path(source)
        named = as_classes(classes)
        opened, collection = open_collection(path, text, label, as_paths(examples), named)
        where = log_path(default_folder() if folder is None else Path(folder), path, text)
        log = EventLog(where, {"source": printable(str(path.resolve())), "text": printable(text or "")})
        try:
            made = make_encoder(collection.kind, encoder, device)
            session = cls(collection, log, made, source=opened, cache=cache, on_progress=on_progress)
            in_folders = opened.table is None and not examples
            session._begin(collection.labels, named, folders=in_folders)
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
            File that keeps what is said; without, it ends with the session.
        """
        collection = embedding_rows(stack_embeddings(X, "X"), None, items)
        session = cls(collection, EventLog(None if log is None else Path(log)))
        session._encode(background=False)
        return session

    def _encode(self, background: bool) -> None:
        if background:
            self._encoding.start()
        else:
            self._encoding.run()

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
        solved = self._solved
        return None if solved is None else solved.answers

    @property
    def answers(self) -> SessionAnswers:
        """Answers that know everything said so far; solves where needed."""
        return self.solve()

    def solve(self) -> SessionAnswers:
        """Answers for the newest state, which start from the last ones; one thread solves at a time.

        Where many labels are new, a complete fit is made in a thread, and takes their place.
        """
        return self._solve().answers

    def settle(self) -> SessionAnswers:
        """Answers for the newest state by a complete fit, as `marginshot.labelling.label_embeddings` makes it."""
        return self._solve(complete=True).answers

    def _solve(self, complete: bool = False) -> Solved:
        with self._solving:
            state = self.refresh()
            rows, X = self._encoding.snapshot()
            before = self._solved
            if before is not None and before.knows(state, rows) and not (complete and before.drift):
                return before
            self._quiet.clear()
            try:
                solved = self._publish(self._solver.solve(state, rows, X, complete=complete))
            finally:
                self._quiet.set()
        if solved.drift > _DRIFT and (self._completing is None or not self._completing.is_alive()):
            self._completing = threading.Thread(target=self._complete, name="marginshot-fit", daemon=True)
            self._completing.start()
        return solved

    def _publish(self, solved: Solved) -> Solved:
        """Make answers the newest ones."""
        before = self.latest
        codes = np.full(self.n_items, UNKNOWN) if before is None else before.codes
        changed = np.flatnonzero(codes != solved.answers.codes)
        self._solved = replace(solved, answers=replace(solved.answers, changed=changed))
        return self._solved

    def _complete(self) -> None:
        """Fit completely, beside all else; later answers start from it, and those of the same state give way to it."""
        state = self._state
        rows, X = self._encoding.snapshot()
        try:
            solved = self._solver.solve(state, rows, X, complete=True, wait=self._wait_for_acts)
        except _ClosedError:
            return
        with self._solving:
            if solved.knows(self._state, self._encoding.snapshot()[0]):
                self._publish(solved)

    def _wait_for_acts(self) -> None:
        """Hold a complete fit up while an act is answered, and end it with the session."""
        self._quiet.wait()
        if self._closed:
            raise _ClosedError

    def _say(self, saying: acts.Saying) -> int:
        solved = self._solved
        if solved is None or solved.expected is None:
            return super()._say(saying)

        def say(state: State) -> Act:
            point = solved.point if solved.state.version == state.version else None
            return with_answers(saying(state), solved.answers, point, self._keys.slots_of)

        return super()._say(say)

    def confirm(self, items: Items) -> int:
        """Say that the present answers for these items are right."""
        return self._say(acts.label(self._answered(self._present, self.rows(items)), "confirm"))

    def accept(self, at_least: float = 0.95) -> int:
        """Take the answers of all unlabelled items of at least this probability, without looking at each."""
        answers = self._present
        rows = self._acceptable(answers, at_least)
        if not len(rows):
            raise ValueError(f"No unlabelled item has an answer of probability {at_least:g} or more.")
        return self._say(acts.label(self._answered(answers, rows.tolist()), "accept"))

    def preview_accept(self, at_least: float = 0.95) -> tuple[int, float]:
        """How many items `accept` would label, and how many of these are expected to be wrong, by the checks made."""
        answers = self._present
        rows = self._acceptable(answers, at_least)
        return len(rows), float((1.0 - answers.chances[rows]).sum())

    @property
    def _present(self) -> SessionAnswers:
        """What the user sees: the newest answers, made now where there are none yet."""
        return self.latest or self.answers

    def _acceptable(self, answers: SessionAnswers, at_least: float) -> Rows:
        if not 0 < at_least <= 1:
            raise ValueError(f"The least probability to accept lies between 0 and 1; got {at_least}.")
        sure = (answers.codes >= 0) & (answers.confidence >= at_least) & ~answers.foreign
        return np.flatnonzero(sure & (self._state.given == UNKNOWN))

    def _answered(self, answers: SessionAnswers, rows: Sequence[int]) -> dict[str, list[str]]:
        """Keys of the rows by the class answered."""
        names = {known.id: known.name for known in self._state.classes}
        without = [row for row in rows if int(answers.codes[row]) not in names]
        if without:
            raise ValueError(f"{self.items[without[0]]!r} has no answer to confirm yet; label it instead.")
        return self._by_class({row: names[int(answers.codes[row])] for row in rows})

    def next(self, n: int = 20) -> Rows:
        """Rows worth labelling next, the most useful first, (at most n,)."""
        solved = self._solve()
        probabilities = np.zeros((len(solved.view), len(solved.answers.classes)))
        probabilities[: len(solved.rows)] = solved.answers.probabilities[solved.rows]
        asked = solved.padded(self._state.given[solved.rows])
        return solved.rows[suggest_rows(solved.view, probabilities, asked, n)] if len(solved.rows) else solved.rows

    def worklist(self, target: float = 0.95) -> Worklist:
        """What to check, the answer most likely wrong first, for this share of all items to be right."""
        return self._solve().worklist(target)

    def expected_accuracy(self) -> Estimate:
        """Share of right answers over all embedded items, as their probabilities and the answers checked promise."""
        expected = self._solve().expected
        if expected is None:
            raise ValueError("There are no answers yet: label examples of at least two classes.")
        return expected

    def audit(self, n: int = 30) -> Rows:
        """Rows of a random sample to check by hand; a new sample is drawn once all of the last are checked."""
        if n < 1:
            raise ValueError(f"An audit needs at least one item; got {n}.")
        answers = self._solve().answers
        if audits.open_audit(self._state) is None:
            self._say(lambda state: audits.draw_audit(state, answers, n, self._keys.keys))
        return audits.rows_of(self._state, self._state.audits[-1])

    def audit_result(self) -> Estimate | None:
        """Accuracy over all embedded items by the newest finished audit; None before one is finished."""
        return audits.audit_result(self._state, max(int(self.ready.sum()), 1))

    def groups_of_none(self) -> list[Group]:
        """Proposals for new classes: groups of items that belong to none of the classes, the largest first."""
        solved = self._solve()
        found = find_groups(solved.view, np.flatnonzero(solved.answers.foreign[solved.rows]))
        return [Group(solved.rows[group.rows], solved.rows[group.typical]) for group in found]

    def nearest_examples(self, row: int | str, n: int = 5) -> list[tuple[int, str, float]]:
        """The checked examples most like an item: row, class name and cosine, the nearest first."""
        place, solved, state = self._row(row), self._solved or self._solve(), self._state
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
    def map(self) -> NDArray[np.float32]:
        """A point (n_items, 2) for every item, NaN where it is not embedded; computed once for the same embeddings."""
        with self._mapping:
            rows, X = self._encoding.snapshot()
            if self._map is None or self._map[0] != len(rows):
                points = np.full((self.n_items, 2), np.nan, dtype=np.float32)
                if len(rows):
                    points[rows] = embedding_map(X)
                self._map = len(rows), points
            return self._map[1]

    @property
    def curve(self) -> list[Point]:
        """Number of checked labels and the accuracy expected with them, from the first answers to those now."""
        state, solved = self._state, self._solved
        is_new = solved is not None and solved.state.version == state.version
        return list(with_point(state.curve, solved.point if solved is not None and is_new else None))

    def labelling(self) -> Labelling:
        """The labels by a complete fit as `marginshot.labelling.label_images` gives them, with writers and a model.

        What is to be checked is what `worklist` says once the session is settled.
        """
        solved = self._solve(complete=True)
        readable = self._collection.select(solved.rows.tolist())
        found = self._solver.labelling(solved, readable, solved.view.X[: len(solved.rows)], self._opened)
        return replace(found, problems=self.problems)

    def close(self) -> None:
        """End the encoding and let go of the log; all that was said is in it."""
        self._encoding.stop()
        self._closed = True
        if self._completing is not None:
            self._completing.join()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
