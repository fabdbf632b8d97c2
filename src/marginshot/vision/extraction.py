"""Extraction: every picture of a dataset through an encoder, into one feature file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from marginshot import __version__
from marginshot._lib.files import atomic_path, is_temporary
from marginshot._lib.reading import read_npz, reading
from marginshot.data.features import FeatureBank
from marginshot.data.pictures import pillow_silenced
from marginshot.vision.datasets import CorruptImageError, ImageSet
from marginshot.vision.devices import place, torch_device
from marginshot.vision.encoders import Encoder, encode
from marginshot.vision.extraction_files import parts_path, provenance_path


@dataclass(frozen=True, kw_only=True)
class ExtractSettings:
    """How features are extracted.

    Parameters
    ----------
    batch_size : int, default=64
        Pictures per batch.
    device : str, default="auto"
        ``cpu``, ``cuda``, ``cuda:1``, ``mps``; auto takes an NVIDIA GPU where there is one.
    mixed_precision : bool, default=True
        Compute in 16 bits on a GPU; has no effect on a CPU.
    workers : int, default=0
        Extra processes that decode pictures.
    skip_corrupt : bool, default=False
        Leave out pictures that cannot be decoded instead of stopping at the first.
    """

    batch_size: int = 64
    device: str = "auto"
    mixed_precision: bool = True
    workers: int = 0
    skip_corrupt: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batch_size must be at least 1; got {self.batch_size}.")
        if self.workers < 0:
            raise ValueError(f"workers must not be negative; got {self.workers}.")

    def in_half_precision(self) -> bool:
        """Whether the network computes in 16 bits on the device to use."""
        return self.mixed_precision and torch_device(self.device).type == "cuda"


@dataclass(frozen=True)
class Extraction:
    """Features, and what was wrong with each picture left out."""

    bank: FeatureBank
    skipped: tuple[str, ...]


def extract(
    encoder: Encoder,
    images: ImageSet,
    out: Path,
    settings: ExtractSettings,
    on_progress: Callable[[int, int], None] | None = None,
) -> Extraction:
    """Extract the features of ``images`` and write them to ``out``, ``.npz`` or ``.parquet``.

    Finished batches are kept in a folder beside ``out`` until the file is written; the same call goes on from there.
    A small JSON file beside ``out`` says where the features come from.

    Parameters
    ----------
    encoder : Encoder
        The network and its preprocessing.
    images : ImageSet
        The pictures.
    out : Path
        The feature file.
    settings : ExtractSettings
        Batches, device, corrupt pictures.
    on_progress : callable, optional
        Called with the number of pictures done and of all pictures.
    """
    parts = _Parts(parts_path(out), extraction_identity(encoder, images, settings))
    device = torch_device(settings.device)
    place(encoder.network, device)
    done = parts.finished()
    rows = [np.arange(start, min(start + settings.batch_size, len(images))) for start in _starts(images, settings)]
    missing = [index for index in range(len(rows)) if index not in done]
    with pillow_silenced():
        for index, (pixels, problems) in zip(missing, _batches(encoder, images, rows, missing, settings), strict=True):
            features = _features(encoder, pixels, device, settings)
            parts.save(index, features, [problem is None for problem in problems], [p for p in problems if p])
            if on_progress is not None:
                on_progress(int(rows[index][-1]) + 1, len(images))
    features, kept, skipped = parts.join(len(rows))
    bank = _bank(images.select(np.flatnonzero(kept)), features, encoder)
    # Written before the features: a run killed between the two recognises its feature file by the hash.
    _write_provenance(out, bank, encoder, images, parts.identity, skipped)
    bank.save(out)
    parts.remove()
    return Extraction(bank, skipped)


def _bank(images: ImageSet, features: NDArray[np.float32], encoder: Encoder) -> FeatureBank:
    empty = [name for name, count in zip(images.classes, images.counts(), strict=True) if count == 0]
    if empty:
        raise CorruptImageError(
            f"No picture of {', '.join(empty)} in {images.name} can be read; repair them or remove the class."
        )
    return FeatureBank(features, images.labels, images.classes, f"{images.name}, {encoder.name}", images.items)


def _starts(images: ImageSet, settings: ExtractSettings) -> range:
    return range(0, len(images), settings.batch_size)


def _features(
    encoder: Encoder, pixels: torch.Tensor | None, device: torch.device, settings: ExtractSettings
) -> NDArray[np.float32]:
    """(B, 3, H, W) pixels, or None when no picture of the batch could be read -> (B, n_features)."""
    if pixels is None:
        return np.empty((0, 0), dtype=np.float32)
    half: AbstractContextManager[object] = nullcontext()
    if settings.in_half_precision():
        half = torch.autocast(device.type, dtype=torch.float16)
    with half:
        features: NDArray[np.float32] = encode(encoder, pixels.to(device)).cpu().numpy()
    return features


class _Batch(Dataset):
    """A dataset of whole batches, so that a corrupt picture only shortens its own batch."""

    def __init__(self, encoder: Encoder, images: ImageSet, rows: list[NDArray[np.int64]], skip_corrupt: bool) -> None:
        self.preprocessing = encoder.preprocessing
        self.images = images
        self.rows = rows
        self.skip_corrupt = skip_corrupt

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor | None, list[str | None]]:
        pixels: list[torch.Tensor] = []
        problems: list[str | None] = []
        for row in self.rows[index]:
            try:
                pixels.append(self.preprocessing(self.images.source.read(int(row))))
                problems.append(None)
            except CorruptImageError as error:
                if not self.skip_corrupt:
                    raise
                problems.append(str(error))
        return (torch.stack(pixels) if pixels else None), problems


def _batches(
    encoder: Encoder, images: ImageSet, rows: list[NDArray[np.int64]], wanted: list[int], settings: ExtractSettings
) -> Iterator[tuple[torch.Tensor | None, list[str | None]]]:
    dataset = _Batch(encoder, images, [rows[index] for index in wanted], settings.skip_corrupt)
    yield from DataLoader(dataset, batch_size=None, num_workers=settings.workers)


def _write_provenance(
    out: Path, bank: FeatureBank, encoder: Encoder, images: ImageSet, identity: str, skipped: tuple[str, ...]
) -> None:
    content = {
        "marginshot": __version__,
        "encoder": encoder.name,
        "images": images.name,
        "n_images": len(images) - len(skipped),
        "skipped": skipped,
        "identity": identity,
        "sha256": bank.content_hash,
    }
    with atomic_path(provenance_path(out)) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def extraction_identity(encoder: Encoder, images: ImageSet, settings: ExtractSettings) -> str:
    """A hash of everything that decides the features, weights included; parts with another hash are not used."""
    digest = hashlib.sha256()
    how = [encoder.name, repr(encoder.preprocessing), settings.batch_size, settings.skip_corrupt]
    what = [images.name, images.items, images.classes, images.source.fingerprint()]
    digest.update(json.dumps([how, settings.in_half_precision(), what]).encode())
    for name, value in encoder.network.state_dict().items():
        digest.update(name.encode())
        digest.update(value.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class _Parts:
    """Finished batches on disk, one ``.npz`` each, and the identity of their extraction."""

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self.identity = folder, identity
        self._mark = folder / "identity"
        if folder.exists() and not self._mark.is_file() and not all(map(is_temporary, folder.iterdir())):
            raise FileExistsError(f"{folder} is needed for finished batches but holds something else; move it away.")
        if self._mark.is_file() and self._mark.read_bytes() != identity.encode():
            self.remove()
        folder.mkdir(mode=0o700, exist_ok=True)
        with atomic_path(self._mark) as temporary:
            temporary.write_text(identity, encoding="utf-8")

    def finished(self) -> set[int]:
        return {int(path.stem) for path in self.folder.glob("[0-9]*.npz")}

    def save(self, index: int, features: NDArray[np.float32], kept: list[bool], problems: list[str]) -> None:
        with atomic_path(self.folder / f"{index:08d}.npz", private=True) as temporary:
            np.savez(temporary, features=features, kept=np.array(kept), problems=np.array(problems, dtype=str))

    def join(self, n_parts: int) -> tuple[NDArray[np.float32], NDArray[np.bool_], tuple[str, ...]]:
        """Features (n_kept, D), whether each picture was kept (n_images,), and the problems of the others."""
        features, kept, problems = [], [], []
        for index in range(n_parts):
            path = self.folder / f"{index:08d}.npz"
            part = read_npz(path, "a finished batch", f"Delete {self.folder} and extract again.")
            with reading(path, "a finished batch", f"Delete {self.folder} and extract again."):
                kept.append(part["kept"])
                problems.extend(part["problems"].tolist())
                if part["kept"].any():
                    features.append(part["features"])
        if not features:
            raise CorruptImageError(f"None of the pictures can be read; the first problem: {problems[0]}")
        return np.concatenate(features), np.concatenate(kept), tuple(problems)

    def remove(self) -> None:
        """Remove the batches, then the file that marks them as ours."""
        for path in self.folder.iterdir():
            if path != self._mark:
                path.unlink()
        self._mark.unlink()
        self.folder.rmdir()
