"""``marginshot studio``: label a folder or a table in the browser."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marginshot.cli import _labels, label
from marginshot.cli._output import emit, phases, say
from marginshot.labelling.outputs.formats import SessionExport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from socket import socket

    from marginshot.labelling import Session
    from marginshot.labelling.items.store import Store
    from marginshot.studio.api import Studio
    from marginshot.studio.exports import Wish


def command(
    source: Annotated[Path, typer.Argument(help="Folder of pictures or sounds, table (.csv, .tsv, .parquet) or .npz.")],
    text: Annotated[str | None, typer.Option("--text", help="Column of texts.")] = None,
    column: Annotated[str | None, typer.Option("--label", help="Column of labels known so far.")] = None,
    examples: Annotated[
        list[Path] | None,
        typer.Option(
            "--examples",
            help="Folder of class folders, table of files and labels, Label Studio's JSON, or xmp for the keywords of "
            "the pictures; repeatable.",
        ),
    ] = None,
    boxes: label.Boxes = None,
    box_confidence: label.BoxConfidence = 0.2,
    event_gap: label.EventGap = None,
    deployments: label.Deployments = None,
    classes: Annotated[str, typer.Option("--classes", help="Names of classes, with commas between.")] = "",
    encoder: Annotated[str | None, typer.Option("--encoder", help="As in `marginshot label --help`.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Port (default: 8737 or later).")] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all machines.")] = "127.0.0.1",
    export: Annotated[SessionExport | None, typer.Option("--export", help="Open no page; write this to --out.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File or folder for --export.")] = None,
    copy: label.Copy = False,
    move: label.Move = False,
    link: label.Link = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what --export would do.")] = False,
    force: label.Force = False,
    device: label.Device = "auto",
    cache: label.CacheFolder = None,
) -> None:
    """Label a folder of pictures or sounds, a table of texts, or embeddings in the browser.

    Everything is labelled again at every click. Your labels are kept: the same command continues the session.

    Example: marginshot studio photos/

    Example: marginshot studio season/ --boxes detections.json

    Example: marginshot studio tickets.csv --text body --classes billing,bug,delivery

    Example: marginshot studio photos/ --export folders --out labelled/ --copy
    """
    from marginshot.labelling import Session
    from marginshot.labelling.answers.classes import read_classes
    from marginshot.labelling.items.store import Store, default_folder
    from marginshot.studio.api import Studio
    from marginshot.studio.exports import Wish
    from marginshot.studio.server import listen

    options: dict[str, Any] = {
        "text": text,
        "label": column,
        "encoder": encoder,
        "examples": examples or (),
        "classes": read_classes(classes),
        "cache": cache or True,
        "device": device,
        "boxes": boxes,
        "box_confidence": box_confidence,
        "event_gap": event_gap,
        "deployments": deployments,
    }
    store = Store(cache or default_folder())
    if export is None or out is None:
        if export is not None or out is not None:
            raise typer.BadParameter("--export says what is written, --out where; give both.")
        listener = listen(host, port)

        def open_session() -> Session:
            return Session.open(source, **options, background=True)

        given = {"text": text, "label": column, "encoder": encoder, "classes": classes, "cache": cache}
        given |= {"boxes": boxes, "deployments": deployments}
        given |= {"event-gap": None if event_gap is None else f"{event_gap:g}"}
        given |= {"box-confidence": None if boxes is None else f"{box_confidence:g}"}
        words = _words(source, examples or (), {**given, "device": None if device == "auto" else device})
        with closing(Studio(open_session(), store, words, open_session)) as studio:
            _say_notes(studio.session)
            _serve(studio, listener, host, browser=browser)
        return
    transfer = _labels.chosen_action(copy=copy, move=move, link=link) or "copy"
    with phases("items") as on_progress, Session.open(source, **options, on_progress=on_progress) as session:
        _say_notes(session)
        _write(session, Wish(export, out, transfer, dry_run=dry_run, force=force), store)


def _say_notes(session: Session) -> None:
    """Say what changed in the source since it was last opened."""
    for note in session.notes:
        say(note)


def _serve(studio: Studio, listener: socket, host: str, *, browser: bool) -> None:
    from marginshot.studio.access import Access
    from marginshot.studio.server import serve

    access = Access(host=host, port=listener.getsockname()[1])
    say(f"Ctrl-C stops the studio.{' The browser opens; if it does not, open' if browser else ' Open'} this address:")
    emit(access.address)
    if not access.is_private:
        say(
            f"Warning: {host} can be reached from the network, unencrypted. Whoever has the address sees and changes "
            "everything, and can write files here."
        )
    try:
        serve(studio, listener, access, browser=browser)
    except KeyboardInterrupt:
        say("Stopped. All your labels are kept; the same command continues the session.")


def _write(session: Session, wish: Wish, store: Store) -> None:
    from marginshot.studio.exports import export

    exported = export(session, wish, store)
    exported.check_complete()
    done = exported.report
    for start, end in done["plan"] if wish.dry_run else ():
        emit(f"{start} -> {end}")
    for file in done["files"]:
        emit(file)
    say(done["words"])


def _words(source: Path, examples: Sequence[Path], options: Mapping[str, object]) -> list[str]:
    """The source and all that decides its labels as words of a command line."""
    given = [("examples", path) for path in examples] + [(name, value) for name, value in options.items() if value]
    return [str(source)] + [word for name, value in given for word in (f"--{name}", str(value))]
