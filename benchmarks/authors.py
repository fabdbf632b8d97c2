"""Our methods beside their authors' own code, on the same tasks: accuracies and paired differences.

    python benchmarks/authors.py CLONES FEATURES.npz ... [--tasks 300] [--methods a,b] [--json out.json]

CLONES is a folder that holds clones of the authors' repositories, each under its own name; `authors_code.SOURCES` says
which, and the commits that were read. A method whose repository is missing is skipped and named. Their code needs
torch, tqdm, matplotlib and PyYAML besides the package. Prints a table in Markdown: ours, theirs, and ours less theirs
in points with the 95 % interval of the paired difference. docs/results/authors.md holds the table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy and torch look at it

import numpy as np

from marginshot import __version__
from marginshot._lib.files import atomic_path
from marginshot.data.features import FeatureBank, load_features
from marginshot.data.sampler import TaskSampler
from marginshot.evaluation.statistics import paired_difference
from marginshot.methods import get_method
from marginshot.methods.unem import learnt_at

sys.path.insert(0, str(Path(__file__).parent))
import authors_code as theirs

SHOTS = (1, 5)


@dataclass(frozen=True)
class Counterpart:
    """The repository with the authors' method, how to run it, and whether it takes features of either sign."""

    repository: str
    run: Callable[[Path, theirs.Tasks], theirs.Accuracies]
    takes_negative: bool = True


def unem_with_our_values(clones: Path, tasks: theirs.Tasks) -> theirs.Accuracies:
    """The authors' rounds with the values that ours holds for these shots."""
    learnt = learnt_at(tasks.n_shot)
    return theirs.unem(clones, tasks, learnt.scale, learnt.balance, learnt.softness)


COUNTERPARTS = {
    "laplacianshot": Counterpart("LaplacianShot", lambda c, t: theirs.laplacianshot(c, t, rectify=True)),
    "laplacianshot-unrectified": Counterpart("LaplacianShot", lambda c, t: theirs.laplacianshot(c, t, rectify=False)),
    "tim-gd": Counterpart("TIM", theirs.tim_gd),
    "alpha-tim": Counterpart("Realistic_Transductive_Few_Shot", theirs.alpha_tim),
    "bd-cspn": Counterpart("Realistic_Transductive_Few_Shot", theirs.bd_cspn),
    "pt-map": Counterpart("PT-MAP", theirs.pt_map, takes_negative=False),
    "paddle": Counterpart("PADDLE", theirs.paddle),
    "stata": Counterpart("StatA", lambda c, t: theirs.for_names(c, t, "StatA")),
    "transclip-zero-shot": Counterpart("StatA", lambda c, t: theirs.for_names(c, t, "TransCLIP")),
    "zlap": Counterpart("StatA", lambda c, t: theirs.for_names(c, t, "ZLaP")),
    "em-dirichlet": Counterpart("transductive-CLIP", lambda c, t: theirs.em_dirichlet(c, t, hard=False)),
    "hard-em-dirichlet": Counterpart("transductive-CLIP", lambda c, t: theirs.em_dirichlet(c, t, hard=True)),
    "unem-gaussian": Counterpart("UNEM-Transductive", unem_with_our_values),
}


@dataclass(frozen=True)
class Row:
    """One method on the tasks of one cell; shares of 1."""

    features: str
    shot: int
    method: str
    tasks: int
    ours: float
    theirs: float
    difference: float
    ci95: float
    tasks_alike: float  # share of the tasks with equal accuracy


def compare(clones: Path, bank: FeatureBank, n_shot: int, name: str, n_tasks: int) -> Row | None:
    """One row, or None where the authors' code cannot take these features."""
    counterpart = COUNTERPARTS[name]
    if not counterpart.takes_negative and (bank.X < 0).any():
        return None
    batch = TaskSampler(bank, n_shot=n_shot).batch(0, n_tasks)
    tasks = theirs.Tasks(batch.support, batch.support_labels, batch.query, batch.query_labels)
    scores = get_method(name).predict_scores(tasks.support, tasks.labels, tasks.query)
    mine = (scores.argmax(axis=2) == tasks.truth).mean(axis=1)
    other = counterpart.run(clones, tasks)
    difference, ci95 = paired_difference(mine, other)
    alike = float(np.isclose(mine, other).mean())
    return Row(bank.source, n_shot, name, n_tasks, float(mine.mean()), float(other.mean()), difference, ci95, alike)


def show(row: Row) -> str:
    shares = f"{100 * row.ours:.2f} | {100 * row.theirs:.2f} | {100 * row.difference:+.2f} ± {100 * row.ci95:.2f}"
    return f"| {row.method} | {Path(row.features).stem} | {row.shot} | {shares} | {100 * row.tasks_alike:.0f} % |"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path)
    parser.add_argument("features", nargs="+")
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--methods", default=",".join(COUNTERPARTS))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    arguments.methods = arguments.methods.split(",")
    unknown = [name for name in arguments.methods if name not in COUNTERPARTS]
    if unknown:
        parser.error(f"no authors' code is known for {unknown[0]!r}; known: {', '.join(COUNTERPARTS)}")
    if not arguments.clones.is_dir():
        parser.error(f"{arguments.clones} is not a folder: clone the repositories of authors_code.SOURCES into it")
    return arguments


def main() -> None:
    arguments = parse()
    rows: list[dict[str, Any]] = []
    print(
        "| method | features | shots | ours | theirs | ours less theirs | tasks alike |\n|---|---|---|---|---|---|---|"
    )
    for name in arguments.methods:
        repository = COUNTERPARTS[name].repository
        if not (arguments.clones / repository).is_dir():
            print(f"{name}: no folder {repository}; it is {theirs.SOURCES[repository][0]}", file=sys.stderr)
            continue
        for path in arguments.features:
            for n_shot in SHOTS:
                row = compare(arguments.clones, load_features(path), n_shot, name, arguments.tasks)
                if row is not None:
                    print(show(row), flush=True)
                    rows.append(asdict(row))
    if arguments.json:
        content = {"marginshot": __version__, "sources": theirs.SOURCES, "rows": rows}
        with atomic_path(arguments.json) as temporary:
            temporary.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    main()
