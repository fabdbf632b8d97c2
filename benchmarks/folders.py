"""Folders as they are: accuracy and promise of `auto` beside FS-MMC and logistic regression, on whole validation sets.

Worlds: examples drawn at random, classes of even and uneven sizes, two cameras (all examples from one, or from
both), bursts (all frames of some scenes labelled, or single frames). One row a world and number of examples, two
cameras with the accuracy of each. Prints a table, and writes JSON with --json.

    python benchmarks/folders.py --data ../shared/data/features --draws 4 --json folders.json
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

from marginshot import TransductiveMaxMarginClassifier


@dataclass(frozen=True)
class World:
    """A file, how much of it is used, and how examples are drawn."""

    file: str
    n_classes: int
    rows_a_class: int
    examples: tuple[int, ...]
    drawn: str = "random"
    uneven: bool = False

    @property
    def name(self) -> str:
        return f"{self.file.split('_')[0]}{', uneven' if self.uneven else ''}, {self.drawn}"


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
    return Folder(columns["X"][rows].astype(np.float32), truth, given, groups, domain)


def by_auto(folder: Folder) -> np.ndarray:
    """Probabilities (n, N)."""
    return (
        TransductiveMaxMarginClassifier.from_preset("auto")
        .fit(folder.X, folder.given, groups=folder.groups)
        .label_distributions_
    )


def by_fs_mmc(folder: Folder) -> np.ndarray:
    """Probabilities (n, N) of the planes of the labelled rows alone."""
    return TransductiveMaxMarginClassifier(lambda2=(0,)).fit(folder.X, folder.given).label_distributions_


def by_logistic_regression(folder: Folder) -> np.ndarray:
    """Probabilities (n, N) on centred unit rows."""
    rows = folder.X - folder.X.mean(axis=0)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    known = folder.given >= 0
    return LogisticRegression(C=10, max_iter=300).fit(rows[known], folder.given[known]).predict_proba(rows)


METHODS = {"auto": by_auto, "FS-MMC": by_fs_mmc, "logistic": by_logistic_regression}


def measure(world: World, n_examples: int, data: Path, n_draws: int) -> dict[str, dict[str, float]]:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/features"))
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--only", default="", help="part of a world's name")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of convergence, of the rival
    results = []
    print("| world | examples | auto | promise | FS-MMC | logistic | below the better by more than 1 |")
    print("|---|---|---|---|---|---|---|")
    for world in WORLDS:
        if options.only not in world.name:
            continue
        for n_examples in world.examples:
            cell = measure(world, n_examples, options.data, options.draws)
            results.append({"world": world.name, "examples": n_examples, **cell})
            domains = [key for key in cell["auto"] if key.startswith("domain")]
            shown = domains if len(domains) > 1 else ["truth"]
            parts = {name: " / ".join(f"{cell[name][key]:.1f}" for key in shown) for name in METHODS}
            short = any(
                cell["auto"][key] < max(cell["FS-MMC"][key], cell["logistic"][key]) - 1 for key in [*shown, "truth"]
            )
            print(
                f"| {world.name} | {n_examples} | {parts['auto']} | {cell['auto']['promise']:.1f} | {parts['FS-MMC']} "
                f"| {parts['logistic']} | {'yes' if short else ''} |",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
