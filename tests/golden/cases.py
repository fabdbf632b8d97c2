"""The golden cases: which rows are answered, by which entry point, with which parameters.

A case is called TASK-OPTION, or TASK-ENTRY-OPTION where the entry point is not the usual one of the task. To add one,
add a task, an option or a line to `CASES`, and record it: see `golden.record`.

What is called of the package stands in `fit_one` and `solve_batch`; a renamed entry point is renamed there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

import marginshot
from golden.answers import Answer
from golden.rows import Generated, Rows, Shared


def inverse_distance(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """A kernel of the user's own, 1 / (1 + |x − y|²): (a, D), (b, D) -> (a, b)."""
    return 1 / (1 + ((left[:, None] - right[None]) ** 2).sum(axis=2))


ODD_SHARES = (0.3, 0.25, 0.2, 0.15, 0.1)
# As strong for rows of a length around six as 0.04 is for rows of unit length; a weaker one leaves minima to rounding.
OF_LONG_ROWS = 1.0

# Each option by itself on the paper's defaults, but for what it cannot do without, and some with the preset "auto".
OPTIONS: dict[str, dict[str, Any]] = {
    "paper": {},
    "auto": {"preset": "auto"},
    "printed": {"preset": "printed"},
    "rbf": {"kernel": "rbf"},
    "rbf_width": {"kernel": "rbf", "gamma": 0.5},
    "poly": {"kernel": "poly"},
    "poly_square": {"kernel": "poly", "gamma": 0.5, "degree": 2, "coef0": 0.5},
    "callable": {"kernel": inverse_distance},
    "precomputed": {"kernel": "precomputed", "lambda1": OF_LONG_ROWS},
    "power": {"feature_transform": "power"},
    "discriminant": {"feature_transform": "discriminant"},
    "untransformed": {"feature_transform": None, "lambda1": OF_LONG_ROWS},
    "scaler": {"feature_transform": StandardScaler(), "lambda1": OF_LONG_ROWS},
    "prior_estimate": {"prior": "estimate"},
    "prior_array": {"prior": ODD_SHARES},
    "prior_none": {"prior": None},
    "softmax": {"calibration": "softmax"},
    "logistic": {"calibration": "logistic"},
    "none": {"calibration": "none"},
    "mixture": {"calibration": "mixture", "meet_prior": True},
    "graph": {"calibration": "graph", "n_neighbors": 8, "meet_prior": True},
    "neighbours": {"n_neighbors": 8},
    "no_queries": {"lambda2": (0,)},
    "sharpness": {"lambda1": 0.1, "gamma1": 10.0, "gamma2": 1.0},
    "auto_rbf": {"preset": "auto", "kernel": "rbf"},
    "auto_mixture": {"preset": "auto", "calibration": "mixture"},
    "auto_uniform": {"preset": "auto", "prior": "uniform", "meet_prior": True},
    "auto_array": {"preset": "auto", "prior": ODD_SHARES, "meet_prior": True},
    "auto_power": {"preset": "auto", "feature_transform": "power"},
    "blocks_mixture": {"calibration": "mixture", "prior": "estimate", "feature_transform": "power"},
}
PRESETS = ("paper", "auto")

# One task in the dual, one in the primal, twelve at once: every option is answered on each.
TASKS: dict[str, Generated | Shared] = {
    "small": Generated(n_classes=5, n_shot=5, n_query=130, distance=3.3, unbalanced=True, seed=1),
    "large": Generated(
        n_classes=5, n_shot=5, n_query=2500, distance=5.0, n_features=24, unbalanced=True, dtype="float32", seed=2
    ),
    "batch": Generated(n_classes=5, n_shot=3, n_query=75, distance=4.0, n_tasks=12, dtype="float32", seed=3),
}
# Numbers of classes: an easy balanced and a harder unbalanced task of each, alone and in a batch.
for n_classes, n_features, n_query, n_tasks, distances in (
    (2, 16, 60, 12, (3.5, 2.5)),
    (5, 32, 150, 12, (4.0, 3.0)),
    (20, 48, 300, 6, (5.0, 3.5)),
    (77, 64, 462, 2, (6.0, 4.5)),
):
    for n_shot, unbalanced, distance in ((1, False, distances[0]), (5, True, distances[1])):
        shape = {"n_classes": n_classes, "n_shot": n_shot, "n_features": n_features, "unbalanced": unbalanced}
        name = f"{n_classes}way{n_shot}shot" + "_unbalanced" * unbalanced
        TASKS[name] = Generated(**shape, n_query=n_query, distance=distance, seed=10 + n_classes)
        TASKS[f"{name}_batch"] = Generated(
            **shape, n_query=n_query // 2, distance=distance, n_tasks=n_tasks, dtype="float32", seed=20 + n_classes
        )
for odd in ("directionless", "duplicates"):
    shape = {"n_classes": 4, "n_shot": 2, "distance": 4.5, "odd": odd}
    TASKS[odd] = Generated(**shape, n_query=120, seed=4)
    TASKS[f"{odd}_large"] = Generated(**shape, n_query=1500, n_features=16, dtype="float32", seed=5)
    TASKS[f"{odd}_batch"] = Generated(**shape, n_query=60, n_tasks=8, dtype="float32", seed=6)

SHARED_FILES = (
    "clinc_minilm-val",
    "cub_lite0-val",
    "efficientnet_lite0-test",
    "efficientnet_lite0-val",
    "small_resnet-test",
    "small_resnet-val",
)
for file in SHARED_FILES:
    TASKS[f"{file}_5way1shot_batch"] = Shared(file=file, n_classes=5, n_shot=1, n_query=15, n_tasks=10, seed=1)
    TASKS[f"{file}_5way5shot_batch"] = Shared(file=file, n_classes=5, n_shot=5, n_query=15, n_tasks=10, seed=2)
    TASKS[f"{file}_20way_batch"] = Shared(file=file, n_classes=20, n_shot=3, n_query=10, n_tasks=3, seed=3)
    TASKS[f"{file}_large"] = Shared(file=file, n_classes=20, n_shot=3, n_query=36, seed=4)


@dataclass(frozen=True)
class Case:
    """One answer that is kept: a task of `TASKS`, how it is answered, and an option of `OPTIONS`.

    ``entry`` is "" for the usual entry point of the task, else "dual" or "primal" (that solver), "mapped", "parquet"
    or "dask" (the table in that form), or "table" (tasks as row numbers of a table).
    """

    task: str
    option: str
    entry: str = ""

    @property
    def name(self) -> str:
        """Name of the case and of its file."""
        return "-".join(part for part in (self.task, self.entry, self.option) if part)

    @property
    def exact(self) -> bool:
        """Whether the case is about exact values, which noise destroys: a row at the mean has no direction."""
        task = TASKS[self.task]
        return isinstance(task, Generated) and task.odd == "directionless"

    @property
    def shared(self) -> bool:
        """Whether the case needs the shared features."""
        return isinstance(TASKS[self.task], Shared)

    def rows(self, features: Path | None) -> Rows:
        """The rows of the task, in ``features`` where they are shared."""
        task = TASKS[self.task]
        return task.rows(features) if isinstance(task, Shared) else task.rows()

    def answer(self, rows: Rows, folder: Path) -> Answer:
        """What the package says; ``folder`` is for the forms of a table that lie in files."""
        if len(rows.labels) > 1:
            return solve_batch(rows, self.entry, OPTIONS[self.option])
        return fit_one(rows, self.entry, OPTIONS[self.option], folder)


CASES = {
    case.name: case
    for case in (
        *(Case(task, option) for task in ("small", "large", "batch") for option in OPTIONS),
        *(Case(task, option) for task in TASKS if task not in ("small", "large", "batch") for option in PRESETS),
        *(Case("small", option, "primal") for option in ("paper", "auto", "rbf", "poly", "prior_estimate")),
        *(Case("20way5shot_unbalanced", option, "primal") for option in PRESETS),
        *(Case("directionless_large", option, "dual") for option in PRESETS),
        *(Case("duplicates_large", option, "dual") for option in PRESETS),
        *(Case("large", option, "mapped") for option in ("paper", "blocks_mixture")),
        *(Case("large", option, "parquet") for option in ("paper", "blocks_mixture", "softmax")),
        *(Case("large", option, "dask") for option in ("paper", "blocks_mixture")),
        *(Case("batch", option, "table") for option in (*PRESETS, "rbf", "power")),
        *(Case(f"{file}_5way1shot_batch", "auto", "table") for file in SHARED_FILES),
    )
    # A batch takes features, not kernels.
    if not (case.task == "batch" and case.option == "precomputed")
}


def fit_one(rows: Rows, entry: str, option: dict[str, Any], folder: Path) -> Answer:
    """The classifier on one task: answers for the unlabelled rows, and for rows that come later."""
    parameters = dict(option)
    preset = parameters.pop("preset", "paper")
    if entry in ("dual", "primal"):
        parameters["solver"] = entry
    y = np.full(len(rows.table), -1)
    y[rows.support[0]] = rows.labels[0]
    X, later = rows.table, rows.later
    if parameters.get("kernel") == "precomputed":
        X, later = X @ X.T, later @ X.T
    elif entry in ("mapped", "parquet", "dask"):
        X = as_stored(X, entry, folder)
    clf = marginshot.TransductiveMaxMarginClassifier.from_preset(preset, **parameters).fit(X, y)
    query = rows.query[0]
    return Answer(
        labels=np.asarray(clf.transduction_)[query],
        probabilities=np.asarray(clf.label_distributions_)[query],
        prior=np.asarray(clf.prior_),
        later_labels=clf.predict(later),
        later_probabilities=clf.predict_proba(later),
        later_scores=clf.decision_function(later),
    )


def as_stored(X: np.ndarray, form: str, folder: Path) -> Any:
    """The table memory-mapped, in a Parquet file, or as a Dask array, in several blocks."""
    if form == "mapped":
        np.save(folder / "X.npy", X)
        return np.load(folder / "X.npy", mmap_mode="r")
    if form == "dask":
        import dask.array

        return dask.array.from_array(X, chunks=(700, -1))
    import pyarrow
    from pyarrow import parquet

    from marginshot.data.rows import ParquetRows

    embedding = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(X.reshape(-1)), X.shape[1])
    parquet.write_table(pyarrow.table({"embedding": embedding}), folder / "X.parquet", row_group_size=700)
    return ParquetRows(folder / "X.parquet")


def solve_batch(rows: Rows, entry: str, option: dict[str, Any]) -> Answer:
    """Many tasks at once, as features or, with the entry "table", as row numbers."""
    settings = marginshot.Settings.from_preset(**{"preset": "paper", **option})
    if entry == "table":
        answers = marginshot.solve_table_tasks(rows.table, rows.support, rows.labels, rows.query, settings)
    else:
        answers = marginshot.solve_tasks(rows.table[rows.support], rows.labels, rows.table[rows.query], settings)
    probabilities = answers.probabilities
    return Answer(labels=answers.labels.ravel(), probabilities=probabilities.reshape(-1, probabilities.shape[-1]))
