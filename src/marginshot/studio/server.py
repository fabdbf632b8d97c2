"""Runs the studio until it is stopped: a socket of this machine, a browser, a clean end."""

from __future__ import annotations

import signal
import socket
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from marginshot.data.pictures import pillow_silenced
from marginshot.studio.access import Access
from marginshot.studio.api import Studio
from marginshot.studio.app import create_app

#: Tried first, so that a browser finds its settings of the page again; the next free one otherwise.
USUAL_PORT = 8737

_TRIED_PORTS = 20
_LAST_WORDS = 5  # seconds that requests at work get when the server stops


class StudioServer(uvicorn.Server):
    """Uvicorn, which would wait for streams that never end."""

    def __init__(self, studio: Studio, access: Access) -> None:
        config = uvicorn.Config(
            create_app(studio, access),
            http="h11",
            ws="none",
            lifespan="on",
            access_log=False,  # the token must not get into a log
            log_level="error",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_LAST_WORDS,
        )
        super().__init__(config)
        self._newsroom = studio.worker.newsroom

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then the rest."""
        self._newsroom.close()
        await super().shutdown(sockets)


def listen(host: str, port: int | None) -> socket.socket:
    """A socket on ``host``: at ``port``, which must be free, or at the usual one or the next that is."""
    tried = range(USUAL_PORT, USUAL_PORT + _TRIED_PORTS) if port is None else (port,)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()
    for number in tried:
        try:
            return socket.create_server((host, number), family=family, dualstack_ipv6=both)
        except OSError as error:
            reason = error
    raise ValueError(
        f"Cannot listen on {host}, port {tried[0]} ({reason.strerror}). Give another --port; 0 takes any that is free."
    )


def serve(studio: Studio, listener: socket.socket, access: Access, *, browser: bool) -> None:
    """Answer until Ctrl-C or SIGTERM, which end it by KeyboardInterrupt once all is quiet.

    Parameters
    ----------
    studio : Studio
        What is served.
    listener : socket
        From `listen`.
    access : Access
        For that socket's port.
    browser : bool
        Open the page.
    """
    if browser:
        # Some browsers run until they are closed; connections made before the server runs wait in the socket.
        threading.Thread(target=webbrowser.open, args=(access.one_time_address(),), daemon=True).start()
    with pillow_silenced(), _hangup_as_end():
        StudioServer(studio, access).run(sockets=[listener])


@contextmanager
def _hangup_as_end() -> Iterator[None]:
    """Let a closed terminal end the server as SIGTERM does, which uvicorn sees to; under ``nohup`` it is ignored."""
    number = getattr(signal, "SIGHUP", None)
    if number is None or signal.getsignal(number) is signal.SIG_IGN:
        yield
        return
    before = signal.signal(number, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(number, before)
