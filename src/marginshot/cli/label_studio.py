"""``marginshot label-studio``: predictions for the tasks of Label Studio, from the annotations so far."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from marginshot.cli import label
from marginshot.cli._output import emit, say


def command(
    url: Annotated[
        str | None, typer.Option("--url", help="Address of Label Studio; no other server is contacted.")
    ] = None,
    token: Annotated[
        str, typer.Option("--token", envvar="LABEL_STUDIO_API_KEY", help="Access token, personal or legacy.")
    ] = "",
    files: Annotated[
        Path | None, typer.Option("--files", help="Folder that Label Studio serves: its LOCAL_FILES_DOCUMENT_ROOT.")
    ] = None,
    encoder: Annotated[str | None, typer.Option("--encoder", help="As in `marginshot label --help`.")] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on.")] = 9090,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all machines.")] = "127.0.0.1",
    password: Annotated[
        str, typer.Option("--password", envvar="MARGINSHOT_PASSWORD", help="Password that clients have to give.")
    ] = "",
    cache: label.CacheFolder = None,
) -> None:
    """Serve predictions to Label Studio: projects with a single choice about pictures or texts.

    Example: marginshot label-studio --url http://localhost:8080 --files /home/ann/photos
    """
    from marginshot.labelling.items.store import Store, default_folder
    from marginshot.studio.access import Access
    from marginshot.studio.label_studio.app import Backend, serve
    from marginshot.studio.label_studio.contents import LabelStudio, Pictures
    from marginshot.studio.server import listen

    if files is not None and not files.is_dir():
        raise typer.BadParameter(f"{files} is not a folder.", param_hint="--files")
    if token and url is None:
        raise typer.BadParameter("--token needs the address of Label Studio; give --url, too.", param_hint="--url")
    if not password and not Access(host=host, port=port).is_private:
        raise typer.BadParameter(
            f"{host} can be reached from the network, so a --password is needed.", param_hint="--host"
        )
    server = LabelStudio(url or "", token)
    store = Store(cache or default_folder())
    listener = listen(host, port)
    backend = Backend(server, Pictures(server, files), store, encoder, say)
    say("Ctrl-C stops the backend. Add this address in Label Studio, in the project's settings under Model:")
    emit(f"http://{host}:{listener.getsockname()[1]}")
    try:
        serve(backend, listener, password)
    except KeyboardInterrupt:
        say("Stopped. Annotations are in Label Studio; the same command goes on from there.")
    finally:
        backend.close()
