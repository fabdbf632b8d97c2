"""``marginshot apply``: label new items with planes fitted before, no examples needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from marginshot.cli import _labels, label
from marginshot.cli._output import check_writer, phases


@_labels.interruptible()
def command(
    model: Annotated[Path, typer.Argument(help="File written by `marginshot label --save`.")],
    source: Annotated[Path, typer.Argument(help="Folder of pictures or sounds, table (.csv, .tsv, .parquet) or .npz.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for a folder, table otherwise.")],
    text: Annotated[str | None, typer.Option("--text", help="Column of texts.")] = None,
    column: Annotated[
        str | None, typer.Option("--label", help="Name of the column of labels to write (default: label).")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option("--encoder", help="Encoder of the model, where it does not come with marginshot.")
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
    from marginshot.labelling.items.sources import collect_rows, open_unlabelled
    from marginshot.labelling.outputs.model import load_model
    from marginshot.labelling.outputs.outputs import Outputs

    check_writer(out)
    action = _labels.chosen_action(copy=copy, move=move, link=link)
    loaded = load_model(model)
    chosen = loaded.make_encoder(encoder, device)
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
    collection = loaded.collect(source, [out]) if opened.table is None else collect_rows(opened.rows(), text, None)
    outputs.check_items(collection)
    outputs.check_classes(map(str, loaded.classifier.classes_))
    with phases("items") as on_progress:
        labelling = loaded.label_collection(collection, chosen, store, request, reject=reject, on_progress=on_progress)
    show = _labels.Show(as_json=form is label.SummaryFormat.JSON, verbose=verbose)
    if dry_run:
        _labels.preview(labelling, outputs, show)
    else:
        _labels.finish(labelling, outputs, store, show)
