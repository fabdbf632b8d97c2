"""``marginshot studio``: label a folder or a table in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from marginshot.cli import label
from marginshot.cli._output import emit, say

if TYPE_CHECKING:
    from marginshot.studio.access import Access


def command(
    source: Annotated[Path, typer.Argument(help="Folder of pictures, table (.csv, .tsv, .parquet) or .npz.")],
    text: Annotated[str | None, typer.Option("--text", help="Column of texts.")] = None,
    column: Annotated[str | None, typer.Option("--label", help="Column of labels known so far.")] = None,
    examples: Annotated[
        list[Path] | None,
        typer.Option("--examples", help="Folder of class folders, or CSV with path,label; repeatable."),
    ] = None,
    classes: Annotated[str, typer.Option("--classes", help="Names of classes, with commas between.")] = "",
    encoder: Annotated[str | None, typer.Option("--encoder", help="A timm or sentence-transformers model.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    port: Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Port (default: 8737 or later).")] = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; not this machine's only.")] = "127.0.0.1",
    device: label.Device = "auto",
    cache: label.CacheFolder = None,
) -> None:
    """Label a folder of pictures, a table of texts, or embeddings in the browser.

    Everything is labelled anew at every click. What you say is kept: the same command goes on where you were.

    Example: marginshot studio photos/

    Example: marginshot studio tickets.csv --text body --classes billing,bug,delivery
    """
    from marginshot.labelling import Session
    from marginshot.labelling.store import Store, default_folder
    from marginshot.studio.access import Access
    from marginshot.studio.api import Studio
    from marginshot.studio.server import listen, serve

    store = Store(cache or default_folder())
    listener = listen(host, port)
    with Session.open(
        source,
        text=text,
        label=column,
        encoder=encoder,
        examples=examples or (),
        classes=[name.strip() for name in classes.split(",") if name.strip()],
        cache=cache or True,
        device=device,
        background=True,
    ) as session:
        access = Access(host=host, port=listener.getsockname()[1])
        studio = Studio(session, store, _words(source, text=text, label=column))
        try:
            serve(studio, listener, access, browser=browser, on_ready=lambda: _announce(access, browser=browser))
        except KeyboardInterrupt:
            say("Stopped. All you said is kept; the same command goes on from there.")


def _announce(access: Access, *, browser: bool) -> None:
    say(f"Ctrl-C stops the studio.{' The browser opens; if it does not, open' if browser else ' Open'} this address:")
    emit(access.address)
    if not access.is_private:
        say(
            f"Warning: {access.host} can be reached from the network, unencrypted. Who has the address sees and "
            "changes everything, and can write files here."
        )


def _words(source: Path, **options: str | None) -> list[str]:
    """The source and its options, as a command line has them."""
    return [str(source)] + [word for name, value in options.items() if value for word in (f"--{name}", value)]
