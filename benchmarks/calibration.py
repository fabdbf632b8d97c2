"""Expected calibration error of the preset "auto", cell by cell: can its probabilities be acted on?

    python benchmarks/calibration.py FEATURES.npz ... [--tasks 100] [--whole 5]

Prints a table in Markdown for each file of features: ways, shots, queries a class and regime; accuracy, ECE of the top
label (15 bins, pooled over tasks) and mean confidence less accuracy (above zero: overconfident), in per cent. Cells the
features do not suffice for are left out. ``--whole`` adds fits on all rows of the file, for as many draws of examples.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot import TransductiveMaxMarginClassifier, solve_tasks
from marginshot.data.features import FeatureBank, load_features
from marginshot.data.sampler import TaskSampler
from marginshot.evaluation.statistics import count_reliability, expected_calibration_error

BATCH = 20
WAYS, SHOTS = (2, 5, 10, 20, 50), (1, 3, 5, 10)
REGIMES: dict[str, dict[str, Any]] = {
    "15, balanced": {"n_query_per_class": 15},
    "15, a = 2": {"n_query_per_class": 15, "dirichlet": 2.0},
    "4, balanced": {"n_query_per_class": 4},
    "1, balanced": {"n_query_per_class": 1},
}


def line(name: str, probabilities: NDArray[Any], truth: NDArray[Any]) -> str:
    """A row of the table, of probabilities (T, m, N) and true classes (T, m)."""
    labels = probabilities.argmax(axis=2)
    right, confidence = (labels == truth).mean(), probabilities.max(axis=2).mean()
    error = expected_calibration_error(count_reliability(probabilities, labels, truth))
    return f"| {name} | {100 * right:.1f} | {100 * error:.1f} | {100 * (confidence - right):+.1f} |"


def small_tasks(bank: FeatureBank, n_tasks: int) -> Iterator[str]:
    """A row for each cell of sampled tasks; the more classes, the fewer tasks."""
    for n_way in WAYS:
        for n_shot in SHOTS:
            for regime, drawn in REGIMES.items():
                try:
                    sampler = TaskSampler(bank, n_way=n_way, n_shot=n_shot, **drawn)
                    batches = [sampler.batch(i, i + BATCH) for i in range(0, max(5 * n_tasks // n_way, 1), BATCH)]
                except ValueError:
                    continue
                parts = [solve_tasks(b.support, b.support_labels, b.query, "auto", n_jobs=-1) for b in batches]
                probabilities = np.concatenate([part.probabilities for part in parts])
                truth = np.concatenate([b.query_labels for b in batches])
                yield line(f"{n_way} | {n_shot} | {regime}", probabilities, truth)


def whole_file(bank: FeatureBank, draws: int) -> Iterator[str]:
    """A row for each number of examples a class, with all other rows of the file unlabelled."""
    truth, n_classes = bank.y, len(bank.classes)
    for n_shot in SHOTS if draws else ():
        found = []
        for seed in range(draws):
            order = np.random.default_rng(seed).permutation(len(truth))
            first = np.concatenate([order[truth[order] == c][:n_shot] for c in range(n_classes)])
            y = np.full(len(truth), -1)
            y[first] = truth[first]
            clf = TransductiveMaxMarginClassifier.from_preset("auto").fit(bank.X, y)
            found.append((clf.label_distributions_[y < 0], truth[y < 0]))
        yield line(f"{n_classes} | {n_shot} | all rows", *(np.stack(part) for part in zip(*found, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", nargs="+")
    parser.add_argument("--tasks", type=int, default=100, help="tasks of five classes; of more classes fewer")
    parser.add_argument("--whole", type=int, default=0, help="draws of the examples for fits on all rows")
    arguments = parser.parse_args()
    for path in arguments.features:
        bank = load_features(path)
        print(
            f"\n{bank.source}\n\n| ways | shots | queries a class | accuracy | ECE | over |\n|---|---|---|---|---|---|"
        )
        for row in small_tasks(bank, arguments.tasks):
            print(row, flush=True)
        for row in whole_file(bank, arguments.whole):
            print(row, flush=True)


if __name__ == "__main__":
    main()
