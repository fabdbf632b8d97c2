"""The result as one file for the browser to download: written to a temporary folder, packed where it is several."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from marginshot.labelling.items.embed import Progress, silent
from marginshot.labelling.outputs.formats import SessionExport
from marginshot.studio.exports import Wish

if TYPE_CHECKING:
    from marginshot.labelling import Session

# Exports of one file, whatever is labelled; all others go to a folder of pictures, or stand beside a table.
_FILES = {SessionExport.TABLE: "labels.csv", SessionExport.MODEL: "model"}


@dataclass(frozen=True)
class Download:
    """A file that waits to be fetched: last part of its address, its path, and the folder to remove with it."""

    token: str
    path: Path
    folder: Path


class Downloads:
    """Keeps the newest download, in a temporary folder that only this user can read, until the studio is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: Download | None = None

    def prepare(self, session: Session, what: SessionExport, name: str, on_progress: Progress = silent) -> Download:
        """Write an export of the session; ``name`` is that of its source."""
        folder = Path(tempfile.mkdtemp(prefix="marginshot-"))
        try:
            made = Download(secrets.token_urlsafe(16), pack(session, what, folder, name, on_progress), folder)
        except BaseException:
            shutil.rmtree(folder)
            raise
        self._replace(made)
        return made

    def _replace(self, made: Download | None) -> None:
        with self._lock:
            before, self._newest = self._newest, made
        if before is not None:
            shutil.rmtree(before.folder)

    def find(self, token: str) -> Path | None:
        """The file behind a token; None where a newer download has taken its place."""
        with self._lock:
            newest = self._newest
        known = newest is not None and secrets.compare_digest(newest.token.encode(), token.encode())
        return newest.path if newest is not None and known else None

    def close(self) -> None:
        """Remove what was written."""
        self._replace(None)


def name_of(source: Path | None) -> str:
    """What a download of this source is called: the name of its file or folder, as far as UTF-8 can hold it."""
    return Path(source or "embeddings").stem.encode("utf-8", "replace").decode()


def pack(session: Session, what: SessionExport, folder: Path, name: str, on_progress: Progress = silent) -> Path:
    """Write an export into ``folder``; returns its one file, or an archive of all of them and of the pictures."""
    labelling, pictures = session.labelling(), session.kind.in_folder
    files = folder / "files"
    in_folder = pictures and what not in _FILES
    wish = Wish(what, files if in_folder else files / _FILES.get(what, "labels.csv"))
    outputs = wish.outputs(pictures)
    outputs.check_items(labelling.collection)
    outputs.check_classes(labelling.classes)
    plan = outputs.plan(labelling)  # pictures go from where they are into the archive
    replace(outputs, transfer=None).write_files(labelling, None, on_progress)
    if not plan and len(outputs.files) == 1:
        return outputs.files[0]
    archive = folder / f"{name}-labelled.zip"
    with ZipFile(archive, "w", ZIP_DEFLATED, strict_timestamps=False) as packed:
        for file in outputs.files:
            packed.write(file, file.relative_to(outputs.folder))
        for done, step in enumerate(plan.values(), start=1):
            packed.write(step.source, step.target.relative_to(outputs.path), ZIP_STORED)
            on_progress("packing", done, len(plan))
    return archive
