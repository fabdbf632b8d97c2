"""``marginshot label``: label a folder or a table from a few examples."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marginshot.cli import _labels
from marginshot.cli._output import phases
from marginshot.labelling.formats import Tool

if TYPE_CHECKING:
    from marginshot.labelling.classes import Classes
    from marginshot.labelling.collection import Collection
    from marginshot.labelling.corrections import Said
    from marginshot.labelling.outputs import Outputs
    from marginshot.labelling.sources import Source


class SummaryFormat(StrEnum):
    """How the summary is printed."""

    TABLE = "table"
    JSON = "json"


#: Options that the next run into the same place recalls.
REMEMBERED = (
    "examples",
    "text",
    "label",
    "classes",
    "names",
    "encoder",
    "reject",
    "lose",
    "suggest",
    "export",
    "gallery",
)

Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, mps.")]
Copy = Annotated[bool, typer.Option("--copy", help="Copy pictures into class folders in the output.")]
Move = Annotated[bool, typer.Option("--move", help="Move pictures into class folders in the output.")]
Link = Annotated[bool, typer.Option("--link", help="Link pictures into class folders in the output.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the classes and what would be done; write nothing.")]
Exports = Annotated[list[Tool] | None, typer.Option("--export", help="Also write for this tool; repeatable.")]
Gallery = Annotated[bool, typer.Option("--gallery/--no-gallery", help="A page to look through the labels.")]
CacheFolder = Annotated[Path | None, typer.Option("--cache", help="Folder of the cache (default: the user's).")]
UseCache = Annotated[bool, typer.Option("--use-cache/--no-cache", help="Keep embeddings for the next run.")]
CacheSize = Annotated[int, typer.Option("--cache-size", help="Megabytes of embeddings kept.")]
Force = Annotated[bool, typer.Option("--force", help="Replace outputs that others made or changed.")]
Form = Annotated[SummaryFormat, typer.Option("--format", help="How the summary is printed.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print every class, and every line of --dry-run.")]


def _recall(context: typer.Context, parameter: typer.CallbackParam, value: Path) -> Path:
    """Once SOURCE and --out are known, take the options of the last run with both as defaults."""
    known = context.meta.setdefault("marginshot.label", {}) | {parameter.name: value}
    context.meta["marginshot.label"] = known
    if len(known) == 2:
        from marginshot.labelling.corrections import remembered_options

        context.default_map = remembered_options(known["out"], known["source"])
    return value


@_labels.interruptible()
def command(
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(help="Folder of pictures, table (.csv, .tsv, .parquet) or .npz.", callback=_recall)
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for pictures, table otherwise.", callback=_recall)],
    examples: Annotated[
        list[Path] | None,
        typer.Option(
            "--examples",
            help="Folder of class folders, or CSV with path,label; repeatable (default: those in SOURCE).",
        ),
    ] = None,
    text: Annotated[str | None, typer.Option("--text", help="Column of texts.")] = None,
    label: Annotated[str | None, typer.Option("--label", help="Half-empty column of labels.")] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            "--classes", help="Names of classes of texts, with commas between, or table of class,description."
        ),
    ] = None,
    names: Annotated[
        bool, typer.Option("--names/--no-names", help="Take the names of classes of texts for examples.")
    ] = True,
    encoder: Annotated[
        str | None,
        typer.Option("--encoder", help="A timm or sentence-transformers model (default: efficientnet-lite0, minilm)."),
    ] = None,
    reject: Annotated[
        bool, typer.Option("--reject/--no-reject", help="Give no label to items far from every class.")
    ] = False,
    lose: Annotated[
        float, typer.Option("--lose", help="Share of known items one is willing to lose to --reject.")
    ] = 0.05,
    suggest: Annotated[int, typer.Option("--suggest", help="List this many items worth labelling next.")] = 0,
    save: Annotated[Path | None, typer.Option("--save", help="Keep the fitted planes for `marginshot apply`.")] = None,
    copy: Copy = False,
    move: Move = False,
    link: Link = False,
    dry_run: DryRun = False,
    export: Exports = None,
    gallery: Gallery = True,
    device: Device = "auto",
    cache: CacheFolder = None,
    use_cache: UseCache = True,
    cache_size: CacheSize = 2_000,
    force: Force = False,
    form: Form = SummaryFormat.TABLE,
    verbose: Verbose = False,
) -> None:
    """Label a folder of pictures, a table of texts, or embeddings from a few examples.

    Example: marginshot label photos/ --examples examples/ --out labelled/

    Example: marginshot label tickets.csv --text body --label topic --out tickets-labelled.csv

    Example: marginshot label tickets.csv --text body --classes billing,bug,delivery --out tickets-labelled.csv

    Example: marginshot label embeddings.parquet --label label --out labels.parquet

    Again with the same --out: labels corrected there are examples, and options need not be repeated.
    """
    from marginshot.labelling.api import label_collection, label_request
    from marginshot.labelling.classes import read_classes
    from marginshot.labelling.classify import LabelSettings
    from marginshot.labelling.collection import means_none
    from marginshot.labelling.corrections import gather
    from marginshot.labelling.encoders import make_encoder
    from marginshot.labelling.outputs import Outputs
    from marginshot.labelling.sources import open_source

    action = _labels.chosen_action(copy=copy, move=move, link=link)
    settings = LabelSettings(reject=reject, lose=lose, suggest=suggest, names=names)
    opened, named = open_source(source, label), read_classes(classes or "")
    outputs = Outputs(
        path=out,
        pictures=opened.table is None,
        transfer=action,
        gallery=gallery,
        suggestions=suggest > 0,
        exports=tuple(name.value for name in export or ()),
        model=save,
    )
    store = _labels.open_cache(cache, cache_size, use=use_cache)
    said = gather(outputs, opened, examples or (), store, named)
    options = _labels.remembered(context, REMEMBERED, said)
    request = label_request(opened, said.examples, encoder, settings, said.labels, said.of, options)
    if not dry_run and _labels.resume(outputs, request):
        return
    said.check_not_moved(source, out)
    if not dry_run:
        outputs.check(request, store, force=force, taken=said.taken)
    collection = _collect(opened, text, said, outputs, named)
    outputs.check_classes(sorted({label for label in (*collection.labels, *named) if label and not means_none(label)}))
    chosen = make_encoder(collection.kind, encoder, device)
    with phases("items") as on_progress:
        labelling = label_collection(collection, chosen, store, settings, request, on_progress, named)
    show = _labels.Show(as_json=form is SummaryFormat.JSON, verbose=verbose)
    if dry_run:
        _labels.preview(labelling, outputs, show)
    else:
        _labels.finish(labelling, outputs, store, show, said.record)


def _collect(source: Source, text: str | None, said: Said, outputs: Outputs, named: Classes) -> Collection:
    """The items, with labels from the examples or the table, and corrections made in our output tables."""
    from marginshot.labelling.folders import collect_pictures
    from marginshot.labelling.sources import collect_rows

    if source.table is None:
        if text is not None:
            raise typer.BadParameter(f"{source.path} is a folder of pictures and has no columns.", param_hint="--text")
        labelled = said.pictures(source.path, outputs.table)
        return collect_pictures(source.path, said.examples, [outputs.path], labelled, named)
    if said.examples:
        raise typer.BadParameter(
            f"examples of a table are the rows with a label in column {source.label!r}; fill in some of these.",
            param_hint="--examples",
        )
    column = source.column_of_labels(needed=not named)
    return said.fill(collect_rows(source.table, text, column, named), source)
