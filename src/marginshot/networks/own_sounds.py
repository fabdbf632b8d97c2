"""A user's own network for sounds, in an ``.onnx`` file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from marginshot.networks.own_files import files_of
from marginshot.networks.runtime import open_graph_file

_USUAL_RATE = 16_000
_RATES = (1_000, 1_000_000)


class OwnSoundNetwork:
    """A network of one input, samples (n, length) or (length,), and features as its first output.

    ``sample_rate`` in the file's metadata says at which rate, by default 16,000. Where the graph fixes the length, a
    sound is cut into parts of that length, the last one filled up with silence, and the features of the parts are
    averaged. So are features of several frames, (n, frames, d), or (frames, d) of a network of one sound.

    Parameters
    ----------
    path : Path
        The ``.onnx`` file.
    """

    def __init__(self, path: Path) -> None:
        files_of(path)
        self._path = path
        self._session = open_graph_file(path, n_threads=1)
        inputs, told = self._session.get_inputs(), self._session.get_modelmeta().custom_metadata_map
        if len(inputs) != 1 or len(inputs[0].shape) not in (1, 2) or inputs[0].type != "tensor(float)":
            shapes = ", ".join(f"{one.name} {one.shape} of {one.type}" for one in inputs)
            raise ValueError(
                f"{path} is no network for sounds, float (n, length) or (length,): its inputs are {shapes}."
            )
        self._name, self._has_batch = inputs[0].name, len(inputs[0].shape) == 2
        last = inputs[0].shape[-1]
        self._length = last if isinstance(last, int) else None
        said = told.get("sample_rate", str(_USUAL_RATE))
        if not (said.isdecimal() and _RATES[0] <= int(said) <= _RATES[1]):
            raise ValueError(
                f"{path}: sample_rate in its metadata must be {_RATES[0]:,} to {_RATES[1]:,}; got {said!r}."
            )
        self.rate = int(said)

    def encode(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Samples (n,) at `rate` -> (d,)."""
        length = self._length or len(samples)
        parts = [samples[start : start + length] for start in range(0, len(samples), length)]
        if len(parts) > 1 and len(parts[-1]) < length // 2:
            parts.pop()  # mostly silence
        parts[-1] = np.pad(parts[-1], (0, length - len(parts[-1])))
        return np.mean([self._features(part) for part in parts], axis=0, dtype=np.float32)

    def _features(self, part: NDArray[np.float32]) -> NDArray[np.float32]:
        given = part[None] if self._has_batch else part
        found = np.asarray(self._session.run(None, {self._name: given})[0], dtype=np.float32)
        if found.ndim not in (1, 2, 3) or 0 in found.shape or (found.ndim == 3 and len(found) != 1):
            raise ValueError(
                f"{self._path} gives {found.shape} for one sound; (1, d), (frames, d) or (1, frames, d) is needed."
            )
        return found.reshape(-1, found.shape[-1]).mean(axis=0)
