"""The program ``marginshot``: puts the commands together, nothing else."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from marginshot import __version__
from marginshot.cli import (
    _errors,
    apply,
    cache,
    evaluate,
    extract,
    figure,
    label,
    label_studio,
    methods,
    paper,
    regimes,
    reproduce,
    studio,
    train,
    tune,
)
from marginshot.cli._output import say


class _Program(TyperGroup):
    """The commands. Ctrl-C becomes Abort, to differ from a command that returns the exit code of an interruption."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise typer.Abort from None


app = typer.Typer(
    name="marginshot",
    cls=_Program,
    help="Transductive maximum-margin few-shot classification (FS-TMMC), and the field's evaluation protocol.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Titles in --help, in this order.
_LABEL = "Label pictures, texts and embeddings"
_RESEARCH = "Compare, train and reproduce"

# One line per command. Its module imports nothing heavy at the top, so that --help stays quick.
app.command("studio", rich_help_panel=_LABEL)(studio.command)
app.command("label-studio", rich_help_panel=_LABEL)(label_studio.command)
app.command("label", rich_help_panel=_LABEL)(label.command)
app.command("apply", rich_help_panel=_LABEL)(apply.command)
app.command("cache", rich_help_panel=_LABEL)(cache.command)
app.command("evaluate", rich_help_panel=_RESEARCH)(evaluate.command)
app.command("methods", rich_help_panel=_RESEARCH)(methods.command)
app.command("regimes", rich_help_panel=_RESEARCH)(regimes.command)
app.command("tune", rich_help_panel=_RESEARCH)(tune.command)
app.command("paper", rich_help_panel=_RESEARCH)(paper.command)
app.command("figure", rich_help_panel=_RESEARCH)(figure.command)
app.command("train", rich_help_panel=_RESEARCH)(train.command)
app.command("extract", rich_help_panel=_RESEARCH)(extract.command)
app.command("reproduce", rich_help_panel=_RESEARCH)(reproduce.command)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"marginshot {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the program and leave with its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    _end_as_by_ctrl_c()
    _print_anything()
    with _short_messages():
        sys.exit(_run(given))


def _print_anything() -> None:
    """Let results with characters that the console's encoding lacks, as on Windows, be printed with these escaped."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
        stream.reconfigure(errors="backslashreplace")


def _end_as_by_ctrl_c() -> None:
    """Let a closed terminal or a shutdown stop the work as Ctrl-C does, so that finished work is kept."""
    if threading.current_thread() is not threading.main_thread():
        return  # Python sets signal handlers in the main thread only
    if "LOCAL_RANK" in os.environ:
        return  # one of several training processes, which the first must be able to end at any time
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # `nohup` ignores SIGHUP, and a program that embeds us may have its own handlers; both are left alone.
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _run(arguments: list[str]) -> int:
    try:
        _check_not_empty(arguments)
        code = app(arguments, standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        say("Interrupted.")
        return _errors.INTERRUPTED
    except Exception as error:
        if "--debug" in arguments[:1] or not _errors.is_user_error(error):
            raise
        return _errors.report(error)
    return code if isinstance(code, int) else 0


def _check_not_empty(arguments: list[str]) -> None:
    """Raise for an empty argument, such as a variable of a shell that is not set: as a path it is this folder."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        name, sign, value = argument.partition("=")
        if not argument or (name.startswith("--") and sign and not value):
            hint = name or (before if before.startswith("-") else "an argument")
            raise typer.BadParameter("it is empty. Give a value, or leave it out.", param_hint=hint)


@contextmanager
def _short_messages() -> Iterator[None]:
    """Warnings and log records as one line on stderr, without the place in our code that raised them."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        say(f"Warning: {message}")

    logger = logging.getLogger("marginshot")
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.addHandler(handler)
    propagate, logger.propagate = logger.propagate, False
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
