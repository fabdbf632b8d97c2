"""What a labelling session promises: names, worklists, suggestions, "none of these"; on photographs, birds and texts.

    python benchmarks/labelling_rounds.py [--draws 20] [--only names,corrections,worklist,suggest,none]

Prints Markdown tables, means over draws with their 95 % intervals. Pictures and texts are encoded once and kept in the
user's cache. `benchmarks/labelling.py` prints the tables of labelling itself.
"""

from __future__ import annotations

import argparse
import csv
import os
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from marginshot.labelling.answers.classify import NamedRows, make_classifier
from marginshot.labelling.answers.names import Names, embed_names
from marginshot.labelling.answers.rejection import Examples, fit_rejection
from marginshot.labelling.answers.sketch import EmbeddingView
from marginshot.labelling.answers.suggestions import suggest_rows
from marginshot.labelling.answers.worklist import Evidence, expected_accuracy, fit_correction, worklist
from marginshot.labelling.items.embed import embed
from marginshot.labelling.items.encoders import PictureEncoder, TextEncoder
from marginshot.labelling.items.folders import collect_unlabelled
from marginshot.labelling.items.store import open_store
from marginshot.labelling.items.tables import text_rows

SHARED = Path(os.environ.get("MARGINSHOT_DATA", Path(__file__).parents[2] / "shared" / "data"))
TARGET = 0.95

Rows = NDArray[np.int64]
Data = tuple[NDArray[np.float32], Rows]  # embeddings (n, D), classes (n,), -2 for what is none of them


@cache
def load_pictures(name: str) -> Data:
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(SHARED / "photos" / f"{name}.tar") as archive:
            archive.extractall(folder, filter="data")
        embedded = embed(collect_unlabelled(Path(folder)), PictureEncoder(), open_store(True))
    names = [item.partition("/")[0] for item in embedded.collection.items]
    return embedded.X, np.unique(names, return_inverse=True)[1].astype(np.int64)


@cache
def load_texts() -> tuple[NDArray[np.float32], Rows, Names]:
    """CLINC150, its out-of-scope rows as -2, and the names of its intents."""
    with np.load(SHARED / "features" / "clinc_minilm-val.npz") as features:
        X, y, classes = features["X"].astype(np.float32), features["y"], features["classes"].tolist()
    with (SHARED / "texts" / "clinc150.csv").open(encoding="utf-8", newline="") as file:
        foreign = [row["text"] for row in csv.DictReader(file) if row["intent"] == "oos"]
    outside = embed(text_rows(foreign, [""] * len(foreign)), TextEncoder(), open_store(True)).X
    names = embed_names(classes, TextEncoder(), open_store(True))
    if names is None:
        raise RuntimeError("The intents of CLINC150 have names.")
    return np.concatenate((X, outside)), np.concatenate((y, np.full(len(outside), -2))), names


def part(y: Rows, sizes: dict[int, int], rng: np.random.Generator) -> Rows:
    """Rows with that many items of each class, at random."""
    return np.concatenate([rng.permutation(np.flatnonzero(y == c))[:size] for c, size in sizes.items()])


def some_intents(n_classes: int, size: int, n_none: int, rng: np.random.Generator) -> Data:
    X, y, _ = load_texts()
    chosen = rng.permutation(y.max() + 1)[:n_classes]
    rows = part(y, dict.fromkeys(chosen.tolist(), size) | {-2: n_none}, rng)
    place = np.full(y.max() + 1, -2)
    place[chosen] = np.arange(n_classes)
    return X[rows], np.where(y[rows] < 0, -2, place[y[rows]])


def unbalanced(data: Data, rng: np.random.Generator) -> Data:
    X, y = data
    n_classes = int(y.max()) + 1
    sizes = rng.permutation(np.geomspace(60, 5, n_classes).astype(int)).tolist()
    rows = part(y, dict(enumerate(sizes)), rng)
    return X[rows], y[rows]


def draw(y: Rows, n_shot: int, rng: np.random.Generator) -> Rows:
    """Labels of ``n_shot`` examples a class, -1 elsewhere."""
    given = np.full(len(y), -1)
    for c in np.unique(y[y >= 0]):
        given[rng.permutation(np.flatnonzero(y == c))[:n_shot]] = c
    return given


def interval(values: list[float]) -> str:
    half = 196 * np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return f"{100 * np.mean(values):.1f} ± {half:.1f}"


def print_table(headers: list[str], rows: Iterator[tuple[str, list[str]]]) -> None:
    print("| " + " | ".join(headers) + " |\n|" + "---|" * len(headers))
    for name, cells in rows:
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print()


def names_table(draws: int, size: int = 40) -> Iterator[tuple[str, list[str]]]:
    """CLINC150, ``size`` texts of each intent: accuracy with and without the names of the intents."""
    X, y, names = load_texts()
    found: dict[str, list[list[float]]] = {"examples alone": [], "examples and names": []}
    for n_shot in (0, 1, 3, 5):
        alone, both = [], []
        for seed in range(draws):
            rng = np.random.default_rng([seed, n_shot])
            rows = part(y, dict.fromkeys(range(150), size), rng)
            given = draw(y[rows], n_shot, rng) if n_shot else np.full(len(rows), -1)
            unknown = given < 0
            both.append(float(np.mean((answers_with(X[rows], given, names) == y[rows])[unknown])))
            if n_shot:
                answers = make_classifier(X[rows]).fit(X[rows], given).transduction_
                alone.append(float(np.mean((answers == y[rows])[unknown])))
        found["examples alone"].append(alone)
        found["examples and names"].append(both)
    for name, cells in found.items():
        yield name, [interval(cell) if cell else "–" for cell in cells]


def corrections_table(draws: int, size: int = 40) -> Iterator[tuple[str, list[str]]]:
    """Errors of the names alone are corrected: accuracy over the other items less that before, and the lowest.

    Intents of odd number only: the weight of names was chosen on the others.
    """
    X, y, names = load_texts()
    intents = names.classes[names.classes % 2 == 1]
    for n_classes in (5, 10, 20):
        found: dict[int, list[float]] = {2: [], 4: [], 10: []}
        for seed in range(draws):
            rng = np.random.default_rng([seed, n_classes])
            chosen = np.sort(rng.permutation(intents)[:n_classes])
            rows = part(y, dict.fromkeys(chosen.tolist(), size), rng)
            truth = np.searchsorted(chosen, y[rows])
            named = Names(names.rows[np.searchsorted(names.classes, chosen)], np.arange(n_classes))
            before = answers_with(X[rows], np.full(len(rows), -1), named)
            wrong = rng.permutation(np.flatnonzero(before != truth))
            for n_corrected, changes in found.items():
                if len(wrong) >= n_corrected:
                    given = np.full(len(rows), -1)
                    given[wrong[:n_corrected]] = truth[wrong[:n_corrected]]
                    after, others = answers_with(X[rows], given, named), given < 0
                    changes.append(float(np.mean((after == truth)[others]) - np.mean((before == truth)[others])))
        cells = [f"{interval(own)} ({100 * min(own):.1f}; {len(own)} draws)" if own else "–" for own in found.values()]
        yield f"{n_classes} intents", cells


def answers_with(X: NDArray[np.float32], given: Rows, names: Names) -> Rows:
    """Class of each row (n,) by the given labels and the names."""
    table = NamedRows(X, names)
    known, of_rows = table.examples(given)
    return table.refitter.fit(known, **of_rows).transduction_[: len(X)]


def worklist_table(draws: int) -> Iterator[tuple[str, list[str]]]:
    """Accuracy promised and reached: now, after the first list, and after lists in rounds with what was learned."""
    sets: dict[str, Callable[[np.random.Generator], Data]] = {
        "photographs": lambda rng: load_pictures("photos"),
        "birds": lambda rng: load_pictures("birds"),
        "texts": lambda rng: some_intents(150, 20, 0, rng),
    }
    for name, make in sets.items():
        for n_shot in (1, 3, 5):
            found = []
            for seed in range(draws):
                rng = np.random.default_rng([seed, n_shot])
                X, y = make(rng)
                found.append(follow_lists(X, y, draw(y, n_shot, rng)))
            columns = [[row[place] for row in found] for place in range(len(found[0]))]
            yield f"{name}, {n_shot} a class", [interval(column) for column in columns]


def follow_lists(X: NDArray[np.float32], y: Rows, given: Rows) -> list[float]:
    """Expected and real accuracy now; share of items on the list, promised, reached; the same of lists in rounds."""
    given = given.copy()
    fitted = make_classifier(X).fit(X, given)
    confidence, right = fitted.label_distributions_.max(axis=1), fitted.transduction_ == y
    work = worklist(confidence, given >= 0, TARGET)
    now = expected_accuracy(confidence, given >= 0).value
    once = right.copy()
    once[work.rows] = True
    row = [now, right.mean(), len(work.rows) / len(y), work.expected[-1] if len(work.rows) else now, once.mean()]
    n_given, evidence = int((given >= 0).sum()), Evidence(np.empty(0), np.empty(0, dtype=bool))
    for _ in range(15):
        work = worklist(confidence, given >= 0, TARGET, fit_correction(evidence))
        if not len(work.rows):
            break
        rows = work.rows[: max(10, len(work.rows) // 3)]
        evidence = Evidence(np.append(evidence.confidence, confidence[rows]), np.append(evidence.right, right[rows]))
        given[rows] = y[rows]
        fitted = make_classifier(X).fit(X, given)
        confidence, right = fitted.label_distributions_.max(axis=1), fitted.transduction_ == y
    promised = expected_accuracy(confidence, given >= 0, fit_correction(evidence)).value
    return [*row, ((given >= 0).sum() - n_given) / len(y), promised, right.mean()]


def doubts(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Square of one minus the lead of the label over the runner-up, (n_rows,); never quite zero."""
    ordered = np.partition(probabilities, (-2, -1), axis=1)
    return (1.0 - (ordered[:, -1] - ordered[:, -2])) ** 2 + 1e-6


def by_margin(view: EmbeddingView, probabilities: NDArray[np.float64], given: Rows, n: int) -> Rows:
    return np.argsort(np.where(given < 0, -doubts(probabilities), 1.0), kind="stable")[:n]


def by_k_means(view: EmbeddingView, probabilities: NDArray[np.float64], given: Rows, n: int) -> Rows:
    """The item nearest to the centre of each cluster of items weighted by their doubt."""
    rows = np.flatnonzero(given < 0)
    means = KMeans(n, n_init=2, random_state=0).fit(view.sketch[rows], sample_weight=doubts(probabilities)[rows])
    distances = means.transform(view.sketch[rows])
    return rows[np.unique(np.where(means.labels_[:, None] == np.arange(n), distances, np.inf).argmin(axis=0))]


def at_random(view: EmbeddingView, probabilities: NDArray[np.float64], given: Rows, n: int) -> Rows:
    return np.random.default_rng(int((given >= 0).sum())).permutation(np.flatnonzero(given < 0))[:n]


PICKERS = {"suggested": suggest_rows, "smallest margin": by_margin, "k-means by doubt": by_k_means, "random": at_random}


def suggestion_table(
    make: Callable[[np.random.Generator], Data], draws: int, known: float
) -> Iterator[tuple[str, list[str]]]:
    """Accuracy over all items after rounds of as many labels as classes, from one example of a share of the classes."""
    for name, pick in PICKERS.items():
        curves = []
        for seed in range(draws):
            rng = np.random.default_rng([seed, 1])
            X, y = make(rng)
            view, n_classes = EmbeddingView(X), int(y.max()) + 1
            given = draw(np.where(np.isin(y, rng.permutation(n_classes)[: round(known * n_classes)]), y, -1), 1, rng)
            curve = []
            for _ in range(5):
                fitted = make_classifier(X).fit(X, given)
                curve.append(float(np.mean(fitted.transduction_ == y)))
                chosen = pick(view, fitted.label_distributions_, given, n_classes)
                given[chosen] = y[chosen]
            curves.append(curve)
        yield name, [interval(list(column)) for column in zip(*curves, strict=True)]


def none_table(draws: int, n_rounds: int = 5) -> Iterator[tuple[str, list[str]]]:
    """Foreign items found, with those said to be none, at the threshold of 5 % lost / really lost / found at just 5 %.

    A round is 12 items: the four least like any class, the four between two, four at random.
    """

    def without(data: Data, n_known: int, rng: np.random.Generator) -> Data:
        place = rng.permutation(data[1].max() + 1)
        return data[0], np.where(place[data[1]] < n_known, place[data[1]], -2)

    sets: dict[str, Callable[[np.random.Generator], Data]] = {
        "photographs, 6 classes of 8": lambda rng: without(load_pictures("photos"), 6, rng),
        "birds, 15 species of 20": lambda rng: without(load_pictures("birds"), 15, rng),
        "texts, 20 intents and out of scope": lambda rng: some_intents(20, 40, 200, rng),
    }
    for name, make in sets.items():
        found = np.empty((draws, n_rounds, 3))
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            X, y = make(rng)
            view, given, none = EmbeddingView(X), draw(y, 3, rng), np.zeros(len(y), dtype=bool)
            for turn in range(n_rounds):
                _, foreign = fit_rejection(view, given, 0.05, none)
                score, margin = likeness(view, given, none)
                home, open_rows = (given < 0) & (y >= 0), np.flatnonzero((given < 0) & ~none)
                at_five = none | (score < np.quantile(score[home], 0.05))
                found[seed, turn] = foreign[y < 0].mean(), foreign[home].mean(), at_five[y < 0].mean()
                likely = (open_rows[np.argsort(values[open_rows])[:4]] for values in (score, margin))
                asked = np.concatenate((*likely, rng.permutation(open_rows)[:4]))
                given[asked], none[asked] = np.where(y[asked] < 0, -1, y[asked]), y[asked] < 0
        yield name, ["{:.0f} / {:.1f} / {:.0f}".format(*(100 * cell)) for cell in found.mean(axis=0)]


def likeness(view: EmbeddingView, given: Rows, none: NDArray[np.bool_]) -> tuple[NDArray[np.float64], ...]:
    """What the rejection ranks items by, and the lead of the closest class, both (n_rows,)."""
    ordered = np.sort(Examples(view.smooth, given, none).scores, axis=1)
    return ordered[:, -1], ordered[:, -1] - ordered[:, -2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--only", default="names,corrections,worklist,suggest,none")
    arguments = parser.parse_args()
    wanted, draws = arguments.only.split(","), arguments.draws
    warnings.simplefilter("ignore")
    if "names" in wanted:
        print("CLINC150, 150 intents x 40 texts, accuracy in % from examples and names:\n")
        print_table(["examples a class", "0", "1", "3", "5"], names_table(max(draws // 4, 2)))
    if "corrections" in wanted:
        print("Errors of the names alone corrected, change of accuracy on the other items in points (lowest; draws):\n")
        print_table(["corrected", "2", "4", "10"], corrections_table(4 * draws))
    if "worklist" in wanted:
        print(f"Accuracy promised and reached in % by checking what the list for {TARGET:.0%} asks for:\n")
        headers = ["expected", "real", "on the list", "promised", "reached", "in rounds", "promised", "reached"]
        print_table(["", *headers], worklist_table(draws))
    if "suggest" in wanted:
        sets: dict[str, tuple[Callable[[np.random.Generator], Data], float]] = {
            "photographs": (lambda rng: load_pictures("photos"), 1.0),
            "photographs, unbalanced": (lambda rng: unbalanced(load_pictures("photos"), rng), 1.0),
            "photographs, unbalanced, half of the classes known": (
                lambda rng: unbalanced(load_pictures("photos"), rng),
                0.5,
            ),
            "birds": (lambda rng: load_pictures("birds"), 1.0),
            "20 intents, unbalanced": (lambda rng: unbalanced(some_intents(20, 60, 0, rng), rng), 1.0),
        }
        for name, (make, known) in sets.items():
            print(f"{name[0].upper()}{name[1:]}, accuracy in % after rounds of a label a class:\n")
            print_table(["", *map(str, range(5))], suggestion_table(make, draws, known))
    if "none" in wanted:
        print("Foreign items in %, found / known items lost / found at just 5 % lost, after rounds of 12 labels:\n")
        print_table(["", *map(str, range(5))], none_table(draws))


if __name__ == "__main__":
    main()
