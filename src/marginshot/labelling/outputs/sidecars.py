"""XMP sidecars with the label as keyword, for photo managers: one archive to unpack beside the pictures.

Nothing is written among the pictures: sidecars that are there hold somebody's work. What they hold is kept in those of
the archive.
"""

from __future__ import annotations

from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from marginshot._lib.files import atomic_path
from marginshot._lib.warn import warn_user
from marginshot.labelling.items.xmp import find_sidecar, with_keyword
from marginshot.labelling.outputs.result import EVENT, GIVEN, Result

_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # so that equal labels make equal archives


def write_sidecars(labelling: Result, path: Path) -> None:
    """Write a sidecar for every labelled picture; those there are with XML that cannot be used are left out."""
    problems = []
    shared: dict[str, bytes] = {}  # sidecars of several pictures of one name
    with atomic_path(path) as temporary, ZipFile(temporary, "w", ZIP_DEFLATED) as archive:
        for row in labelling.rows.tolist():
            label, picture = labelling.labels[row], Path(labelling.collection.contents[row])
            if not label:
                continue
            old = find_sidecar(picture)
            beside = f"{picture.name}.xmp" if old is None else old.name
            name = Path(labelling.collection.items[row]).with_name(beside).as_posix()
            try:
                held = shared.get(name) or (None if old is None else old.read_bytes())
                guessed = labelling.reviews[row] not in (GIVEN, EVENT)
                made = with_keyword(held, label, old or picture, guessed=guessed)
            except ValueError as error:
                problems.append(str(error))
                continue
            if old is None:
                archive.writestr(ZipInfo(name, _FIRST_DAY), made, ZIP_DEFLATED)
            else:
                shared[name] = made
        for name, made in shared.items():
            archive.writestr(ZipInfo(name, _FIRST_DAY), made, ZIP_DEFLATED)
    if problems:
        warn_user(f"{len(problems):,} sidecars are not in the archive. {problems[0]}")
