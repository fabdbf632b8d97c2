"""Reading sounds: any rate and number of channels, whole or a clip of a long recording, as one channel of numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marginshot._lib.reading import UnreadableError

if TYPE_CHECKING:
    from soundfile import SoundFile

#: Suffixes of sounds; they can be read where soundfile is installed.
SOUNDS = frozenset({".wav", ".flac", ".ogg", ".mp3"})

# libsndfile's names of what is read, whatever a file is called; it has two dozen other readers that nobody needs here.
_FORMATS = frozenset({"WAV", "WAVEX", "RF64", "FLAC", "OGG", "MP3"})

#: Seconds of the longest sound that is one item. Those of ESC-50 have 5, songs of birds and short sentences 2 to 8.
LONGEST_ITEM = 10.0
#: Seconds of the clips that longer recordings are cut into.
CLIP = 5.0
_SHORTEST = 1.0  # a last clip shorter than that belongs to the one before

# Longer recordings are cut off by somebody's mistake or a damaged header more often than meant; a day has 17,280 clips.
_MOST_SECONDS = 24 * 3600.0
_RATES = (1_000, 1_000_000)  # bats are recorded at 500,000
_BLOCK = 2**20  # numbers read at a time

_ENDING = re.compile(r" (\d+(?::\d\d)+)-(\d+(?::\d\d)+)")


class UnreadableSoundError(UnreadableError):
    """A file, or a clip of it, that cannot be read as a sound."""


@dataclass(frozen=True)
class Clip:
    """A sound in a file, or a part of one; a path to that file for all who ask for no more.

    Parameters
    ----------
    path : Path
        The file.
    start : float, default=0.0
        Where the clip begins, in seconds.
    end : float, optional
        Where it ends; None where it is the whole file.
    """

    path: Path
    start: float = 0.0
    end: float | None = None

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def ending(self) -> str:
        """What distinguishes the clip from others of its recording, behind the file's name; empty for a whole file.

        Examples
        --------
        >>> Clip(Path("a.wav"), 65.0, 70.0).ending
        ' 1:05-1:10'
        """
        return "" if self.end is None else f" {_clock(self.start)}-{_clock(math.ceil(self.end))}"


#: What would read sounds, where they cannot be read.
NOT_READ = ((SOUNDS, "to read them: pip install 'marginshot[sounds]'"),)


@cache
def sound_suffixes() -> frozenset[str]:
    """Suffixes of the sounds that can be read here: none without soundfile."""
    return SOUNDS if find_spec("soundfile") is not None else frozenset()


def clips_of(path: Path) -> list[Clip]:
    """The sound in a file, or the clips that a long one is cut into.

    One that cannot be read is a single clip: reading that says what is wrong.
    """
    try:
        with _opened(path) as sound:
            seconds = _true_length(sound) / sound.samplerate
    except (UnreadableSoundError, OSError):
        return [Clip(path)]
    if seconds <= LONGEST_ITEM or seconds > _MOST_SECONDS:
        return [Clip(path)]
    starts = [CLIP * place for place in range(math.ceil((seconds - _SHORTEST) / CLIP))]
    return [Clip(path, start, end) for start, end in zip(starts, [*starts[1:], seconds], strict=True)]


def clip_called(path: Path, ending: str) -> Clip | None:
    """The clip of a file with that `Clip.ending`; None where there is none."""
    return next((clip for clip in clips_of(path) if clip.ending == ending), None)


def split_ending(name: str) -> tuple[str, str]:
    """The name of a file, and the ending of one of its clips, empty where the name has none.

    Examples
    --------
    >>> split_ending("dawn/a.wav 1:05-1:10")
    ('dawn/a.wav', ' 1:05-1:10')
    """
    found = _ENDING.search(name)
    whole = found is not None and found.end() == len(name)
    return (name[: found.start()], found[0]) if found is not None and whole else (name, "")


def read_clip(clip: Clip, rate: int) -> NDArray[np.float32]:
    """The samples (n,) of a clip at that ``rate``, its channels averaged; raises UnreadableSoundError."""
    with _opened(clip.path) as sound:
        mono, own = _samples(sound, clip), sound.samplerate
    return resampled(mono, own, rate)


def resampled(samples: NDArray[np.float32], own: int, rate: int) -> NDArray[np.float32]:
    """Samples (n,) at another ``rate`` than their ``own``, what both cannot hold filtered out."""
    from scipy.signal import resample_poly

    common = math.gcd(own, rate)
    if own == rate:
        return samples
    return np.asarray(resample_poly(samples, rate // common, own // common), dtype=np.float32)


@contextmanager
def _opened(path: Path) -> Iterator[SoundFile]:
    """A file opened by libsndfile, whatever it raises for a damaged one turned into UnreadableSoundError."""
    import soundfile

    try:
        with path.open("rb") as file, soundfile.SoundFile(file) as sound:
            _check(sound)
            yield sound
    except (UnreadableSoundError, OSError):
        raise
    except Exception as error:
        # Readers of damaged files raise errors of several kinds, and MemoryError for headers that ask for too much.
        words = re.sub(r"^Error opening <[^>]*>: ", "", " ".join(str(error).split())).rstrip(".")
        raise UnreadableSoundError(f"cannot be read as a sound ({words or type(error).__name__})") from error


def _check(sound: Any) -> None:
    if sound.format not in _FORMATS:
        raise UnreadableSoundError(f"cannot be read as a sound (its format is {sound.format})")
    if not _RATES[0] <= sound.samplerate <= _RATES[1]:
        raise UnreadableSoundError(f"cannot be read as a sound ({sound.samplerate:,} samples a second)")


def _true_length(sound: Any) -> int:
    """Number of samples that can be read, which a damaged or cut off file says wrong."""
    said = int(sound.frames)
    if said / sound.samplerate > _MOST_SECONDS or _has(sound, said - 1):
        return said
    sound.seek(0)
    return sum(map(len, _blocks(sound, said)))


def _has(sound: Any, place: int) -> bool:
    try:
        sound.seek(max(place, 0))
        return len(sound.read(1)) == 1
    except RuntimeError:  # what LibsndfileError is
        return False


def _blocks(sound: Any, most: int) -> Iterator[NDArray[np.float32]]:
    """Up to ``most`` samples from here on, channels averaged, block by block; ends where the file does."""
    size, left = max(1, _BLOCK // sound.channels), most
    while left > 0:
        block = sound.read(min(size, left), dtype="float32", always_2d=True)
        if not len(block):
            return
        yield block.mean(axis=1)
        left -= len(block)


def _samples(sound: Any, clip: Clip) -> NDArray[np.float32]:
    """The samples (n,) of a clip at the rate of its file, all finite."""
    rate = sound.samplerate
    seconds = sound.frames / rate if clip.end is None else clip.end - clip.start
    if clip.end is None and seconds > LONGEST_ITEM:
        seconds = _true_length(sound) / rate
        sound.seek(0)
    if seconds > _MOST_SECONDS:
        raise UnreadableSoundError(
            f"is {seconds / 3600:,.0f} hours long, and at most {_MOST_SECONDS / 3600:.0f} are cut into clips; split it"
        )
    if clip.start:
        sound.seek(round(clip.start * rate))
    parts = list(_blocks(sound, round(seconds * rate)))
    samples = np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)
    if not len(samples):
        raise UnreadableSoundError("holds no sound")
    if not np.isfinite(samples).all():
        raise UnreadableSoundError("holds samples that are not finite numbers")
    return samples


def _clock(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
