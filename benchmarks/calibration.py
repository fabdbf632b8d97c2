"""Expected calibration error of the preset "auto", cell by cell: can its probabilities be acted on?

    python benchmarks/calibration.py FEATURES.npz ... [--tasks 100] [--query 15] [--whole 5]

Prints two tables in Markdown. The first has the ECE of the top label (15 bins, pooled over tasks) in per cent for each
number of ways and shots, with balanced queries / with shares from a Dirichlet distribution with parameter 2, a column a
file. The second is of fits on all rows of a file, for ``--whole`` draws of the examples, where "over" is the mean
confidence less the accuracy (above zero: overconfident). Cells that a file does not suffice for are left out.
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
REGIMES: tuple[dict[str, Any], ...] = ({}, {"dirichlet": 2.0})
# Of the counts below the first table, in per cent.
MOST = 5.0


def calibration_error(probabilities: NDArray[Any], truth: NDArray[Any]) -> float:
    """ECE in per cent of probabilities (T, m, N) and true classes (T, m)."""
    return 100 * expected_calibration_error(count_reliability(probabilities, probabilities.argmax(axis=2), truth))


def errors_of_tasks(bank: FeatureBank, n_way: int, n_shot: int, n_tasks: int, n_query: int) -> list[float | None]:
    """ECE in per cent in each regime; None where the features do not suffice."""
    errors: list[float | None] = []
    for drawn in REGIMES:
        try:
            sampler = TaskSampler(bank, n_way=n_way, n_shot=n_shot, n_query_per_class=n_query, **drawn)
            batches = [sampler.batch(i, i + BATCH) for i in range(0, n_tasks, BATCH)]
        except ValueError:
            errors.append(None)
            continue
        parts = [solve_tasks(b.support, b.support_labels, b.query, "auto", n_jobs=-1) for b in batches]
        truth = np.concatenate([b.query_labels for b in batches])
        errors.append(calibration_error(np.concatenate([part.probabilities for part in parts]), truth))
    return errors


def table_of_tasks(banks: list[FeatureBank], n_tasks: int, n_query: int) -> Iterator[str]:
    """Lines of the first table, and what they come to; the more classes, the fewer tasks."""
    yield f"| ways | shots | {' | '.join(f'`{bank.source}`' for bank in banks)} |"
    yield "|---|---|" + "---|" * len(banks)
    few: list[float] = []
    many: list[float] = []
    for n_way in WAYS:
        for n_shot in SHOTS:
            count = max(5 * n_tasks // n_way, 1)
            cells = [errors_of_tasks(bank, n_way, n_shot, count, n_query) for bank in banks]
            (few if n_shot == 1 else many).extend(error for cell in cells for error in cell if error is not None)
            shown = [" / ".join("–" if error is None else f"{error:.1f}" for error in cell) for cell in cells]
            yield f"| {n_way} | {n_shot} | {' | '.join(shown)} |"
    counts = [f"{sum(error <= MOST for error in errors)} of {len(errors)} cells" for errors in (many, few)]
    yield f"\nAt most {MOST:g} % in {counts[0]} with three and more examples a class, and in {counts[1]} with one."


def table_of_files(banks: list[FeatureBank], draws: int) -> Iterator[str]:
    """Lines of the second table."""
    yield "| all rows of | ways | shots | accuracy | ECE | over |\n|---|---|---|---|---|---|"
    for bank in banks:
        for n_shot in SHOTS:
            probabilities, truth = fit_all_rows(bank, n_shot, draws)
            right = np.mean(probabilities.argmax(axis=2) == truth)
            over = 100 * (probabilities.max(axis=2).mean() - right)
            numbers = f"{100 * right:.1f} | {calibration_error(probabilities, truth):.1f} | {over:+.1f}".replace(
                "-", "−"
            )
            yield f"| `{bank.source}` | {len(bank.classes)} | {n_shot} | {numbers} |"


def fit_all_rows(bank: FeatureBank, n_shot: int, draws: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Probabilities (draws, m, N) of the rows that are no examples, and their true classes (draws, m)."""
    truth, found = bank.y, []
    for seed in range(draws):
        order = np.random.default_rng(seed).permutation(len(truth))
        first = np.concatenate([order[truth[order] == c][:n_shot] for c in range(len(bank.classes))])
        y = np.full(len(truth), -1)
        y[first] = truth[first]
        clf = TransductiveMaxMarginClassifier.from_preset("auto").fit(bank.X, y)
        found.append((clf.label_distributions_[y < 0], truth[y < 0]))
    probabilities, classes = zip(*found, strict=True)
    return np.stack(probabilities), np.stack(classes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", nargs="+")
    parser.add_argument("--tasks", type=int, default=100, help="tasks of five classes; of more classes fewer")
    parser.add_argument("--query", type=int, default=15, help="queries a class")
    parser.add_argument("--whole", type=int, default=0, help="draws of the examples for fits on all rows")
    arguments = parser.parse_args()
    banks = [load_features(path) for path in arguments.features]
    for line in table_of_tasks(banks, arguments.tasks, arguments.query):
        print(line, flush=True)
    if arguments.whole:
        print()
        for line in table_of_files(banks, arguments.whole):
            print(line, flush=True)


if __name__ == "__main__":
    main()
