"""``marginshot evaluate``: the paper's protocol on any features, for any methods."""

from __future__ import annotations

import json
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marginshot._lib.extras import need
from marginshot._lib.files import check_replaceable
from marginshot.cli import _errors
from marginshot.cli._options import Jobs, Plugins, load_plugins, parse_methods, parse_tasks
from marginshot.cli._output import check_outputs, emit, emit_grid, progress_bar, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from marginshot.data.features import FeatureBank
    from marginshot.evaluation.checkpoint import BlockProgress, Checkpoint
    from marginshot.evaluation.results import Evaluation
    from marginshot.evaluation.run import Run

DEFAULT_METHODS = "fs-tmmc-auto,fs-tmmc,fs-mmc,simpleshot,laplacianshot"


class Intervals(StrEnum):
    """What the 95 % intervals are over."""

    TASKS = "tasks"
    CLASSES = "classes"


class Prior(StrEnum):
    """Where beliefs about the class of each query come from."""

    NAMES = "names"
    TABLE = "table"


class Format(StrEnum):
    """How the table is printed."""

    TABLE = "table"
    MARKDOWN = "markdown"
    LATEX = "latex"
    CSV = "csv"
    JSON = "json"


def command(
    features: Annotated[
        list[str],
        typer.Argument(help="'digits', .npz or .pt (X, y), .parquet (embedding, label), a folder of one .npy a class."),
    ],
    way: Annotated[list[int], typer.Option("--way", help="Classes per task; repeat for several.")] = [5],  # noqa: B006
    shot: Annotated[
        list[str],
        typer.Option("--shot", help="Support examples per class: 5, or 1,5,5,3,2, or 1-5, or 0 for names."),
    ] = ["1", "5"],  # noqa: B006
    query: Annotated[int, typer.Option("--query", help="Queries per class.")] = 15,
    tasks: Annotated[int, typer.Option("--tasks", help="Number of tasks.")] = 10_000,
    methods: Annotated[
        str, typer.Option("--methods", help="Comma-separated, or 'all'; see `marginshot methods`.")
    ] = DEFAULT_METHODS,
    reference: Annotated[
        str | None, typer.Option("--reference", help="Method that Δ compares with (default: fs-tmmc, else the first).")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Task i depends on the seed and i alone.")] = 0,
    dirichlet: Annotated[
        float | None, typer.Option("--dirichlet", help="Unbalanced queries: class shares from this Dirichlet.")
    ] = None,
    present: Annotated[
        int | None, typer.Option("--present", help="Number of classes that occur among the queries.")
    ] = None,
    foreign: Annotated[
        int, typer.Option("--foreign", help="Classes without support that occur among the queries (open set).")
    ] = 0,
    base: Annotated[
        str | None, typer.Option("--base", help="Features of base classes: whiten by their scatter within classes.")
    ] = None,
    prior: Annotated[
        Prior | None,
        typer.Option("--prior", help="Beliefs for methods that take them: of embedded class names, or a table."),
    ] = None,
    sharpness: Annotated[
        float, typer.Option("--sharpness", help="Factor on the cosines to names in --prior names; 100 is CLIP's.")
    ] = 100.0,
    config: Annotated[
        Path | None, typer.Option("--config", help="TOML with settings of methods, e.g. from `marginshot tune`.")
    ] = None,
    plugin: Plugins = None,
    jobs: Jobs = -1,
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write the result here, every task's accuracy beside it.")
    ] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Write a self-contained HTML page here.")] = None,
    predictions: Annotated[
        Path | None,
        typer.Option("--predictions", help="Write scores and probabilities of every query to this .parquet file."),
    ] = None,
    intervals: Annotated[
        Intervals, typer.Option("--intervals", help="± over new tasks, or over new tasks of new classes.")
    ] = Intervals.TASKS,
    form: Annotated[Format, typer.Option("--format", help="How the table is printed.")] = Format.TABLE,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run of this --json, or add tasks or methods to its result.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Start over; replace files others made.")] = False,
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Read pickles. They can run any code: only files you trust.")
    ] = False,
) -> None:
    """Run the few-shot protocol and print accuracies with 95 % intervals.

    Ctrl-C prints what is finished and, with --json, keeps it for --resume. A finished result gains tasks, methods,
    ways, shots or features with --resume. A result of other arguments is replaced with --force only, as are files that
    marginshot did not write.

    Example: marginshot evaluate digits --shot 1 --shot 5 --methods fs-tmmc,fs-mmc,simpleshot --tasks 2000
    --json result.json --report report.html
    """
    settings = parse_tasks(way, shot, query, dirichlet, present, foreign)
    check_files(json_path, report, predictions, inputs=features, resume=resume, force=force)
    load_plugins(plugin)
    from marginshot.evaluation.run import Run

    run = Run(
        banks=give_prior(load_banks(features, base, allow_pickle=allow_pickle), prior, sharpness),
        methods=parse_methods(methods, config),
        settings=settings,
        n_tasks=tasks,
        seed=seed,
        command=shlex.join(["marginshot", *sys.argv[1:]]),
        reference=reference,
        prior=f"names, sharpness {sharpness:g}" if prior is Prior.NAMES else prior,
    )
    if intervals is Intervals.CLASSES:
        check_classes(run)
    finished = None if force else look_back(run, json_path, predictions, resume=resume)
    evaluation = run_tasks(run, json_path, jobs, predictions, finished)
    if predictions is not None:
        say(f"Predictions written to {predictions}")
    write(evaluation, json_path)
    shown = evaluation.over_classes() if intervals is Intervals.CLASSES else evaluation
    write_page(shown, report)
    show(shown, form, intervals)


def check_classes(run: Run) -> None:
    """Raise where all classes occur in every task, so that there are no intervals over classes."""
    for bank, settings in run.blocks():
        if settings.n_way >= len(bank.classes):
            raise ValueError(
                f"There is no interval over classes for {bank.source}, {settings.n_way} ways: it needs more classes "
                "than ways."
            )


def load_banks(features: list[str], base: str | None, *, allow_pickle: bool) -> list[FeatureBank]:
    """The features to draw tasks from, whitened by those of ``base`` classes where given."""
    from marginshot.data.features import load_features

    banks = [load_features(spec, allow_pickle=allow_pickle) for spec in features]
    if base is None:
        return banks
    from marginshot.evaluation.whitening import whiten

    return whiten(banks, load_features(base, allow_pickle=allow_pickle))


def give_prior(banks: list[FeatureBank], prior: Prior | None, sharpness: float) -> list[FeatureBank]:
    """The features with the prior asked for; a table in a file is used on demand only."""
    from dataclasses import replace

    from marginshot.data.feature_arrays import prior_of_names

    if not 0 < sharpness < float("inf"):
        raise typer.BadParameter(f"a positive number; got {sharpness:g}.", param_hint="--sharpness")
    if prior is None:
        return [replace(bank, prior=None) for bank in banks]
    for bank in banks:
        if (bank.names if prior is Prior.NAMES else bank.prior) is None:
            needed = "names of shape (classes, features)" if prior is Prior.NAMES else "prior of shape (rows, classes)"
            raise ValueError(f"{bank.source} has no array {needed}, which --prior {prior} needs.")
    if prior is Prior.TABLE:
        return banks
    return [
        bank if bank.names is None else replace(bank, prior=prior_of_names(bank.X, bank.names, sharpness))
        for bank in banks
    ]


def check_files(
    json_path: Path | None,
    report: Path | None,
    predictions: Path | None,
    *,
    inputs: Sequence[str],
    resume: bool,
    force: bool,
) -> None:
    """Check all files before the work starts."""
    from marginshot.evaluation.checkpoint import checkpoint_path
    from marginshot.evaluation.results import tasks_path

    if resume and json_path is None:
        raise typer.BadParameter(
            "there is nothing to continue without --json, where the run was kept.", param_hint="--resume"
        )
    if resume and force:
        raise typer.BadParameter("--force starts over, --resume continues: give one of them.", param_hint="--resume")
    if predictions is not None:
        _check_predictions(predictions, resume=resume)
    if report is not None:
        need("matplotlib")
    if json_path is not None:
        check_replaceable(json_path)  # a folder may have no name to put others beside
    beside = [] if json_path is None else [tasks_path(json_path), checkpoint_path(json_path)]
    if predictions is not None:
        from marginshot.evaluation.predictions import predicted_tasks_path

        beside.append(predicted_tasks_path(predictions))
    check_outputs([json_path, *beside, report, predictions], force=force, inputs=inputs)
    if json_path is None:
        return
    partial = checkpoint_path(json_path)
    if force:
        partial.unlink(missing_ok=True)
    elif partial.exists() and not resume:
        raise FileExistsError(
            f"{partial} holds the finished tasks of an interrupted run. "
            "Continue it with --resume, or start over with --force."
        )


def _check_predictions(path: Path, *, resume: bool) -> None:
    from marginshot.data.features import PARQUET_SUFFIXES

    if path.suffix.lower() not in PARQUET_SUFFIXES:
        raise typer.BadParameter(f"predictions are a .parquet file; got {path.name!r}.", param_hint="--predictions")
    if resume:
        raise typer.BadParameter(
            "the scores of tasks finished earlier were not kept: leave out --resume.", param_hint="--predictions"
        )


def look_back(
    run: Run, json_path: Path | None, predictions: Path | None, *, resume: bool
) -> list[BlockProgress] | None:
    """What a finished result at ``json_path`` holds of the run; raises where the run would replace another one's files.

    A run with the same arguments may replace its own.
    """
    from marginshot.evaluation.checkpoint import checkpoint_path
    from marginshot.evaluation.extension import continue_result
    from marginshot.evaluation.predictions import is_of_run
    from marginshot.evaluation.results import Evaluation

    if predictions is not None and predictions.exists() and not is_of_run(predictions, run):
        raise FileExistsError(
            f"{predictions} holds predictions of a run with other arguments. Give another name, or replace it with "
            "--force."
        )
    if json_path is None or not json_path.exists() or checkpoint_path(json_path).exists():
        return None
    stored = Evaluation.load(json_path)
    if not resume:
        if stored.identity() == run.identity():
            return None
        raise FileExistsError(
            f"{json_path} is the result of a run with other arguments ({stored.arguments['tasks']:,} tasks of "
            f"{', '.join(stored.arguments['methods'])}). Add tasks or methods to it with --resume, give another "
            "--json, or replace it with --force."
        )
    try:
        finished = continue_result(stored, run)
    except ValueError as error:
        raise ValueError(f"{json_path} cannot be continued by this command. {error}") from error
    if all(block.done.all() for block in finished):
        say(f"{json_path} is already complete.")
    return finished


def run_tasks(
    run: Run,
    json_path: Path | None,
    jobs: int,
    predictions: Path | None = None,
    finished: Sequence[BlockProgress] | None = None,
) -> Evaluation:
    """Run the tasks that are not ``finished``; on Ctrl-C print what is done and exit."""
    from marginshot.evaluation.checkpoint import Checkpoint, checkpoint_path
    from marginshot.evaluation.protocol import EvaluationInterrupted, evaluate

    checkpoint = None if json_path is None else Checkpoint(checkpoint_path(json_path))
    try:
        with progress_bar("tasks") as on_progress:
            return evaluate(
                run,
                n_jobs=jobs,
                checkpoint=checkpoint,
                on_progress=on_progress,
                predictions=predictions,
                finished=finished,
            )
    except EvaluationInterrupted as interruption:
        _show_partial(interruption.partial, checkpoint)
        raise typer.Exit(_errors.INTERRUPTED) from None


def _show_partial(partial: Evaluation, checkpoint: Checkpoint | None) -> None:
    if partial.results:
        show(partial, Format.TABLE)
    if checkpoint is None:
        say("Interrupted. Nothing was kept: give --json to make a run that can be continued.")
    elif checkpoint.path.exists():
        say(f"Interrupted. What is finished is in {checkpoint.path}: repeat the command with --resume to continue.")
    else:
        say("Interrupted before any task was finished.")


def write(evaluation: Evaluation, json_path: Path | None) -> None:
    """Write the result, then remove the progress file."""
    from marginshot.evaluation.checkpoint import Checkpoint, checkpoint_path

    if json_path is not None:
        evaluation.save(json_path)
        Checkpoint(checkpoint_path(json_path)).discard()
        say(f"Result written to {json_path}")


def write_page(evaluation: Evaluation, report: Path | None) -> None:
    """Write the report."""
    if report is not None:
        from marginshot.reporting.report import write_report

        write_report(evaluation, report)
        say(f"Report written to {report}")


def show(evaluation: Evaluation, form: Format, intervals: Intervals = Intervals.TASKS) -> None:
    """Print the table in the chosen format."""
    from marginshot.reporting import tables

    caption = tables.notes(evaluation)
    if form is Format.TABLE:
        emit_grid(
            tables.full_table(evaluation),
            [
                *caption,
                f"± 95 % interval over {intervals}; ● first, ○ not significantly below it; Δ paired by task; "
                "[T] transductive" + "; [P] given the prior" * any(one.given_prior for one in evaluation.results),
                "Holm p: of Δ, for the methods of one block; worst tenth of the tasks; ECE: expected calibration error"
                + "; AUROC, AUPR: of telling foreign queries" * any(one.open_set for one in evaluation.results),
            ],
        )
        return
    for note in caption:
        say(note)
    if form is Format.JSON:
        emit(json.dumps(evaluation.to_json(), indent=1, allow_nan=False))
    elif form is Format.CSV:
        emit(tables.numbers_table(evaluation).render("csv"))
    else:
        emit(tables.paper_table(evaluation).render(form.value))
