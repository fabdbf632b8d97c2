"""Responses: JSON for any name, and files that a browser may cache."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

FOR_A_DAY = "private, max-age=86400, immutable"
ASK_AGAIN = "private, no-cache"  # cached, but validated before every use


_RANGE = re.compile(r"bytes=([0-9]{1,12})-([0-9]{0,12})")


class Json(JSONResponse):
    """JSON in ASCII, which can also hold file names that are not valid UTF-8."""

    def render(self, content: Any) -> bytes:
        """The bytes of ``content``."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def unless_known(request: Request, etag: str, caching: str) -> Response | None:
    """A 304 response if the browser has the file with this ``etag`` already, else None."""
    if request.headers.get("if-none-match") != f'"{etag}"':
        return None
    return Response(status_code=304, headers={"ETag": f'"{etag}"', "Cache-Control": caching})


def kept(content: bytes, media_type: str, etag: str, caching: str) -> Response:
    """A file with the ``etag`` by which a browser caches it."""
    return Response(content, media_type=media_type, headers={"ETag": f'"{etag}"', "Cache-Control": caching})


def in_part(request: Request, content: bytes, media_type: str) -> Response:
    """A file, or the part of it that a player asks for to go to a place; it is made anew each time."""
    headers = {"Accept-Ranges": "bytes", "Cache-Control": ASK_AGAIN}
    asked = _RANGE.fullmatch(request.headers.get("range", ""))
    if asked is None:
        return Response(content, media_type=media_type, headers=headers)
    start, end = int(asked[1]), min(int(asked[2] or len(content)), len(content) - 1)
    if start > end:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{len(content)}"})
    headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
    return Response(content[start : end + 1], status_code=206, media_type=media_type, headers=headers)
