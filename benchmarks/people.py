"""People at a labelling session: what is right, what is promised and how many labels it takes, by what they do.

    python benchmarks/people.py --data ../shared/data [--draws 3] [--only trash] [--json people.json]

A session begins with one example a class, with the names of the classes alone (texts), with two of the classes, or with
items of other classes in between. Then a person does one thing again and again:

- random: labels ten items at random;
- next: labels the ten that are suggested;
- worklist: checks the list for 95 % right, ten at a time, to its end;
- corrections: looks at 30 random answers and corrects the wrong ones, without a word on the right ones;
- doubtful: looks at the 30 least sure answers and corrects the wrong ones;
- bulk: accepts every answer of 95 % and more, then labels the ten that are suggested.

Prints a Markdown table with a row for each. "To 95 %" is the number of labels until 95 % of all items are right, beside
that of logistic regression, which asks for its smallest margins. docs/results/people.md explains the columns.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from folders import World, centred
from folders import draw as draw_folder
from sklearn.linear_model import LogisticRegression

from marginshot.labelling import Session
from marginshot.labelling.session.answers import SessionAnswers

STEP, PAGE, TARGET, SURE = 10, 30, 0.95, 0.95
BUDGET = 0.6  # share of the items that may be labelled
NONE = "none of the classes"


@dataclass(frozen=True)
class Start:
    """How a session begins.

    Parameters
    ----------
    name : str
    world : World, optional
        Features with examples; or else
    texts : str
        A table of texts, whose classes are known by their names alone.
    known : int, optional
        Of the classes, those with an example; all by default.
    foreign : int, default=0
        Classes of the world whose items are of none of the classes.
    """

    name: str
    world: World | None = None
    texts: str = ""
    known: int | None = None
    foreign: int = 0


STARTS = (
    Start("photographs", World("efficientnet_lite0-val", 12, 60, (1,))),
    Start("birds", World("cub_lite0-val", 12, 50, (1,))),
    Start("intents", World("clinc_minilm-val", 15, 50, (1,))),
    Start("materials", World("trash_lite0-val", 6, 120, (1,))),
    Start("sounds", World("esc50_yamnet-val", 12, 40, (1,))),
    Start("two cameras", World("birds_night-val", 12, 60, (1,))),
    Start("bursts", World("birds_burst-val", 12, 60, (1,))),
    Start("photographs, uneven", World("efficientnet_lite0-val", 12, 60, (1,), uneven=True)),
    Start("photographs, a third foreign", World("efficientnet_lite0-val", 18, 40, (1,)), foreign=6),
    Start("photographs, 2 of 12 classes", World("efficientnet_lite0-val", 12, 60, (1,)), known=2),
    Start("questions, names alone", texts="trec.csv"),
)


@dataclass
class Person:
    """Somebody who knows the truth, at a session."""

    session: Session
    truth: list[str]
    rng: np.random.Generator
    given: set[int]

    def label(self, rows: Iterator[int] | list[int]) -> bool:
        """Say what the rows are; whether any of them was new."""
        new = [row for row in map(int, rows) if row not in self.given]
        self.given.update(new)
        foreign = [row for row in new if self.truth[row] == NONE]
        if foreign:
            self.session.none_of_these(foreign)
        if len(foreign) < len(new):
            self.session.label({row: self.truth[row] for row in new if self.truth[row] != NONE})
        return bool(new)

    def wrong(self, rows: np.ndarray, answers: SessionAnswers) -> list[int]:
        """Those of the rows whose answers are wrong."""
        right = is_right(answers, self.truth)
        return [row for row in rows.tolist() if not right[row]]

    @property
    def open(self) -> np.ndarray:
        """Rows nobody labelled."""
        return np.setdiff1d(np.arange(len(self.truth)), list(self.given))


def at_random(person: Person, _: SessionAnswers) -> bool:
    return person.label(person.rng.permutation(person.open)[:STEP].tolist())


def by_next(person: Person, _: SessionAnswers) -> bool:
    return person.label(person.session.next(STEP).tolist())


def by_worklist(person: Person, _: SessionAnswers) -> bool:
    return person.label(person.session.worklist(TARGET).rows[:STEP].tolist())


def corrections(person: Person, answers: SessionAnswers) -> bool:
    person.label(person.wrong(person.rng.permutation(person.open)[:PAGE], answers))
    return len(person.open) > PAGE


def doubtful(person: Person, answers: SessionAnswers) -> bool:
    doubt = answers.chances[person.open]
    person.label(person.wrong(person.open[np.argsort(doubt, kind="stable")[:PAGE]], answers))
    return len(person.open) > PAGE


def in_bulk(person: Person, answers: SessionAnswers) -> bool:
    if person.session.preview_accept(SURE)[0]:
        person.session.accept(SURE)
    return by_next(person, answers)


BEHAVIOURS: dict[str, Callable[[Person, SessionAnswers], bool]] = {
    "random": at_random,
    "next": by_next,
    "worklist": by_worklist,
    "corrections": corrections,
    "doubtful": doubtful,
    "bulk": in_bulk,
}


@dataclass(frozen=True)
class Moment:
    """Labels given, share of all items right, the promise with its ends, and the share right of those unlabelled."""

    labels: int
    right: float
    promise: tuple[float, float, float]
    unlabelled: float


def is_right(answers: SessionAnswers, truth: list[str]) -> np.ndarray:
    """Whether each answer is right; of foreign items, that they are said to be."""
    said = [NONE if foreign else label for label, foreign in zip(answers.labels, answers.foreign, strict=True)]
    return np.array([a == b for a, b in zip(said, truth, strict=True)])


def follow(person: Person, act: Callable[[Person, SessionAnswers], bool], budget: int, rounds: int) -> list[Moment]:
    """What was true and promised at each moment, until nothing is left to do, or the ``budget`` of labels is spent."""
    moments = []
    for _ in range(rounds):
        answers = person.session.solve(complete=True)
        right, expected = is_right(answers, person.truth), answers.expected
        ends = (expected.value, expected.low, expected.high) if expected else (np.nan, np.nan, np.nan)
        left = person.open
        moments.append(Moment(len(person.given), right.mean(), ends, right[left].mean() if len(left) else 1.0))
        if len(person.given) >= budget or not act(person, answers):
            break
    return moments


def draw(start: Start, data: Path, seed: int) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Features (n, D) of a start with a world, true classes (n,), and the rows that are examples."""
    drawn = draw_folder(start.world, 1, data / "features", seed)
    n_classes = start.world.n_classes - start.foreign
    truth = [f"class {c}" if c < n_classes else NONE for c in drawn.truth.tolist()]
    return drawn.X, truth, np.flatnonzero((drawn.given >= 0) & (drawn.given < (start.known or n_classes)))


def begin(start: Start, data: Path, seed: int, folder: Path) -> Person:
    """A person at a new session."""
    rng = np.random.default_rng([seed, 7])
    if start.world is None:
        with (data / "texts" / start.texts).open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        chosen = [lines[i] for i in np.random.default_rng(seed).permutation(len(lines))[:600]]
        table = folder / f"{start.texts}-{seed}.csv"
        with table.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["body"], *([line["body"]] for line in chosen)])
        truth = [line["truth"] for line in chosen]
        session = Session.open(
            table, text="body", classes=sorted(set(truth)), folder=Path(tempfile.mkdtemp(dir=folder))
        )
        return Person(session, truth, rng, set())
    X, truth, examples = draw(start, data, seed)
    person = Person(Session.from_embeddings(X), truth, rng, set())
    person.label(examples.tolist())
    return person


@cache
def labels_of_rival(start: Start, data: Path, seed: int) -> float:
    """Labels that logistic regression needs for 95 % right, by smallest margins; infinite beyond the budget."""
    if start.world is None or start.known:
        return np.inf
    rows, truth, examples = draw(start, data, seed)
    X, y, given, budget = centred(rows), np.array(truth), list(examples), int(BUDGET * len(truth))
    while len(given) < budget:
        model = LogisticRegression(C=10, max_iter=300).fit(X[given], y[given])
        probabilities = model.predict_proba(X)
        answers = model.classes_[probabilities.argmax(axis=1)]
        answers[given] = y[given]
        if (answers == y).mean() >= TARGET:
            return len(given)
        ordered = np.sort(probabilities, axis=1)
        margin = ordered[:, -1] - ordered[:, -2]
        margin[given] = np.inf
        given += np.argsort(margin, kind="stable")[:STEP].tolist()
    return np.inf


def reached(moments: list[Moment]) -> float:
    """Labels at which 95 % of all items were right first; infinite where they never were."""
    return next((float(moment.labels) for moment in moments if moment.right >= TARGET), np.inf)


def fall(moments: list[Moment]) -> float:
    """The most that the share right of the unlabelled items fell below its best so far."""
    shares = np.array([moment.unlabelled for moment in moments])
    return float((np.maximum.accumulate(shares) - shares).max())


def measure(start: Start, behaviour: str, data: Path, draws: int, rounds: int, folder: Path) -> dict[str, float]:
    """Means over the draws, in % and in labels."""
    values = []
    for seed in range(draws):
        person = begin(start, data, seed, folder)
        moments = follow(person, BEHAVIOURS[behaviour], int(BUDGET * len(person.truth)), rounds)
        person.session.close()
        promises = np.array([moment.promise for moment in moments])
        right = np.array([moment.right for moment in moments])
        told = np.isfinite(promises[:, 0])
        off = promises[told, 0] - right[told]
        values.append(
            {
                "first": 100 * right[0],
                "last": 100 * right[-1],
                "says": 100 * promises[-1, 0],
                "labels": moments[-1].labels,
                "off": 100 * np.abs(off).mean(),
                "over": 100 * off.mean(),
                "covered": 100 * ((promises[told, 1] <= right[told]) & (right[told] <= promises[told, 2])).mean(),
                "fall": 100 * fall(moments),
                "to target": reached(moments),
                "rival": labels_of_rival(start, data, seed),
            }
        )
    found = {key: float(np.mean([value[key] for value in values])) for key in values[0]}
    return found | {"worst fall": max(value["fall"] for value in values)}


def number(labels: float) -> str:
    return f"{labels:.0f}" if np.isfinite(labels) else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=15, help="at most, of acts")
    parser.add_argument("--only", default="", help="part of the name of a start")
    parser.add_argument("--behaviours", default=",".join(BEHAVIOURS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of convergence, of the rival
    print(
        "| session | behaviour | first | last | says | labels | off | over | covered | falls | to 95 % | regression |"
    )
    print("|---" * 12 + "|")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for start in STARTS:
            for behaviour in options.behaviours.split(",") if options.only in start.name else ():
                found = measure(start, behaviour, options.data, options.draws, options.rounds, Path(folder))
                results.append({"session": start.name, "behaviour": behaviour, **found})
                shares = [f"{found[key]:.1f}" for key in ("first", "last", "says")]
                rest = [f"{found[key]:.1f}" for key in ("off", "over")]
                falls = f"{found['fall']:.1f} / {found['worst fall']:.1f}"
                cells = [*shares, number(found["labels"]), *rest, f"{found['covered']:.0f}", falls]
                print(
                    f"| {start.name} | {behaviour} | {' | '.join(cells)} | {number(found['to target'])} "
                    f"| {number(found['rival'])} |",
                    flush=True,
                )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
