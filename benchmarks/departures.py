"""What each departure from the paper does to the numbers: every one turned to the paper's letter, alone and together.

    python benchmarks/departures.py FEATURES.npz ... [--tasks 500]

Prints a table in Markdown for each file of features: accuracy of the preset "paper", the paired difference of each
variant on the same tasks, in points with its 95 % interval, and expected calibration error. The last two lines are
SciPy's L-BFGS-B on α on the first tasks, with the offset and Platt's smoothed targets, and as printed: its accuracy
less ours, the share of labels that differ, and of how many classes against the rest the minimiser is another one (a
score of a query differs by more than 0.1). docs/results/departures.md says what the departures are.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marginshot import Settings, solve_tasks
from marginshot.classifier.settings import FEWER_LAMBDA2
from marginshot.data.features import load_features
from marginshot.data.sampler import TaskSampler
from marginshot.evaluation.statistics import (
    count_reliability,
    expected_calibration_error,
    mean_and_interval,
    paired_difference,
)

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from reference.scipy_fs_tmmc import centred_unit_rows, logistic_probabilities, platt_probabilities, solve

SHOTS, SLOW_TASKS = (1, 5), 40
# Difference of a score of a query above which two minimisers are not one: scores are near ±1.
ANOTHER = 0.1
#: What SciPy solves: preset of ours, offset (None for that of equal shares) and calibration.
LETTERS: dict[str, tuple[str, float | None, Any]] = {
    "with the offset": ("paper", None, platt_probabilities),
    "as printed": ("printed", 0.0, logistic_probabilities),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "paper": {},
    "prior=None (no offset)": {"prior": None},
    "calibration='logistic' (targets 0 and 1)": {"calibration": "logistic"},
    "calibration='none' (rank by f)": {"calibration": "none"},
    "tol=3e-5 (ten times as tight)": {"tol": 3e-5},
    "lambda2=(0, 0.1, 1)": {"lambda2": FEWER_LAMBDA2},
    "printed": {"preset": "printed"},
}


def answers(sampler: TaskSampler, n_tasks: int, options: dict[str, Any]) -> tuple[NDArray[Any], float]:
    """Accuracy of each task in per cent, and expected calibration error of all."""
    batch = sampler.batch(0, n_tasks)
    settings = Settings.from_preset(**{"preset": "paper"} | options)
    found = solve_tasks(batch.support, batch.support_labels, batch.query, settings)
    error = expected_calibration_error(count_reliability(found.probabilities, found.labels, batch.query_labels))
    return 100 * np.mean(found.labels == batch.query_labels, axis=1), 100 * error


def beside_scipy(sampler: TaskSampler, preset: str, offset: float | None, calibrate: Any) -> str:
    """L-BFGS on α less ours: accuracy in points, labels that differ in per cent, minimisers that do."""
    batch = sampler.batch(0, SLOW_TASKS)
    n_way = int(batch.support_labels.max()) + 1
    ours = solve_tasks(batch.support, batch.support_labels, batch.query, preset)
    raw = solve_tasks(
        batch.support, batch.support_labels, batch.query, Settings.from_preset(preset, calibration="none")
    )
    theirs, others = [], 0
    for support, labels, query, mine in zip(batch.support, batch.support_labels, batch.query, raw.scores, strict=True):
        rows = centred_unit_rows(support, query)
        scores, _ = solve(rows @ rows.T, labels, n_way, offset=offset)
        others += int((np.abs(scores[len(labels) :] - mine).max(axis=0) > ANOTHER).sum())
        theirs.append(calibrate(scores, labels, n_way)[len(labels) :].argmax(axis=1))
    right = [100 * np.mean(labels == batch.query_labels, axis=1) for labels in (np.array(theirs), ours.labels)]
    return (
        "{:+.1f} ± {:.1f}".format(*paired_difference(*right))
        + f"; {100 * np.mean(ours.labels != theirs):.1f} % differ, {others} of {SLOW_TASKS * n_way} minimisers"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", nargs="+")
    parser.add_argument("--tasks", type=int, default=500)
    arguments = parser.parse_args()
    for path in arguments.features:
        bank = load_features(path)
        samplers = [TaskSampler(bank, n_shot=n_shot) for n_shot in SHOTS]
        print(f"\n`{bank.source}`, 5 ways, {arguments.tasks} tasks:\n")
        print("| | 1 shot | 5 shots | ECE, 1 shot | ECE, 5 shots |\n|---|---|---|---|---|")
        reference = [answers(sampler, arguments.tasks, {}) for sampler in samplers]
        for name, options in VARIANTS.items():
            cells = [answers(sampler, arguments.tasks, options) for sampler in samplers]
            if options:
                pairs = zip(cells, reference, strict=True)
                row = ["{:+.1f} ± {:.1f}".format(*paired_difference(mine[0], other[0])) for mine, other in pairs]
            else:
                row = ["{:.1f} ± {:.1f}".format(*mean_and_interval(right)) for right, _ in cells]
            row += [f"{error:.1f}" for _, error in cells]
            print(f"| {name} | {' | '.join(row)} |", flush=True)
        for name, how in LETTERS.items():
            cells = " | ".join(beside_scipy(sampler, *how) for sampler in samplers)
            print(f"| L-BFGS on α, {name}, {SLOW_TASKS} tasks | {cells} | | |", flush=True)


if __name__ == "__main__":
    main()
