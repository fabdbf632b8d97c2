"""The studio as one ASGI application: endpoints, errors as sentences, and access control around both."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from marginshot.labelling.errors import Option, OutputExistsError, RefusedError
from marginshot.studio.access import Access, Gate
from marginshot.studio.api import Studio
from marginshot.studio.inputs import Conflict
from marginshot.studio.responses import Json

# Names on the page of the options that errors of the library mention.
_ON_PAGE = {
    Option.FORCE: "“replace”",
    Option.MODEL: "path",
    Option.EXPORTS: "format",
}


def create_app(studio: Studio, access: Access) -> Gate:
    """The application; the gate is outermost, so that errors get its headers too."""
    handlers = {
        HTTPException: lambda _, error: _sentence(error.status_code, error.detail, error.headers),
        ClientDisconnect: lambda _, error: _sentence(400, "The request ended before it was complete."),
        Conflict: lambda _, error: _sentence(409, str(error)),
        OutputExistsError: lambda _, error: _sentence(409, error.spell(_ON_PAGE)),
        RefusedError: lambda _, error: _sentence(400, error.spell(_ON_PAGE)),
        ValueError: lambda _, error: _sentence(400, str(error)),
        OSError: _report_file,
        Exception: lambda _, error: _sentence(500, f"This is a fault of the studio; the terminal shows more: {error}"),
    }
    return Gate(Starlette(routes=studio.routes(), exception_handlers=handlers, lifespan=studio.lifespan), access)


def _report_file(_: Request, error: Exception) -> Response:
    """An error of the operating system about a file; a file that exists already is a conflict."""
    status = 409 if isinstance(error, FileExistsError) else 400
    named = isinstance(error, OSError) and error.filename is not None
    return _sentence(status, f"{error.strerror}: {error.filename}" if named else str(error))  # type: ignore[attr-defined]


def _sentence(status: int, sentence: str, headers: object = None) -> Response:
    return Json({"error": sentence}, status_code=status, headers=headers)
