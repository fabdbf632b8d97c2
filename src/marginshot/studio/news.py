"""Server-sent events: what happens, to every page that is open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

#: Pages that may listen at once; a browser opens at most six connections to one server.
MOST_LISTENERS = 16

_MOST_WAITING = 64  # events that a page may be behind; one that reads no more is cut off, and asks anew
_SILENCE = 15.0  # seconds after which a comment shows that the connection lives

News = tuple[str, dict[str, Any]]
_Listener = asyncio.Queue[News | None]


class Newsroom:
    """Hands news from any thread to all listeners, once `open` has been called in the thread of the event loop.

    Parameters
    ----------
    greeting : callable
        Gives the news that a new listener begins with.
    """

    def __init__(self, greeting: Callable[[], Iterable[News]]) -> None:
        self._greeting = greeting
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: set[_Listener] = set()

    def open(self) -> None:
        """Deliver in the event loop that runs now."""
        self._loop = asyncio.get_running_loop()

    def publish(self, kind: str, content: dict[str, Any]) -> None:
        """Tell everybody; from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, (kind, content))

    def close(self) -> None:
        """End all streams; in the thread of the event loop."""
        self._deliver(None)

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with the stream, as long as it stays."""
        if len(self._listeners) >= MOST_LISTENERS:
            busy = {"error": f"{MOST_LISTENERS} pages are open already; close one of them."}
            await JSONResponse(busy, status_code=503)(scope, receive, send)
            return
        listener: _Listener = asyncio.Queue(_MOST_WAITING)
        for news in self._greeting():
            listener.put_nowait(news)
        self._listeners.add(listener)
        try:
            stream = StreamingResponse(self._stream(listener), media_type="text/event-stream")
            await stream(scope, receive, send)
        finally:
            self._listeners.discard(listener)

    async def _stream(self, listener: _Listener) -> AsyncIterator[bytes]:
        while listener in self._listeners:
            try:
                news = await asyncio.wait_for(listener.get(), _SILENCE)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if news is None:
                return
            yield f"event: {news[0]}\ndata: {json.dumps(news[1])}\n\n".encode()

    def _deliver(self, news: News | None) -> None:
        for listener in list(self._listeners):
            if listener.full():
                self._listeners.discard(listener)
            else:
                listener.put_nowait(news)
