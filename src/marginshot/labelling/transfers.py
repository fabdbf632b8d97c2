"""Pictures into class folders: copied, moved or linked; never overwriting, never leaving a file in neither place.

A list of what is to be done is written before the first file is touched and removed after the last. Whatever stops the
work in between, a full disk or a power cut, the same command finds the list and goes on.
"""

from __future__ import annotations

import filecmp
import hashlib
import json
import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import get_args

from marginshot._lib.files import atomic_path, flush
from marginshot._lib.names import folder_name
from marginshot._lib.reading import read_json, reading
from marginshot.data.pictures import is_picture
from marginshot.labelling.embed import Progress, silent
from marginshot.labelling.errors import Option, OutputExistsError, RefusedError
from marginshot.labelling.labelling import Labelling
from marginshot.labelling.requests import Action, Job
from marginshot.labelling.tables import read_table

JOURNAL = ".marginshot-unfinished.json"

# Names that some system gives a meaning of its own.
_FORBIDDEN = set('<>:"/\\|?*')
_LONGEST_NAME = 255  # bytes

_PHASES: Mapping[Action, str] = {"copy": "copying", "move": "moving", "link": "linking"}

_MOST_LINKS = 40  # as many as Linux follows


@dataclass(frozen=True)
class Transfer:
    """One file and where it goes."""

    source: Path
    target: Path


@dataclass(frozen=True)
class Done:
    """How a list of transfers went: files now in place, those left alone because of what is there, those gone."""

    n_done: int
    conflicts: tuple[Transfer, ...]
    vanished: tuple[Transfer, ...] = ()


@dataclass(frozen=True)
class Placed:
    """Pictures in their class folders.

    Parameters
    ----------
    action : {"copy", "move", "link"}
        How they came there.
    out : Path
        The folder of the class folders.
    n_done : int
        Pictures now in place.
    conflicts : tuple of Transfer
        Pictures left where they are, because another file has their name.
    stale : tuple of Path
        Pictures that are in the folder of another class as well, from earlier answers.
    vanished : tuple of Transfer
        Pictures that were gone when their turn came.
    """

    action: Action
    out: Path
    n_done: int
    conflicts: tuple[Transfer, ...] = ()
    stale: tuple[Path, ...] = ()
    vanished: tuple[Transfer, ...] = ()

    def check_complete(self) -> None:
        """Raise OSError where pictures were left behind, or were gone when their turn came."""
        if self.conflicts:
            otherwise = f", or remove {self.out / JOURNAL} to leave them there" if self.action == "move" else ""
            raise FileExistsError(
                f"Left {_pictures(self.conflicts)} in place, because another file has the name; the first is "
                f"{self.conflicts[0].target}. Move that away and run again{otherwise}."
            )
        if self.vanished:
            raise FileNotFoundError(
                f"{_pictures(self.vanished)} gone before being reached, the first is "
                f"{self.vanished[0].source}; all others are in place."
            )


def _pictures(transfers: Sequence[Transfer]) -> str:
    return "1 picture" if len(transfers) == 1 else f"{len(transfers):,} pictures"


def plan_transfers(labelling: Labelling, out: Path) -> dict[int, Transfer]:
    """Every labelled picture, by its row, into the folder of its class below ``out``, under the path it has now."""
    plan = {}
    for row in labelling.rows.tolist():
        label = labelling.labels[row]
        if label:
            source = Path(labelling.collection.contents[row]).absolute()
            plan[row] = Transfer(source, out.absolute() / folder_name(label) / labelling.collection.items[row])
    return plan


def moved(labelling: Labelling, plan: Mapping[int, Transfer], out: Path) -> Labelling:
    """The labelling with its pictures where the ``plan`` will have moved them, under their names in ``out``."""
    contents, items = list(labelling.collection.contents), list(labelling.collection.items)
    for row, item in plan.items():
        if not item.target.exists() or filecmp.cmp(item.source, item.target, shallow=False):
            contents[row] = item.target
            items[row] = item.target.relative_to(out.absolute()).as_posix()
    return replace(labelling, collection=replace(labelling.collection, contents=contents, items=tuple(items)))


def check_folder_names(classes: Iterable[str], out: Path, files: Iterable[Path]) -> None:
    """Raise ValueError where a class cannot be the name of a folder in ``out``, beside the ``files`` to be there."""
    taken = {path.name for path in files if path.parent.resolve() == out.resolve()}
    classes = list(classes)
    taken |= {name for name in classes if name in {folder_name(other) for other in classes if other != name}}
    for name in classes:
        if (out / folder_name(name)).is_symlink():
            raise OutputExistsError(
                "{file} is a link, and pictures would go where it points. Remove it, or give another {path}.",
                file=out / folder_name(name),
                path=Option.PATH,
            )
        if os.path.lexists(out / name) and not (out / name).is_dir() and name not in taken:
            raise OutputExistsError(
                "{file} is a file, where the folder of the class {name!r} is to be. Move it elsewhere, or give "
                "another {path}.",
                file=out / name,
                name=name,
                path=Option.PATH,
            )
        odd = set(name) & _FORBIDDEN or name.startswith(".") or name.endswith((".", " ")) or not name.isprintable()
        if odd or len(os.fsencode(name)) > _LONGEST_NAME or name in taken:
            raise RefusedError(
                "The class {name!r} cannot be the name of a folder in {out}. Rename it, or leave out {transfer}.",
                name=name,
                out=out,
                transfer=Option.TRANSFER,
            )


def start_transfers(plan: Iterable[Transfer], job: Job, out: Path, on_progress: Progress = silent) -> Done:
    """Write the list of what is to be done into ``out``, then do it."""
    # A link is read before the picture, or the other link, that it points to is gone.
    plan = sorted(plan, key=lambda item: _links_to_follow(item.source), reverse=True)
    _write_journal(plan, job, out)
    return _run(plan, job, out, on_progress)


def unfinished(out: Path) -> bool:
    """Whether an earlier run into ``out`` was stopped while it copied, moved or linked."""
    return (out / JOURNAL).is_file()


def finish_transfers(out: Path, on_progress: Progress = silent) -> tuple[Job, Done]:
    """Go on with the list that an earlier run left in ``out``."""
    begun, plan = _read_journal(out)
    return begun, _run(plan, begun, out, on_progress)


def check_same_job(job: Job | None, out: Path) -> None:
    """Raise RefusedError where what an earlier run left unfinished in ``out`` is not this ``job``."""
    begun, _ = _read_journal(out)
    if job == begun:
        return
    same_files = job is not None and (job.action, job.folder) == (begun.action, begun.folder)
    raise RefusedError(
        "An earlier run was stopped while it put the pictures of {folder} into {out}. Repeat it with {action} and all "
        "else as it was{other} to complete that, or remove {journal} to leave the rest where it is.",
        folder=begun.folder,
        out=out,
        action=Option(begun.action),
        other=f" (differing here: {', '.join(begun.differences(job))})" if job is not None and same_files else "",
        journal=out / JOURNAL,
    )


def check_record(table: Path, source: Path, before: Mapping[str, str], kept: Collection[str]) -> None:
    """Raise FileExistsError where ``table``, written before, lists pictures that are not in ``source`` any more.

    ``before`` has the names that pictures had there when they were about to be moved. A new table has the rows of the
    pictures ``kept`` too.
    """
    if not table.is_file():
        return
    names = [before.get(name, name) for name in read_table(table).columns.get("item", ()) if name not in kept]
    gone = [name for name in names if not os.path.lexists(source / name)]
    if gone:
        raise OutputExistsError(
            "{table} lists {n:,} pictures that are no longer in {source}, the first is {first}; a new table would not "
            "have them. Give another {path}, or use {force} to replace it.",
            table=table,
            n=len(gone),
            source=source,
            first=gone[0],
            path=Option.PATH,
            force=Option.FORCE,
        )


def stale(labelling: Labelling, out: Path) -> list[Path]:
    """Pictures that are in the folder of another class than theirs: earlier answers, which are not ours to remove."""
    folders = {name: out / folder_name(name) for name in labelling.classes if (out / folder_name(name)).is_dir()}
    found = []
    for row in labelling.rows.tolist():
        item, label = labelling.collection.items[row], labelling.labels[row]
        found += [folder / item for name, folder in folders.items() if name != label and (folder / item).exists()]
    return found


def _write_journal(plan: Iterable[Transfer], job: Job, out: Path) -> None:
    content = {
        **asdict(job),
        "out": str(out.resolve()),
        "transfers": [[str(item.source), str(item.target)] for item in plan],
    }
    with atomic_path(out / JOURNAL) as temporary:
        temporary.write_text(json.dumps(content), encoding="utf-8")


def _read_journal(out: Path) -> tuple[Job, list[Transfer]]:
    journal = out / JOURNAL
    what, advice = "the list of an unfinished run", f"Look at {out}, then remove that file."
    content = read_json(journal, what, advice)
    with reading(journal, what, advice):
        if content["action"] not in get_args(Action):
            raise ValueError(f"nothing is called {content['action']!r}")
        begun = Job(content["action"], content["folder"], dict(content.get("request", {})))
        plan = [Transfer(Path(source), Path(target)) for source, target in content["transfers"]]
        _check_bound(plan, begun, content.get("out", str(out.resolve())), out)  # earlier versions did not say
    return begun, plan


def _check_bound(plan: Iterable[Transfer], job: Job, written_for: str, out: Path) -> None:
    """Raise ValueError unless the list is of pictures of the job's folder and of places in the folder it lies in."""
    if written_for != str(out.resolve()):
        raise ValueError(f"it was written for {written_for}")
    for item in plan:
        if not item.target.parent.resolve().is_relative_to(out.resolve()) or item.target.name in ("", ".."):
            raise ValueError(f"{item.target} is not in {out}")
        if not item.source.parent.resolve().is_relative_to(Path(job.folder)) or not is_picture(item.source):
            raise ValueError(f"{item.source} is not a picture of {job.folder}")


def _links_to_follow(path: Path) -> int:
    """Number of symbolic links from ``path`` to a file; 0 for a file itself."""
    n_links = 0
    while path.is_symlink() and n_links < _MOST_LINKS:
        path = path.parent / path.readlink()
        n_links += 1
    return n_links


def _run(plan: Sequence[Transfer], job: Job, out: Path, on_progress: Progress) -> Done:
    action = job.action
    transfer = {"copy": _copy, "move": _move, "link": _link}[action]
    conflicts, vanished = [], []
    n_done = 0
    for place, item in enumerate(plan, start=1):
        if not os.path.lexists(item.source) and not os.path.lexists(item.target):
            vanished.append(item)
            continue
        try:
            _make_folder(item.target.parent, out)
            if action != "link" and item.target.is_symlink() and item.target.readlink() == item.source:
                item.target.unlink()  # made by an earlier run with --link; the picture itself is at the source
            if transfer(item.source, item.target):
                n_done += 1
            else:
                conflicts.append(item)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise OSError(
                f"Stopped at {item.source} ({reason}): {n_done} of {len(plan)} files are in place, the others are "
                f"untouched where they were. Put that right and run the same command again to {action} the rest, or "
                f"remove {out / JOURNAL} to leave it."
            ) from error
        on_progress(_PHASES[action], place, len(plan))
    if conflicts and action == "move":
        # Labelling again would see only these, and list no others.
        _write_journal(conflicts, job, out)
    else:
        (out / JOURNAL).unlink(missing_ok=True)
    return Done(n_done, tuple(conflicts), tuple(vanished))


def _make_folder(folder: Path, out: Path) -> None:
    """Make a folder below ``out``; a link on the way is not followed."""
    for above in (folder, *folder.parents):
        if above == out.absolute():
            break
        if above.is_symlink():
            raise OSError(f"{above} is a link")
    folder.mkdir(parents=True, exist_ok=True)


def _copy(source: Path, target: Path) -> bool:
    """Whether ``target`` now is a copy of ``source``; False leaves another file of that name alone."""
    # The same name each time, so that what a power cut leaves is replaced, or removed, by the next run.
    temporary = target.with_name(f".marginshot-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}")
    try:
        if target.exists():
            return filecmp.cmp(source, target, shallow=False)
        shutil.copy2(source, temporary)
        flush(temporary)
        return _place(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _place(temporary: Path, target: Path) -> bool:
    """Give a finished file its name, unless the name was taken meanwhile."""
    try:
        # Unlike a rename, a second link fails where there is a file already.
        os.link(temporary, target)
    except FileExistsError:
        return False
    except OSError:
        # File systems without links, such as FAT.
        if target.exists():
            return False
        temporary.rename(target)
    return True


def _move(source: Path, target: Path) -> bool:
    """Whether the file now is at ``target`` only. The source goes after the target is complete, never before."""
    if not source.exists():
        if target.is_file():
            return True  # moved by the run that was stopped
        raise FileNotFoundError(2, "No such file", str(source))
    if source.resolve() == target.resolve():
        return True
    # Of a symbolic link the picture it points to is copied and the link goes; that picture is not in our folder.
    if source.is_symlink() or not _rename_new(source, target):
        new = not target.exists()
        if not _copy(source, target):
            return False
        _remove(source, target, new=new)
    return True


def _rename_new(source: Path, target: Path) -> bool:
    """Move within one file system without ever overwriting; False where that is not possible."""
    try:
        os.link(source, target)
    except OSError:
        return False
    _remove(source, target, new=True)
    return True


def _remove(source: Path, target: Path, *, new: bool) -> None:
    """Remove what was moved to ``target``; where that is not allowed, the ``new`` target goes instead."""
    try:
        source.unlink()
    except OSError:
        if new and os.path.lexists(source):
            target.unlink()
        raise


def _link(source: Path, target: Path) -> bool:
    if target.is_symlink():
        return target.readlink() == source
    if target.exists():
        return False
    target.symlink_to(source)
    return True
