"""Access to the server, and the security headers of every response.

The server holds private pictures and can write files, and any page in the user's browser can send requests to it.

- Every request must name one of our hosts. This stops DNS rebinding: a rebound page sends its own host name.
- Every request must bring our cookie. Only the address printed in the terminal gives it, and browsers send it only
  below a secret path: cookies are shared by all ports of a machine.
- A request that changes something must have our own Origin and a custom header. Browsers ask the server before another
  page may send that header, and the server never agrees.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Custom header of requests that change something; the server never allows other origins to send it.
OWN_HEADER = b"x-marginshot"

_READING = ("GET", "HEAD")
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_EVERYWHERE = frozenset({"", "0.0.0.0", "::"})

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    b"content-security-policy": _POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
}

_STRANGER = """<!doctype html><html lang="en"><meta charset="utf-8"><title>marginshot studio</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<h1>This page belongs to a studio that was stopped</h1>
<p>Everything that you labelled is kept. To go on, look into the terminal in which <code>marginshot studio</code> runs,
and open the address that it printed last. If it does not run any more, start it again with the same command.</p>
<p>If you have just opened that address: <a href="">go on</a>.</p></html>"""


@dataclass(frozen=True, kw_only=True)
class Access:
    """The secrets and host names that let a request in, drawn anew for every run.

    Parameters
    ----------
    host : str
        Address that the server listens on; ``0.0.0.0`` and ``::`` stand for all addresses of the machine.
    port : int
        Port that the server listens on.
    token : str
        Opens the page.
    place : str
        Path below which everything is. Browsers send a cookie to every server of this machine, whatever its port, but
        only to paths below the cookie's own: no other server learns it without knowing this one.
    """

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    place: str = field(default_factory=lambda: f"/{secrets.token_hex(16)}", repr=False)
    _secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    _passes: set[str] = field(default_factory=set, repr=False)

    @property
    def origin(self) -> str:
        """Address of the page for a browser on this machine, without the token."""
        host = "127.0.0.1" if self.host in _EVERYWHERE else _bracketed(self.host)
        return f"http://{host}:{self.port}"

    @property
    def is_private(self) -> bool:
        """Whether only this machine can reach the server."""
        return _bracketed(self.host) in _LOOPBACK or self.host.startswith("127.")

    @property
    def address(self) -> str:
        """Address that is printed; it opens the page any number of times."""
        return f"{self.origin}/?token={self.token}"

    def one_time_address(self) -> str:
        """Address to start a browser with. It opens the page once: other users may read a browser's command line."""
        once = secrets.token_urlsafe(32)
        self._passes.add(once)
        return f"{self.origin}/?token={once}"

    @property
    def cookie(self) -> str:
        """Name of the cookie. It holds the port, because browsers send cookies to all ports of a host."""
        return f"marginshot_studio_{self.port}"

    @property
    def set_cookie(self) -> str:
        """Value of the ``Set-Cookie`` header."""
        return f"{self.cookie}={self._secret}; Path={self.place}; HttpOnly; SameSite=Strict"

    def knows_host(self, host: str) -> bool:
        """Whether a ``Host`` header names this server.

        A server that listens on all addresses accepts any IP address, because only names can be rebound.
        """
        name, colon, port = host.lower().rpartition(":")
        if not colon or host.endswith("]"):
            name, port = host.lower(), "80"  # browsers leave the usual port out
        if port != str(self.port):
            return False
        if name in _LOOPBACK or name == _bracketed(self.host.lower()):
            return True
        return self.host in _EVERYWHERE and (name == socket.gethostname().lower() or _is_address(name))

    def takes_token(self, token: str) -> bool:
        """Whether ``token`` opens the page. A token for a single use is no longer valid afterwards."""
        once = next((known for known in self._passes if _equal(known, token)), None)
        if once is not None:
            self._passes.discard(once)
        return once is not None or _equal(self.token, token)

    def takes_cookies(self, headers: list[str]) -> bool:
        """Whether one of these ``Cookie`` headers holds our cookie."""
        pairs = [pair.strip().partition("=") for header in headers for pair in header.split(";")]
        return any(name == self.cookie and _equal(self._secret, value) for name, _, value in pairs)


class Gate:
    """Middleware around the whole application: refuses requests without access, and sets security headers.

    Parameters
    ----------
    app : ASGI application
        The application that answers requests with access.
    access : Access
        Decides who has access.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":

            async def guarded(message: Message) -> None:
                if message["type"] == "http.response.start":
                    _forbid(message)
                await send(message)

            await (self._answer(scope) or self.app)(scope, receive, guarded)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _answer(self, scope: Scope) -> Response | None:
        """Refuse a request without access, exchange a token for the cookie, or return None to let the request pass."""
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or not self.access.knows_host(hosts[0]):
            return _refused("This server answers under its own address only; open the one printed in the terminal.")
        at_door = scope["path"] == "/" and scope["method"] in _READING
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token", []) if at_door else []
        if tokens and self.access.takes_token(tokens[0]):
            cookie = {"set-cookie": self.access.set_cookie}
            return RedirectResponse(f"{self.access.place}/", status_code=303, headers=cookie)
        inside = _below(scope["path"], self.access.place)
        if not inside or not self.access.takes_cookies(_values(scope, b"cookie")):
            # An old tab that is loaded anew asks for a page below a path of an earlier run.
            wanted = "".join(_values(scope, b"accept"))
            asks_for_page = scope["method"] in _READING and (at_door or inside == "/" or "text/html" in wanted)
            return HTMLResponse(_STRANGER, 403) if asks_for_page else _refused("Open the printed address first.")
        if scope["method"] not in _READING:
            if _values(scope, b"origin") != [f"http://{hosts[0]}"]:
                return _refused("Only the studio's own page may change anything (Origin).")
            if _values(scope, OWN_HEADER) != ["1"]:
                return _refused("Only the studio's own page may change anything (X-Marginshot).")
        scope["path"] = inside
        return None


def _below(path: str, place: str) -> str:
    """The path below ``place``; empty for a path elsewhere. Compared in constant time, because ``place`` is secret."""
    begin, rest = path[: len(place)], path[len(place) :]
    return rest if _equal(place, begin) and rest.startswith("/") else ""


def _refused(reason: str) -> Response:
    return JSONResponse({"error": reason}, status_code=403)


def _forbid(message: MutableMapping[str, Any]) -> None:
    """Add the security headers; a response without caching rules must not be cached."""
    given = {name.lower() for name, _ in message["headers"]}
    extra = _HEADERS if b"cache-control" in given else {**_HEADERS, b"cache-control": b"no-store"}
    message["headers"] = [*message["headers"], *extra.items()]


def _values(scope: Scope, name: bytes) -> list[str]:
    """All values of a header."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _equal(known: str, given: str) -> bool:
    return hmac.compare_digest(known.encode(), given.encode("utf-8", "surrogatepass"))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
