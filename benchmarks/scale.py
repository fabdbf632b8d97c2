"""Time, peak memory and accuracy as the number of rows grows: FS-TMMC beside the semi-supervised peers.

    python benchmarks/scale.py                                   # everything, about an hour
    python benchmarks/scale.py --rows 1000 10000 --limit 60      # a quick look
    python benchmarks/scale.py --plot-only                       # redraw from the stored results
    OMP_NUM_THREADS=1 python benchmarks/scale.py --growth        # "auto" and "paper" up to 10^6 rows, processor time
    python benchmarks/scale.py --neighbours                      # the two searches of `n_neighbors`, ten minutes

Every measurement is a process of its own: generate the rows, fit, report. The time is that of `fit` alone, also as
processor time of all threads; the peak is that of the whole process, rows included. A method that passes the time
limit, or whose matrices cannot fit in memory, is not tried at larger sizes. LAMDA-SSL needs old packages: point
--tsvm-python at an environment that has it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

N_FEATURES, N_CLASSES, N_SHOT = 384, 10, 5
DISTANCE = 9.0  # between class centres, in standard deviations of a feature
ROOT = Path(__file__).parents[1]

TITLES = {
    "fs-tmmc": "FS-TMMC (marginshot)",
    "fs-tmmc-auto": "FS-TMMC, auto (marginshot)",
    "propagation-knn": "LabelPropagation, kNN",
    "propagation-rbf": "LabelPropagation, RBF",
    "spreading-knn": "LabelSpreading, kNN",
    "spreading-rbf": "LabelSpreading, RBF",
    "self-training": "SelfTraining over logistic regression",
    "tsvm": "TSVM (LAMDA-SSL), one against the rest",
}
PRESETS = {"fs-tmmc": "paper", "fs-tmmc-auto": "auto"}


def mixture(n_rows: int, n_features: int = N_FEATURES) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Spherical classes around orthogonal centres: X float32, y with −1 for unlabelled, truth."""
    rng = np.random.default_rng(0)
    axes, _ = np.linalg.qr(rng.standard_normal((n_features, N_CLASSES)))
    centres = (axes.T * DISTANCE / np.sqrt(2)).astype(np.float32)
    truth = rng.permutation(np.arange(n_rows) % N_CLASSES)
    X = np.empty((n_rows, n_features), dtype=np.float32)
    for start in range(0, n_rows, 10_000):
        part = slice(start, start + 10_000)
        X[part] = rng.standard_normal((len(truth[part]), n_features), dtype=np.float32)
        X[part] += centres[truth[part]]
    y = np.full(n_rows, -1)
    for c in range(N_CLASSES):
        rows = np.flatnonzero(truth == c)[:N_SHOT]
        y[rows] = c
    return X, y, truth


def embeddings(n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `mixture`, but classes as networks give them: each varies in 20 directions of its own, and little besides."""
    X, y, truth = mixture(n_rows)
    rng = np.random.default_rng(1)
    for c in range(N_CLASSES):
        own = np.flatnonzero(truth == c)
        directions = rng.standard_normal((20, N_FEATURES), dtype=np.float32)
        X[own] = 0.2 * X[own] + 0.04 * rng.standard_normal((len(own), 20), dtype=np.float32) @ directions
    return X, y, truth


def compare_searches(sizes: list[int]) -> None:
    """Print processor time and accuracy of "auto" with neighbours among all pairs, in near cells, and without."""
    from marginshot import TransductiveMaxMarginClassifier
    from marginshot.model import neighbour_search

    def fit(n_neighbors: int, largest_exact: int) -> tuple[TransductiveMaxMarginClassifier, float, float]:
        neighbour_search.LARGEST_EXACT = largest_exact
        without = {} if n_neighbors else {"calibration": "mixture", "feature_transform": "power"}
        started = time.process_time()
        model = TransductiveMaxMarginClassifier.from_preset("auto", n_neighbors=n_neighbors, **without).fit(X, y)
        seconds = time.process_time() - started
        return model, seconds, 100 * float(np.mean(model.transduction_[y < 0] == truth[y < 0]))

    X, y, truth = mixture(2_000)
    fit(8, 0)
    print("| rows | | all pairs | near cells | without | neighbours found | a later row |\n" + "|---" * 7 + "|")
    for n_rows in sizes:
        for title, draw in (("embeddings", embeddings), ("spherical noise", mixture)):
            X, y, truth = draw(n_rows)
            runs = [fit(8, n_rows), fit(8, 0), fit(0, 0)]
            pairs = zip(*(model._predictor.smoothing.neighbours[::20] for model, _, _ in runs[:2]), strict=True)
            found = np.mean([len(np.intersect1d(exact, near)) / 8 for exact, near in pairs])
            started = time.process_time()
            runs[1][0].predict(0.99 * X[:2_000])
            later = (time.process_time() - started) / 2
            cells = " | ".join(f"{seconds:.1f} s, {accuracy:.2f} %" for _, seconds, accuracy in runs)
            print(f"| {n_rows:,} | {title} | {cells} | {100 * found:.1f} % | {later:.2f} ms |", flush=True)


def fit_tsvm(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """LAMDA-SSL's TSVM takes two classes, so one against the rest, the largest decision value being the answer."""
    from LAMDA_SSL.Algorithm.Classification.TSVM import TSVM

    known = y >= 0
    scores = []
    for c in range(N_CLASSES):
        # It stops with an error where its answers are all on one side: here it does, with or without this weighting.
        model = TSVM(probability=False, verbose=False, class_weight="balanced")
        model.fit(X[known], np.where(y[known] == c, 1, 0), X[~known])
        scores.append(model.unlabeled_y_d)
    labels = y.copy()
    labels[~known] = np.argmax(scores, axis=0)
    return labels


def fit_and_label(method: str, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Labels of all rows."""
    if method == "tsvm":
        return fit_tsvm(X, y)
    if method in PRESETS:
        from marginshot import TransductiveMaxMarginClassifier

        return TransductiveMaxMarginClassifier.from_preset(PRESETS[method]).fit(X, y).transduction_
    if method == "self-training":
        from sklearn.linear_model import LogisticRegression
        from sklearn.semi_supervised import SelfTrainingClassifier

        model = SelfTrainingClassifier(LogisticRegression()).fit(X, y)
        return np.where(model.transduction_ >= 0, model.transduction_, model.predict(X))
    from sklearn.semi_supervised import LabelPropagation, LabelSpreading

    name, kernel = method.split("-")
    # RBF: scikit-learn's default width of 20 underflows on 384 features; one over their number is usable.
    options = {"kernel": kernel, "gamma": 1.0 / N_FEATURES, "n_jobs": -1}
    return (LabelPropagation if name == "propagation" else LabelSpreading)(**options).fit(X, y).transduction_


def run_one(method: str, n_rows: int, n_features: int) -> None:
    """In a process of its own: print the measurement as JSON."""
    X, y, truth = mixture(n_rows, n_features)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    warmed = mixture(600, n_features)
    fit_and_label(method, warmed[0], warmed[1])  # imports, thread pools, page tables
    started, started_cpu = time.perf_counter(), time.process_time()
    labels = fit_and_label(method, X, y)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - started_cpu
    unlabelled = y < 0
    print(
        json.dumps(
            {
                "seconds": seconds,
                "cpu_seconds": cpu_seconds,
                "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "bytes_before": before,
                "x_bytes": X.nbytes,
                "accuracy": float(np.mean(labels[unlabelled] == truth[unlabelled])),
            }
        )
    )


def matrix_bytes(method: str, n_rows: int) -> int:
    """What the dense matrices of a method take at least."""
    return 8 * n_rows * n_rows if method.endswith("rbf") else 0


def measure(
    method: str, n_rows: int, limit: float, python: str = sys.executable, n_features: int = N_FEATURES
) -> dict[str, object]:
    """One measurement, or why there is none."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if matrix_bytes(method, n_rows) > available / 2:
        return {"failed": f"needs {matrix_bytes(method, n_rows) / 1e9:,.0f} GB"}
    command = [python, __file__, "--one", method, str(n_rows), str(n_features)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"> {limit:.0f} s"}
    if done.returncode:
        return {"failed": "error: " + (done.stderr.strip().splitlines() or ["no message"])[-1][:120]}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measure_growth(sizes: list[int]) -> None:
    """Print the processor time of `fit`, peak memory and accuracy of the presets, on rows of 64 features."""
    print("| rows | paper | auto |\n|---|---|---|")
    for n_rows in sizes:
        found = [measure(method, n_rows, 1800.0, n_features=64) for method in PRESETS]
        cells = [
            str(r["failed"])
            if "failed" in r
            else f"{r['cpu_seconds']:.1f} s, {float(r['peak_bytes']) / 1e9:.2f} GB, {100 * float(r['accuracy']):.1f} %"
            for r in found
        ]
        print(f"| {n_rows:,} | " + " | ".join(cells) + " |", flush=True)


def exponents(found: dict[str, dict[str, dict[str, object]]]) -> dict[str, float]:
    """Slope of log time over log rows from 10^4 rows on, where there are two points."""
    slopes = {}
    for method, sizes in found.items():
        points = [(int(n), float(r["seconds"])) for n, r in sizes.items() if int(n) >= 10_000 and "seconds" in r]
        if len(points) > 1:
            n_rows, seconds = np.log(np.array(points)).T
            slopes[method] = float(np.polyfit(n_rows, seconds, 1)[0])
    return slopes


def table(found: dict[str, dict[str, dict[str, object]]]) -> str:
    """Markdown: seconds, peak GB and accuracy of every method at every size."""
    sizes = sorted({int(n) for rows in found.values() for n in rows})
    slopes = exponents(found)
    lines = ["| | " + " | ".join(f"{n:,} rows" for n in sizes) + " | exponent |", "|---" * (len(sizes) + 2) + "|"]
    for method, rows in found.items():
        cells = []
        for n in sizes:
            r = rows.get(str(n), {"failed": "not tried"})
            cells.append(
                str(r["failed"])
                if "failed" in r
                else f"{r['seconds']:.2f} s, {float(r['peak_bytes']) / 1e9:.2f} GB, {100 * float(r['accuracy']):.1f} %"
            )
        slope = f"{slopes[method]:.2f}" if method in slopes else "–"
        lines.append(f"| {TITLES[method]} | " + " | ".join(cells) + f" | {slope} |")
    return "\n".join(lines)


def plot(found: dict[str, dict[str, dict[str, object]]], path: Path) -> None:
    """Time and peak memory over rows, both axes logarithmic, lines named where they end."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    colours = dict(
        zip(
            TITLES,
            ("#c1272d", "#7b3294", "#0072b2", "#56b4e9", "#009e73", "#8fc9b0", "#e69f00", "#7f7f7f"),
            strict=True,
        )
    )
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), constrained_layout=True)
    for axis, key, title, unit in (
        (axes[0], "seconds", "Time of fit", "seconds"),
        (axes[1], "peak_bytes", "Peak memory of the process", "GB"),
    ):
        for method, rows in found.items():
            points = sorted((int(n), float(r[key])) for n, r in rows.items() if key in r)
            if points:
                n_rows, values = np.array(points).T
                values = values / 1e9 if unit == "GB" else values
                axis.plot(
                    n_rows,
                    values,
                    "o-",
                    color=colours[method],
                    linewidth=3 if method == "fs-tmmc" else 1.5,
                    zorder=3 if method == "fs-tmmc" else 2,
                    label=TITLES[method],
                )
        axis.set(xscale="log", yscale="log", xlabel="rows", ylabel=unit, title=title)
        axis.grid(which="major", color="#dddddd", linewidth=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    sizes = np.array(sorted({int(n) for rows in found.values() for n in rows}))
    axes[1].plot(sizes, sizes * N_FEATURES * 4 / 1e9, ":", color="#444444", label="X itself (float32)")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--neighbours", action="store_true", help="compare the searches of n_neighbors only")
    parser.add_argument("--growth", action="store_true", help="the presets alone, 64 features")
    parser.add_argument("--methods", nargs="+", choices=TITLES, default=[m for m in TITLES if m != "tsvm"])
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for one measurement")
    parser.add_argument("--tsvm-python", help="interpreter of an environment with LAMDA-SSL; adds the TSVM")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "scale.json")
    parser.add_argument("--plot", type=Path, default=ROOT / "docs" / "images" / "scale.png")
    parser.add_argument("--plot-only", action="store_true")
    parser.add_argument("--one", nargs=3, metavar=("METHOD", "ROWS", "FEATURES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_one(options.one[0], int(options.one[1]), int(options.one[2]))
        return
    if options.growth:
        measure_growth(options.rows or [10_000, 100_000, 300_000, 1_000_000])
        return
    if options.neighbours:
        compare_searches(options.rows or [20_000, 50_000, 100_000])
        return
    found = json.loads(options.results.read_text()) if options.results.exists() else {}
    methods = [] if options.plot_only else options.methods
    if options.tsvm_python and "tsvm" not in methods:
        methods = [*methods, "tsvm"]
    for n_rows in options.rows or [1_000, 10_000, 100_000, 1_000_000]:
        for method in methods:
            sizes = found.setdefault(method, {})
            smaller = [r for n, r in sizes.items() if int(n) < n_rows and "failed" in r]
            python = options.tsvm_python if method == "tsvm" else sys.executable
            sizes[str(n_rows)] = {"failed": "not tried"} if smaller else measure(method, n_rows, options.limit, python)
            print(f"{n_rows:>9,}  {TITLES[method]:40}  {sizes[str(n_rows)]}  load {os.getloadavg()[0]:.1f}", flush=True)
            options.results.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))
    plot(found, options.plot)


if __name__ == "__main__":
    main()
