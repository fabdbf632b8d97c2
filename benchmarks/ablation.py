"""What each option of the preset "auto" is worth: FS-TMMC with it alone, and the preset without it.

    python benchmarks/ablation.py FEATURES.npz ... [--tasks 500]

Prints a table in Markdown for each file of features: accuracy of the paper's settings and of the preset, and for each
option the paired difference to them, in points with its 95 % interval, on the same tasks; then expected calibration
error and time a task of both. Options are explained in ``docs/concepts/auto.md``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from marginshot import PRESETS, Settings, solve_tasks
from marginshot.batch import solve as engine
from marginshot.classifier import pipeline
from marginshot.data.features import load_features
from marginshot.data.sampler import TaskBatch, TaskSampler
from marginshot.evaluation.statistics import (
    count_reliability,
    expected_calibration_error,
    mean_and_interval,
    paired_difference,
)

BATCH = 50
CELLS: dict[str, dict[str, Any]] = {
    f"{way}-way {shot}-shot{name}": {"n_way": way, "n_shot": shot, **drawn}
    for way, name, drawn in ((5, "", {}), (5, ", a = 2", {"dirichlet": 2.0}), (10, "", {}))
    for shot in (1, 5)
}
PAPER, AUTO = PRESETS["paper"], PRESETS["auto"]
ADDED = ("feature_transform", "n_neighbors", "prior")


def without_regression() -> AbstractContextManager[Any]:
    """The transductive expert answers alone."""
    return patch.object(pipeline, "WEIGHT_OF_REGRESSION", 0.0)


def without_hidden_labels() -> AbstractContextManager[Any]:
    """No label is hidden; the experts are believed as much as their expected accuracy says."""

    def solve(task: Any, settings: Settings, shares: NDArray[Any]) -> pipeline.Solution:
        return pipeline.solve(task, settings, shares, weights=np.ones((task.n_tasks, 2)))

    return patch.object(engine, "solve", solve)


#: Steps of `auto` that no option turns off.
STEPS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "− regression": without_regression,
    "− hidden labels": without_hidden_labels,
}

# A mixture answers for the classes' shares as well, so without it the softmax keeps the order of the margins.
VARIANTS: dict[str, Mapping[str, Any]] = {
    "paper": PAPER,
    "+ feature_transform='power'": PAPER | {"feature_transform": "power"},
    **{f"+ {name}={AUTO[name]!r}": PAPER | {name: AUTO[name]} for name in ADDED},
    "+ calibration='mixture'": PAPER | {"calibration": "mixture"},
    "+ calibration='graph', n_neighbors=8": PAPER | {"calibration": "graph", "n_neighbors": 8},
    "auto": AUTO,
    **{f"− {name}": AUTO | {name: PAPER[name]} for name in ("feature_transform", "prior", "lambda2")},
    "− discriminant (power)": AUTO | {"feature_transform": "power"},
    "− graph (mixture)": AUTO | {"calibration": "mixture"},
    "− graph, neighbours": AUTO | {"calibration": "mixture", "n_neighbors": 0},
    "− graph, mixture (softmax)": AUTO | {"calibration": "softmax"},
    **dict.fromkeys(STEPS, AUTO),
}
# How much hangs on the constants that the preset takes over from the paper.
CONSTANTS: dict[str, dict[str, Any]] = {
    "lambda1=0.01": {"lambda1": 0.01},
    "lambda1=0.16": {"lambda1": 0.16},
    "gamma2=0.7": {"gamma2": 0.7},
    "gamma2=4": {"gamma2": 4.0},
    "lambda2 up to 0.1": {"lambda2": (0, 1e-3, 0.1)},
    "lambda2 up to 4": {"lambda2": (0, 1e-3, 0.1, 1, 4)},
}
VARIANTS |= {f"auto, {name}": AUTO | changed for name, changed in CONSTANTS.items()}


def answers(sampler: TaskSampler, n_tasks: int, options: Mapping[str, Any]) -> tuple[NDArray[Any], float, float]:
    """Accuracy of each task, expected calibration error, and milliseconds a task."""
    right, counts, spent = [], np.zeros((0, 3), dtype=np.int64), 0.0
    for start in range(0, n_tasks, BATCH):
        batch: TaskBatch = sampler.batch(start, min(start + BATCH, n_tasks))
        begin = time.perf_counter()
        answers = solve_tasks(batch.support, batch.support_labels, batch.query, Settings(**options), n_jobs=1)
        scores = answers.scores
        spent += time.perf_counter() - begin
        labels = scores.argmax(axis=2)
        right.append((labels == batch.query_labels).mean(axis=1))
        part = count_reliability(answers.probabilities, labels, batch.query_labels)
        counts = part if not len(counts) else counts + part
    return 100 * np.concatenate(right), 100 * expected_calibration_error(counts), 1e3 * spent / n_tasks


def describe(difference: float, interval: float) -> str:
    """A difference in points; 0 where every task has the same answers."""
    return f"{difference:+.1f} ± {interval:.1f}".replace("-", "−") if interval else "0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", nargs="+")
    parser.add_argument("--tasks", type=int, default=500)
    arguments = parser.parse_args()
    for path in arguments.features:
        bank = load_features(path)
        samplers = [TaskSampler(bank, **cell) for cell in CELLS.values()]
        solve_tasks(np.eye(2)[None], [[0, 1]], np.eye(2)[None], "auto")  # compile before the clock runs
        results = {}
        for name, options in VARIANTS.items():
            with STEPS.get(name, nullcontext)():
                results[name] = [answers(sampler, arguments.tasks, options) for sampler in samplers]
        print(f"\n`{bank.source}`, {arguments.tasks} tasks:\n\n| | {' | '.join(CELLS)} |\n|---|{'---|' * len(CELLS)}")
        reference = results["paper"]
        for name, cells in results.items():
            if name == "auto":
                reference = cells
            if name in ("paper", "auto"):
                row = ["**{:.1f}** ± {:.1f}".format(*mean_and_interval(right)) for right, _, _ in cells]
            else:
                pairs = [(mine[0], other[0]) for mine, other in zip(cells, reference, strict=True)]
                row = [describe(*paired_difference(*pair)) for pair in pairs]
            print(f"| {name} | {' | '.join(row)} |")
        for name in ("paper", "auto"):
            print(f"| ECE %, {name} | {' | '.join(f'{ece:.1f}' for _, ece, _ in results[name])} |")
        ratios = [a[2] / p[2] for a, p in zip(results["auto"], results["paper"], strict=True)]
        print(f"| time, auto / paper | {' | '.join(f'{ratio:.1f}' for ratio in ratios)} |", flush=True)


if __name__ == "__main__":
    main()
