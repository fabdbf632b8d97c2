"""``marginshot cache``: show or clear the cache of embeddings and downloaded networks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from marginshot.cli._output import emit


def command(
    clear: Annotated[bool, typer.Option("--clear", help="Drop all embeddings and downloaded networks.")] = False,
    folder: Annotated[Path | None, typer.Option("--cache", help="Folder of the cache (default: the user's).")] = None,
) -> None:
    """Show how large the cache of embeddings is, or clear it.

    Example: marginshot cache --clear
    """
    from marginshot.labelling.items.named_networks import clear_networks, kept_networks
    from marginshot.labelling.items.store import Store, clear_folder, default_folder

    chosen = folder or default_folder()
    if clear:
        clear_folder(chosen)
        clear_networks(chosen)
    if not chosen.is_dir():
        emit(f"No embeddings are kept in {chosen}.")
        return
    number, size = Store(chosen).count()
    emit(f"{number:,} embeddings, {size / 1e6:.1f} MB, in {chosen}.")
    for name, size in kept_networks(chosen).items():
        emit(f"{name}: {size / 1e6:.1f} MB, downloaded.")
