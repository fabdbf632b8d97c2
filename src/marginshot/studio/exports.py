"""Exports of the result, by the writers of ``marginshot label``, and the command that repeats an export."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from marginshot.labelling.items.embed import Progress, silent
from marginshot.labelling.items.store import Store
from marginshot.labelling.outputs.formats import SessionExport, Tool
from marginshot.labelling.outputs.outputs import Outputs
from marginshot.labelling.outputs.placed import Placed
from marginshot.labelling.outputs.requests import Action
from marginshot.studio.inputs import Body

if TYPE_CHECKING:
    from marginshot.labelling import Session

_MOST_PLANNED = 20  # pictures whose source and target are listed


@dataclass(frozen=True)
class Wish:
    """An export as the user asked for it.

    Parameters
    ----------
    what : SessionExport
    path : Path
        A file or a folder; a relative one starts where the studio was started.
    transfer : {"copy", "move", "link"}
        How pictures go into folders.
    dry_run, force : bool
        As in ``marginshot label``.
    """

    what: SessionExport
    path: Path
    transfer: Action = "copy"
    dry_run: bool = False
    force: bool = False

    @classmethod
    def read(cls, body: Body) -> Wish:
        """Read and check the fields of a request."""
        what = read_what(body)
        transfer = body.text("transfer") if "transfer" in body else "copy"
        if transfer not in get_args(Action):
            raise ValueError(f"transfer must be one of {', '.join(get_args(Action))}; got {transfer!r}.")
        typed = body.text("path")
        if "\0" in typed:
            raise ValueError("path holds a character that no file name can have.")
        path = _expanded(typed)
        return cls(what, path, cast(Action, transfer), dry_run=body.flag("dry_run"), force=body.flag("force"))

    def outputs(self, pictures: bool) -> Outputs:
        """The outputs to write."""
        if self.what is SessionExport.MODEL:
            folder = self.path.parent
            return Outputs(path=folder, pictures=True, labels=False, gallery=False, model=self.path, make_folder=True)
        return Outputs(
            path=self.path,
            pictures=pictures and self.what is not SessionExport.TABLE,
            transfer=self.transfer if self.what is SessionExport.FOLDERS else None,
            gallery=False,
            exports=(self.what.value,) if self.what.value in set(Tool) else (),
            make_folder=True,
        )

    def command(self, source: Sequence[str]) -> str:
        """The shell command that repeats the export without the page; ``source`` are the studio's own arguments."""
        how = [f"--{self.transfer}"] if self.what is SessionExport.FOLDERS else []
        return shlex.join(["marginshot", "studio", *source, "--export", self.what, "--out", str(self.path), *how])


@dataclass(frozen=True)
class Exported:
    """What an export wrote, or would write.

    Parameters
    ----------
    report : dict
        The files and the plan, as JSON types for the page.
    moved : dict of Path to Path
        The new path of every picture that was moved.
    placed : Placed, optional
        Pictures in their class folders.
    """

    report: dict[str, Any]
    moved: dict[Path, Path]
    placed: Placed | None

    def check_complete(self) -> None:
        """Raise OSError where pictures were left behind."""
        if self.placed is not None:
            self.placed.check_complete()


def read_what(body: Body) -> SessionExport:
    """The kind of export that a request asks for."""
    what = body.text("what")
    if what not in set(SessionExport):
        raise ValueError(f"what must be one of {', '.join(SessionExport)}; got {what!r}.")
    return SessionExport(what)


def export(session: Session, wish: Wish, store: Store, on_progress: Progress = silent) -> Exported:
    """Write an export, or with ``dry_run`` only check and plan it."""
    labelling = session.labelling()
    outputs = wish.outputs(session.kind.in_folder)
    plan = list(outputs.plan(labelling).values())
    if wish.dry_run:
        outputs.check(labelling.request, store, force=wish.force)
        outputs.check_items(labelling.collection)
        outputs.check_classes(labelling.classes)
        outdated = outputs.outdated(labelling)
        going = f" {len(outdated):,} earlier copies would be removed from other class folders." if outdated else ""
        placed, words = None, f"Nothing was written.{going}"
    else:
        placed = outputs.write(labelling, store, force=wish.force, on_progress=on_progress).placed
        said = [] if placed is None else placed.about_others
        words = " ".join((f"Written to {wish.path.absolute()}.", *said))
    report = {
        "files": [str(file) for file in outputs.files],
        "n_pictures": len(plan),
        "plan": [[str(step.source), str(step.target)] for step in plan[:_MOST_PLANNED]],
        "words": words,
    }
    left = set() if placed is None else {*placed.conflicts, *placed.vanished}
    is_moved = placed is not None and placed.action == "move"
    return Exported(report, {step.source: step.target for step in plan if step not in left} if is_moved else {}, placed)


def _expanded(typed: str) -> Path:
    """The path, ``~`` being the home of its user."""
    try:
        return Path(typed).expanduser()
    except RuntimeError as error:
        raise ValueError(f"There is no home folder for {typed!r}; write the whole path.") from error
