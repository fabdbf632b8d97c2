"""Networks in repositories of the Hugging Face hub: named as ``org/name``, downloaded once, kept by commit.

Only the network in the folder ``onnx``, weights that it says lie beside it, and the files named in `own_files` are
downloaded: data, no code. ``<folder>/<org>--<name>/revision`` holds the commit that the name stands for from then on.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from marginshot._lib.files import atomic_path
from marginshot._lib.reading import read_json
from marginshot.networks.hub import describe, fetch, hub_name
from marginshot.networks.own_files import SIDE_FILES, choose_network, weights_apart

_PART = r"[\w-][\w.-]{0,95}"
_NAME = re.compile(rf"(?P<name>{_PART}/{_PART}?)(?:@(?P<revision>[\w.-]+))?(?:/(?P<file>onnx/[\w-][\w.-]*\.onnx))?")
# Endings of files: who mistypes the path of one asks for no download.
_FILES = (".onnx", ".pth", ".pt", ".tar", ".ckpt", ".bin", ".safetensors")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NETWORK = re.compile(r"onnx/[\w-][\w.-]*")  # and its weights
_LISTING = "files.json"

#: Bytes: a network of 1.5 billion numbers in half precision, which a processor takes seconds for.
LARGEST = 3_000_000_000


@dataclass(frozen=True)
class Repository:
    """``org/name``, with ``@revision`` and ``/onnx/FILE.onnx`` behind it where these are said.

    Parameters
    ----------
    name : str
        ``org/name``.
    revision : str, optional
        A commit, branch or tag. Without, it is the commit that was downloaded before, or the newest.
    file : str, optional
        The network's file; by default the one that `choose_network` picks.
    """

    name: str
    revision: str | None = None
    file: str | None = None

    @classmethod
    def parse(cls, name: str) -> Repository | None:
        """The repository that a name stands for; None where it cannot be one.

        Examples
        --------
        >>> Repository.parse("org/model@main/onnx/model_fp16.onnx")
        Repository(name='org/model', revision='main', file='onnx/model_fp16.onnx')
        >>> Repository.parse("networks/own.onnx")
        """
        found = _NAME.fullmatch(name)
        if found is None or found["name"].lower().endswith(_FILES):
            return None
        return cls(**found.groupdict())

    def network(self, folder: Path, preferred: Sequence[str], tell: Callable[[str], None]) -> tuple[Path, str] | None:
        """The network's file and ``org/name@commit``; it is downloaded where it is not below ``folder``.

        None where the repository has no network.

        Parameters
        ----------
        folder : Path
            Where networks are kept.
        preferred : sequence of str
            Names of networks in ``onnx``, the best first.
        tell : callable
            Called with a sentence before anything is downloaded.
        """
        commit, files = self._listing(folder / self.name.replace("/", "--"))
        name = self.file or choose_network(files, preferred, self.name)
        if name is None:
            return None
        if name not in files:
            raise ValueError(f"{self.name} has no file {name}.")
        target = folder / self.name.replace("/", "--") / commit
        if not (target / name).is_file():
            _Download(self.name, commit, files, target).run(name, tell)
        return target / name, f"{self.name}@{commit}"

    def _listing(self, folder: Path) -> tuple[str, dict[str, tuple[int, str]]]:
        """Commit and its files, from ``folder`` or else from the hub."""
        pointer = folder / "revision"
        commit = self.revision
        if commit is None and pointer.is_file():
            commit = pointer.read_text("utf-8").strip()
        if commit is not None and _COMMIT.fullmatch(commit) and (folder / commit / _LISTING).is_file():
            listing = read_json(folder / commit / _LISTING, "a list of files", "Delete its folder.")
            return commit, {name: (int(size), str(digest)) for name, (size, digest) in listing.items()}
        commit, told = describe(self.name, self.revision)
        if not _COMMIT.fullmatch(commit):
            raise ValueError(f"{hub_name()} names no commit of {self.name}; got {commit!r:.60}.")
        files = {name: one for name, one in told.items() if name in SIDE_FILES or _NETWORK.fullmatch(name)}
        (folder / commit).mkdir(parents=True, exist_ok=True)
        with atomic_path(folder / commit / _LISTING) as path:
            path.write_text(json.dumps(files), "utf-8")
        if self.revision is None:
            with atomic_path(pointer) as path:
                path.write_text(commit, "utf-8")
        return commit, files


@dataclass(frozen=True)
class _Download:
    """Files of one commit on their way to ``target``; the network comes last, so that it is never there alone."""

    repository: str
    commit: str
    files: dict[str, tuple[int, str]]
    target: Path

    def run(self, network: str, tell: Callable[[str], None]) -> None:
        # Files of weights are known once the network is read; their names usually begin as the network's does.
        wanted = [name for name in self.files if name in SIDE_FILES or name.startswith(network)]
        size = sum(self.files[name][0] for name in wanted)
        if size > LARGEST:
            raise ValueError(
                f"{network} of {self.repository} is {size / 1e9:.1f} GB; at most {LARGEST / 1e9:.0f} are downloaded. "
                f"Name a smaller one, as {self.repository}/onnx/FILE.onnx, or give a folder that has it."
            )
        tell(
            f"Downloading {network} of {self.repository} from {hub_name()}: {size / 1e6:.1f} MB, revision "
            f"{self.commit[:12]}, to {self.target}."
        )
        with tempfile.TemporaryDirectory(dir=self.target) as name:
            folder = Path(name)
            self._fetch(network, folder)
            apart = [path.relative_to(folder).as_posix() for path in weights_apart(folder / network)]
            for wanted_name in sorted({*wanted, *apart} - {network}):
                self._fetch(wanted_name, folder)
                self._place(wanted_name, folder)
            self._place(network, folder)

    def _fetch(self, name: str, folder: Path) -> None:
        """Download one file and compare it with what the hub says of it."""
        size, digest = self.files.get(name, (None, ""))
        if size is None or size > LARGEST:
            raise ValueError(
                f"{self.repository} needs {name}, which it {'lacks' if size is None else 'has too large'}."
            )
        fetch(self.repository, self.commit, name, folder)
        path = folder / name
        with path.open("rb") as file:
            # Git's hash of a file begins with its size; large files are known by their plain SHA-256.
            made = hashlib.sha1(b"blob %d\0" % path.stat().st_size) if len(digest) == 40 else hashlib.sha256()
            while part := file.read(2**20):
                made.update(part)
        if path.stat().st_size != size or made.hexdigest() != digest:
            raise ConnectionError(
                f"{name} of {self.repository} arrived damaged: its hash is not the one on {hub_name()}"
            )

    def _place(self, name: str, folder: Path) -> None:
        (self.target / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).replace(self.target / name)
