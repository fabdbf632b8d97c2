"""``marginshot tune``: hyper-parameters from validation features."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginshot.cli import _errors
from marginshot.cli._options import Jobs, parse_methods, parse_tasks
from marginshot.cli._output import check_outputs, emit, progress_bar, say

if TYPE_CHECKING:
    from marginshot.evaluation.run import Run
    from marginshot.evaluation.tuning import TuningResult


def command(
    features: Annotated[list[str], typer.Argument(help="Validation features, as for `marginshot evaluate`.")],
    out: Annotated[Path, typer.Option("--out", help="TOML to write, for `marginshot evaluate --config`.")] = Path(
        "tuned.toml"
    ),
    method: Annotated[
        str,
        typer.Option(
            "--method", help="fs-tmmc, fs-tmmc-auto, fs-tmmc-balanced, fs-tmmc-estimate, fs-tmmc-printed or fs-mmc."
        ),
    ] = "fs-tmmc",
    trials: Annotated[int, typer.Option("--trials", help="Settings to try; the first are the defaults.")] = 50,
    way: Annotated[list[int], typer.Option("--way", help="Classes per task; repeat for several.")] = [5],  # noqa: B006
    shot: Annotated[list[str], typer.Option("--shot", help="Support examples per class; repeat for several.")] = [  # noqa: B006
        "1",
        "5",
    ],
    query: Annotated[int, typer.Option("--query", help="Queries per class.")] = 15,
    tasks: Annotated[int, typer.Option("--tasks", help="Tasks per trial and block.")] = 500,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the tasks and of the search.")] = 0,
    dirichlet: Annotated[
        float | None, typer.Option("--dirichlet", help="Unbalanced queries: class shares from this Dirichlet.")
    ] = None,
    jobs: Jobs = -1,
    force: Annotated[bool, typer.Option("--force", help="Replace a file somebody else made.")] = False,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Read pickles. They can run any code: only files you trust.")
    ] = False,
) -> None:
    """Search λ1, γ2 and the last λ2 of FS-TMMC for the best accuracy on validation features.

    Tune on validation classes and report on test classes: settings chosen on the test classes overstate the accuracy.

    Example: marginshot tune mini-val.npz --trials 50 -j 2 --out tuned.toml
    """
    import optuna  # noqa: F401  here, so that a missing extra is reported before the features are read

    from marginshot._lib.files import atomic_path
    from marginshot.data.features import load_features
    from marginshot.evaluation.run import Run
    from marginshot.evaluation.tuning import tune, write_toml

    settings = parse_tasks(way, shot, query, dirichlet, None, 0)
    check_outputs([out], force=force, inputs=features)
    run = Run(
        banks=[load_features(spec, allow_pickle=allow_pickle) for spec in features],
        methods=parse_methods(method, None),
        settings=settings,
        n_tasks=tasks,
        seed=seed,
    )
    with progress_bar("trials") as on_progress:
        result = tune(run, trials, n_jobs=jobs, on_progress=on_progress)
    with atomic_path(out) as temporary:
        temporary.write_text(write_toml(method, result, _describe(run, result)), encoding="utf-8")
    if not result.complete:
        say(f"Interrupted after {result.n_trials} of {trials} trials: the best so far is kept.")
    before, after = (f"{100 * value:.2f} %" for value in (result.default_accuracy, result.accuracy))
    emit(f"validation accuracy {before} with the defaults, {after} tuned")
    for name, value in result.settings.items():
        emit(f"{name} = {list(value) if isinstance(value, tuple) else value}")
    say(f"Settings written to {out}")
    if not result.complete:
        raise typer.Exit(_errors.INTERRUPTED)


def _describe(run: Run, result: TuningResult) -> dict[str, Any]:
    """The data of the tuning and the accuracy gained, for the config file."""
    tasks = {name: value for name, value in run.identity().items() if name != "methods" and value is not None}
    return tasks | {
        "trials": result.n_trials,
        "accuracy": round(result.accuracy, 6),
        "default_accuracy": round(result.default_accuracy, 6),
    }
