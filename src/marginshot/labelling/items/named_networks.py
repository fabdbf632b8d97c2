"""Networks for ONNX Runtime by name: a file, a folder laid out like a repository, a repository of a hub."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from marginshot._lib.extras import extra_of
from marginshot._lib.warn import warn_user
from marginshot.labelling.items.store import default_folder, file_digest

_FOLDER = "networks"  # in the folder of the cache

#: Names in the folder ``onnx``, the best first: of networks with a side for pictures and one for texts, that side.
FOR_PICTURES, FOR_TEXTS, FOR_SOUNDS = ("vision_model", "model"), ("model", "text_model"), ("model",)


@dataclass(frozen=True)
class NamedNetwork:
    """A network in a file.

    Parameters
    ----------
    path : Path
        The ``.onnx`` file.
    name : str
        The name it was found by; of a repository, ``org/name@commit``.
    """

    path: Path
    name: str

    @property
    def digest(self) -> str:
        """A hash of all files that the embeddings depend on."""
        from marginshot.networks.own_files import files_of

        return hashlib.sha256("".join(map(file_digest, files_of(self.path))).encode()).hexdigest()

    @property
    def identity(self) -> str:
        """The name and the hash."""
        return f"{self.name} {self.digest}"


def network_named(name: str, preferred: Sequence[str], instead: str | None = None) -> NamedNetwork | None:
    """The network that an encoder's name stands for; None where the name stands for something else.

    Naming a repository, ``org/name``, is asking for its download: a sentence says what is downloaded before it is.

    Parameters
    ----------
    name : str
    preferred : sequence of str
        Names of networks in a folder ``onnx``, the best first.
    instead : str, optional
        Package that can run repositories without a network for ONNX Runtime.
    """
    from marginshot.networks.own_files import choose_network
    from marginshot.networks.repositories import Repository

    path = Path(name)
    if path.is_dir():
        chosen = choose_network([f"onnx/{one.name}" for one in path.glob("onnx/*.onnx")], preferred, name)
        return None if chosen is None else NamedNetwork(path / chosen, name)
    repository = None if path.exists() else Repository.parse(name)
    if repository is None:
        return NamedNetwork(path, name) if name.lower().endswith(".onnx") else None
    other = instead is not None and find_spec(instead) is not None
    try:
        found = repository.network(default_folder() / _FOLDER, preferred, warn_user)
    except OSError as error:
        if other:  # which may have it from an earlier download
            return None
        raise ValueError(
            f"{name} is neither a file nor a folder here, and cannot be had as a model ({error}). Check the name, or "
            "give a folder that has its tokenizer.json and onnx/."
        ) from error
    if found is None and not other:
        raise ValueError(
            f"{repository.name} has no network for ONNX Runtime, onnx/FILE.onnx."
            + (f" For its other files run: pip install 'marginshot[{extra_of(instead)}]'" if instead else "")
        )
    return None if found is None else NamedNetwork(*found)


def kept_networks(cache: Path) -> dict[str, int]:
    """Bytes of each downloaded repository in a cache folder, by its name."""
    folders = sorted((cache / _FOLDER).glob("*--*"))
    return {
        folder.name.replace("--", "/", 1): sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        for folder in folders
    }


def clear_networks(cache: Path) -> None:
    """Remove the downloaded repositories from a cache folder."""
    if (cache / _FOLDER).is_dir():
        shutil.rmtree(cache / _FOLDER)
