"""Sounds as items: clips of recordings, drawn as spectrograms, played, encoded by statistics or a network."""

from __future__ import annotations

import hashlib
import io
import wave
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.extras import need
from marginshot.data.sounds import NOT_READ, Clip, clip_called, clips_of, read_clip, sound_suffixes, split_ending
from marginshot.labelling.items.encoders import SOUND_ENCODER, ItemEncoder
from marginshot.labelling.items.kind import FileKind
from marginshot.labelling.items.named_networks import FOR_SOUNDS, NamedNetwork, network_named
from marginshot.labelling.items.store import file_digest

if TYPE_CHECKING:
    from PIL.Image import Image

    from marginshot.networks.own_sounds import OwnSoundNetwork

_RATE = 32_000  # of what is measured and drawn: half of it is above nearly all birds and speech
_WINDOW, _HOP = 1024, 512  # samples
_N_BANDS = 64
_BAND_EDGES = (50.0, 15_000.0)  # Hz

# Chosen on every second class of ESC-50, five examples each, by logistic regression: 57 % right; 56 % with 20
# coefficients, with the largest of each as well, or with frames down to 40 dB below the loudest.
_N_COEFFICIENTS = 30
_QUIET = 1e-6  # of the loudest frame's power: quieter frames are pauses
_FLOOR = 1e-8  # of the loudest band's power
_FAR = 4  # frames between which slow changes are measured
_WEIGHTS = (1.0, 1.7, 4.0, 2.5)  # of mean, deviation, fast and slow change: about one spread for all four
_LIFT = 0.6  # higher coefficients vary less; this power of their number makes up for it

_SQUARE = 256  # pixels up to which a spectrogram is square, as the cells of grids are
_DECIBELS = 70.0  # below the loudest, and black

# Dark blue over violet and orange to pale yellow: lightness rises all the way, so that it reads without colour too.
_COLOURS = np.array([[8, 8, 32], [60, 20, 95], [140, 40, 105], [215, 75, 75], [250, 150, 60], [252, 240, 175]])

_PLAYED_RATE = 44_100
_MOST_GAIN = 10.0  # what is nearly silence stays so


@dataclass(frozen=True)
class Sound(FileKind):
    """Sounds in files, long recordings in clips; a content is a `Clip`."""

    name = "sound"
    has_image = True
    has_sound = True
    other_source = "by another recorder or place"
    tag = "Audio"
    not_read = NOT_READ

    @property
    def suffixes(self) -> frozenset[str]:
        """Suffixes of the sounds that can be read here."""
        return sound_suffixes()

    def encoder(self, name: str | None = None, device: str = "auto", contents: Any = ()) -> ItemEncoder:
        """Statistics, or a network for ONNX Runtime."""
        if name is None or name == SOUND_ENCODER:
            return LogMelEncoder()
        network = network_named(name, FOR_SOUNDS)
        if network is not None:
            return SoundNetworkEncoder(name, network)
        raise ValueError(
            f"Sounds are encoded by {SOUND_ENCODER} or by an .onnx file; got {name!r}. Networks of TensorFlow and "
            "TFLite can be converted by tf2onnx."
        )

    def contents_of(self, path: Path) -> list[Clip]:
        """The sound in the file, or the clips of a long recording."""
        return clips_of(path)

    def ending(self, content: Clip) -> str:
        """When a clip begins and ends."""
        return content.ending

    def find(self, folder: Path, name: str) -> list[Clip]:
        """The clip of that name, or all of a recording."""
        if (folder / name).is_file():
            return clips_of(folder / name)
        file, ending = split_ending(name)
        clip = clip_called(folder / file, ending) if ending and (folder / file).is_file() else None
        return [] if clip is None else [clip]

    def file(self, content: Clip) -> Path:
        """The recording."""
        return content.path

    def is_whole(self, content: Clip) -> bool:
        """Whether it is no part of a recording."""
        return content.end is None

    def moved(self, content: Clip, path: Path) -> Clip:
        """The clip, now read from the file ``path``."""
        return replace(content, path=path)

    def digest(self, content: Clip) -> str:
        """Hash of the file, and of the place in it."""
        about = content.path.stat()
        whole = _digest(content.path, about.st_mtime_ns, about.st_size)
        if content.end is None:
            return whole
        return hashlib.sha256(f"{whole} {content.start} {content.end}".encode()).hexdigest()

    @cached_property
    def reader(self) -> str:
        """Soundfile, and its version."""
        try:
            return f"soundfile {version('soundfile')}"
        except PackageNotFoundError:
            return "no soundfile"

    def image(self, content: Clip, side: int) -> Image:
        """A spectrogram: time to the right, low tones below; wide where it is large."""
        from PIL import Image

        power = mel_powers(read_clip(content, _RATE))
        decibels = 10.0 * np.log10(power / max(float(power.max()), 1e-12) + 1e-12)
        shade = np.clip(1.0 + decibels.T[::-1] / _DECIBELS, 0.0, 1.0) * (len(_COLOURS) - 1)
        low = np.minimum(shade.astype(int), len(_COLOURS) - 2)
        part = (shade - low)[..., None]
        pixels = (_COLOURS[low] * (1.0 - part) + _COLOURS[low + 1] * part).astype(np.uint8)
        height = side if side <= _SQUARE else side // 3
        return Image.fromarray(pixels).resize((side, height), Image.Resampling.BILINEAR)

    def sound(self, content: Clip) -> bytes:
        """The clip as a WAV file of one channel, 16 bits a sample; faint ones are made louder, by 20 dB at most."""
        samples = read_clip(content, _PLAYED_RATE)
        gain = min(0.9 / max(float(np.abs(samples).max()), 1e-9), _MOST_GAIN)
        written = io.BytesIO()
        with wave.open(written, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(_PLAYED_RATE)
            file.writeframes((samples * (32767.0 * gain)).astype("<i2").tobytes())
        return written.getvalue()

    def fragment(self, content: Clip) -> str:
        """The times of a clip, as a media fragment."""
        return "" if content.end is None else f"#t={content.start:g},{content.end:g}"

    def exported(self, item: str, content: Clip) -> str:
        """The whole path of the file."""
        return str(content.path.absolute())


class LogMelEncoder:
    """Sounds as statistics of their mel spectrogram: no weights, no network, any loudness; (120,) numbers.

    Cepstral coefficients of the frames that are no pauses: mean, deviation, mean change from one frame to the next, and
    over four frames.
    """

    name = SOUND_ENCODER
    identity = "log-mel 1"

    def load(self) -> None:
        """Look whether soundfile is there."""
        need("soundfile")

    def prepare(self, content: Clip) -> NDArray[np.float32]:
        """The statistics of one sound, (120,)."""
        from scipy.fft import dct

        power = mel_powers(read_clip(content, _RATE))
        level = power.sum(axis=1)
        power = power[level >= level.max() * _QUIET]
        logs = np.log(power / max(float(power.max()), 1e-12) + _FLOOR)
        frames = dct(logs, axis=1, norm="ortho")[:, :_N_COEFFICIENTS]
        found = (frames.mean(axis=0), frames.std(axis=0), _change(frames, 1), _change(frames, _FAR))
        lift = np.arange(1, _N_COEFFICIENTS + 1) ** _LIFT
        return np.concatenate([weight * lift * part for weight, part in zip(_WEIGHTS, found, strict=True)]).astype("f4")

    def encode(self, prepared: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Prepared sounds -> (n, 120)."""
        return np.stack(prepared)


class SoundNetworkEncoder:
    """Sounds through a user's own network for ONNX Runtime.

    Parameters
    ----------
    name : str
        What the user calls it.
    network : NamedNetwork
        Its file.
    """

    def __init__(self, name: str, network: NamedNetwork) -> None:
        self.name, self._named = name, network
        self._network: OwnSoundNetwork | None = None

    @property
    def identity(self) -> str:
        """A hash of the network's files."""
        return f"sound 1 {self._named.digest}"

    def load(self) -> None:
        """Load the network, once."""
        need("soundfile")
        if self._network is None:
            from marginshot.networks.own_sounds import OwnSoundNetwork

            self._network = OwnSoundNetwork(self._named.path)

    def prepare(self, content: Clip) -> NDArray[np.float32]:
        """The features of one sound, (d,)."""
        if self._network is None:
            raise RuntimeError("load() comes before prepare() and encode().")
        return self._network.encode(read_clip(content, self._network.rate))

    def encode(self, prepared: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Prepared sounds -> (n, d)."""
        return np.stack(prepared)


def mel_powers(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Samples (n,) at 32 kHz -> power of 64 mel bands, (n_frames, 64), at least one frame."""
    padded = np.pad(samples, (0, max(0, _WINDOW - len(samples))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, _WINDOW)[::_HOP]
    spectrum = np.fft.rfft(frames * np.hanning(_WINDOW).astype(np.float32), axis=1)
    return np.asarray((np.abs(spectrum) ** 2) @ _mel_bands(), dtype=np.float32)


@lru_cache
def _mel_bands() -> NDArray[np.float64]:
    """Weights (n_frequencies, 64): triangles between edges at equal steps of the mel scale, each of sum one."""
    low, high = (2595.0 * np.log10(1.0 + edge / 700.0) for edge in _BAND_EDGES)
    edges = 700.0 * (10.0 ** (np.linspace(low, high, _N_BANDS + 2) / 2595.0) - 1.0)
    frequencies = np.fft.rfftfreq(_WINDOW, 1.0 / _RATE)[:, None]
    rising = (frequencies - edges[:-2]) / np.diff(edges)[:-1]
    falling = (edges[2:] - frequencies) / np.diff(edges)[1:]
    weights = np.maximum(0.0, np.minimum(rising, falling))
    return weights / weights.sum(axis=0)


def _change(frames: NDArray[np.floating], apart: int) -> NDArray[np.floating]:
    """Mean size of the difference between frames so many ``apart``, (n_coefficients,); zero for a shorter sound."""
    differences = np.abs(frames[apart:] - frames[:-apart])
    return differences.mean(axis=0) if len(differences) else np.zeros(frames.shape[1])


@lru_cache(maxsize=1)
def _digest(path: Path, changed: int, size: int) -> str:
    """Hash of a file, kept while the clips of one recording are asked for one after the other."""
    return file_digest(path)


SOUND = Sound()
