"""Responses: JSON that holds any name, and files that a browser may keep."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

FOR_A_DAY = "private, max-age=86400, immutable"
ASK_AGAIN = "private, no-cache"  # kept, but asked about before it is shown


class Json(JSONResponse):
    """JSON in ASCII: names of files that are not UTF-8 pass, as no other encoding would let them."""

    def render(self, content: Any) -> bytes:
        """The bytes of ``content``."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def unless_known(request: Request, etag: str, caching: str) -> Response | None:
    """304 for a browser that has what goes by this ``etag``."""
    if request.headers.get("if-none-match") != f'"{etag}"':
        return None
    return Response(status_code=304, headers={"ETag": f'"{etag}"', "Cache-Control": caching})


def kept(content: bytes, media_type: str, etag: str, caching: str) -> Response:
    """A file, with the name under which a browser keeps it."""
    return Response(content, media_type=media_type, headers={"ETag": f'"{etag}"', "Cache-Control": caching})
