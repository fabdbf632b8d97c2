"""The program ``marginshot``: puts the commands together, nothing else."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import Annotated

import typer

from marginshot.cli import _errors, apply, cache, evaluate, figure, label, methods, paper, tune
from marginshot.cli._output import say

app = typer.Typer(
    name="marginshot",
    help="Transductive maximum-margin few-shot classification (FS-TMMC), and the field's evaluation protocol.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# One line per command. Its module imports nothing heavy at the top, so that --help stays quick.
app.command("evaluate")(evaluate.command)
app.command("tune")(tune.command)
app.command("methods")(methods.command)
app.command("label")(label.command)
app.command("apply")(apply.command)
app.command("cache")(cache.command)
app.command("paper")(paper.command)
app.command("figure")(figure.command)


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"marginshot {installed('marginshot')}")
        raise typer.Exit


def main(arguments: list[str] | None = None) -> None:
    """Run the program and leave with its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in given[:1]
    _quiet_messages()
    try:
        code = app(given, standalone_mode=False)
    except typer.Abort:
        sys.exit(_errors.INTERRUPTED)
    except KeyboardInterrupt:
        say("Interrupted.")
        sys.exit(_errors.INTERRUPTED)
    except Exception as error:
        if debug or not _errors.is_user_error(error):
            raise
        sys.exit(_errors.report(error))
    sys.exit(code if isinstance(code, int) else 0)


def _quiet_messages() -> None:
    """Warnings and log records as one line on stderr, without the place in our code that raised them."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        say(f"Warning: {message}")

    warnings.showwarning = show
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("marginshot")
    logger.handlers[:] = [handler]
    logger.propagate = False
