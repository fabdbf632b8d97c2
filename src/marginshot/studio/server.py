"""Run the studio until it is stopped: open the socket, start a browser, shut down cleanly."""

from __future__ import annotations

import errno
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
from marginshot.studio.connections import StudioProtocol

#: Tried first, so that the address stays the same between runs; otherwise the next free port is used.
USUAL_PORT = 8737

_TRIED_PORTS = 20
_OF_PORTS = (errno.EADDRINUSE, errno.EACCES)  # the port is taken, or for administrators only
_LAST_WORDS = 5  # seconds that running requests get when the server stops


class StudioServer(uvicorn.Server):
    """Uvicorn that closes event streams at shutdown; it would wait for them forever."""

    def __init__(self, studio: Studio, access: Access) -> None:
        config = uvicorn.Config(
            create_app(studio, access),
            http=StudioProtocol,
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
        """Close the event streams, then shut down."""
        self._newsroom.close()
        await super().shutdown(sockets)


def listen(host: str, port: int | None) -> socket.socket:
    """A socket on ``host`` and ``port``; without a port, the usual one or the next free one is used."""
    tried = range(USUAL_PORT, USUAL_PORT + _TRIED_PORTS) if port is None else (port,)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        host.encode("idna")  # else the socket that cannot be bound is left open
    except UnicodeError as error:
        raise _not_ours(host, "not the name of a machine") from error
    both = host == "::" and socket.has_dualstack_ipv6()
    for number in tried:
        try:
            return socket.create_server((host, number), family=family, dualstack_ipv6=both)
        except OSError as error:
            reason = str(error.strerror).partition(" (while")[0]
            if error.errno not in _OF_PORTS:
                raise _not_ours(host, reason) from error
    raise ValueError(
        f"Cannot listen on {host}, port {tried[0]} ({reason}). Give another --port; 0 takes any that is free."
    )


def _not_ours(host: str, reason: str) -> ValueError:
    return ValueError(
        f"Cannot listen on {host} ({reason}). Give an address of this machine as --host, such as 127.0.0.1."
    )


def serve(studio: Studio, listener: socket.socket, access: Access, *, browser: bool) -> None:
    """Serve until Ctrl-C or SIGTERM; KeyboardInterrupt is raised after the shutdown.

    Parameters
    ----------
    studio : Studio
        The endpoints.
    listener : socket
        From `listen`.
    access : Access
        For that socket's port.
    browser : bool
        Open the page.
    """
    if browser:
        # In a thread, because some browsers block until closed. Early connections wait in the socket's queue.
        threading.Thread(target=webbrowser.open, args=(access.one_time_address(),), daemon=True).start()
    with pillow_silenced(), _hangup_as_end():
        StudioServer(studio, access).run(sockets=[listener])


@contextmanager
def _hangup_as_end() -> Iterator[None]:
    """Let a closed terminal (SIGHUP) stop the server as SIGTERM does, except under ``nohup``."""
    number = getattr(signal, "SIGHUP", None)
    if number is None or signal.getsignal(number) is signal.SIG_IGN:
        yield
        return
    before = signal.signal(number, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(number, before)
