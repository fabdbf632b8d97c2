"""Pictures into class folders: copied, moved or linked; never overwriting, never leaving a file in neither place.

A list of what is to be done is written before the first file is touched and removed after the last. The same command
finds the list after a full disk or a power cut, and resumes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_args

from marginshot._lib.files import atomic_path, copy_new, same_contents, sweep
from marginshot._lib.names import folder_name
from marginshot._lib.reading import read_json, reading
from marginshot.labelling.errors import Option, OutputExistsError, RefusedError
from marginshot.labelling.items.collection import Collection as Items
from marginshot.labelling.items.embed import Progress, silent
from marginshot.labelling.items.kinds import FILE_KINDS
from marginshot.labelling.items.tables import read_table
from marginshot.labelling.outputs.earlier import load_earlier, save_earlier
from marginshot.labelling.outputs.placed import JOURNAL, Placed, Transfer
from marginshot.labelling.outputs.requests import Action, Job
from marginshot.labelling.outputs.result import Result

# Names that some system gives a meaning of its own.
_FORBIDDEN = set('<>:"/\\|?*')
_LONGEST_NAME = 255  # bytes

_PHASES: Mapping[Action, str] = {"copy": "copying", "move": "moving", "link": "linking"}

_MOST_LINKS = 40  # as many as Linux follows


def plan_transfers(labelling: Result, out: Path) -> dict[int, Transfer]:
    """Every labelled picture, by its row, into the folder of its class below ``out``, under the path it has now."""
    plan = {}
    for row in labelling.rows.tolist():
        label = labelling.labels[row]
        if label:
            source = Path(labelling.collection.contents[row]).absolute()
            plan[row] = Transfer(source, out.absolute() / folder_name(label) / labelling.collection.items[row])
    return plan


def moved(labelling: Result, plan: Mapping[int, Transfer], out: Path) -> Result:
    """The labelling with its pictures where the ``plan`` will have moved them, under their names in ``out``."""
    contents, items = list(labelling.collection.contents), list(labelling.collection.items)
    for row, item in plan.items():
        if not os.path.lexists(item.target) or _links_to_source(item) or same_contents(item.source, item.target):
            contents[row] = labelling.collection.kind.moved(contents[row], item.target)
            items[row] = item.target.relative_to(out.absolute()).as_posix()
    return replace(labelling, collection=replace(labelling.collection, contents=contents, items=tuple(items)))


def check_whole(collection: Items) -> None:
    """Raise RefusedError where an item is only a part of a file, which has no class as a whole."""
    if (part := collection.first_part()) is not None:
        raise RefusedError(
            "{item!r} is a part of a recording, and only whole files go into class folders. Leave out {transfer}.",
            item=part,
            transfer=Option.TRANSFER,
        )


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


def start_transfers(
    plan: Iterable[Transfer],
    job: Job,
    out: Path,
    on_progress: Progress = silent,
    unplaced: Iterable[Path] = (),
) -> Placed:
    """Write the list of what is to be done into ``out``, then do it; pictures ``unplaced`` have no class any more."""
    # A link is read before the picture, or the other link, that it points to is gone.
    plan = sorted(plan, key=lambda item: _links_to_follow(item.source), reverse=True)
    earlier, places = load_earlier(out), {item.source: item.target for item in plan}
    save_earlier(earlier.without(places.values()) if job.action == "move" else earlier.with_new(places))
    _write_journal(plan, job, out)
    return _run(plan, job, out, on_progress, unplaced)


def unfinished(out: Path) -> bool:
    """Whether an earlier run into ``out`` was stopped while it copied, moved or linked."""
    return (out / JOURNAL).is_file()


def finish_transfers(out: Path, on_progress: Progress = silent) -> Placed:
    """Complete the list of transfers that an earlier run left in ``out``."""
    begun, plan = _read_journal(out)
    return _run(plan, begun, out, on_progress)


def check_same_job(job: Job | None, out: Path) -> None:
    """Raise RefusedError where what an earlier run left unfinished in ``out`` is not this ``job``."""
    begun, _ = _read_journal(out)
    if job == begun:
        return
    same_files = job is not None and (job.action, job.folder) == (begun.action, begun.folder)
    differing = f" (differing here: {', '.join(begun.differences(job))})" if job is not None and same_files else ""
    raise _another_job(begun, out, differing)


def check_same_files(action: Action, folder: Path, out: Path) -> None:
    """Raise RefusedError where what an earlier run left unfinished in ``out`` is not this ``action`` on ``folder``."""
    begun, _ = _read_journal(out)
    if (begun.action, begun.folder) != (action, str(folder.resolve())):
        raise _another_job(begun, out)


def _another_job(begun: Job, out: Path, differing: str = "") -> RefusedError:
    return RefusedError(
        "An earlier run was stopped while it put the pictures of {folder} into {out}. Repeat it with {action} and all "
        "else as it was{other} to complete that, or remove {journal} to leave the rest where it is.",
        folder=begun.folder,
        out=out,
        action=Option(begun.action),
        other=differing,
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


def stale(labelling: Result, out: Path) -> list[Path]:
    """Pictures that are in the folder of another class than theirs, and were not put there by a run."""
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
            raise ValueError(f"its action {content['action']!r} is unknown")
        begun = Job(content["action"], content["folder"], dict(content.get("request", {})))
        plan = [Transfer(Path(source), Path(target)) for source, target in content["transfers"]]
        _check_bound(plan, begun, content.get("out", str(out.resolve())), out)  # earlier versions did not write it
    return begun, plan


def _check_bound(plan: Iterable[Transfer], job: Job, written_for: str, out: Path) -> None:
    """Raise ValueError unless the list is of pictures of the job's folder and of places in the folder it lies in."""
    if written_for != str(out.resolve()):
        raise ValueError(f"it was written for {written_for}")
    for item in plan:
        if not item.target.parent.resolve().is_relative_to(out.resolve()) or item.target.name in ("", ".."):
            raise ValueError(f"{item.target} is not in {out}")
        is_item = any(kind.is_file(item.source) for kind in FILE_KINDS)
        if not is_item or not item.source.parent.resolve().is_relative_to(Path(job.folder)):
            raise ValueError(f"{item.source} is not a picture or sound of {job.folder}")


def _links_to_follow(path: Path) -> int:
    """Number of symbolic links from ``path`` to a file; 0 for a file itself."""
    n_links = 0
    while path.is_symlink() and n_links < _MOST_LINKS:
        path = path.parent / path.readlink()
        n_links += 1
    return n_links


def _run(plan: Sequence[Transfer], job: Job, out: Path, on_progress: Progress, unplaced: Iterable[Path] = ()) -> Placed:
    action = job.action
    transfer = {"copy": _copy, "move": _move, "link": _link}[action]
    conflicts, vanished = [], []
    n_done = 0
    swept: set[Path] = set()
    for place, item in enumerate(plan, start=1):
        if not os.path.lexists(item.source) and not os.path.lexists(item.target):
            vanished.append(item)
            continue
        try:
            _make_folder(item.target.parent, out)
            if item.target.parent not in swept:
                sweep(item.target.parent)  # what a power cut left
                swept.add(item.target.parent)
            if action != "link" and _links_to_source(item):
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
    left = {*conflicts, *vanished}
    places = dict.fromkeys(unplaced) | {item.source: item.target for item in plan if item not in left}
    removed, changed = load_earlier(out).remove_outdated(places)
    return Placed(action, out, n_done, tuple(conflicts), tuple(changed), tuple(vanished), tuple(removed))


def _links_to_source(item: Transfer) -> bool:
    """Whether an earlier run put a link to the picture at its place."""
    return item.target.is_symlink() and item.target.readlink() == item.source


def _make_folder(folder: Path, out: Path) -> None:
    """Make a folder below ``out``; a link on the way is not followed."""
    for above in (folder, *folder.parents):
        if above == out.absolute():
            break
        if above.is_symlink():
            raise OSError(f"{above} is a link")
    folder.mkdir(parents=True, exist_ok=True)


def _copy(source: Path, target: Path) -> bool:
    """Whether ``target`` now is a copy of ``source``; False leaves another file of that name, or a link, alone."""
    if os.path.lexists(target):
        return same_contents(source, target)
    return copy_new(source, target)


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
