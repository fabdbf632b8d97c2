"""``marginshot reproduce``: train, extract, evaluate, and print the result beside the paper's."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marginshot._lib.extras import need
from marginshot.cli._options import Jobs
from marginshot.cli._output import check_outputs, emit, emit_grid, say
from marginshot.cli._recipes import Recipe, load_recipe, recipe_names
from marginshot.cli.evaluate import Format, run_tasks
from marginshot.cli.extract import run_extraction
from marginshot.cli.train import run_training

if TYPE_CHECKING:
    from marginshot.evaluation.checkpoint import Checkpoint
    from marginshot.evaluation.results import Evaluation, MethodResult
    from marginshot.evaluation.run import Run
    from marginshot.reporting.grid import Cell, Grid
    from marginshot.vision.datasets import ImageSet
    from marginshot.vision.settings import Hardware, TrainSettings


def command(
    recipe: Annotated[str | None, typer.Argument(help="Name of a recipe; see --list.")] = None,
    data: Annotated[Path | None, typer.Option("--data", help="Folder with the dataset's files.")] = None,
    test_data: Annotated[
        Path | None, typer.Option("--test-data", help="Folder of the test dataset, where it is another one.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Runs, features and results go here.")] = Path("runs"),
    epochs: Annotated[
        int | None, typer.Option("--epochs", help="Epochs of each training, instead of the recipe's: a rehearsal.")
    ] = None,
    subset: Annotated[bool, typer.Option("--subset", help="Accept incomplete datasets: a rehearsal.")] = False,
    tasks: Annotated[int | None, typer.Option("--tasks", help="Number of tasks (default: the recipe's).")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check data and folders, say what would be done, and leave.")
    ] = False,
    jobs: Jobs = -1,
    accelerator: Annotated[str, typer.Option("--accelerator", help="auto, cpu, cuda or mps.")] = "auto",
    devices: Annotated[int, typer.Option("--devices", help="GPUs (or processes on a CPU) per machine.")] = 1,
    nodes: Annotated[int, typer.Option("--nodes", help="Machines.")] = 1,
    precision: Annotated[str, typer.Option("--precision", help="32-true, 16-mixed or bf16-mixed.")] = "32-true",
    workers: Annotated[int, typer.Option("--workers", help="Processes that read pictures, per device.")] = 0,
    checkpoint_steps: Annotated[
        int, typer.Option("--checkpoint-steps", help="Steps between two saved states inside an epoch.")
    ] = 500,
    checkpoint_minutes: Annotated[
        float, typer.Option("--checkpoint-minutes", help="Minutes after which the state is saved in any case.")
    ] = 5.0,
    form: Annotated[Format, typer.Option("--format", help="How the table is printed.")] = Format.TABLE,
    show_list: Annotated[bool, typer.Option("--list", help="List the recipes and leave.")] = False,
) -> None:
    """Reproduce a column of the paper's tables; what is finished is not done again.

    A rehearsal (--epochs, --subset) goes into a folder of its own, because its training differs.

    Example: marginshot reproduce mini-resnet18 --data DIR --dry-run
    """
    if show_list:
        for name in recipe_names():
            emit(f"{name:24} {load_recipe(name).title}")
        return
    if recipe is None:
        raise typer.BadParameter("name a recipe; see --list.", param_hint="RECIPE")
    chosen = load_recipe(recipe).rehearsed(epochs, subset=subset)
    if chosen.needs_two_folders and test_data is None:
        raise typer.BadParameter(
            f"{chosen.name} is tested on {chosen.test['dataset']}: give its folder.", param_hint="--test-data"
        )
    need("numba")  # compares the methods when all is trained
    from marginshot.vision.settings import Hardware

    hardware = Hardware(
        accelerator=accelerator,
        devices=devices,
        nodes=nodes,
        precision=precision,
        workers=workers,
        checkpoint_steps=checkpoint_steps,
        checkpoint_minutes=checkpoint_minutes,
    )
    if dry_run:
        for line in describe_plan(chosen, data, test_data or data, out, tasks):
            say(line)
        return
    out.mkdir(parents=True, exist_ok=True)
    if not _train(chosen, data, out, hardware):
        return
    features = out / f"{chosen.name}-test.npz"
    _extract(chosen, test_data or data, out, features, workers)
    evaluation = _evaluate(chosen, features, out / f"{chosen.name}.json", tasks, jobs)
    show(chosen, evaluation, form)


def describe_plan(recipe: Recipe, data: Path | None, test_data: Path | None, out: Path, tasks: int | None) -> list[str]:
    """Open the datasets and describe each stage in one line; raises if a dataset does not fit the recipe."""
    from marginshot._lib.files import check_writable

    target = out / recipe.final.run
    check_writable(next(parent for parent in (target, *target.parents) if parent.is_dir()) / "config.json")
    lines = [_describe_stage(recipe, number, data, out) for number in range(len(recipe.stages))]
    test = _test_images(recipe, test_data)
    methods, shots = recipe.evaluate["methods"], recipe.evaluate["shots"]
    return [
        *lines,
        f"Extract {test.name}: {len(test.classes)} classes, {len(test):,} pictures, to {recipe.name}-test.npz.",
        f"Evaluate {', '.join(methods)} on {tasks or recipe.evaluate['tasks']:,} 5-way tasks of each of "
        f"{' and '.join(map(str, shots))} shots, to {recipe.name}.json.",
        f"All in {out}. Data and folders fit the recipe; nothing was done.",
    ]


def _describe_stage(recipe: Recipe, number: int, data: Path | None, out: Path) -> str:
    """One training, its validation, and how far it is."""
    from marginshot.vision.batches import EpochBatches
    from marginshot.vision.runs import RunFolder
    from marginshot.vision.training import open_splits

    settings = _settings(recipe, number)
    base, validation, _ = open_splits(settings, _train_data(recipe, data))
    n_steps = EpochBatches(len(base), settings.batch_size, settings.seed).steps_per_epoch
    start = f" from the weights of {recipe.stages[number - 1].run}" if number else ""
    done = RunFolder(out / recipe.stages[number].run).finished_epochs()
    return (
        f"Train {settings.backbone}{start} on {base.name}: {len(base.classes)} classes, {len(base):,} pictures of "
        f"{settings.image_size} px, {settings.epochs} epochs of {n_steps:,} steps of {settings.batch_size}; validate "
        f"after each on {len(validation.classes)} classes, {len(validation):,} pictures"
        + (f"; {done} epochs are done." if done else ".")
    )


def _settings(recipe: Recipe, number: int) -> TrainSettings:
    from marginshot.vision.settings import TrainSettings

    return TrainSettings.from_dict(dict(recipe.stages[number].train), f"Recipe {recipe.name}")


def _train_data(recipe: Recipe, data: Path | None) -> Path | None:
    return data / recipe.train_folder if data is not None else None


def _train(recipe: Recipe, data: Path | None, out: Path, hardware: Hardware) -> bool:
    """Train the stages that are not finished; returns False in helper processes of the training.

    With several devices every process goes through all stages, because its helpers are started only once.
    """
    from marginshot.vision.runs import RunFolder
    from marginshot.vision.starting import starting_from

    is_first, previous = True, None
    for number, stage in enumerate(recipe.stages):
        folder = RunFolder(out / stage.run)
        settings = starting_from(_settings(recipe, number), previous)
        if folder.finished_epochs() == settings.epochs and folder.read_config()[0] == settings:
            say(f"Training is finished: {folder.path}.")
        else:
            result = run_training(settings, hardware, _train_data(recipe, data), folder.path, previous)
            is_first = result.is_first_process
        previous = folder.path
    return is_first


def _extract(recipe: Recipe, data: Path | None, out: Path, features: Path, workers: int) -> None:
    """Extract unless there are features of exactly these weights and pictures."""
    from marginshot._lib.reading import read_json
    from marginshot.vision.encoders import load_encoder
    from marginshot.vision.extraction import ExtractSettings, extraction_identity
    from marginshot.vision.extraction_files import parts_path, provenance_path

    settings = ExtractSettings(workers=workers)
    encoder = load_encoder(str(out / recipe.final.run))
    images = _test_images(recipe, data)
    about = provenance_path(features)
    identity = extraction_identity(encoder, images, settings)
    if features.exists() and about.exists() and not parts_path(features).exists():
        record = read_json(about, "what features come from", "Delete it, and the features are extracted again.")
        if record.get("identity") == identity:
            say(f"Features are extracted: {features}.")
            return
    check_outputs([features], force=True)
    run_extraction(encoder, images, features, settings)


def _test_images(recipe: Recipe, data: Path | None) -> ImageSet:
    from marginshot.vision.datasets import open_dataset

    source = data / recipe.test.get("folder", "") if data is not None else None
    seed = int(recipe.final.train.get("seed", 0))
    subset = bool(recipe.final.train.get("subset", False))
    images = open_dataset(recipe.test["dataset"], source, recipe.test["split"], seed=seed, subset=subset)
    without = tuple(recipe.test.get("without", ()))
    kept = [name for name in images.classes if name.split("/")[0] not in without]
    return images.keep_classes(kept) if without else images


def _evaluate(recipe: Recipe, features: Path, result: Path, tasks: int | None, jobs: int) -> Evaluation:
    """Evaluate unless there is a result of exactly these features, methods and tasks."""
    from marginshot.data.features import load_features
    from marginshot.data.sampler import TaskSettings
    from marginshot.evaluation.checkpoint import Checkpoint, checkpoint_path
    from marginshot.evaluation.run import Run
    from marginshot.methods import get_method

    run = Run(
        banks=[load_features(features)],
        methods={name: get_method(name) for name in recipe.evaluate["methods"]},
        settings=[TaskSettings(n_way=5, n_shot=shot) for shot in recipe.evaluate["shots"]],
        n_tasks=tasks or recipe.evaluate["tasks"],
        seed=recipe.evaluate.get("seed", 0),
        command=shlex.join(["marginshot", *sys.argv[1:]]),
    )
    stored = _stored(run, result)
    if stored is not None:
        say(f"The result is there: {result}.")
        return stored
    check_outputs([result], force=False)
    progress = Checkpoint(checkpoint_path(result))
    if not _belongs(progress, run):
        progress.discard()
    evaluation = run_tasks(run, result, jobs)
    evaluation.save(result)
    progress.discard()
    return evaluation


def _stored(run: Run, result: Path) -> Evaluation | None:
    from marginshot.evaluation.results import Evaluation

    if not result.exists():
        return None
    stored = Evaluation.load(result)
    return stored if stored.identity() == run.identity() and stored.complete else None


def _belongs(progress: Checkpoint, run: Run) -> bool:
    """Whether the progress of an interrupted evaluation belongs to this one."""
    try:
        progress.load(run.progress_identity())
    except ValueError:
        return False
    return True


def show(recipe: Recipe, evaluation: Evaluation, form: Format) -> None:
    """Print the table in the chosen format."""
    if form is Format.JSON:
        content = evaluation.to_json() | {"recipe": recipe.name, "paper": recipe.paper}
        emit(json.dumps(content, indent=1, allow_nan=False))
        return
    grid = comparison(recipe, evaluation)
    if form is Format.TABLE:
        emit_grid(grid, ["± 95 % interval; [T] transductive"])
    else:
        emit(grid.render(form.value))


def comparison(recipe: Recipe, evaluation: Evaluation) -> Grid:
    """Methods down, shots across, the paper's accuracy beside ours."""
    from marginshot.reporting.grid import Cell, Grid
    from marginshot.reporting.tables import describe_tasks, mark, percent, task_name

    blocks = evaluation.blocks()
    headers = ["Method"]
    for block in blocks:
        headers += [f"{task_name(block[0])} %", *(["paper", "difference"] if recipe.paper else [])]
    rows = []
    for place, first in enumerate(blocks[0]):
        cells = [Cell(mark(first))]
        for block in blocks:
            result = block[place]
            best = max(other.accuracy for other in block)
            cells.append(Cell(percent(result.accuracy, result.ci95), bold=result.accuracy == best))
            if recipe.paper:
                cells += _paper_cells(recipe, result)
        rows.append(tuple(cells))
    rehearsal = f"; a rehearsal: {recipe.rehearsal}" if recipe.rehearsal else ""
    title = f"{recipe.title}; {describe_tasks(evaluation)}{rehearsal}"
    return Grid(headers=tuple(headers), sections=(tuple(rows),), title=title)


def _paper_cells(recipe: Recipe, result: MethodResult) -> list[Cell]:
    from marginshot.reporting.grid import Cell
    from marginshot.reporting.tables import percent

    printed = recipe.paper.get(result.method, {}).get(result.shot) if isinstance(result.shot, int) else None
    if printed is None:
        return [Cell("–"), Cell("–")]
    return [Cell(f"{printed:.2f}"), Cell(percent(result.accuracy - printed / 100, signed=True))]
