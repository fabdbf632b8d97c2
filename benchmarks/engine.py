"""Time per task of FS-TMMC beside its SciPy reference and EasyFSL: features to labels, one thread each, one run.

    make bench                                    # or: python benchmarks/engine.py --json engine.json

The engine is given the table and the row numbers of the tasks, the others the features. Every contender solves the
same 5-way tasks with 15 queries a class. Rounds alternate between the contenders, and the ratio is the median over
rounds, so that a busy machine disturbs all of them alike. Times are those of the processor; two threads are timed by
the clock. Features: the ``-test`` files in ``../shared/data/features`` (or ``$MARGINSHOT_DATA/features``) where
present, and generated ones with 640 dimensions.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from easyfsl.methods import PTMAP, TIM, LaplacianShot, SimpleShot
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from marginshot import solve_table_tasks, solve_tasks  # noqa: E402
from marginshot.batch.inputs import TableTasks  # noqa: E402
from marginshot.batch.task import BatchTask  # noqa: E402
from marginshot.classifier.settings import Settings  # noqa: E402
from marginshot.data.table import FeatureTable  # noqa: E402
from marginshot.model.platt import PLATT  # noqa: E402
from reference.scipy_fs_tmmc import label_queries  # noqa: E402
from tasks_for_tests import rows_from_bank  # noqa: E402

WAY = 5
REQUIRED = {"SciPy reference": 150, "LaplacianShot": 3, "TIM": 50}
TWO_THREADS_REQUIRED = {"TIM": 100, "PT-MAP": 1000}
# Times the product of the same features, given as arrays, that a preset may take on 5-shot tasks with 640 features.
GRAM_ALLOWED = {"paper": 2.5, "auto": 6.0}
TASKS_PER_ROUND = {"SciPy reference": 20, "SimpleShot": 100, "LaplacianShot": 60, "TIM": 5, "PT-MAP": 1}
TASKS_PER_ROUND |= {"engine": 2000, "arrays": 480}


def feature_tables() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    folder = Path(os.environ.get("MARGINSHOT_DATA", ROOT.parent / "shared" / "data")) / "features"
    tables = {}
    for path in sorted(folder.glob("*-test.npz")):
        bank = np.load(path)
        tables[path.stem] = (bank["X"].astype(np.float32), bank["y"])
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(20), 150)
    X = np.maximum(rng.standard_normal((20, 640))[y] + 2.5 * rng.standard_normal((len(y), 640)), 0)
    tables["generated, D = 640"] = (X.astype(np.float32), y)
    return tables


def easyfsl_labels(method: type, support: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
    model = method(backbone=torch.nn.Identity())
    answers = []
    for s, label, q in zip(support, labels, query, strict=True):
        model.process_support_set(torch.from_numpy(s), torch.from_numpy(label))
        answers.append(model(torch.from_numpy(q)).argmax(dim=1).numpy())
    return np.array(answers)


CONTENDERS: dict[str, Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]] = {
    "SciPy reference": lambda s, y, q: np.array([label_queries(*task, WAY) for task in zip(s, y, q, strict=True)]),
    "SimpleShot": lambda s, y, q: easyfsl_labels(SimpleShot, s, y, q),
    "LaplacianShot": lambda s, y, q: easyfsl_labels(LaplacianShot, s, y, q),
    "TIM": lambda s, y, q: easyfsl_labels(TIM, s, y, q),
    "PT-MAP": lambda s, y, q: easyfsl_labels(PTMAP, s, y, q),
}


def milliseconds(work: Callable[[], object], count: int, clock: Callable[[], float] = time.process_time) -> float:
    start = clock()
    work()
    return 1e3 * (clock() - start) / count


def stage_shares(X: np.ndarray, support: np.ndarray, labels: np.ndarray, query: np.ndarray) -> dict[str, float]:
    """Share of the engine's time in each of its steps, in chunks as the engine works."""
    spent = dict.fromkeys(("gram", "solve", "scaling"), 0.0)
    settings, offsets = Settings.from_preset("paper"), np.full((16, WAY), 2 / WAY - 1)
    start = time.perf_counter()
    transformer, tasks = settings.make_transformer(), TableTasks(FeatureTable(X), support, query, labels)
    tasks.share(transformer)
    spent["gram"] += time.perf_counter() - start
    for first in range(0, len(support) - 15, 16):
        part = slice(first, first + 16)
        marks = [time.perf_counter()]
        plain, lengths = tasks.inner(part, transformer, settings.kernel_function)
        task = BatchTask(plain, lengths, labels[part], tasks.support_sums(part), WAY, transformer, settings)
        task.transform()
        task.build_kernel()
        marks.append(time.perf_counter())
        task.follow_path(offsets)
        marks.append(time.perf_counter())
        task.fit_platt(PLATT)
        marks.append(time.perf_counter())
        for name, begin, end in zip(spent, marks, marks[1:], strict=False):
            spent[name] += end - begin
    total = sum(spent.values())
    return {name: seconds / total for name, seconds in spent.items()}


def against_gram(X: np.ndarray, support: np.ndarray, labels: np.ndarray, query: np.ndarray, rounds: int) -> dict:
    """Time of the presets on features given as arrays, as a multiple of one product of the same features."""
    count = TASKS_PER_ROUND["arrays"]
    known, labels, asked = X[support[:count]], labels[:count], X[query[:count]]
    rows = np.concatenate((known, asked), axis=1)

    def multiply() -> None:
        for first in range(0, count, 16):  # in chunks as the engine works
            part = rows[first : first + 16]
            part @ part.transpose(0, 2, 1)

    ratios: dict[str, list[float]] = {preset: [] for preset in GRAM_ALLOWED}
    for _ in range(rounds):
        product = milliseconds(multiply, count)
        for preset, values in ratios.items():
            solve = lambda preset=preset: solve_tasks(known, labels, asked, preset, n_jobs=1)  # noqa: E731
            values.append(milliseconds(solve, count) / product)
    return {preset: statistics.median(values) for preset, values in ratios.items()}


def measure(X: np.ndarray, y: np.ndarray, n_shot: int, rounds: int) -> dict:
    n_tasks = TASKS_PER_ROUND["engine"]
    support, labels, query, truth = rows_from_bank(y, np.random.default_rng(0), n_tasks, n_shot=n_shot)

    def engine(n_jobs: int = 1) -> np.ndarray:
        return solve_table_tasks(X, support, labels, query, "paper", n_jobs=n_jobs).labels

    times: dict[str, list[float]] = {name: [] for name in ("engine", *CONTENDERS)}
    threads = []
    for _ in range(rounds):
        times["engine"].append(milliseconds(engine, n_tasks))
        one = milliseconds(engine, n_tasks, time.perf_counter)
        threads.append(one / milliseconds(lambda: engine(n_jobs=2), n_tasks, time.perf_counter))
        for name, solve in CONTENDERS.items():
            if name == "PT-MAP" and times[name]:
                continue  # about a second a task: once is enough
            count = TASKS_PER_ROUND[name]
            tasks = X[support[:count]], labels[:count], X[query[:count]]
            times[name].append(milliseconds(lambda solve=solve, tasks=tasks: solve(*tasks), count))
    return {
        "milliseconds": {name: statistics.median(values) for name, values in times.items()},
        "times_faster": {
            name: statistics.median(t / e for t, e in zip(times[name], times["engine"], strict=False))
            for name in CONTENDERS
        },
        "two_threads": statistics.median(threads),
        "shares": stage_shares(X, support, labels, query),
        "against_gram": against_gram(X, support, labels, query, rounds),
        "accuracy": float(np.mean(engine() == truth)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the measurements to this file")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    table = Table(title="Time per 5-way task in ms, and how many times faster the engine is")
    for column in ("features", "shots", "engine", *CONTENDERS):
        table.add_column(column, justify="right")
    table.add_column("2 threads")
    table.add_column("gram / solve / scaling")
    table.add_column("arrays: times a Gram product")
    results = []
    with threadpool_limits(1):
        for preset in GRAM_ALLOWED:
            solve_tasks(np.eye(4)[None, :2], [[0, 1]], np.eye(4)[None, 2:], preset)  # compile
        for name, (X, y) in feature_tables().items():
            for n_shot in (1, 5):
                result = {"features": name, "n_shot": n_shot, **measure(X, y, n_shot, arguments.rounds)}
                results.append(result)
                cells = [f"{result['milliseconds'][c]:.2f} ({r:.0f}x)" for c, r in result["times_faster"].items()]
                shares = " / ".join(f"{share:.0%}" for share in result["shares"].values())
                row = [name, str(n_shot), f"{result['milliseconds']['engine']:.3f}", *cells]
                times = ", ".join(f"{preset} {ratio:.1f}" for preset, ratio in result["against_gram"].items())
                table.add_row(*row, f"{result['two_threads']:.2f}x", shares, times)
    Console(width=200).print(table)
    for contender, factor in REQUIRED.items():
        worst = min(result["times_faster"][contender] for result in results)
        print(f"{contender}: at least {worst:.0f}x slower than the engine (required {factor}x)")
    for contender, factor in TWO_THREADS_REQUIRED.items():
        worst = min(result["times_faster"][contender] * result["two_threads"] for result in results)
        print(f"{contender}: at least {worst:.0f}x less throughput than two threads (required {factor}x)")
    for preset, allowed in GRAM_ALLOWED.items():
        worst = max(r["against_gram"][preset] for r in results if r["n_shot"] == 5 and "640" in r["features"])
        print(f"{preset}: {worst:.1f} times the product of its features (allowed {allowed:g})")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
