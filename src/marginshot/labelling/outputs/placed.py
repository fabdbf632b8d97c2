"""Results of copying, moving or linking pictures into class folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from marginshot.labelling.outputs.requests import Action

#: The list of what is to be done, in the folder of class folders; gone once it is done.
JOURNAL = ".marginshot-unfinished.json"


@dataclass(frozen=True)
class Transfer:
    """One file and where it goes."""

    source: Path
    target: Path


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
        Pictures that are also in the folder of another class, put there by no run, or changed since a run did.
    vanished : tuple of Transfer
        Pictures that were gone when their turn came.
    removed : tuple of Path
        Copies and links of earlier runs that were removed, because their pictures now have another class.
    """

    action: Action
    out: Path
    n_done: int
    conflicts: tuple[Transfer, ...] = ()
    stale: tuple[Path, ...] = ()
    vanished: tuple[Transfer, ...] = ()
    removed: tuple[Path, ...] = ()

    @property
    def about_others(self) -> list[str]:
        """Sentences on what was, or still is, in the folders of other classes."""
        told = []
        if self.removed:
            copies = "1 earlier copy" if len(self.removed) == 1 else f"{len(self.removed):,} earlier copies"
            told.append(
                f"Removed {copies} from the folder of another class, because the answer has changed; the first was "
                f"{self.removed[0]}."
            )
        if self.stale:
            are = "is" if len(self.stale) == 1 else "are"
            told.append(
                f"{_pictures(self.stale)} {are} also in the folder of another class, put there or changed by "
                f"somebody else; the first is {self.stale[0]}. Remove what you do not want."
            )
        return told

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


def _pictures(transfers: Sequence[object]) -> str:
    return "1 picture" if len(transfers) == 1 else f"{len(transfers):,} pictures"
