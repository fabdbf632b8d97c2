"""Fixtures of labelling: encoders that need no network, pictures, a folder to work in, the command line."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from marginshot.cli.app import main
from marginshot.data.pictures import read_picture
from marginshot.labelling.items.encoders import PictureEncoder, TextEncoder

COLOURS = {"blue": (40, 60, 200), "green": (40, 180, 70), "red": (210, 50, 40)}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("MARGINSHOT_CACHE", str(folder))
    return folder


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Encoders that need no network: mean colours of a 2x2 grid, and counts of hashed words. Lists what they encode."""
    seen: list[str] = []

    def prepare(self: PictureEncoder, path: Path) -> np.ndarray:
        pixels = np.asarray(read_picture(path).resize((2, 2)), dtype=np.float32)
        seen.append(path.name)
        return pixels.reshape(-1)

    def encode_texts(self: TextEncoder, texts: list[str]) -> np.ndarray:
        seen.extend(texts)
        X = np.zeros((len(texts), 64), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                X[row, zlib.crc32(word.encode()) % 64] += 1
        return X

    monkeypatch.setattr(PictureEncoder, "load", lambda self: None)
    monkeypatch.setattr(PictureEncoder, "prepare", prepare)
    monkeypatch.setattr(PictureEncoder, "encode", lambda self, prepared: np.stack(prepared))
    monkeypatch.setattr(TextEncoder, "load", lambda self: None)
    monkeypatch.setattr(TextEncoder, "encode", encode_texts)
    return seen


@pytest.fixture
def draw_picture() -> Callable[..., Path]:
    image = pytest.importorskip("PIL.Image", reason="pictures need the extra pictures")

    def draw(path: Path, colour: str | tuple[int, int, int], seed: int) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        base = np.array(COLOURS.get(colour, colour), dtype=float)  # type: ignore[arg-type]
        rng = np.random.default_rng(seed)
        pixels = np.clip(base + rng.normal(0, 18, (16, 16, 3)) + rng.normal(0, 15, 3), 0, 255).astype(np.uint8)
        image.fromarray(pixels).save(path)
        return path

    return draw


@pytest.fixture
def workplace(tmp_path: Path, draw_picture: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """photos/ with 8 unlabelled pictures a colour at two depths, examples/ with two a colour; the current folder."""
    place = tmp_path / "place"
    for number, colour in enumerate(COLOURS):
        for seed in range(2):
            draw_picture(place / "examples" / colour / f"example-{seed}.png", colour, 100 * number + seed)
        for seed in range(2, 10):
            depth = "trip/day one" if seed % 2 else "."
            draw_picture(place / "photos" / depth / f"{colour}-{seed}.png", colour, 100 * number + seed)
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process: exit code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return int(left.value.code or 0), captured.out, captured.err

    return call
