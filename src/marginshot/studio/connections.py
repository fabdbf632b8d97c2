"""Connections to the server: so many at most, and so much time for a request to arrive.

Whoever reaches the port can open connections without a token, and every one takes a file descriptor.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Connections at a time; a page needs up to 7.
MOST_CONNECTIONS = 256

#: Seconds for a request to arrive as a whole. The longest, a list of a million rows, is of a few megabytes.
PATIENCE = 20.0


class StudioProtocol(H11Protocol):
    """uvicorn's HTTP/1.1 with a bound on connections, and on the time that a request takes to arrive."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Take a connection, or close it at once where there are enough."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Go on to the next request of the connection."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._stop_watching()

    def _watch(self) -> None:
        """Count the seconds while a request is still arriving, from its connection or its predecessor on."""
        if self.transport.is_closing() or self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_watching()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(PATIENCE, self.transport.abort)

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
