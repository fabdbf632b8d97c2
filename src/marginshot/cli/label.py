"""``marginshot label``: label a folder or a table from a few examples."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from marginshot.cli import _labels
from marginshot.cli._output import check_writer, phases, quietly, say
from marginshot.labelling.outputs.formats import Tool


class SummaryFormat(StrEnum):
    """How the summary is printed."""

    TABLE = "table"
    JSON = "json"


Boxes = Annotated[
    Path | None, typer.Option("--boxes", help="A detector's file (MegaDetector, COCO): label what is in its boxes.")
]
BoxConfidence = Annotated[
    float, typer.Option("--box-confidence", help="Least confidence of a box; a picture without one is empty.")
]
Deployments = Annotated[
    Path | None, typer.Option("--deployments", help="Table of where cameras stood, for --export camtrap-dp.")
]
EventGap = Annotated[
    float | None,
    typer.Option(
        "--event-gap",
        help="Label pictures together that one camera took within this many seconds (with --boxes: 60; else 0, off).",
    ),
]
Like = Annotated[
    Path | None,
    typer.Option(
        "--like", help="A folder or table labelled before, or its outputs: the labels there are examples for SOURCE."
    ),
]
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
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors, and --json.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Print every class, and every line of --dry-run.")]


def _recall(context: typer.Context, parameter: typer.CallbackParam, value: Path) -> Path:
    """Once SOURCE and --out are known, take the options of the last run with both as defaults."""
    known = context.meta.setdefault("marginshot.label", {}) | {parameter.name: value}
    context.meta["marginshot.label"] = known
    if len(known) == 2:
        from marginshot.labelling.runs.corrections import remembered_options

        context.default_map = remembered_options(known["out"], known["source"])
    return value


@_labels.interruptible()
def command(
    context: typer.Context,
    source: Annotated[
        Path,
        typer.Argument(help="Folder of pictures or sounds, table or .npz.", callback=_recall),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for a folder, table otherwise.", callback=_recall)],
    examples: Annotated[
        list[Path] | None,
        typer.Option(
            "--examples",
            help="Folder of class folders, table of files and labels, Label Studio's JSON, or xmp for the keywords of "
            "the pictures; repeatable (default: class folders in SOURCE).",
        ),
    ] = None,
    boxes: Boxes = None,
    box_confidence: BoxConfidence = 0.2,
    event_gap: EventGap = None,
    deployments: Deployments = None,
    like: Like = None,
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
        typer.Option(
            "--encoder",
            help="efficientnet-lite0, pixels; minilm, multilingual; log-mel; FILE.onnx, a folder or a Hugging Face "
            "repository (org/name) with onnx/; another model by name.",
        ),
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
    session: Annotated[
        bool, typer.Option("--session/--no-session", help="Share labels given by hand with the studio on SOURCE.")
    ] = True,
    form: Form = SummaryFormat.TABLE,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Label a folder of pictures or sounds, a table of texts, or embeddings from a few examples.

    Example: marginshot label photos/ --examples examples/ --out labelled/

    Example: marginshot label season/ --boxes detections.json --examples examples/ --out labelled/

    Example: marginshot label tickets.csv --text body --label topic --out tickets-labelled.csv

    Example: marginshot label tickets.csv --text body --classes billing,bug,delivery --out tickets-labelled.csv

    Example: marginshot label embeddings.parquet --label label --out labels.parquet

    Example: marginshot label june/ --like may-labelled/ --out june-labelled/

    Again with the same --out: labels corrected there are examples, and options need not be repeated.
    """
    from marginshot.labelling.answers.classes import read_classes
    from marginshot.labelling.answers.classify import LabelSettings
    from marginshot.labelling.items.encoders import check_own
    from marginshot.labelling.items.sources import open_source, with_boxes
    from marginshot.labelling.outputs.outputs import Outputs
    from marginshot.labelling.outputs.records import REMEMBERED, record_path
    from marginshot.labelling.outputs.surveys import with_deployments
    from marginshot.labelling.runs.like import open_old
    from marginshot.labelling.runs.run import Run

    check_writer(out)
    action = _labels.chosen_action(copy=copy, move=move, link=link)
    settings = LabelSettings(reject=reject, lose=lose, suggest=suggest, names=names)
    opened, named = open_source(source, label), read_classes(classes or "")
    opened = opened if boxes is None else with_boxes(opened, boxes, box_confidence)
    opened = with_deployments(opened, deployments)
    exports = [name.value for name in export or ()]
    if boxes is not None and Tool.BOXES.value not in exports:
        exports.append(Tool.BOXES.value)
    outputs = Outputs(
        path=out,
        pictures=opened.table is None,
        transfer=action,
        gallery=gallery,
        suggestions=suggest > 0 or like is not None,
        exports=tuple(exports),
        model=save,
    )
    store = _labels.open_cache(cache, cache_size, use=use_cache)
    if _labels.is_recalled(context, "encoder"):
        check_own(encoder or "", record_path(outputs.table))
    old = None if like is None else open_old(like, opened, text, event_gap, store, encoder)
    run = Run(
        opened,
        settings,
        store,
        outputs=outputs,
        text=text,
        classes=named,
        encoder=encoder if old is None else old.encoder,
        device=device,
        event_gap=event_gap,
        like=old,
        session=session,
        rehearsal=dry_run,
    )
    show = _labels.Show(as_json=json or form is SummaryFormat.JSON, verbose=verbose, quiet=quiet)
    with quietly(quiet):
        said = run.hear(examples or ())
        request = run.ask(_labels.remembered(context, REMEMBERED, said))
        if not dry_run and _labels.resume(outputs, request):
            return
        run.check(force=force)
        with phases("items") as on_progress:
            labelling = run.solve(on_progress)
        if dry_run:
            _labels.preview(labelling, outputs, show)
            return
        for note in run.tell(labelling):
            say(note)
        _labels.finish(labelling, outputs, store, show, said.record)
