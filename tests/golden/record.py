"""Store the golden answers, or look for cases that rounding could decide.

Run from ``tests/`` with the package importable and MARGINSHOT_DATA naming the folder of the shared data::

    python -m golden.record                # cases without a stored answer, and those whose answer changed
    python -m golden.record small-auto     # these cases
    python -m golden.record --noise 1e-6   # store nothing; compare answers of rows with relative noise, but for the
                                           # cases about exact values

A stored answer changes only in a commit that changes it on purpose and says why. An answer that ``--noise`` moves is
decided by rounding: give the task another seed, distance or size until it stays.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from golden.answers import FOLDER, differences, load, same_rows, store
from golden.cases import CASES, Case


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m golden.record", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="CASE", help="cases; all where none is named")
    parser.add_argument("--noise", type=float, default=0.0, help="relative noise in the rows; nothing is stored")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(CASES))
    if unknown:
        parser.error(f"no case is called {unknown[0]!r}; the cases are those of golden.cases.CASES.")
    features = Path(os.environ["MARGINSHOT_DATA"]) / "features" if "MARGINSHOT_DATA" in os.environ else None
    unsteady = 0
    for case in (CASES[name] for name in options.names or CASES):
        if case.shared and features is None:
            parser.error(f"{case.name} needs the shared features; set MARGINSHOT_DATA.")
        if options.noise and case.exact:
            continue
        unsteady += _look(case, features, options.noise, always=bool(options.names))
    return 1 if unsteady else 0


def _look(case: Case, features: Path | None, noise: float, *, always: bool) -> bool:
    """Answer one case and store it where that is due; whether noise changed it."""
    rows = case.rows(features)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        answer = case.answer(rows.with_noise(noise) if noise else rows, Path(folder))
    seconds = time.perf_counter() - started
    exists = (FOLDER / f"{case.name}.npz").exists()
    changed = differences(load(case.name), answer) if exists else ["It is new."]
    if not noise and exists and not same_rows(load(case.name), rows.table):
        changed.append("Its rows are others.")
    accuracy = np.mean(answer.labels == rows.truth.ravel())
    _say(f"{case.name}: accuracy {accuracy:.3f}, {seconds:.2f} s. {' '.join(changed)}")
    if not noise and (changed or always):
        store(case.name, answer, rows.table)
    return bool(noise and changed)


def _say(line: str) -> None:
    sys.stdout.write(line.rstrip() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    warnings.simplefilter("error")
    sys.exit(main())
