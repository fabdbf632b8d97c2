"""One project: its tasks, what was annotated so far, and predictions for all tasks together."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot.labelling.answers.classify import LabelSettings, label_rows
from marginshot.labelling.answers.names import embed_names, phrasings_of
from marginshot.labelling.items.collection import Collection, encode_given
from marginshot.labelling.items.embed import embed
from marginshot.labelling.items.encoders import ItemEncoder
from marginshot.labelling.items.label_studio import chosen_in, newest
from marginshot.labelling.items.store import Store
from marginshot.studio.label_studio.config import Question
from marginshot.studio.label_studio.contents import Pictures, UnavailableError

#: Label and its probability, by the number of the task.
Predictions = Mapping[int, tuple[str, float]]


@dataclass
class Project:
    """Tasks and annotations of one project; any thread may use it.

    Parameters
    ----------
    question : Question
        The question that predictions answer.
    pictures : Pictures
        Where the files of tasks are.
    store : Store or None
        The cache of embeddings.
    encoder : str or None
        As in ``marginshot label``.
    report : callable
        Called with a sentence about a task that cannot be labelled.
    """

    question: Question
    pictures: Pictures
    store: Store | None
    encoder: str | None = None
    report: Callable[[str], object] = str
    _contents: dict[int, Any] = field(default_factory=dict)
    _rows: dict[int, NDArray[np.float32]] = field(default_factory=dict)
    _annotations: dict[int, tuple[int, str]] = field(default_factory=dict)
    _encoder: ItemEncoder | None = None
    _solved: tuple[str, Predictions] = ("", MappingProxyType({}))
    problems: dict[int, str] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def version(self) -> str:
        """Version string; changes whenever the label of an annotation is added, changed or deleted."""
        with self._lock:
            said = repr(sorted(self._annotations.items())).encode()
            return f"marginshot-{len(self._labels())}-{hashlib.sha256(said).hexdigest()[:8]}"

    def add(self, tasks: Iterable[Mapping[str, Any]]) -> None:
        """Add tasks, and the annotations that come with them."""
        for task in tasks:
            data, number = task.get("data"), task.get("id")
            if not isinstance(data, Mapping) or not isinstance(number, int):
                continue
            content = data.get(self.question.field)
            if isinstance(content, str):
                with self._lock:
                    if self._contents.get(number) != content:
                        self._contents[number] = content
                        self._rows.pop(number, None)
            if isinstance(task.get("annotations"), list):
                self._forget_task(number)
                for one in task["annotations"]:
                    self.annotate(number, one)

    def annotate(self, task: int, annotation: Mapping[str, Any]) -> None:
        """Store an annotation, which may be new or changed."""
        number = annotation.get("id") if isinstance(annotation, Mapping) else None
        if not isinstance(number, int):
            return
        said = chosen_in(newest([annotation]).get("result"))
        chosen = next((names for name, names in said if name == self.question.name), [])
        with self._lock:
            self._annotations.pop(number, None)
            if len(chosen) == 1 and chosen[0] in self.question.classes:
                self._annotations[number] = (task, chosen[0])

    def forget(self, annotations: Iterable[int]) -> None:
        """Remove annotations that were deleted in Label Studio."""
        with self._lock:
            for number in annotations:
                self._annotations.pop(number, None)

    def _forget_task(self, task: int) -> None:
        with self._lock:
            self._annotations = {number: held for number, held in self._annotations.items() if held[0] != task}

    def _labels(self) -> dict[int, str]:
        """The label of each task, by its newest annotation."""
        return {task: label for _, (task, label) in sorted(self._annotations.items())}

    def predict(self, tasks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """A prediction for each of the ``tasks``, from all tasks received so far.

        The score is the probability of the label: in ascending order, the tasks most likely wrong come first.
        """
        tasks = list(tasks)
        self.add({"id": task.get("id"), "data": task.get("data")} for task in tasks)
        with self._lock:
            self._embed()
            version = self.version
            state = f"{version} {len(self._rows)}"
            if self._solved[0] != state:
                self._solved = (state, self._solve())
            found = self._solved[1]
        results = []
        for task in tasks:
            label, probability = found.get(task.get("id", -1), ("", 0.0))
            result = self.question.result(label, probability) if label else []
            results.append({"result": result, "score": probability, "model_version": version})
        return results

    def _embed(self) -> None:
        """Embeddings of the tasks that have none yet; those whose content is not available are in `problems`."""
        new, contents = [], []
        for number in [number for number in self._contents if number not in self._rows]:
            try:
                content = self._contents[number]
                contents.append(self.pictures.find(number, content) if self.question.kind.in_files else content)
                new.append(number)
            except UnavailableError as error:
                self._report(number, str(error))
        if not new:
            return
        if self._encoder is None:
            self._encoder = self.question.kind.encoder(self.encoder, contents=contents)
        names = tuple(map(str, new))
        collection = Collection(self.question.kind, names, contents, ("",) * len(new), np.ones(len(new), dtype=bool))
        embedded = embed(collection, self._encoder, self.store)
        for name, row in zip(embedded.collection.items, embedded.X, strict=True):
            self._rows[int(name)] = row
            self._solved = ("", {})  # also where a task has another content than before, and the numbers stay
            self.problems.pop(int(name), None)
        for name, problem in embedded.problems.items():
            self._report(int(name), problem)

    def _report(self, number: int, problem: str) -> None:
        if self.problems.get(number) != problem:
            self.report(f"Task {number} {problem}.")
        self.problems[number] = problem

    def _solve(self) -> Predictions:
        """Labels for all tasks; none before there are two classes."""
        numbers, labels = sorted(self._rows), self._labels()
        given = [labels.get(number, "") for number in numbers]
        shown = {name: (told,) if told != name else () for name, told in self.question.classes.items()}
        named = {name for name, told in shown.items() if self.question.kind.has_text and phrasings_of(name, told)}
        classes = sorted({label for label in given if label} | named)
        if len(classes) < 2 or not numbers:
            return {}
        if all(given):
            return {number: (label, 1.0) for number, label in zip(numbers, given, strict=True)}
        names = embed_names(classes, self._encoder, self.store, [shown[name] for name in classes]) if named else None
        X = np.stack([self._rows[number] for number in numbers])
        answers, _, _ = label_rows(X, encode_given(given, classes), classes, LabelSettings(), names)
        best, sure = answers.best.tolist(), answers.confidence.tolist()
        return {n: (answers.classes[b], round(p, 4)) for n, b, p in zip(numbers, best, sure, strict=True)}
