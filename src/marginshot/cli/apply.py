"""``marginshot apply``: label new items with planes fitted before, no examples needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marginshot.cli import _labels, label
from marginshot.cli._output import progress_bar, say

if TYPE_CHECKING:
    from marginshot.labelling.collection import Collection
    from marginshot.labelling.encoders import ItemEncoder
    from marginshot.labelling.jobs import Action
    from marginshot.labelling.model import LabelModel


@_labels.interruptible()
def command(
    model: Annotated[Path, typer.Argument(help="File written by `marginshot label --save`.")],
    source: Annotated[Path, typer.Argument(help="Folder of pictures, table (.csv, .tsv, .parquet) or .npz.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for pictures, table otherwise.")],
    text: Annotated[str | None, typer.Option("--text", help="Column of texts.")] = None,
    column: Annotated[
        str | None, typer.Option("--label", help="Name of the column of labels to write (default: label).")
    ] = None,
    reject: Annotated[bool, typer.Option("--reject", help="Give no label to items far from every class.")] = False,
    copy: label.Copy = False,
    move: label.Move = False,
    link: label.Link = False,
    dry_run: label.DryRun = False,
    export: label.Exports = None,
    gallery: label.Gallery = True,
    device: label.Device = "auto",
    cache: label.CacheFolder = None,
    use_cache: label.UseCache = True,
    cache_size: label.CacheSize = 2_000,
    force: label.Force = False,
    form: label.Form = label.SummaryFormat.TABLE,
) -> None:
    """Label new items with a saved model; each by itself, whatever the others are.

    Example: marginshot apply model new-photos/ --out labelled/
    """
    from marginshot.labelling.api import apply_model
    from marginshot.labelling.jobs import make_job
    from marginshot.labelling.model import load_model

    action = _labels.chosen_action(copy=copy, move=move, link=link, dry_run=dry_run)
    loaded = load_model(model)
    exports = tuple(name.value for name in export or ())
    job = make_job(
        action, source, {"model": [model]}, command="apply", reject=reject, export=sorted(exports), gallery=gallery
    )
    if not dry_run and _labels.resume(job, out):
        return
    opened = _open(source, column)
    outputs = _labels.Outputs(out=out, pictures=opened.table is None, gallery=gallery, exports=exports)
    store = _labels.open_cache(cache, cache_size, use=use_cache)
    if not dry_run:
        outputs.check([source, model], store, force=force)
        _labels.check_earlier_record(outputs, source, action, force=force)
    collection = _collect(opened, text, out, action)
    _labels.check_class_folders(map(str, loaded.classifier.classes_), outputs, action)
    encoder = _encoder(loaded, collection, device)
    with progress_bar("items") as on_progress:
        labelling = apply_model(loaded, collection, encoder, store, reject=reject, on_progress=on_progress)
    _labels.finish(
        labelling, opened, outputs, store, job=job, dry_run=dry_run, as_json=form is label.SummaryFormat.JSON
    )


def _open(source: Path, column: str | None) -> _labels.Source:
    """The source; labels it may hold already are not ours to replace."""
    opened = _labels.open_source(source, None)
    if opened.table is None:
        return opened
    wanted = column or "label"
    if wanted in ("item", *_labels.REVIEW_COLUMNS):
        raise typer.BadParameter(f"{wanted!r} is a column of ours; give the labels another name.", param_hint="--label")
    if wanted in opened.table.columns:
        raise ValueError(f"{opened.table.source} has a column {wanted!r} already. Name the new column with --label.")
    return _labels.Source(opened.path, opened.table, wanted)


def _collect(source: _labels.Source, text: str | None, out: Path, action: Action | None) -> Collection:
    from marginshot.labelling.folders import collect_unlabelled

    if source.table is None:
        return collect_unlabelled(source.path, [out])
    _labels.check_no_action(action)
    return _labels.collect_rows(source.table, text, None)


def _encoder(model: LabelModel, collection: Collection, device: str) -> ItemEncoder | None:
    """The encoder the model was fitted with; another version of it deserves a word."""
    encoder = _labels.make_encoder(collection, model.encoder, device)
    if encoder is not None and collection.kind == model.kind and encoder.identity != model.identity:
        say(
            f"Warning: the model was fitted with {model.identity!r}; here is {encoder.identity!r}. Labels may differ; "
            "fit the model again to be sure."
        )
    return encoder
