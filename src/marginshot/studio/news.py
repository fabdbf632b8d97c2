"""Server-sent events for every open page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from starlette.responses import JSONResponse, StreamingResponse
from starlette.types import Receive, Scope, Send

#: Pages that may listen at once; a browser opens at most six connections to one server.
MOST_LISTENERS = 16

_MOST_WAITING = 64  # unread events after which a page is disconnected; it connects again
_SILENCE = 15.0  # seconds without an event after which a comment keeps the connection open

News = tuple[str, dict[str, Any]]
_Listener = asyncio.Queue[News | None]


class Newsroom:
    """Delivers events from any thread to all listeners. Call `open` in the thread of the event loop first.

    Parameters
    ----------
    greeting : callable
        Returns the first events for a new listener.
    """

    def __init__(self, greeting: Callable[[], Iterable[News]]) -> None:
        self._greeting = greeting
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: set[_Listener] = set()

    def open(self) -> None:
        """Deliver in the running event loop."""
        self._loop = asyncio.get_running_loop()

    def publish(self, kind: str, content: dict[str, Any]) -> None:
        """Send an event to all listeners; callable from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._deliver, (kind, content))

    def close(self) -> None:
        """End all streams; in the thread of the event loop."""
        self._deliver(None)

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request with the stream of events until either side closes it."""
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
