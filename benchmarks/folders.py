"""Folders as they are: accuracy and promise of `auto` beside what scikit-learn has, on whole validation sets.

    python benchmarks/folders.py --data ../shared/data/features [--draws 4] [--only birds] [--json folders.json]

Worlds: examples drawn at random, classes of even and uneven sizes, a tenth of the labels wrong, two cameras (all
examples from one, or from both), bursts (all frames of some scenes labelled, or single frames). Prints a Markdown table
with a row for each world and number of examples; cells of two cameras have the accuracy of each. ``--before`` names the
--json of an earlier version, whose accuracies become a column; docs/results/folders.md explains the others.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

from marginshot import TransductiveMaxMarginClassifier


@dataclass(frozen=True)
class World:
    """A file, how much of it is used, how examples are drawn, and the share of wrong ones among them."""

    file: str
    n_classes: int
    rows_a_class: int
    examples: tuple[int, ...]
    drawn: str = "random"
    uneven: bool = False
    wrong: float = 0.0

    @property
    def name(self) -> str:
        source = self.file.removesuffix("-val").replace("_", " ")
        return f"{source}{', uneven' * self.uneven}, {self.drawn}{', wrong labels' * bool(self.wrong)}"


_SETS = (
    ("efficientnet_lite0-val", 20, 60, (1, 3, 10, 30)),
    ("small_resnet-val", 20, 60, (1, 3, 10)),
    ("cub_lite0-val", 20, 50, (1, 3, 10)),
    ("clinc_minilm-val", 30, 50, (1, 3, 10)),
    ("trash_lite0-val", 6, 200, (1, 3, 10, 30)),
    ("esc50_yamnet-val", 25, 40, (1, 3, 10)),
    ("trec_minilm-val", 6, 250, (1, 3, 10, 30)),
)
WORLDS = (
    *(World(*given) for given in _SETS),
    *(World(file, n, rows, (1, 3), uneven=True) for file, n, rows, _ in _SETS),
    *(World(file, n, rows, (3, 10), wrong=0.1) for file, n, rows, _ in _SETS),
    World("birds_night-val", 12, 60, (1, 3, 10), "examples by day"),
    World("birds_night-val", 12, 60, (1, 3, 10)),
    World("birds_burst-val", 12, 60, (1, 3), "whole scenes"),
    World("birds_burst-val", 12, 60, (1, 3)),
)


@dataclass(frozen=True)
class Folder:
    """Rows (n, D), true classes, given labels (−1 where none), groups, and the domain of each row, each (n,)."""

    X: np.ndarray
    truth: np.ndarray
    given: np.ndarray
    groups: np.ndarray | None
    domain: np.ndarray

    @property
    def asked(self) -> np.ndarray:
        """Rows whose answer counts: without a label, and of no group that has one."""
        if self.groups is None:
            return self.given < 0
        return ~np.isin(self.groups, self.groups[self.given >= 0])


def draw(world: World, n_examples: int, data: Path, seed: int) -> Folder:
    """A folder of this world."""
    rng = np.random.default_rng(seed)
    with np.load(data / f"{world.file}.npz") as file:
        columns = {name: file[name] for name in file.files if name in ("X", "y", "groups", "domain")}
    codes = np.unique(columns["y"], return_inverse=True)[1]
    kept = []
    for place, c in enumerate(rng.permutation(codes.max() + 1)[: world.n_classes]):
        size = max(4, int(world.rows_a_class * 0.6 ** (place % 8))) if world.uneven else world.rows_a_class
        kept.append(rng.permutation(np.flatnonzero(codes == c))[:size])
    rows = rng.permutation(np.concatenate(kept))
    truth = np.unique(codes[rows], return_inverse=True)[1]
    groups = columns["groups"][rows] if "groups" in columns else None
    domain = columns["domain"][rows] if "domain" in columns else np.zeros(len(rows), dtype=int)
    given = np.full(len(rows), -1)
    for c in range(truth.max() + 1):
        members = rng.permutation(np.flatnonzero(truth == c))
        if world.drawn == "examples by day":
            members = members[domain[members] == 0]
        if world.drawn == "whole scenes":
            given[np.isin(groups, rng.permutation(np.unique(groups[members]))[:n_examples]) & (truth == c)] = c
        else:
            given[members[: min(n_examples, len(members) - 1)]] = c
    given = spoil(given, world.wrong, rng) if world.wrong else given
    return Folder(columns["X"][rows].astype(np.float32), truth, given, groups, domain)


def spoil(given: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Labels (n,) of which a share is of another class, at random; one example of each class stays right."""
    known = np.flatnonzero(given >= 0)
    n_classes, first = given.max() + 1, np.unique(given[known], return_index=True)[1]
    wrong = rng.permutation(np.delete(known, first))[: round(share * len(known))]
    spoilt = given.copy()
    spoilt[wrong] = (given[wrong] + rng.integers(1, n_classes, len(wrong))) % n_classes
    return spoilt


def by_auto(folder: Folder) -> np.ndarray:
    """Probabilities (n, N)."""
    clf = TransductiveMaxMarginClassifier.from_preset("auto")
    return clf.fit(folder.X, folder.given, groups=folder.groups).label_distributions_


def by_fs_mmc(folder: Folder) -> np.ndarray:
    """Probabilities (n, N) of the planes of the labelled rows alone."""
    clf = TransductiveMaxMarginClassifier.from_preset("paper", lambda2=(0,))
    return clf.fit(folder.X, folder.given).label_distributions_


def centred(X: np.ndarray) -> np.ndarray:
    """Rows (n, D) less their mean, of unit length: what FS-TMMC sees."""
    rows = X - X.mean(axis=0)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def by_logistic_regression(folder: Folder) -> np.ndarray:
    """Probabilities (n, N)."""
    rows, known = centred(folder.X), folder.given >= 0
    return LogisticRegression(C=10, max_iter=300).fit(rows[known], folder.given[known]).predict_proba(rows)


def by_label_spreading(folder: Folder) -> np.ndarray:
    """Probabilities (n, N), over the graph of ten neighbours."""
    return LabelSpreading(kernel="knn", n_neighbors=10).fit(centred(folder.X), folder.given).label_distributions_


METHODS = {
    "auto": by_auto,
    "FS-MMC": by_fs_mmc,
    "logistic regression": by_logistic_regression,
    "label spreading": by_label_spreading,
}
Cell = dict[str, dict[str, float]]


def measure(world: World, n_examples: int, data: Path, n_draws: int) -> Cell:
    """Accuracy, mean largest probability and accuracy in each domain, in %, of each method."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in METHODS}
    for seed in range(n_draws):
        folder = draw(world, n_examples, data, seed)
        asked = folder.asked
        for name, method in METHODS.items():
            probabilities = method(folder)
            right = probabilities.argmax(axis=1) == folder.truth
            values = {"truth": right[asked].mean(), "promise": probabilities[asked].max(axis=1).mean()}
            for domain in np.unique(folder.domain):
                values[f"domain {domain}"] = right[asked & (folder.domain == domain)].mean()
            found[name].append(values)
    return {
        name: {key: 100 * float(np.mean([values[key] for values in each])) for key in each[0]}
        for name, each in found.items()
    }


def shown(values: dict[str, float]) -> str:
    """Accuracy, or that of each domain where there are several."""
    domains = [key for key in values if key.startswith("domain")]
    return " / ".join(f"{values[key]:.1f}" for key in (domains if len(domains) > 1 else ["truth"]))


def line(world: World, n_examples: int, cell: Cell, before: list[dict] | None) -> str:
    """A row of the table; "yes" where `auto` is behind in all rows or in those of one domain."""
    auto, others = cell["auto"], [values for name, values in cell.items() if name != "auto"]
    behind = any(auto[key] < max(other[key] for other in others) - 1 for key in auto if key != "promise")
    parts = [world.name, str(n_examples), shown(auto), f"{auto['promise']:.1f}"]
    if before is not None:
        earlier = [row["auto"] for row in before if (row["world"], row["examples"]) == (world.name, n_examples)]
        parts.append(shown(earlier[0]) if earlier else "–")
    return f"| {' | '.join([*parts, *map(shown, others), 'yes' * behind])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/features"))
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--only", default="", help="part of a world's name")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--before", type=Path, help="the --json of an earlier version")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of convergence, of the rivals
    before = json.loads(options.before.read_text()) if options.before else None
    rivals = [name for name in METHODS if name != "auto"]
    headers = ["world", "examples", "auto", "promise", *["auto before"] * (before is not None), *rivals, "behind"]
    print(f"| {' | '.join(headers)} |", "|---" * len(headers) + "|", sep="\n")
    results = []
    for world in WORLDS:
        for n_examples in world.examples if options.only in world.name else ():
            cell = measure(world, n_examples, options.data, options.draws)
            results.append({"world": world.name, "examples": n_examples, **cell})
            print(line(world, n_examples, cell, before), flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
