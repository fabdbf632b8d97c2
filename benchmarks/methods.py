"""Our methods beside EasyFSL's: the same tasks, one thread, accuracy and time per task.

    python benchmarks/methods.py FEATURES.npz ... [--tasks 1000] [--json out.json]

FEATURES.npz holds ``X`` (rows, features) and ``y`` (rows,). EasyFSL wants its features centred and scaled beforehand;
that is done outside its clock, so its times leave it out while ours include it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy and torch look at it

import easyfsl.methods as easyfsl
import numpy as np
import torch

from marginshot import __version__
from marginshot._lib.files import atomic_path
from marginshot.methods import METHODS, get_method
from marginshot.methods._preparation import signed_power
from marginshot.model.transforms import centre_and_normalize, l2_normalize

N_WAY, N_QUERY_PER_CLASS, BATCH = 5, 15, 50


@dataclass(frozen=True)
class Tasks:
    support: np.ndarray
    labels: np.ndarray
    query: np.ndarray
    truth: np.ndarray


@dataclass(frozen=True)
class Row:
    features: str
    shot: int
    method: str
    accuracy: float
    ci95: float
    ms_per_task: float
    easyfsl_tasks: int | None = None
    easyfsl_accuracy: float | None = None
    difference: float | None = None  # on the tasks EasyFSL saw
    difference_ci95: float | None = None
    easyfsl_ms_per_task: float | None = None


def sample(X: np.ndarray, y: np.ndarray, n_shot: int, start: int, stop: int) -> Tasks:
    """Tasks start..stop-1; task i depends on i alone."""
    members = [np.flatnonzero(y == c) for c in np.unique(y)]
    picks = []
    for i in range(start, stop):
        rng = np.random.default_rng([0, i])
        classes = rng.choice(len(members), N_WAY, replace=False)
        picks.append([rng.choice(members[c], n_shot + N_QUERY_PER_CLASS, replace=False) for c in classes])
    rows, n_tasks = np.array(picks), stop - start
    return Tasks(
        X[rows[:, :, :n_shot].reshape(n_tasks, -1)],
        np.tile(np.repeat(np.arange(N_WAY), n_shot), (n_tasks, 1)),
        X[rows[:, :, n_shot:].reshape(n_tasks, -1)],
        np.tile(np.repeat(np.arange(N_WAY), N_QUERY_PER_CLASS), (n_tasks, 1)),
    )


class NoEncoder(torch.nn.Module):
    """Adds nothing, so that EasyFSL's MatchingNetworks is the attention alone."""

    def forward(self, rows: Any, state: Any = None) -> Any:
        if state is None:
            return torch.zeros(*rows.shape[:-1], 2 * rows.shape[-1]), None
        return torch.zeros_like(state[0]), state[1]


class PreparedPTMAP(easyfsl.PTMAP):
    """EasyFSL's PT-MAP on features that went through the authors' preparation, with the authors' 20 rounds."""

    def __init__(self) -> None:
        super().__init__(fine_tuning_steps=20)

    def compute_features(self, images: Any) -> Any:
        return images


def cl2n(support: np.ndarray, query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return centre_and_normalize(support, query, "task")


def l2n(support: np.ndarray, query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return centre_and_normalize(support, query, "none")


def as_is(support: np.ndarray, query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return support, query


def pt_map_preparation(support: np.ndarray, query: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    def prepare(rows: np.ndarray) -> np.ndarray:
        rows = l2_normalize(signed_power(rows, 0.5))
        return l2_normalize(rows - rows.mean(axis=1, keepdims=True))

    return prepare(support), prepare(query)


def matching_networks(n_features: int) -> Any:
    return easyfsl.MatchingNetworks(
        feature_dimension=n_features, support_encoder=NoEncoder(), query_encoder=NoEncoder()
    )


Prepare = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
#: Our name: EasyFSL's classifier for D features, the preparation it needs, the share of the tasks it can be asked for.
COUNTERPARTS: dict[str, tuple[Callable[[int], Any], Prepare, float]] = {
    "simpleshot": (lambda d: easyfsl.SimpleShot(), cl2n, 1.0),
    "protonet": (lambda d: easyfsl.PrototypicalNetworks(), as_is, 1.0),
    "matchingnet": (matching_networks, cl2n, 1.0),
    "bd-cspn-easyfsl": (lambda d: easyfsl.BDCSPN(), cl2n, 1.0),
    "laplacianshot-easyfsl": (lambda d: easyfsl.LaplacianShot(), cl2n, 1.0),
    "tim-gd-easyfsl": (lambda d: easyfsl.TIM(fine_tuning_lr=1e-3), l2n, 1.0),  # see TIMGDEasyFSL for the step
    "baseline-plus": (lambda d: easyfsl.Finetune(), cl2n, 0.2),
    "transductive-finetuning": (lambda d: easyfsl.TransductiveFinetuning(), cl2n, 0.2),
    "pt-map": (lambda d: PreparedPTMAP(), pt_map_preparation, 0.02),
}


def run_ours(name: str, batches: list[Tasks]) -> tuple[np.ndarray, float]:
    """Accuracy of every task, and milliseconds a task."""
    method = get_method(name)
    first = batches[0]
    method.predict_scores(first.support[:2], first.labels[:2], first.query[:2])  # compile outside the clock
    accuracies, seconds = [], 0.0
    for tasks in batches:
        start = time.perf_counter()
        scores = method.predict_scores(tasks.support, tasks.labels, tasks.query)
        seconds += time.perf_counter() - start
        accuracies.append((scores.argmax(axis=2) == tasks.truth).mean(axis=1))
    joined = np.concatenate(accuracies)
    return joined, 1000 * seconds / len(joined)


def run_easyfsl(name: str, batches: list[Tasks], limit: int) -> tuple[np.ndarray, float]:
    """Accuracy of the first ``limit`` tasks, and milliseconds a task."""
    build, prepare, _ = COUNTERPARTS[name]
    accuracies: list[float] = []
    seconds = 0.0
    for tasks in batches[: -(-limit // BATCH)]:
        support, query = (torch.from_numpy(a) for a in prepare(tasks.support, tasks.query))
        labels = torch.from_numpy(tasks.labels)
        for t in range(min(len(labels), limit - len(accuracies))):
            start = time.perf_counter()
            classifier = build(support.shape[2])
            classifier.process_support_set(support[t], labels[t])
            scores = classifier(query[t]).detach().numpy()
            seconds += time.perf_counter() - start
            accuracies.append(float((scores.argmax(axis=1) == tasks.truth[t]).mean()))
    return np.array(accuracies), 1000 * seconds / len(accuracies)


def ci95(values: np.ndarray) -> float:
    return float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))


def compare(features: str, shot: int, name: str, batches: list[Tasks]) -> Row:
    ours, ms = run_ours(name, batches)
    row = Row(features, shot, name, float(ours.mean()), ci95(ours), ms)
    if name not in COUNTERPARTS:
        return row
    limit = max(2, int(COUNTERPARTS[name][2] * len(ours)))
    theirs, their_ms = run_easyfsl(name, batches, limit)
    paired = ours[:limit] - theirs
    return replace(
        row,
        easyfsl_tasks=limit,
        easyfsl_accuracy=float(theirs.mean()),
        difference=float(paired.mean()),
        difference_ci95=ci95(paired),
        easyfsl_ms_per_task=their_ms,
    )


def show(row: Row) -> str:
    line = f"{row.features:26} {row.shot:>2} {row.method:26} {100 * row.accuracy:6.2f} ± {100 * row.ci95:4.2f}"
    line += f" {row.ms_per_task:8.2f} ms"
    if row.easyfsl_accuracy is None or row.difference is None or row.easyfsl_ms_per_task is None:
        return line
    line += f" | {100 * row.easyfsl_accuracy:6.2f} {row.easyfsl_ms_per_task:8.2f} ms on {row.easyfsl_tasks:>4} tasks"
    line += f" | {100 * row.difference:+5.2f} ± {100 * (row.difference_ci95 or 0.0):4.2f}"
    return line + f" | {row.easyfsl_ms_per_task / row.ms_per_task:7.1f} x"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", nargs="+", type=Path)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--shot", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--methods", nargs="+", choices=sorted(METHODS), default=sorted(METHODS))
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    torch.set_num_threads(1)
    print("features, shot, method, accuracy, time | EasyFSL: accuracy, time | difference on the same tasks | speed-up")
    rows = []
    for path in arguments.features:
        with np.load(path) as arrays:
            X, y = arrays["X"].astype(np.float32), arrays["y"]
        for shot in arguments.shot:
            starts = range(0, arguments.tasks, BATCH)
            batches = [sample(X, y, shot, start, min(start + BATCH, arguments.tasks)) for start in starts]
            for name in arguments.methods:
                rows.append(compare(path.stem, shot, name, batches))
                print(show(rows[-1]), flush=True)
    if arguments.json:
        result = {
            "version": __version__,
            "way": N_WAY,
            "query_per_class": N_QUERY_PER_CLASS,
            "tasks": arguments.tasks,
            "machine": platform.processor() or platform.machine(),
            "torch": torch.__version__,
            "results": [asdict(row) for row in rows],
        }
        with atomic_path(arguments.json) as temporary:
            temporary.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
