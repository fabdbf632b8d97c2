"""One more label in a session beside a fit from nothing: time, agreement and accuracy, in one process.

    OMP_NUM_THREADS=1 python benchmarks/session.py [--only texts,photos,many] [--labels 10]

Prints a Markdown table. Each label is drawn at random among the items without one, and answered by `Refitter.refit`,
which starts from the last answer, and by a fit of preset `auto` from nothing. "session" is `Session.solve` with the
rule for foreign items, while no complete fit runs beside it. Times are medians of processor time, because other work on
the machine does not count. "agree" is the share of unlabelled items with one label, after the first and the last.

texts is 13,000 x 384 with 77 classes (CLINC150), photos 5,000 x 1280 with 10 (Tiny-ImageNet), many 50,000 x 384 with 20
(CLINC150). Where the shared features are fewer, rows between two of a class are added, with noise.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from marginshot.classifier.refit import Refitter
from marginshot.labelling.answers.classify import make_classifier
from marginshot.labelling.session.session import Session

FEATURES = Path(os.environ.get("MARGINSHOT_DATA", Path(__file__).parents[2] / "shared" / "data")) / "features"
CASES = {
    "texts": ("clinc_minilm-val.npz", 13_000, 77, (1, 3, 5)),
    "photos": ("efficientnet_lite0-val.npz", 5_000, 10, (1, 3)),
    "many": ("clinc_minilm-val.npz", 50_000, 20, (3,)),
}


def load(file: str, n_rows: int, n_classes: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows (n_rows, n_features) and their classes (n_rows,), in random order."""
    rng = np.random.default_rng(0)
    with np.load(FEATURES / file) as held:
        X, y = held["X"].astype(np.float32), held["y"].astype(np.int64)
    X, y = X[y < n_classes], y[y < n_classes]
    first = rng.integers(0, len(X), n_rows - len(X))
    members = [np.flatnonzero(y == c) for c in range(n_classes)]
    second = np.array([rng.choice(members[c]) for c in y[first]])
    part = rng.uniform(0.3, 0.7, (len(first), 1)).astype(np.float32)
    between = part * X[first] + (1 - part) * X[second] + rng.normal(0, X.std() / 2, X[first].shape).astype(np.float32)
    X, y = np.concatenate((X, between.astype(np.float32))), np.concatenate((y, y[first]))
    order = rng.permutation(len(X))
    return X[order], y[order]


def timed(work: Callable[[], object], times: list[float]) -> object:
    started = time.process_time()
    found = work()
    times.append(time.process_time() - started)
    return found


def compare(X: NDArray[np.float32], y: NDArray[np.int64], shots: int, n_labels: int) -> str:
    """One line: labels come one by one, each answered by a refit, by a session and by a fit from nothing."""
    rng = np.random.default_rng(shots)
    known = np.full(len(X), -1)
    for c in range(y.max() + 1):
        own = rng.permutation(np.flatnonzero(y == c))[:shots]
        known[own] = c
    more = rng.permutation(np.flatnonzero(known < 0))[:n_labels]
    refitter, session = Refitter(make_classifier(X), X), Session.from_embeddings(X)
    refitter.fit(known)
    session.label({int(row): f"class {known[row]}" for row in np.flatnonzero(known >= 0)})
    session.solve(complete=True)
    quick: list[float] = []
    whole: list[float] = []
    in_session: list[float] = []
    agreement, gain = [], []
    for row in more.tolist():
        known[row] = y[row]
        refit = timed(lambda: refitter.refit(known), quick).transduction_
        fresh = timed(lambda: make_classifier(X).fit(X, known), whole).transduction_
        session.label([row], f"class {y[row]}")
        if session._answering.latest is not None and session._answering._completing is None:
            timed(session.solve, in_session)
        asked = known < 0
        agreement.append(float(np.mean(refit[asked] == fresh[asked])))
        gain.append(float(np.mean(refit[asked] == y[asked]) - np.mean(fresh[asked] == y[asked])))
    session.close()
    times = [float(np.median(each)) for each in (whole, quick, in_session)]
    return (
        f"{shots} | {times[0]:.2f} | {times[1]:.3f} | {times[0] / times[1]:.1f} | {times[2]:.3f} | "
        f"{100 * agreement[0]:.2f} | {100 * agreement[-1]:.2f} | {100 * gain[-1]:+.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--labels", type=int, default=10)
    arguments = parser.parse_args()
    headers = ("items", "examples a class", "fit, s", "refit, s", "times faster", "session, s")
    headers += ("agree after 1, %", f"after {arguments.labels}, %", "accuracy, points")
    print("| " + " | ".join(headers) + " |", "|---" * len(headers) + "|", sep="\n")
    for name in arguments.only.split(","):
        file, n_rows, n_classes, all_shots = CASES[name]
        X, y = load(file, n_rows, n_classes)
        for shots in all_shots:
            print(
                f"| {name}: {n_rows:,} x {X.shape[1]}, {n_classes} classes | {compare(X, y, shots, arguments.labels)} |"
            )


if __name__ == "__main__":
    main()
