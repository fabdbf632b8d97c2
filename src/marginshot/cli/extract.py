"""``marginshot extract``: pictures through an encoder, into a feature file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marginshot.cli._options import at_least
from marginshot.cli._output import check_outputs, clean, progress_bar, say

if TYPE_CHECKING:
    from marginshot.vision.datasets import ImageSet
    from marginshot.vision.encoders import Encoder
    from marginshot.vision.extraction import ExtractSettings


class Weights(StrEnum):
    """Which epoch of a run."""

    BEST = "best"
    LAST = "last"


def command(
    encoder: Annotated[
        str,
        typer.Argument(help="A run, a checkpoint of SimpleShot (.pth.tar), efficientnet-lite0, or a timm model."),
    ],
    out: Annotated[Path, typer.Option("--out", help="Feature file to write: .npz or .parquet.")],
    data: Annotated[Path | None, typer.Option("--data", help="Folder with the dataset's files.")] = None,
    dataset: Annotated[
        str, typer.Option("--dataset", help="miniimagenet, tieredimagenet, cub, glyphs, or folder.")
    ] = "folder",
    split: Annotated[
        str | None,
        typer.Option("--split", help="base, validation, test; or all, for a folder (default: test, or all)."),
    ] = None,
    weights: Annotated[Weights, typer.Option("--weights", help="Which epoch of a run.")] = Weights.BEST,
    backbone: Annotated[
        str | None, typer.Option("--backbone", help="Network of a checkpoint file that does not name it.")
    ] = None,
    image_size: Annotated[
        int | None,
        typer.Option("--image-size", callback=at_least(1), help="Side of the pictures (default: as it was trained)."),
    ] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", callback=at_least(1), help="Pictures per batch.")] = 64,
    device: Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    mixed_precision: Annotated[
        bool, typer.Option("--mixed-precision/--full-precision", help="16 bits on a GPU.")
    ] = True,
    workers: Annotated[int, typer.Option("--workers", callback=at_least(0), help="Processes that read pictures.")] = 0,
    skip_corrupt: Annotated[
        bool, typer.Option("--skip-corrupt", help="Leave out pictures that cannot be read, and count them.")
    ] = False,
    subset: Annotated[bool, typer.Option("--subset", help="Accept an incomplete dataset, for a trial.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the glyphs, and of a folder's splits.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing feature file.")] = False,
) -> None:
    """Extract features; an interrupted extraction goes on when the command is repeated.

    Example: marginshot extract efficientnet-lite0 --data FOLDER-OF-CLASS-FOLDERS --out features.npz
    """
    from marginshot.vision.datasets import check_dataset, open_dataset

    chosen = split or ("all" if dataset == "folder" else "test")
    check_features_path(out, force=force)
    check_dataset(dataset, data, chosen)  # before torch is loaded, which takes seconds
    from marginshot.vision.encoders import load_encoder
    from marginshot.vision.extraction import ExtractSettings

    settings = ExtractSettings(
        batch_size=batch_size,
        device=device,
        mixed_precision=mixed_precision,
        workers=workers,
        skip_corrupt=skip_corrupt,
    )
    images = open_dataset(dataset, data, chosen, subset=subset, seed=seed)
    loaded = load_encoder(encoder, weights=weights.value, backbone=backbone, image_size=image_size)
    run_extraction(loaded, images, out, settings)


def check_features_path(out: Path, *, force: bool) -> None:
    """Check the output path before the work starts."""
    if out.suffix.lower() not in (".npz", ".parquet"):
        raise typer.BadParameter(f"features are written as .npz or .parquet; got {out.name!r}.", param_hint="--out")
    from marginshot.vision.extraction_files import parts_path, provenance_path, was_interrupted

    check_outputs([out], force=force or was_interrupted(out))
    check_outputs([provenance_path(out)], force=True)
    clean([parts_path(out)])


def run_extraction(encoder: Encoder, images: ImageSet, out: Path, settings: ExtractSettings) -> None:
    """Extract with progress on stderr."""
    from marginshot.vision.extraction import extract

    with progress_bar("pictures") as on_progress:
        extraction = extract(encoder, images, out, settings, on_progress)
    if extraction.skipped:
        say(f"Left out {len(extraction.skipped)} pictures that cannot be read; the first: {extraction.skipped[0]}")
    n_rows, n_features = extraction.bank.X.shape
    say(
        f"Wrote {n_features} features of {n_rows} pictures in {len(extraction.bank.classes)} classes to {out} "
        f"({encoder.name})."
    )
