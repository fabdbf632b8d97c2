"""Exceptions as one line each; a traceback only with --debug, or for a bug of ours."""

from __future__ import annotations

import typer

from marginshot._lib.extras import advice
from marginshot.cli._output import say
from marginshot.labelling.errors import Option, RefusedError

#: Exit code for anything the user can put right.
USAGE = 2

#: Exit code of a program ended by Ctrl-C.
INTERRUPTED = 130

# Newer versions of typer bring their own copy of click; this base class is right for both.
ClickException: type[Exception] = typer.BadParameter.__mro__[2]

# Exceptions a user can cause. Any other is a bug of ours and keeps its traceback.
_USER_ERRORS = (ValueError, OSError, MemoryError, ImportError)

# Options of the library -> options of the command line.
_OPTIONS = {
    Option.PATH: "--out",
    Option.FORCE: "--force",
    Option.MODEL: "--save",
    Option.EXPORTS: "--export",
    Option.TRANSFER: "--copy/--move/--link",
    Option.COPY: "--copy",
    Option.MOVE: "--move",
    Option.LINK: "--link",
    Option.EXAMPLES: "--examples",
    Option.TEXT: "--text",
    Option.LABEL: "--label",
    Option.CLASSES: "--classes",
    Option.BOXES: "--boxes",
    Option.DEPLOYMENTS: "--deployments",
    Option.GAP: "--event-gap",
    Option.LIKE: "--like",
    Option.ENCODER: "--encoder",
    Option.CACHE: "--cache",
    Option.NO_CACHE: "--no-cache",
}


def report(error: Exception) -> int:
    """Say in one line what went wrong; return the exit code."""
    if isinstance(error, ClickException):
        say(f"Error: {_one_line(error.format_message())}")  # type: ignore[attr-defined]
        return int(error.exit_code)  # type: ignore[attr-defined]
    say(f"Error: {_one_line(_message(error))}")
    return USAGE


def is_user_error(error: Exception) -> bool:
    """Whether the user caused the error, so that its message is enough."""
    return isinstance(error, (*_USER_ERRORS, ClickException))


def _message(error: Exception) -> str:
    if isinstance(error, RefusedError):
        message = error.spell(_OPTIONS)
        return message if error.at_fault is None else f"Invalid value for {_OPTIONS[error.at_fault]}: {message}"
    if isinstance(error, ImportError):
        return advice((error.name or "").partition(".")[0]) or str(error)
    if isinstance(error, MemoryError):
        return f"Out of memory ({error}). Use fewer workers (-j) or smaller features."
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return str(error)


def _one_line(message: str) -> str:
    return " ".join(message.split())
