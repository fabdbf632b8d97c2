"""``marginshot apply``: label new items with planes fitted before, no examples needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marginshot.cli import _labels, label
from marginshot.cli._output import phases

if TYPE_CHECKING:
    from marginshot.labelling.collection import Collection
    from marginshot.labelling.sources import Source


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
    verbose: label.Verbose = False,
) -> None:
    """Label new items with a saved model; each alone, independently of the others.

    Example: marginshot apply model new-photos/ --out labelled/
    """
    from marginshot.labelling.model import load_model
    from marginshot.labelling.outputs import Outputs
    from marginshot.labelling.sources import open_unlabelled

    action = _labels.chosen_action(copy=copy, move=move, link=link)
    loaded = load_model(model)
    opened = open_unlabelled(source, column)
    request = loaded.request(opened, reject=reject)
    outputs = Outputs(
        path=out,
        pictures=opened.table is None,
        transfer=action,
        gallery=gallery,
        exports=tuple(name.value for name in export or ()),
    )
    if not dry_run and _labels.resume(outputs, request):
        return
    store = _labels.open_cache(cache, cache_size, use=use_cache)
    if not dry_run:
        outputs.check(request, store, force=force)
    collection = _collect(opened, text, out)
    outputs.check_classes(map(str, loaded.classifier.classes_))
    encoder = loaded.make_encoder(device)
    with phases("items") as on_progress:
        labelling = loaded.label_collection(collection, encoder, store, request, reject=reject, on_progress=on_progress)
    show = _labels.Show(as_json=form is label.SummaryFormat.JSON, verbose=verbose)
    if dry_run:
        _labels.preview(labelling, outputs, show)
    else:
        _labels.finish(labelling, outputs, store, show)


def _collect(source: Source, text: str | None, out: Path) -> Collection:
    from marginshot.labelling.folders import collect_unlabelled
    from marginshot.labelling.sources import collect_rows

    if source.table is None:
        return collect_unlabelled(source.path, [out])
    return collect_rows(source.table, text, None)
